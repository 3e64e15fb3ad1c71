"""Finds what is about the same subject as something else, by the words that they share, the rare ones most."""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Generic, TypeVar

import numpy as np

from circadia.memory.terms import stored_terms
from circadia.records.episode import Episode
from circadia.records.note import Note
from circadia.sleeptime.similar import telling

Row = TypeVar("Row", Episode, Note)

SPREAD: Final = 0.4
"""A word that more than this share of many rows have tells nothing about them."""
MANY: Final = 20
"""Rows from which on that is so."""


class Related(Generic[Row]):
    """Rows that can be looked for. It takes time once, in the number of their words."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._having: dict[int, list[int]] = {}
        for at, row in enumerate(rows):
            for term in subject(row):
                self._having.setdefault(term, []).append(at)
        self._lengths = [0.0] * len(rows)
        for term, having in self._having.items():
            for at in having:
                self._lengths[at] += self._rarity(term) ** 2

    def to(self, asked: Iterable[Episode | Note], most: int, *, least: float = 0.0) -> Sequence[Row]:
        """Return up to `most` rows that are nearest to any of these, the nearest first, but not themselves.

        `least` is the cosine from 0 to 1 that a row must have at least.
        """
        best: dict[int, float] = {}
        asked = list(asked)
        same = {each.id for each in asked}
        for each in asked:
            for at, score in self._scores(subject(each)).items():
                if score >= least and self._rows[at].id not in same:
                    best[at] = max(best.get(at, 0.0), score)
        return [self._rows[at] for at in sorted(best, key=lambda at: (-best[at], at))[:most]]

    def _scores(self, terms: Collection[int]) -> dict[int, float]:
        found: dict[int, float] = {}
        length = math.sqrt(sum(self._rarity(term) ** 2 for term in terms))
        for term in terms:
            rarity = self._rarity(term)
            for at in self._having.get(term, ()) if rarity else ():
                found[at] = found.get(at, 0.0) + rarity**2
        return {at: score / (length * math.sqrt(self._lengths[at])) for at, score in found.items()}

    def _rarity(self, term: int) -> float:
        having, rows = len(self._having.get(term, ())), len(self._rows)
        if rows >= MANY and having > SPREAD * rows:
            return 0.0
        return math.log(1 + (rows + 1) / (having or 0.5))


def subject(row: Episode | Note) -> frozenset[int]:
    """Return the words that a row is about, and who says it."""
    terms = frozenset(telling(row))
    if isinstance(row, Episode):
        said_by: list[int] = np.frombuffer(stored_terms(row.speaker), np.uint32).tolist()
        return terms.union(said_by)
    return terms
