"""A session: a group of agents with their threads."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import SessionId

DEFAULT_SESSION: Final = "default"
"""Name of the session that long-lived agents live in; it never ends."""


class SessionStatus(StrEnum):
    """Whether a session takes part; `closed` is final."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A group of agents with their threads."""

    id: SessionId
    """Key."""
    name: str
    """Unique among the open sessions."""
    status: SessionStatus
    """Open or closed."""
    created_at: datetime
    """When it was made."""
    closed_at: datetime | None = None
    """When it was closed."""
    touched_at: datetime
    """When an agent, a message or a person last did something in it; what a stall is measured from."""
    stalled: bool = False
    """Whether the present stall was already told."""
