"""Which rows have which words, and how often."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np

from circadia.memory.search.columns import Array
from circadia.memory.search.terms import QUESTION

# BM25's constants are those of SQLite's FTS5 and of most of the literature.
SATURATION: Final = 1.2
"""BM25's k1."""
LENGTH: Final = 0.75
"""BM25's b."""
MAX_CACHED_ROWS: Final = 500_000
"""Rows of words that are kept weighed before all are let go."""
RATIO: Final = 8
"""How many times larger each segment is than the next one: with less, more are searched; with more, each word is
copied more often."""


class _Segment(NamedTuple):
    """Words of some rows, ordered by word, then by row."""

    terms: Array
    """Hashes."""
    rows: Array
    times: Array
    """How often the row has the word."""


class Postings:
    """Postings by hash of the word, in a few sorted segments: a tenth of what an object for each word takes."""

    def __init__(self) -> None:
        self._segments: Final[list[_Segment]] = []
        """The largest first, which has the first rows."""
        self._weighed: Final[dict[int, tuple[Array, Array]]] = {}
        """What words give to rows: searches that follow each other have most of them in common."""
        self._kept = 0
        """Rows of these words, all together."""

    @property
    def nbytes(self) -> int:
        """Return the memory that they take, in bytes, but for what is kept weighed."""
        return sum(column.nbytes for segment in self._segments for column in segment)

    def extend(self, first: int, terms: Sequence[Array]) -> None:
        """Add rows, from the row `first` on, with these words each."""
        self.drop_cache()
        rows = np.repeat(np.arange(first, first + len(terms), dtype=np.uint64), [len(each) for each in terms])
        pairs, counts = np.unique(np.concatenate(terms).astype(np.uint64) << 32 | rows, return_counts=True)
        begin = int(np.searchsorted(pairs, np.uint64((QUESTION + 1) << 32)))
        new = _Segment(
            terms=(pairs[begin:] >> 32).astype(np.uint32), rows=pairs[begin:].astype(np.uint32),
            times=np.minimum(counts[begin:], 65_535).astype(np.uint16),
        )  # fmt: skip
        while self._segments and len(self._segments[-1].terms) < RATIO * len(new.terms):
            new = _merge_segments(self._segments.pop(), new)
        if len(new.terms):
            self._segments.append(new)

    def drop_cache(self) -> None:
        """Drop what is kept weighed: rows were added or removed."""
        self._weighed.clear()
        self._kept = 0

    def score_terms(
        self, terms: Sequence[int], lengths: Array, total: int, count: int, *, keep: bool
    ) -> tuple[Array, Array]:
        """Return the rows that have these words, once for each word, and what that gives them: their parts of BM25.

        `lengths` are those of all rows in words, less than 0 of those that were removed; the others are `count`, and
        have `total` words. What is to `keep` is there until rows are added, or `forget` is called.
        """
        if not keep:
            return self._compute_scores(terms, lengths, total, count)[:2]
        if self._kept > MAX_CACHED_ROWS:
            self.drop_cache()
        new = [term for term in dict.fromkeys(terms) if term not in self._weighed]
        rows, shares, ends = self._compute_scores(new, lengths, total, count)
        for term, begin, end in zip(new, [0, *ends], ends, strict=False):
            self._weighed[term] = rows[begin:end], shares[begin:end]
        self._kept += len(rows)
        found = [self._weighed[term] for term in terms]
        both = zip((rows[:0], shares[:0]), *found, strict=True)
        return np.concatenate(next(both)), np.concatenate(next(both))

    def _compute_scores(
        self, terms: Sequence[int], lengths: Array, total: int, count: int
    ) -> tuple[Array, Array, Sequence[int]]:
        """Return what `weighed` does, and where each of the words ends."""
        found, many = self._locate(terms)
        rows = np.concatenate([segment.rows[place] for segment, place in found] or [_NO_ROWS]).astype(np.intp)
        times = np.concatenate([segment.times[place] for segment, place in found] or [_NO_ROWS])
        long = lengths.take(rows)
        there = many if count == len(lengths) else _count_alive(long >= 0, many)
        rarity = np.log(1 + (count - there + 0.5) / (there + 0.5)) * (SATURATION + 1)
        average = max(total / max(count, 1), 1.0)
        norm = SATURATION * (1 - LENGTH + LENGTH / average * long)
        shares: Array = np.repeat(rarity, many) * times / (times + norm)
        if there is not many:
            shares[long < 0] = 0
        return rows, shares, np.cumsum(many).tolist()

    def rows_with_term(self, term: int) -> Array:
        """Return the rows that have a word, or had it before they were removed."""
        return np.concatenate([segment.rows[place] for segment, place in self._locate([term])[0]] or [_NO_ROWS])

    def _locate(self, terms: Collection[int]) -> tuple[Sequence[tuple[_Segment, slice]], Array]:
        """Return where the words stand, one after the other, and how many rows have each."""
        asked = np.fromiter(terms, np.uint32, len(terms))
        begins = [segment.terms.searchsorted(asked) for segment in self._segments]
        ends = [segment.terms.searchsorted(asked, "right") for segment in self._segments]
        many = sum((end - begin for begin, end in zip(begins, ends, strict=True)), np.zeros(len(asked), np.int64))
        places = [zip(begin.tolist(), end.tolist(), strict=True) for begin, end in zip(begins, ends, strict=True)]
        found = [
            (segment, slice(begin, end))
            for of_word in zip(*places, strict=True)
            for segment, (begin, end) in zip(self._segments, of_word, strict=True)
            if begin < end
        ]
        return found, many


_NO_ROWS: Final = np.empty(0, np.uint32)


def _count_alive(alive: Array, many: Array) -> Array:
    """Return how many are alive among the first so many, among those that follow, and so on."""
    return np.diff(np.concatenate(([0], np.cumsum(alive)))[np.concatenate(([0], np.cumsum(many)))])


def _merge_segments(first: _Segment, then: _Segment) -> _Segment:
    """Return both as one; `then` has the later rows."""
    order = np.argsort(np.concatenate((first.terms, then.terms)), kind="stable")
    return _Segment(*(np.concatenate(both)[order] for both in zip(first, then, strict=True)))
