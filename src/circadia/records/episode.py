"""An episode: one raw thing that happened. It is never rewritten (MEM-03)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from circadia.ids import BankId, EpisodeId
from circadia.records.bank import Trust


class EpisodeKind(StrEnum):
    """What happened."""

    TURN = "turn"
    """Somebody said something in a conversation."""
    FACT = "fact"
    """Somebody asked to remember it."""
    TOOL = "tool"
    """A tool was called, or answered."""
    EVENT = "event"
    """Something else."""
    READY = "ready"
    """The very question of a ready answer was asked, or that answer was served: neither tells anything new."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Demotion:
    """Why an episode counts less than it did: a demotion that can be taken back."""

    by: str
    """Who: a pass, a person."""
    reason: str
    """Why, in words."""
    evidence: str
    """What shows it; one demotion for each evidence."""
    at: datetime
    """When."""
    weight: float
    """What its importance is multiplied with, more than 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Searchable:
    """What episodes and notes have in common: a text with what finds it."""

    number: int
    """Order of acceptance in the database, ascending; 0 until it is stored."""
    at: datetime
    """When it happened; of a note, when the newest of its sources did."""
    text: str
    """What was said or derived."""
    trust: Trust
    """Where it came from."""
    importance: float | None = None
    """0 to 1; none if nobody has judged it."""
    terms: bytes = b""
    """Its stemmed words as 32-bit hashes, one for each occurrence."""
    vector: bytes | None = None
    """Its embedding as 16-bit floats; none until it is made."""
    embedder: str | None = None
    """Name, version and dimensions of what made the embedding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode(Searchable):
    """One raw thing that happened."""

    id: EpisodeId
    """Key."""
    bank_id: BankId
    """Where it is kept."""
    speaker: str
    """Who said or did it."""
    kind: EpisodeKind = EpisodeKind.TURN
    """What happened."""
    session: str | None = None
    """The conversation that it belongs to."""
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    """What whoever stored it wanted to keep with it."""
    incomplete: bool = False
    """Whether it is the beginning of an answer that broke off."""
    key: str | None = None
    """Idempotency key; unique in the bank."""
    digest: str = ""
    """SHA-256 of speaker and text, in hex, which finds repetitions."""
    repeats: int = 0
    """How often it was said again within the window of its bank."""
    stored_at: datetime
    """When it was stored."""
    stale: tuple[Demotion, ...] = ()
    """Its demotions."""
