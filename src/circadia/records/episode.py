"""An episode: a raw record of something that happened. It is never rewritten (MEM-03)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import BankId, EpisodeId, MessageId
from circadia.records.bank import Trust


class EpisodeKind(StrEnum):
    TURN = "turn"
    """A message in a conversation."""
    FACT = "fact"
    """An explicit request to remember something."""
    TOOL = "tool"
    """A tool call or its result."""
    EVENT = "event"
    """Anything else."""
    READY = "ready"
    """The question of a ready answer was asked, or that answer was served: neither adds information."""


SILENT: Final = (EpisodeKind.TOOL, EpisodeKind.READY)
"""Kinds of episodes that state nothing new to a ready answer (ANS-20)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Demotion:
    """A reversible reduction of an episode's importance."""

    by: str
    """A pass or a person."""
    reason: str
    evidence: str
    """Key of the demotion: one per evidence."""
    at: datetime
    weight: float
    """Factor for the importance, more than 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Searchable:
    """Common fields of episodes and notes."""

    number: int
    """Order of acceptance in the database, ascending; 0 until stored."""
    at: datetime
    """Time of the event; for a note, that of its newest source."""
    text: str
    trust: Trust
    importance: float | None = None
    """0 to 1; none if not rated."""
    terms: bytes = b""
    """Stemmed words as 32-bit hashes, one per occurrence."""
    vector: bytes | None = None
    """Embedding as 16-bit floats; none until computed."""
    embedder: str | None = None
    """Name, version and dimensions of the embedding model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode(Searchable):
    """One raw event."""

    id: EpisodeId
    bank_id: BankId
    speaker: str
    kind: EpisodeKind = EpisodeKind.TURN
    conversation: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    """Free-form data of the caller that stored it."""
    incomplete: bool = False
    """The beginning of an answer that broke off."""
    key: str | None = None
    """Idempotency key; unique in the bank."""
    digest: str = ""
    """SHA-256 of speaker and text in hex, for finding repetitions."""
    repeats: int = 0
    """Repetitions within the duplicate window of its bank."""
    stored_at: datetime
    stale: tuple[Demotion, ...] = ()


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
    conversation: str = ""
    """Where it was said; the text is known for as long as that goes on, and a day."""
    expires_at: datetime
