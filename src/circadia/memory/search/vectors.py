"""Vectors of one embedder in one bank: the nearest, exactly, by their signs first and then by their values."""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

import numpy as np

from circadia.memory.search.columns import Array, Column, places_of

WORD: Final = 64
"""Bits in a word of signs."""
SIFT_FACTOR: Final = 6
"""How many times more vectors are compared by value than are asked for; with more, fewer of the nearest are missed."""
SAMPLE: Final = 4_096
"""Vectors that tell how many signs are few."""
LEAST_SHARE: Final = 1 / 32
"""Share that is left at least when half of the signs are compared."""
WIDER: Final = 16
"""How many times more than are compared by value are left then at least."""
ALL: Final = 2_000
"""So few vectors are all compared by value."""
_ONE: Final = 32_767
"""Stands for 1: values are kept as whole numbers of 16 bits, as exact as the floats that they come as, converted much
faster, and half as large as floats of 32 bits."""


class Vectors:
    """Unit vectors, each of a row of the index."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions: Final = dimensions
        # A column for each word of signs: whole columns are compared much faster than rows of a few words.
        self._signs: list[Column] = []
        """None while there are so few vectors that all are compared by value."""
        self._values = Column(np.int16, dimensions)
        self._rows = Column(np.int32)

    def extend(self, rows: Sequence[int], vectors: Sequence[bytes]) -> None:
        """Append vectors, 16-bit floats, of these rows of the index; those that are not sound are left out."""
        fits = [len(vector) == 2 * self.dimensions for vector in vectors]
        values = np.frombuffer(b"".join(compress(vectors, fits)), np.float16).reshape(-1, self.dimensions)
        finite = np.isfinite(values).all(axis=1)
        values = values[finite]
        self._values.extend(np.rint(np.clip(values.astype(np.float32), -1, 1) * _ONE).astype(np.int16))
        self._rows.extend(np.fromiter(compress(rows, fits), np.int32)[finite])
        if not self._signs and len(self._rows.values) > ALL:
            self._signs = [Column(np.uint64) for _ in range(-(-self.dimensions // WORD))]
            values = self._values.values
        for column, words in zip(self._signs, _pack_signs(values).T if self._signs else (), strict=True):
            column.extend(words)

    @property
    def nbytes(self) -> int:
        """Return the memory that they take, in bytes."""
        return sum(column.nbytes for column in (*self._signs, self._values, self._rows))

    def remove(self, rows: Array) -> None:
        """Remove the vectors of these rows of the index."""
        places = places_of(rows, self._rows.values)
        for column in (*self._signs, self._values, self._rows):
            column.remove(places)

    def nearest(self, asked: Array, count: int, allowed: Array | None) -> tuple[Array, Array]:
        """Return the rows of the `count` nearest vectors, in no order, and their cosines; `allowed` is by row."""
        rows = self._rows.values
        which = None if allowed is None else np.flatnonzero(allowed[rows])
        sifted = count * SIFT_FACTOR
        if (len(rows) if which is None else len(which)) > max(sifted, ALL):
            nearest = self._sift_by_signs(_pack_signs(asked[None, :])[0], which, sifted)
            which = nearest if which is None else which[nearest]
        values = self._values.values if which is None else self._values.values.take(which, axis=0)
        rows = rows if which is None else rows.take(which)
        # Not `@`: for so many it starts threads, which take 10 ms to agree where another process has the cores.
        cosines: Array = np.vecdot(values.astype(np.float32), asked / _ONE)
        if len(rows) > count:
            best = np.argpartition(-cosines, count)[:count]
            return rows[best], cosines[best]
        return rows, cosines

    def _sift_by_signs(self, asked: Array, which: Array | None, count: int) -> Array:
        """Return where, among all or `which`, those stand that differ in the fewest signs from these, about `count`.

        Half of the signs tell which are worth a look at the others; what is near by all of them is so by half of them.
        """
        half = -(-len(asked) // 2)
        apart = self._count_differing_signs(asked, range(half), which)
        sample, left = apart[:: len(apart) // SAMPLE or 1], max(LEAST_SHARE, WIDER * count / len(apart))
        place = min(int(left * len(sample)), len(sample) - 1)
        near = np.flatnonzero(apart <= np.partition(sample, place)[place])
        apart = apart[near] + self._count_differing_signs(
            asked, range(half, len(asked)), near if which is None else which[near]
        )
        last = min(count, len(near)) - 1
        most = np.partition(apart, last)[last]
        nearer, as_near = np.flatnonzero(apart < most), np.flatnonzero(apart == most)[:count]
        return near[np.concatenate((nearer, as_near))]  # many say the same: no nearer one may fall behind them

    def _count_differing_signs(self, asked: Array, words: Iterable[int], which: Array | None) -> Array:
        """Return in how many of the signs in these words vectors differ from the one that is asked for."""
        apart = np.zeros(len(self._rows.values) if which is None else len(which), np.uint16)
        for at in words:
            held = self._signs[at].values
            apart += np.bitwise_count((held if which is None else held[which]) ^ asked[at])
        return apart


def stored_vector(values: Array) -> bytes:
    """Return a vector as it is kept: 16-bit floats, little-endian."""
    return values.astype(np.float16).tobytes()


def _pack_signs(vectors: Array) -> Array:
    bits = np.packbits(vectors > 0, axis=1)
    words = np.zeros((len(bits), -(-bits.shape[1] * 8 // WORD)), np.uint64)
    words.view(np.uint8)[:, : bits.shape[1]] = bits
    return words
