"""Vectors of one embedder in one bank: the nearest, exactly, by their signs first and then by their values."""

from collections.abc import Sequence
from itertools import compress
from typing import Final

import numpy as np

from circadia.memory.columns import Array, Column

WORD: Final = 64
"""Bits in a word of signs."""
SIFTED: Final = 6
"""How many times more vectors are compared by value than are asked for. Of 10,000 turns by WordLlama, 6 misses 7 of the
nearest 100 and fewer than 1 in 100 of the nearest ten; 3 misses twice as many."""


_ONE: Final = 32_767
"""Stands for 1: values are kept as whole numbers of 16 bits, as exact as the floats that they come as and converted in
a tenth of the time."""


class Vectors:
    """Unit vectors, each of a row of the index."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions: Final = dimensions
        # A column for each word of signs: to compare 100,000 rows takes a fifth of what one of rows would.
        self._signs = [Column(np.uint64) for _ in range(-(-dimensions // WORD))]
        self._values = Column(np.int16, dimensions)
        self._rows = Column(np.int32)

    def extend(self, rows: Sequence[int], vectors: Sequence[bytes]) -> None:
        """Append vectors, 16-bit floats, of these rows of the index; those that are not sound are left out."""
        fits = [len(vector) == 2 * self.dimensions for vector in vectors]
        values = np.frombuffer(b"".join(compress(vectors, fits)), np.float16).reshape(-1, self.dimensions)
        finite = np.isfinite(values).all(axis=1)
        values = values[finite]
        self._values.extend(np.rint(np.clip(values.astype(np.float32), -1, 1) * _ONE).astype(np.int16))
        for column, words in zip(self._signs, _signs(values).T, strict=True):
            column.extend(words)
        self._rows.extend(np.fromiter(compress(rows, fits), np.int32)[finite])

    def nearest(self, asked: Array, count: int, allowed: Array | None) -> tuple[Array, Array]:
        """Return the rows of the `count` nearest vectors, in no order, and their cosines; `allowed` is by row."""
        rows = self._rows.values
        which = None if allowed is None else np.flatnonzero(allowed[rows])
        sifted = count * SIFTED
        if (len(rows) if which is None else len(which)) > sifted:
            nearest = np.argpartition(self._apart(asked, which), sifted)[:sifted]
            which = nearest if which is None else which[nearest]
        values = self._values.values if which is None else self._values.values[which]
        rows = rows if which is None else rows[which]
        cosines = values.astype(np.float32) @ (asked / _ONE)
        if len(rows) > count:
            best = np.argpartition(-cosines, count)[:count]
            return rows[best], cosines[best]
        return rows, cosines

    def _apart(self, asked: Array, which: Array | None) -> Array:
        """Return in how many signs vectors differ from the one that is asked for."""
        apart = np.zeros(len(self._rows.values) if which is None else len(which), np.uint16)
        for column, word in zip(self._signs, _signs(asked[None, :])[0], strict=True):
            words = column.values if which is None else column.values[which]
            apart += np.bitwise_count(words ^ word)
        return apart


def stored_vector(values: Array) -> bytes:
    """Return a vector as it is kept: 16-bit floats, little-endian."""
    return values.astype(np.float16).tobytes()


def _signs(vectors: Array) -> Array:
    bits = np.packbits(vectors > 0, axis=1)
    words = np.zeros((len(bits), -(-bits.shape[1] * 8 // WORD)), np.uint64)
    words.view(np.uint8)[:, : bits.shape[1]] = bits
    return words
