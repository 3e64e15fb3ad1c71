"""Keeps the notes of the banks that passes worked in last, so that a pass reads what is new and not all of them again.

The rows are the truth: what was added since, retired, put back or forgotten is read in the caller's transaction. What
changes beside that, vectors and `used_at`, is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from circadia.ids import BankId
from circadia.lru import Lru
from circadia.records.bank import Bank
from circadia.records.note import Note
from circadia.stores.base import Tx

NOTES: Final = 5_000
"""Notes of a bank that a pass works with, the newest."""
SPARE: Final = 500
"""Older ones that are kept beside them: they take the place of those that are retired."""
MOST: Final = 4 * NOTES
"""Notes that are kept in all, a bank counting as one more; those of one bank always are."""


@dataclass(kw_only=True, slots=True)
class _BankNotes:
    """The newest notes of a bank as it counted."""

    generation: int
    demotions: int
    last: int = 0
    """The greatest number."""
    notes: dict[int, Note] = field(default_factory=dict[int, Note])
    """By number, in order."""
    whole: bool = True
    """Whether there is none that is older."""


class Notebook:
    """Newest notes by bank. It takes memory for `most` notes, if no bank alone has more."""

    def __init__(self, *, newest: int = NOTES, spare: int = SPARE, most: int = MOST) -> None:
        self._newest = newest
        self._spare = spare
        self._kept: Lru[BankId, _BankNotes] = Lru(most)

    async def fetch_newest(self, tx: Tx, bank: Bank) -> Sequence[Note]:
        """Return the newest notes that are not retired, in order, as the transaction sees them.

        `bank` is its row as the same transaction reads it.
        """
        kept = self._kept.pop(bank.id)  # whoever comes meanwhile, or after a failure, reads them anew
        if kept is not None and kept.generation == bank.generation and kept.demotions <= bank.demotions:
            await self._catch_up(tx, bank, kept)
        else:
            kept = None
        if kept is None or not (kept.whole or len(kept.notes) >= self._newest):
            kept = await self._load_notes(tx, bank)
        self._kept.put(bank.id, kept, 1 + len(kept.notes))
        return list(kept.notes.values())[-self._newest :]

    async def _load_notes(self, tx: Tx, bank: Bank) -> _BankNotes:
        most = self._newest + self._spare
        kept = _BankNotes(generation=bank.generation, demotions=bank.demotions)
        _add_notes(kept, await tx.notes.find_newest(bank.id, most))
        kept.whole = len(kept.notes) < most
        return kept

    async def _catch_up(self, tx: Tx, bank: Bank, kept: _BankNotes) -> None:
        if bank.demotions > kept.demotions:
            weights = await tx.notes.find_changed_weights(bank.id, after=kept.demotions)
            first = next(iter(kept.notes), 0) if not kept.whole else 0
            back = [number for number, weight in weights.items() if weight and first <= number <= kept.last]
            for number in weights:
                kept.notes.pop(number, None)
            if back:
                found = await tx.notes.get_by_numbers(bank.id, back)
                kept.notes = dict(
                    sorted({**kept.notes, **{at: _strip_note(each) for at, each in found.items()}}.items())
                )
            kept.demotions = bank.demotions
        limit = self._newest
        while True:
            new = await tx.notes.find_all(bank.id, after=kept.last, limit=limit)
            _add_notes(kept, new)
            if len(new) < limit:
                break
        for number in list(kept.notes)[: -(self._newest + self._spare)]:
            del kept.notes[number]
            kept.whole = False


def _add_notes(kept: _BankNotes, notes: Sequence[Note]) -> None:
    """Take in notes with greater numbers than those that are there, in order."""
    for each in notes:
        kept.notes[each.number] = _strip_note(each)
        kept.last = each.number


def _strip_note(note: Note) -> Note:
    """Return a note without its vector, which comes when it comes and is the larger part of it, and without its use."""
    return replace(note, vector=None, embedder=None, used_at=None)
