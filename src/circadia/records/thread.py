"""A thread: a conversation between agents, and its participants."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from circadia.ids import AgentId, SessionId, ThreadId


class ThreadStatus(StrEnum):
    """A closed thread stays closed."""

    OPEN = "open"
    CLOSED = "closed"
    DIRECT = "direct"
    """Holds direct messages of a session; it has no participants and appears in no list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """A conversation between agents of one session."""

    id: ThreadId
    session_id: SessionId
    name: str
    """The subject; need not be unique."""
    status: ThreadStatus
    created_by: str
    """Reference of the creator, or `operator`."""
    created_at: datetime
    closed_at: datetime | None = None
    summary: str | None = None
    """Closing remark."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinResult:
    """Effect of adding an agent to a thread."""

    added: bool
    """False if it already took part."""
    first_ever: bool
    """Whether it was the agent's first thread in the session."""
    first_in_thread: bool
    """Whether the agent joined this thread for the first time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Participant:
    """An agent's membership of a thread; the row stays after the agent leaves, to remember the first join."""

    thread_id: ThreadId
    agent_id: AgentId
    name: str
    active: bool
    """Whether the agent takes part now."""
    added_at: datetime
    """Time of the last join."""
    listens: bool = False
    """Whether the agent may sleep until any message comes."""
