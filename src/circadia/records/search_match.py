"""What a search over names and ids finds."""

from dataclasses import dataclass
from enum import StrEnum


class SearchKind(StrEnum):
    AGENT = "agent"
    SESSION = "session"
    THREAD = "thread"
    BANK = "bank"
    MESSAGE = "message"
    WAKE = "wake"
    PASS = "pass"
    CALL = "call"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchMatch:
    kind: SearchKind
    id: str
    name: str
    """Of a message its sender, of a wake the agent's reference."""
    session: str | None
    about: str
    """Description, status, or the beginning of the text."""
    place: str | None
    """Root of the chain that a message or a wake is in."""
