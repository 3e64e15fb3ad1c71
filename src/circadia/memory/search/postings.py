"""Posting lists: the rows of each word, with counts."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np

from circadia.memory.search.columns import Array
from circadia.memory.search.terms import QUESTION

SATURATION: Final = 1.2
"""BM25's k1, as in SQLite's FTS5 and most of the literature."""
LENGTH: Final = 0.75
"""BM25's b, likewise."""
MAX_CACHED_ROWS: Final = 500_000
"""Most cached row scores; beyond it the cache is cleared."""
RATIO: Final = 8
"""Size ratio of neighbouring segments: a smaller one means more segments to search, a larger one more copies of each
word."""


class _Segment(NamedTuple):
    """Words of some rows, sorted by word, then by row."""

    terms: Array
    """Hashes of words."""
    rows: Array
    times: Array


class Matches(NamedTuple):
    """Where words stand: one entry for each word of a row."""

    rows: Array
    shares: Array
    """Parts of BM25; 0 in a removed row."""
    times: Array
    """How often the word is in the row."""
    words: Array
    """Place of the word among those that were asked for."""
    rarity: Array
    """Most that each of these words can add to BM25."""


class Postings:
    """Postings by word hash in a few sorted segments: a tenth of the memory of an object for each word."""

    def __init__(self) -> None:
        self._segments: Final[list[_Segment]] = []
        """Largest first, with the earliest rows."""
        self._weighed: Final[dict[int, tuple[Array, Array, Array, float]]] = {}
        """Cached rows, shares, times and rarity by word; consecutive searches share most words."""
        self._kept = 0
        """Number of cached row scores."""

    @property
    def nbytes(self) -> int:
        """Return the memory in bytes, without the cache."""
        return sum(column.nbytes for segment in self._segments for column in segment)

    def extend(self, first: int, terms: Sequence[Array]) -> None:
        """Add rows with these words each, from row `first` on."""
        self.drop_cache()
        rows = np.repeat(np.arange(first, first + len(terms), dtype=np.uint64), [len(row_terms) for row_terms in terms])
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
        """Clear the cached scores, after rows were added or removed."""
        self._weighed.clear()
        self._kept = 0

    def match_terms(self, terms: Sequence[int], lengths: Array, total: int, count: int, *, keep: bool) -> Matches:
        """Return the rows with each of these words and their parts of BM25; a row comes once for each word.

        `lengths` are those of all rows in words, negative for removed ones; the remaining `count` rows have `total`
        words. `keep` caches the scores until rows are added, or until `drop_cache`.
        """
        if not keep:
            rows, shares, times, rarity, many = self._compute_scores(terms, lengths, total, count)
            return Matches(rows, shares, times, np.repeat(np.arange(len(terms)), many), rarity)
        if self._kept > MAX_CACHED_ROWS:
            self.drop_cache()
        new = [term for term in dict.fromkeys(terms) if term not in self._weighed]
        rows, shares, times, rarity, many = self._compute_scores(new, lengths, total, count)
        ends: list[int] = np.cumsum(many).tolist()
        for at, (term, begin, end) in enumerate(zip(new, [0, *ends], ends, strict=False)):
            self._weighed[term] = rows[begin:end], shares[begin:end], times[begin:end], float(rarity[at])
        self._kept += len(rows)
        cached = [self._weighed[term] for term in terms]
        none = (rows[:0], shares[:0], times[:0])
        rows, shares, times = map(np.concatenate, zip(none, *(entry[:3] for entry in cached), strict=True))
        places = np.repeat(np.arange(len(terms)), [len(entry[0]) for entry in cached])
        return Matches(rows, shares, times, places, np.array([entry[3] for entry in cached]))

    def _compute_scores(
        self, terms: Sequence[int], lengths: Array, total: int, count: int
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Return rows, shares and times as `match_terms`, and the rarity and the number of rows of each word."""
        segment_places, many = self._locate(terms)
        rows = np.concatenate([segment.rows[place] for segment, place in segment_places] or [_NO_ROWS]).astype(np.intp)
        times = np.concatenate([segment.times[place] for segment, place in segment_places] or [_NO_ROWS])
        long = lengths.take(rows)
        alive = many if count == len(lengths) else _count_alive(long >= 0, many)
        rarity = np.log(1 + (count - alive + 0.5) / (alive + 0.5)) * (SATURATION + 1)
        average = max(total / max(count, 1), 1.0)
        norm = SATURATION * (1 - LENGTH + LENGTH / average * long)
        shares: Array = np.repeat(rarity, many) * times / (times + norm)
        if alive is not many:
            shares[long < 0] = 0
        return rows, shares, times, rarity, many

    def _locate(self, terms: Collection[int]) -> tuple[Sequence[tuple[_Segment, slice]], Array]:
        """Return the places of the words, one after the other, and the number of rows of each."""
        keys = np.fromiter(terms, np.uint32, len(terms))
        begins = [segment.terms.searchsorted(keys) for segment in self._segments]
        ends = [segment.terms.searchsorted(keys, "right") for segment in self._segments]
        many = sum((end - begin for begin, end in zip(begins, ends, strict=True)), np.zeros(len(keys), np.int64))
        places = [zip(begin.tolist(), end.tolist(), strict=True) for begin, end in zip(begins, ends, strict=True)]
        segment_places = [
            (segment, slice(begin, end))
            for of_word in zip(*places, strict=True)
            for segment, (begin, end) in zip(self._segments, of_word, strict=True)
            if begin < end
        ]
        return segment_places, many


_NO_ROWS: Final = np.empty(0, np.uint32)


def _count_alive(alive: Array, many: Array) -> Array:
    return np.diff(np.concatenate(([0], np.cumsum(alive)))[np.concatenate(([0], np.cumsum(many)))])


def _merge_segments(first: _Segment, then: _Segment) -> _Segment:
    order = np.argsort(np.concatenate((first.terms, then.terms)), kind="stable")
    return _Segment(*(np.concatenate(both)[order] for both in zip(first, then, strict=True)))
