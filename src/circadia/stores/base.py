"""Store protocols for SQLite and PostgreSQL: one per noun, a transaction that has all of them, and a store."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from circadia.ids import AgentId, SessionId
from circadia.records.agent import Agent
from circadia.records.session import Session
from circadia.stores.access import AccessTokens
from circadia.stores.answers import Answers
from circadia.stores.dream_jobs import DreamJobs
from circadia.stores.ledger import Alerts, Calls, Conversations, Cursors, Events, Provenances, ProviderIds, Retention
from circadia.stores.locks import LockKey
from circadia.stores.members import DueWorks, HoldPlaceCounts, Members
from circadia.stores.memory import Banks, Blocks, Episodes, Notes
from circadia.stores.messaging import Deliveries, Messages, Threads
from circadia.stores.overview import Overviews
from circadia.stores.sleeping import Benefits, DueChecks, OpenTurns, Passes, SleepCalls, SleepStates
from circadia.stores.waking import Pulses, Routines, Wakes


class Sessions(Protocol):
    """Access to sessions."""

    async def add(self, session: Session) -> None:
        """Store a new session. Raises Conflict if an open session has its name."""
        ...

    async def get(self, session_id: SessionId) -> Session | None: ...

    async def lock(self, session_id: SessionId) -> Session | None:
        """Return the session, which nobody else closes or adds to until the end of the block."""
        ...

    async def get_by_name(self, name: str) -> Session | None:
        """Return the open session of this name, else the last closed one."""
        ...

    async def names_near(self, name: str) -> Sequence[str]:
        """Return a few names that are alphabetically near this one."""
        ...

    async def find_all(
        self, *, closed: bool = False, after: SessionId | None = None, limit: int | None = None
    ) -> Sequence[Session]:
        """Return open sessions, or all with `closed`, by id, oldest first."""
        ...

    async def save(self, session: Session) -> None:
        """Write status, closed_at, touched_at and stalled."""
        ...

    async def mark_stalled(self, session_id: SessionId) -> bool:
        """Mark an open session as stalled; return whether it was not."""
        ...

    async def touch(self, session_id: SessionId, at: datetime) -> None:
        """Set touched_at and reset stalled once this block is committed and `Store.save_touches` has run."""
        ...

    async def save_touches(self, touches: Mapping[SessionId, datetime]) -> None:
        """Set touched_at where it is later, and reset stalled there."""
        ...

    async def find_silent_since(self, before: datetime) -> Sequence[Session]:
        """Return open, unreported sessions whose agents (at least one) all sleep, untouched since `before`."""
        ...


class Agents(Protocol):
    """Access to agents; deleted ones are found by id and past name only. In a write block `get…` holds the agent."""

    async def add(self, agent: Agent) -> None:
        """Store a new agent. Raises Conflict if the session has one of this name."""
        ...

    async def get(self, agent_id: AgentId) -> Agent | None: ...

    async def get_by_name(self, session_id: SessionId, name: str) -> Agent | None: ...

    async def find_ids(self, session_id: SessionId, names: Collection[str]) -> Sequence[AgentId]:
        """Return the ids of agents with these names, without holding them."""
        ...

    async def find_moved(self, known: Mapping[AgentId, int]) -> Sequence[Agent]:
        """Return those that have another sleep generation than the given one, or are disabled or deleted."""
        ...

    async def find_by_past_name(self, session: str | None, name: str) -> Sequence[Agent]:
        """Return the newest few agents, deleted ones too, with this present or past name in a session of that name."""
        ...

    async def get_by_token(self, token_hash: str) -> Agent | None:
        """Return the agent of this token, even if disabled."""
        ...

    async def find_by_session(self, session_id: SessionId) -> Sequence[Agent]: ...

    async def find_page(self, session_id: SessionId, *, after: str | None = None, limit: int) -> Sequence[Agent]:
        """Return agents of the session after this name, in the database's order of names."""
        ...

    async def find_awake_launched(self) -> Sequence[Agent]:
        """Return the agents that have a launcher and are awake."""
        ...

    async def find_in_open_sessions(self, *, after: tuple[str, str] | None = None, limit: int) -> Sequence[Agent]:
        """Return agents of all open sessions after this session and name, in the database's order of names."""
        ...

    async def names_near(self, session_id: SessionId, name: str) -> Sequence[str]:
        """Return a few names that are alphabetically near this one."""
        ...

    async def save(self, agent: Agent) -> None:
        """Write all fields except the sleep state (asleep, generation, since, cause, actor).

        Raises Conflict, which fails the block, if the name is taken.
        """
        ...

    async def save_sleep_state(self, agent: Agent, *, from_generation: int) -> None:
        """Write the sleep state by the end of the block.

        The block fails with Conflict if the stored generation is not `from_generation`.
        """
        ...


