"""Typed ids and tokens, and their only source.

An id is a prefix, 48 bits of milliseconds and 64 random bits in hexadecimal. It sorts by time of creation, which keeps
indexes dense. An id is no secret: tokens grant access.
"""

import hashlib
import random
import secrets
from collections.abc import Callable
from typing import Final, NewType, Protocol

SessionId = NewType("SessionId", str)
AgentId = NewType("AgentId", str)
ThreadId = NewType("ThreadId", str)
MessageId = NewType("MessageId", str)
HoldId = NewType("HoldId", str)
CallId = NewType("CallId", str)
ConversationId = NewType("ConversationId", str)
RoutineId = NewType("RoutineId", str)
WakeId = NewType("WakeId", str)
PulseId = NewType("PulseId", str)
BankId = NewType("BankId", str)
EpisodeId = NewType("EpisodeId", str)
NoteId = NewType("NoteId", str)
PassId = NewType("PassId", str)
AnswerId = NewType("AnswerId", str)
DreamId = NewType("DreamId", str)
AlertId = NewType("AlertId", str)
MemberId = NewType("MemberId", str)
ApprovalId = NewType("ApprovalId", str)
EventWaitId = NewType("EventWaitId", str)
NamedEventId = NewType("NamedEventId", str)


class IdSource(Protocol):
    """Returns a new id for a prefix, and never the same id twice."""

    def new(self, prefix: str) -> str: ...


class RandomIds:
    """Ids from the wall clock and the system's randomness."""

    def __init__(self, milliseconds: Callable[[], int]) -> None:
        """`milliseconds` returns the time since 1970."""
        self._milliseconds = milliseconds
        self._bits = random.Random(secrets.randbits(256)).getrandbits

    def new(self, prefix: str) -> str:
        """Return `prefix_` and 28 hexadecimal digits."""
        return f"{prefix}_{self._milliseconds():012x}{self._bits(64):016x}"


def call_of_hold(hold: HoldId) -> CallId:
    """Return the id of the model call that a held call becomes, so that the one leads to the other."""
    return CallId(f"call{hold.removeprefix('hold')}")


def hold_of_call(call: CallId) -> HoldId:
    """Return the id of the hold of a call that has its id before it is held."""
    return HoldId(f"hold{call.removeprefix('call')}")


TOKEN_PREFIX: Final = "circadia-"
"""Prefix of each token that Circadia makes."""


def new_token(kind: str) -> str:
    """Return a new bearer token of 256 random bits; `kind` is `agent`, `admin` or `pulse`."""
    return f"{TOKEN_PREFIX}{kind}-{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """Return the stored form of a token: its SHA-256 in hex (a random 256-bit token needs no salt)."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
