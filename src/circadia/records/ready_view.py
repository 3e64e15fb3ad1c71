"""A ready view: what is often asked of a bank, worked out before it is asked again (SLEEP-26)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from circadia.ids import BankId
from circadia.records.index_entry import Layer


class ViewKind(StrEnum):
    """What a view answers."""

    QUESTION = "question"
    """A search that is often asked."""
    SUBJECT = "subject"
    """What is believed of somebody or something."""


class ViewHit(NamedTuple):
    """A row that a view names; its text is read when the view answers."""

    layer: Layer
    """Where it is."""
    number: int
    """Its number there."""
    score: float
    """As the search gives it; 0 in the view of a subject."""
    parts: Mapping[str, float]
    """The score's parts by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadyView:
    """A question that was asked more than once, or a subject, and what the bank says to it."""

    bank_id: BankId
    """Whose memory."""
    kind: ViewKind
    """What it answers."""
    key: str
    """Key in the bank: a hash of the question with its filters, or the subject."""
    asked: Mapping[str, object]
    """The question's text and filters, or the subject's name, as `text`."""
    limit: int = 0
    """The most hits that were asked for."""
    days: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often it was asked, by day (of UTC, as ISO 8601 writes it)."""
    asked_at: datetime | None = None
    """When it was last asked."""
    stamp: str | None = None
    """The state of the bank that the hits are of; none if it was not worked out yet."""
    depth: int = 0
    """For how many hits it was worked out."""
    hits: Sequence[ViewHit] = ()
    """What it says, the best first."""
    made_at: datetime | None = None
    """When it was worked out."""


class BankHeads(NamedTuple):
    """The greatest numbers of a bank, 0 if it has none: with the counts of its row, its exact state for searches."""

    episodes: int
    notes: int


class ReadyViewSnapshot(NamedTuple):
    """A view as a search reads it, with the heads of its bank in the same state of the database."""

    stamp: str
    depth: int
    hits: Sequence[ViewHit]
    heads: BankHeads
