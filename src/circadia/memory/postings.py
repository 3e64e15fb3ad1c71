"""Which rows have which words, and how often."""

from array import array
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from circadia.memory.columns import Array
from circadia.memory.terms import QUESTION

# BM25's constants are those of SQLite's FTS5 and of most of the literature.
SATURATION: Final = 1.2
"""BM25's k1."""
LENGTH: Final = 0.75
"""BM25's b."""
KEPT: Final = 500_000
"""Rows of words that are kept weighed before all are let go."""

Posting: TypeAlias = "tuple[array[int], array[int]]"
"""Rows that have a word, which ascend, and how often each has it."""


class Postings:
    """Postings by hash of the word."""

    def __init__(self) -> None:
        self._by_term: Final[dict[int, Posting]] = {}
        self._weighed: Final[dict[int, tuple[Array, Array]]] = {}
        """What words give to rows: searches that follow each other have most of them in common."""
        self._kept = 0
        """Rows of these words, all together."""

    def extend(self, first: int, terms: Sequence[Array]) -> None:
        """Add rows, from the row `first` on, with these words each."""
        self._forget()
        rows = np.repeat(np.arange(first, first + len(terms), dtype=np.uint64), [len(each) for each in terms])
        pairs, counts = np.unique(np.concatenate(terms).astype(np.uint64) << 32 | rows, return_counts=True)
        hashes = (pairs >> 32).astype(np.uint32)
        begins = np.flatnonzero(np.diff(hashes, prepend=hashes[:1] ^ 1))
        ends: list[int] = [*begins[1:].tolist(), len(hashes)]
        at, times = pairs.astype(np.uint32).tobytes(), np.minimum(counts, 65_535).astype(np.uint16).tobytes()
        for term, begin, end in zip(hashes[begins].tolist(), begins.tolist(), ends, strict=False):
            if term != QUESTION:
                posting = self._by_term.get(term)
                if posting is None:
                    posting = self._by_term[term] = (array("I"), array("H"))
                posting[0].frombytes(at[4 * begin : 4 * end])
                posting[1].frombytes(times[2 * begin : 2 * end])

    def weighed(self, terms: Sequence[int], lengths: Array, total: int, *, keep: bool) -> tuple[Array, Array]:
        """Return the rows that have these words, once for each word, and what that gives them: their parts of BM25.

        `lengths` are those of all rows in words, `total` is their sum. What is to `keep` is there until rows are added.
        """
        if not keep:
            return self._reckoned([term for term in terms if term in self._by_term], lengths, total)[:2]
        if self._kept > KEPT:
            self._forget()
        new = [term for term in dict.fromkeys(terms) if term in self._by_term and term not in self._weighed]
        rows, shares, ends = self._reckoned(new, lengths, total)
        for term, begin, end in zip(new, [0, *ends], ends, strict=False):
            self._weighed[term] = rows[begin:end], shares[begin:end]
        self._kept += len(rows)
        found = [self._weighed[term] for term in terms if term in self._weighed]
        both = zip((rows[:0], shares[:0]), *found, strict=True)
        return np.concatenate(next(both)), np.concatenate(next(both))

    def _reckoned(self, terms: Sequence[int], lengths: Array, total: int) -> tuple[Array, Array, list[int]]:
        """Return what `weighed` does of words that some row has, and where each of them ends."""
        found = [self._by_term[term] for term in terms]
        # All of them together: an array at a time would be a dozen steps for each word.
        rows = np.frombuffer(b"".join([posting[0] for posting in found]), np.uint32).astype(np.intp)
        times = np.frombuffer(b"".join([posting[1] for posting in found]), np.uint16)
        many = np.array([len(posting[0]) for posting in found], np.int64)
        rarity = np.log(1 + (len(lengths) - many + 0.5) / (many + 0.5)) * (SATURATION + 1)
        average = max(total / max(len(lengths), 1), 1.0)
        norm: Array = (SATURATION * (1 - LENGTH + LENGTH / average * lengths)).take(rows)
        return rows, np.repeat(rarity, many) * times / (times + norm), np.cumsum(many).tolist()

    def rows(self, term: int) -> Array:
        """Return the rows that have a word."""
        posting = self._by_term.get(term)
        return np.frombuffer(b"" if posting is None else posting[0], np.uint32)

    def _forget(self) -> None:
        self._weighed.clear()
        self._kept = 0
