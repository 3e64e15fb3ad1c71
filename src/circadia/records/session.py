"""A session: a group of agents with their threads."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import SessionId

DEFAULT_SESSION: Final = "default"
"""The session of long-lived agents; it never ends."""


def build_reference(session: str, agent: str) -> str:
    """Return an agent's `name` in the session `default`, else `session:name`."""
    return agent if session == DEFAULT_SESSION else f"{session}:{agent}"


class SessionStatus(StrEnum):
    """A closed session stays closed."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    id: SessionId
    name: str
    """Unique among open sessions."""
    status: SessionStatus
    created_at: datetime
    closed_at: datetime | None = None
    touched_at: datetime
    """Last activity of an agent, message or person; the start of the stall timeout."""
    stalled: bool = False
    """Whether the present stall was reported."""
