"""A note that was copied into another bank, so that the copy goes when the note is forgotten (MEM-35)."""

from dataclasses import dataclass
from typing import Final

from circadia.ids import BankId, EpisodeId, NoteId

PROMOTED: Final = "promoted"
"""Key of `Episode.metadata` of a copy: the id of its note, who promoted it, and when."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    note_id: NoteId
    source_bank_id: BankId
    """Bank of the note."""
    episode_id: EpisodeId
    """The copy."""
    bank_id: BankId
    """Bank of the copy."""
