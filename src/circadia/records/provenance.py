"""Provenance: the source of a recent text, and the fingerprints that recognise it when it is passed on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from circadia.ids import MessageId
from circadia.records.bank import Trust


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """The source of a text, which is stored as hashes only."""

    number: int = 0
    """Order of acceptance, ascending; 0 until stored."""
    scope: str
    """The group that could read the text; provenances are never matched across scopes."""
    speaker: str
    """The author; for a prompt, the agent that it was written for."""
    trust: Trust | None
    """None for a prompt written by the server."""
    bank: str | None = None
    """The bank, or template, that already stores the text."""
    messages: Sequence[MessageId] = ()
    """The messages contained in a prompt."""
    fingerprints: bytes
    """Four-byte hashes of its passages, in ascending order."""
    whole: int
    """Hash of the whole text."""
    expires_at: datetime
