"""A turn of a conversation that is under way at a server's gateway: rows of it tell the other servers."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTurn:
    """A model call whose answer is not there yet."""

    owner: str
    """The process that passes it on."""
    id: int
    """Unique in that process."""
    bank: str
    """Name or template of the bank that its agent is bound to."""
    end_user: str = ""
    """Whose bank, where that is a template; else empty."""
    at: datetime
    """When it began."""
    lease_until: datetime
    """When it counts as ended unless its process says that it lives."""
