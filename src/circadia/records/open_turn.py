"""An open turn of a conversation at a server's gateway; its row makes it visible to other servers."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTurn:
    """A model call without an answer yet."""

    owner: str
    """The process that forwards the call."""
    id: int
    """Unique within the process."""
    bank: str
    """Name or template of the bank bound to its agent."""
    end_user: str = ""
    """The end user of a bank from a template; else empty."""
    at: datetime
    lease_until: datetime
    """When the turn counts as ended unless its process renews the lease."""
