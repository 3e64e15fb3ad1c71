"""A ready view: the result of a frequent question, computed before it is asked again (SLEEP-26)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from circadia.ids import BankId
from circadia.records.index_entry import Layer


class ViewKind(StrEnum):
    QUESTION = "question"
    """Results of a frequent search."""
    SUBJECT = "subject"
    """Beliefs about a person or thing."""


class ViewHit(NamedTuple):
    """A row of a view; its text is read when the view is used."""

    layer: Layer
    number: int
    score: float
    """The search score; 0 in a subject's view."""
    parts: Mapping[str, float]
    """The components of the score by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadyView:
    """A repeated question, or a subject, with the bank's results for it."""

    bank_id: BankId
    kind: ViewKind
    key: str
    """Unique in the bank: a hash of the question with its filters, or the subject."""
    asked: Mapping[str, object]
    """The question's text and filters; for a subject, its name as `text`."""
    limit: int = 0
    """Largest number of hits that was requested."""
    days: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of times it was asked, by UTC day in ISO 8601."""
    asked_at: datetime | None = None
    stamp: str | None = None
    """The bank state that the hits are valid for; none until computed."""
    depth: int = 0
    """Number of hits that were computed."""
    hits: Sequence[ViewHit] = ()
    """Best first."""
    made_at: datetime | None = None


class BankHeads(NamedTuple):
    """Greatest row numbers of a bank, 0 if empty; with the counts of the bank's row they identify its state."""

    episodes: int
    notes: int


class ReadyViewSnapshot(NamedTuple):
    """A view for a search, with the heads of its bank from the same transaction."""

    stamp: str
    depth: int
    hits: Sequence[ViewHit]
    heads: BankHeads
