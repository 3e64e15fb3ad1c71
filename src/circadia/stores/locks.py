"""Locks of write blocks: a block holds the key of each thing whose rows it changes, or reads to decide on a change.

The nouns take the keys (`Runner.hold`), so a service cannot forget one. A block that needs several keys names them when
it opens: it then takes them in their order, before it reads anything. A key that turns out to be missing later is taken
in its turn if it comes after all held ones; else the block waits for it only briefly, and fails rather than deadlocks.

SQLite needs no keys, because one block at a time writes. On PostgreSQL they are advisory locks of the transaction.
"""

import hashlib
from enum import IntEnum
from typing import NamedTuple

from circadia.ids import AgentId, BankId, SessionId, ThreadId


class LockRank(IntEnum):
    """Kinds of keys, in the order in which a block takes them."""

    CHORE = 1
    REQUEST = 2
    SESSION = 3
    THREAD = 4
    AGENT = 5
    BANK = 6
    FLEET = 7
    EVENTS = 8


class LockKey(NamedTuple):
    rank: LockRank
    name: str

    @property
    def number(self) -> int:
        """The key as a positive 64-bit integer; its order is that of the ranks. Two names may share a number."""
        return self.rank << 56 | int.from_bytes(hashlib.blake2b(self.name.encode(), digest_size=7).digest())


FLEET_KEY = LockKey(LockRank.FLEET, "")
"""Key of the limits that hold for all agents together; taken only where such a limit is set."""
RETENTION_KEY = LockKey(LockRank.CHORE, "retention")
"""Key of deletions by age: one block at a time deletes."""
SPANS_KEY = LockKey(LockRank.CHORE, "spans")
"""Key of the sums of spans: one block at a time adds some."""
ALERTS_KEY = LockKey(LockRank.CHORE, "alerts")
"""Key of the record of alerts."""
MEMBERS_KEY = LockKey(LockRank.CHORE, "members")
"""Key of the cluster's members and of its lead."""
HOLDS_KEY = LockKey(LockRank.CHORE, "holds")
"""Key of the places of held calls: one gateway at a time takes some."""
START_KEY = LockKey(LockRank.CHORE, "start")
"""Key of what the configuration file defines: one process at a time creates or updates it."""
HOOKS_KEY = LockKey(LockRank.CHORE, "hooks")
"""Key of the hooks that people define over REST."""
EVENTS_KEY = LockKey(LockRank.EVENTS, "")
"""Key of the order of events: one block at a time gives them their numbers."""


def cursor_key(name: str) -> LockKey:
    """Return the key of a reader's place in the event log."""
    return LockKey(LockRank.CHORE, f"cursor {name}")


def event_key(name: str) -> LockKey:
    """Return the key of a named event: of its occurrence and the begin of a wait for it, the second sees the first."""
    return LockKey(LockRank.CHORE, f"event {name}")


def request_key(idempotency_key: str) -> LockKey:
    """Return the key of a repeatable request: of two with this idempotency key, the second waits for the first."""
    return LockKey(LockRank.REQUEST, idempotency_key)


def session_key(session_id: SessionId) -> LockKey:
    """Return the key of a session's existence: adding to it and closing it exclude each other."""
    return LockKey(LockRank.SESSION, session_id)


def thread_key(thread_id: ThreadId) -> LockKey:
    """Return the key of a thread: its status, participants and order of messages."""
    return LockKey(LockRank.THREAD, thread_id)


def agent_key(agent_id: AgentId) -> LockKey:
    """Return the key of an agent: its row, inbox, wakes, pulses, routines and budgets."""
    return LockKey(LockRank.AGENT, agent_id)


def bank_key(bank_id: BankId) -> LockKey:
    """Return the key of a bank: its episodes, notes, blocks, passes and answers."""
    return LockKey(LockRank.BANK, bank_id)
