"""Which rows have which words, and how often."""

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from circadia.memory.columns import Array
from circadia.memory.terms import QUESTION

Posting: TypeAlias = "tuple[array[int], array[int]]"
"""Rows that have a word, which ascend, and how often each has it."""


class Postings:
    """Postings by hash of the word."""

    def __init__(self) -> None:
        self._by_term: Final[dict[int, Posting]] = {}

    def extend(self, first: int, terms: Sequence[Array]) -> None:
        """Add rows, from the row `first` on, with these words each."""
        rows = np.repeat(np.arange(first, first + len(terms), dtype=np.uint64), [len(each) for each in terms])
        pairs, counts = np.unique(np.concatenate(terms).astype(np.uint64) << 32 | rows, return_counts=True)
        hashes = (pairs >> 32).astype(np.uint32)
        bounds = [0, *(np.flatnonzero(np.diff(hashes)) + 1).tolist(), len(hashes)]
        at, times = pairs.astype(np.uint32), np.minimum(counts, 65_535).astype(np.uint16)
        for start, end in pairwise(bounds):
            if start < end and hashes[start] != QUESTION:
                posting = self._by_term.get(int(hashes[start]))
                if posting is None:
                    posting = self._by_term[int(hashes[start])] = (array("I"), array("H"))
                posting[0].frombytes(at[start:end].tobytes())
                posting[1].frombytes(times[start:end].tobytes())

    def of(self, terms: Sequence[int]) -> Sequence[Posting]:
        """Return the postings of those of the words that some row has."""
        return [posting for term in terms if (posting := self._by_term.get(term)) is not None]

    def rows(self, term: int) -> Array:
        """Return the rows that have a word."""
        posting = self._by_term.get(term)
        return np.frombuffer(b"" if posting is None else posting[0], np.uint32)
