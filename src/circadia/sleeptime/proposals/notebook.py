"""Caches the newest notes of recently used banks, so that a pass reads only what is new.

Additions, retirements, restorations and forgotten rows are read in the caller's transaction. Vectors and `used_at`
change independently and are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from circadia.caches import Lru
from circadia.ids import BankId
from circadia.records.bank import Bank
from circadia.records.note import Note
from circadia.stores.base import Tx

NOTES: Final = 5_000
"""Newest notes of a bank that a pass works with."""
SPARE: Final = 500
"""Older cached notes of a bank, which replace retired ones."""
MAX_NOTES: Final = 4 * NOTES
"""Total of cached notes, with one more per bank; those of a single bank always fit."""


@dataclass(kw_only=True, slots=True)
class _BankNotes:
    """The newest notes of a bank, at these counters of the bank."""

    generation: int
    demotions: int
    last: int = 0
    notes: dict[int, Note] = field(default_factory=dict[int, Note])
    """By number, in order."""
    whole: bool = True
    """Whether there are no older notes."""


class Notebook:
    """Caches the newest notes by bank, `most` in all unless a single bank has more."""

    def __init__(self, *, newest: int = NOTES, spare: int = SPARE, most: int = MAX_NOTES) -> None:
        self._newest = newest
        self._spare = spare
        self._kept: Lru[BankId, _BankNotes] = Lru(most)

    def forget(self) -> None:
        self._kept.clear()

    async def fetch_newest(self, tx: Tx, bank: Bank) -> Sequence[Note]:
        """Return the newest active notes in order, as the transaction that also read `bank` sees them."""
        cached = self._kept.pop(bank.id)  # concurrent readers, and those after a failure, load the notes again
        if cached is not None and cached.generation == bank.generation and cached.demotions <= bank.demotions:
            await self._catch_up(tx, bank, cached)
        else:
            cached = None
        if cached is None or not (cached.whole or len(cached.notes) >= self._newest):
            cached = await self._load_notes(tx, bank)
        self._kept.put(bank.id, cached, 1 + len(cached.notes))
        return list(cached.notes.values())[-self._newest :]

    async def _load_notes(self, tx: Tx, bank: Bank) -> _BankNotes:
        limit = self._newest + self._spare
        cached = _BankNotes(generation=bank.generation, demotions=bank.demotions)
        _add_notes(cached, await tx.notes.find_newest(bank.id, limit))
        cached.whole = len(cached.notes) < limit
        return cached

    async def _catch_up(self, tx: Tx, bank: Bank, cached: _BankNotes) -> None:
        if bank.demotions > cached.demotions:
            weights = await tx.notes.find_changed_weights(bank.id, after=cached.demotions)
            first = next(iter(cached.notes), 0) if not cached.whole else 0
            back = [number for number, weight in weights.items() if weight and first <= number <= cached.last]
            for number in weights:
                cached.notes.pop(number, None)
            if back:
                restored_notes = await tx.notes.get_by_numbers(bank.id, back)
                cached.notes = dict(
                    sorted({**cached.notes, **{at: _strip_note(note) for at, note in restored_notes.items()}}.items())
                )
            cached.demotions = bank.demotions
        limit = self._newest
        while True:
            new = await tx.notes.find_all(bank.id, after=cached.last, limit=limit)
            _add_notes(cached, new)
            if len(new) < limit:
                break
        for number in list(cached.notes)[: -(self._newest + self._spare)]:
            del cached.notes[number]
            cached.whole = False


def _add_notes(cached: _BankNotes, notes: Sequence[Note]) -> None:
    """Add notes with higher numbers than the cached ones, in order."""
    for note in notes:
        cached.notes[note.number] = _strip_note(note)
        cached.last = note.number


def _strip_note(note: Note) -> Note:
    """Return a note without its use and its vector, which is most of its size and may come later."""
    return replace(note, vector=None, embedder=None, used_at=None)
