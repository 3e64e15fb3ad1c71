"""A note derived from two or more episodes, with their ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.episode import Searchable


class NoteKind(StrEnum):
    """How a note was derived."""

    CONSOLIDATION = "consolidation"
    """Combines episodes about one subject."""
    BELIEF = "belief"
    """States what they imply."""
    SUMMARY = "summary"
    """Condenses a long span."""


class NoteState(StrEnum):
    LIVE = "live"
    """In searches."""
    RETIRED = "retired"
    """Out of searches, still available as evidence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note(Searchable):
    """A text derived by a pass."""

    id: NoteId
    bank_id: BankId
    kind: NoteKind
    evidence: Sequence[EpisodeId]
    pass_id: str | None = None
    operation: str | None = None
    """The operation of that pass; none if unknown or not made by a pass."""
    created_at: datetime
    retired_at: datetime | None = None
    """When it was archived: out of search, still available as evidence."""
    valid_to: datetime | None = None
    """From when on it holds no more; it holds from `at` on. None if it is retired and never held."""
    used_at: datetime | None = None
    """Day on which an agent last received it; `created_at` if unknown."""
    returned: bool = False
    """Whether it was archived and restored."""
