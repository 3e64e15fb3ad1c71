"""A note: derived from two or more episodes, whose ids it names."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.episode import Searchable


class NoteKind(StrEnum):
    """How it was derived."""

    CONSOLIDATION = "consolidation"
    """Episodes about one subject, put together."""
    BELIEF = "belief"
    """What they lead to believe."""
    SUMMARY = "summary"
    """What a long span of them says in short."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note(Searchable):
    """Something that was worked out while nobody waited."""

    id: NoteId
    """Key."""
    bank_id: BankId
    """Where it is kept."""
    kind: NoteKind
    """How it was derived."""
    evidence: Sequence[EpisodeId]
    """The episodes that it rests on."""
    pass_id: str | None = None
    """The pass that made it."""
    operation: str | None = None
    """The operation of the pass that made it; none if no pass did, or it is not known any more."""
    created_at: datetime
    """When it was made."""
    retired_at: datetime | None = None
    """When it was archived: out of searches, still there as evidence."""
    used_at: datetime | None = None
    """The day on which it was last handed to an agent; where that is not known, when it was made."""
    returned: bool = False
    """Whether it was archived and put back."""