class Tx(Protocol):
    """A transaction over all nouns."""

    @property
    def sessions(self) -> Sessions: ...

    @property
    def agents(self) -> Agents: ...

    @property
    def threads(self) -> Threads: ...

    @property
    def messages(self) -> Messages: ...

    @property
    def deliveries(self) -> Deliveries: ...

    @property
    def events(self) -> Events: ...

    @property
    def calls(self) -> Calls: ...

    @property
    def provider_ids(self) -> ProviderIds: ...

    @property
    def provenances(self) -> Provenances: ...

    @property
    def alerts(self) -> Alerts: ...

    @property
    def access_tokens(self) -> AccessTokens: ...

    @property
    def dream_jobs(self) -> DreamJobs: ...

    @property
    def overviews(self) -> Overviews: ...

    @property
    def cursors(self) -> Cursors: ...

    @property
    def retention(self) -> Retention: ...

    @property
    def conversations(self) -> Conversations: ...

    @property
    def wakes(self) -> Wakes: ...

    @property
    def pulses(self) -> Pulses: ...

    @property
    def routines(self) -> Routines: ...

    @property
    def banks(self) -> Banks: ...

    @property
    def episodes(self) -> Episodes: ...

    @property
    def notes(self) -> Notes: ...

    @property
    def blocks(self) -> Blocks: ...

    @property
    def answers(self) -> Answers: ...

    @property
    def passes(self) -> Passes: ...

    @property
    def sleep_states(self) -> SleepStates: ...

    @property
    def sleep_calls(self) -> SleepCalls: ...

    @property
    def benefits(self) -> Benefits: ...

    @property
    def due_work(self) -> DueWorks: ...

    @property
    def due_checks(self) -> DueChecks: ...

    @property
    def members(self) -> Members: ...

    @property
    def hold_places(self) -> HoldPlaceCounts: ...

    @property
    def open_turns(self) -> OpenTurns: ...

    async def hold(self, *keys: LockKey) -> None:
        """Hold these keys until the end of the block: call it first if more than one is needed (see `locks`)."""
        ...

    def after_commit(self, act: Callable[[], None]) -> None:
        """Run `act` in the event loop after the commit is durable, in order; never if the transaction fails."""
        ...

    def after_rollback(self, act: Callable[[], None]) -> None:
        """Run `act` in the event loop if the transaction failed, or may not be durable."""
        ...


class NotASingleRead(Exception):
    """A `Store.begin_single_read` block ran more than one statement."""


class Store(Protocol):
    """Opens transactions on one database.

    Two write blocks that touch the same agent, bank, thread … run one after the other: a block holds the keys of what
    it changes or reads (see `locks`). Its `async with` returns only when the commit is durable and the `after_commit`
    callbacks have run. A block that raises is rolled back alone. `begin_read` opens a consistent, read-only view, which
    can be ahead of the disk by commits that no caller knows of yet. Both raise StorageUnavailable when the database
    does not answer or its disk is full.
    """

    @property
    def commits_in_order(self) -> bool:
        """Whether a block that commits later has greater numbers in its rows."""
        ...

    def begin_write(self, *keys: LockKey) -> AbstractAsyncContextManager[Tx]:
        """Open a write block that holds these keys from its begin: name them if the block needs more than one."""
        ...

    def begin_read(self) -> AbstractAsyncContextManager[Tx]: ...

    def begin_single_read(self) -> AbstractAsyncContextManager[Tx]:
        """Open a read that may need one statement only, which saves beginning and ending a transaction.

        A second statement raises NotASingleRead; repeat the block with `begin_read`. A bank's row is always available.
        """
        ...

    @property
    def for_operators(self) -> "Store":
        """The same store for what people read: its read blocks have connections of their own.

        A statement that takes too long raises ReadTooSlow.
        """
        ...

    async def read_clock(self) -> datetime | None:
        """Return the database's clock, or None if it has none of its own. Raises StorageUnavailable."""
        ...

    async def ping(self) -> None:
        """Check that the database answers and, as far as known, accepts writes. Raises StorageUnavailable."""
        ...

    async def save_touches(self) -> None:
        """Store when sessions were last touched. At once with each change, all writers would wait for that row."""
        ...

    async def close(self) -> None: ...
