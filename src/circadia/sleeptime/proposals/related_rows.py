"""Finds what is about the same subject as something else, by the words that they share, the rare ones most."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import is_
from typing import Final, Generic, TypeVar

import numpy as np

from circadia.memory.search.columns import Array
from circadia.memory.search.terms import QUESTION, STOP_WORDS, stored_terms
from circadia.records.episode import Episode
from circadia.records.note import Note
from circadia.sleeptime.proposals.similarity import MAX_TERMS, content_terms

Row = TypeVar("Row", Episode, Note)

SPREAD: Final = 0.4
"""A word that more than this share of many rows have tells nothing about them."""
MANY: Final = 20
"""Rows from which on that is so."""
CACHED_NOTES: Final = 8_000
"""Notes whose words are remembered: each step of a pass looks among the same ones."""


CELLS: Final = 500_000
"""Rows times asked ones that are compared at once."""


class RelatedIndex(Generic[Row]):
    """Rows that can be looked for. It takes time once, in the number of their words."""

    def __init__(self, rows: Sequence[Row], known: "RelatedIndex[Row] | None" = None) -> None:
        """Time is spared where `known` has the first of these rows, and no others."""
        self._rows = rows
        same = known is not None and len(known._rows) <= len(rows) and all(map(is_, known._rows, rows))
        pairs, first = (known._pairs, len(known._rows)) if known is not None and same else (_NO_PAIRS, 0)
        of_each = [_subject_terms(each) for each in rows[first:]]
        if of_each:
            places = np.repeat(np.arange(first, len(rows), dtype=np.uint64), [len(each) for each in of_each])
            new = (np.concatenate(of_each).astype(np.uint64) << _HALF) | places
            pairs = np.sort(np.concatenate((pairs, new)), kind="stable")  # quick where the first of them are in order
        self._pairs = pairs
        terms = (pairs >> _HALF).astype(np.uint32)
        self._having = (pairs & _PLACE).astype(np.intp)
        """Rows that have a term, term after term."""
        self._begin = np.flatnonzero(np.diff(terms, prepend=terms[:1] ^ 1))
        self._terms, self._count = terms[self._begin], np.diff(self._begin, append=len(terms))
        self._weight = self._squared_rarity(self._count)
        weights = np.repeat(self._weight, self._count)
        self._lengths = np.sqrt(np.bincount(self._having, weights=weights, minlength=len(rows)))

    def find_nearest(self, asked: Iterable[Episode | Note], most: int, *, least: float = 0.0) -> Sequence[Row]:
        """Return up to `most` rows that are nearest to any of these, the nearest first, but not themselves.

        `least` is the cosine from 0 to 1 that a row must have at least.
        """
        asked = list(asked)
        best = np.zeros(len(self._rows))
        for _, scores in self._score_batches(asked):
            best = np.maximum(best, scores.max(axis=0))
        return self._select_nearest(best, {each.id for each in asked}, most, least)

    def find_nearest_each(
        self, asked: Sequence[Episode | Note], most: int, *, least: float = 0.0
    ) -> Sequence[Sequence[Row]]:
        """Return for each of these what `to` returns for it alone, in a fraction of the time."""
        found: list[Sequence[Row]] = [()] * len(asked)
        for first, scores in self._score_batches(asked):
            for at, row in enumerate(scores, first):
                found[at] = self._select_nearest(row, {asked[at].id}, most, least)
        return found

    def _score_batches(self, asked: Sequence[Episode | Note]) -> Iterator[tuple[int, Array]]:
        """Yield for parts of these where the part begins, and the cosine of each of it with each row."""
        at_once = max(1, CELLS // max(1, len(self._rows)))
        for at in range(0, len(asked) if self._rows else 0, at_once):
            yield at, self._scores([_subject_terms(each) for each in asked[at : at + at_once]])

    def _select_nearest(self, scores: Array, same: set[str], most: int, least: float) -> Sequence[Row]:
        near_enough = np.flatnonzero((scores > 0) & (scores >= least))
        found: list[int] = near_enough[np.argsort(-scores[near_enough], kind="stable")].tolist()
        near = (at for at in found if self._rows[at].id not in same)
        return [self._rows[at] for at, _ in zip(near, range(most), strict=False)]

    def _scores(self, asked: Sequence[Array]) -> Array:
        """Return the cosine of each that has these terms with each row."""
        terms, rows = np.concatenate(asked), len(self._rows)
        whose = np.repeat(np.arange(len(asked)), [len(each) for each in asked])
        at = np.searchsorted(self._terms, terms)
        known = at < len(self._terms)
        known[known] = self._terms[at[known]] == terms[known]
        strangers = np.bincount(whose[~known], minlength=len(asked)) * self._squared_rarity(np.zeros(1))[0]
        at, whose = at[known], whose[known]
        squares = list(_segment_sums(self._weight[at], np.searchsorted(whose, np.arange(len(asked) + 1))))
        lengths = np.sqrt(squares + strangers)
        telling = self._weight[at] > 0
        at, whose = at[telling], whose[telling]
        count = self._count[at]
        ends = np.cumsum(count)
        having = self._having[np.arange(count.sum()) + np.repeat(self._begin[at] - (ends - count), count)]
        cells = having + np.repeat(whose * rows, count)
        shared = np.bincount(cells, weights=np.repeat(self._weight[at], count), minlength=len(asked) * rows)
        by_length = np.outer(np.where(lengths > 0, lengths, 1), np.where(self._lengths > 0, self._lengths, 1))
        return shared.reshape(len(asked), rows) / by_length

    def _squared_rarity(self, having: Array) -> Array:
        """Return how much words tell that so many rows have, squared."""
        rows = len(self._rows)
        rarity = np.log(1 + (rows + 1) / np.maximum(having, 0.5)) ** 2
        return np.where((rows >= MANY) & (having > SPREAD * rows), 0.0, rarity)


def _subject_terms(row: Episode | Note) -> Array:
    """Return the words that a row is about, and who says it, each once."""
    if isinstance(row, Episode):
        return np.unique(
            np.array([*content_terms(row), *np.frombuffer(stored_terms(row.speaker), np.uint32)], np.uint32)
        )
    return _note_terms(row.terms)


@lru_cache(maxsize=CACHED_NOTES)
def _note_terms(terms: bytes) -> Array:
    return np.setdiff1d(np.frombuffer(terms, np.uint32)[:MAX_TERMS], _STOPS)


def _segment_sums(values: Array, bounds: Array) -> Iterator[float]:
    for begin, end in pairwise(bounds.tolist()):
        yield values[begin:end].sum()


_NO_PAIRS: Final = np.zeros(0, np.uint64)
_HALF: Final = np.uint64(32)
_PLACE: Final = np.uint64(2**32 - 1)
_STOPS: Final = np.array([QUESTION, *np.frombuffer(stored_terms(" ".join(sorted(STOP_WORDS))), np.uint32)], np.uint32)
