"""A thread: a conversation between agents, and who takes part."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from circadia.ids import AgentId, SessionId, ThreadId


class ThreadStatus(StrEnum):
    """Whether a thread takes messages; `closed` is final."""

    OPEN = "open"
    CLOSED = "closed"
    DIRECT = "direct"
    """Holds what agents of a session get directly; nobody takes part in it, and no list shows it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """A conversation between agents of one session."""

    id: ThreadId
    """Key."""
    session_id: SessionId
    """Its session's key."""
    name: str
    """What it is about; need not be unique."""
    status: ThreadStatus
    """Open or closed."""
    created_by: str
    """Reference of its creator, or `operator`."""
    created_at: datetime
    """When it was made."""
    closed_at: datetime | None = None
    """When it was closed."""
    summary: str | None = None
    """What the one who closed it left to say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinResult:
    """What adding an agent to a thread meant to it."""

    added: bool
    """False if it took part already, and nothing changed."""
    first_ever: bool
    """Whether it was its first add to any thread of the session."""
    first_in_thread: bool
    """Whether it was its first add to this thread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Participant:
    """One agent in one thread; the row stays after the agent left, so that a first time is remembered."""

    thread_id: ThreadId
    """The thread."""
    agent_id: AgentId
    """The agent."""
    name: str
    """The agent's name."""
    active: bool
    """Whether it takes part now."""
    added_at: datetime
    """When it was last added."""
