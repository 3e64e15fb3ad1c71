"""Provenance: whose word a recent text is, and what it is recognised by when it is handed on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from circadia.ids import MessageId
from circadia.records.bank import Trust


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Whose word a text is. Of the text itself there are only hashes."""

    number: int = 0
    """Order of acceptance, ascending; 0 until it is stored."""
    scope: str
    """Among whom it was said: what is said in one scope tells nothing of another."""
    speaker: str
    """Who said it; of a prompt the agent that it was written for."""
    trust: Trust | None
    """Where it came from; none for a prompt that the server wrote."""
    bank: str | None = None
    """The bank, or template, in which it is kept already."""
    messages: Sequence[MessageId] = ()
    """The messages that stand in a prompt."""
    fingerprints: bytes
    """Hashes of its passages, four bytes each, the lowest first."""
    whole: int
    """The hash of all of it."""
    expires_at: datetime
    """When it is forgotten."""
