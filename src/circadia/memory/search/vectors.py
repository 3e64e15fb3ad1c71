"""The vectors of one embedder in one bank; the nearest are found by signs first, then exactly by values."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Final

import numpy as np

from circadia.memory.search.columns import Array, Column, places_of

TextVectors = Callable[[str], tuple[Array, float]]
"""Returns a text's unit vector and its length before normalization; 0 if the text is unknown."""
WORD: Final = 64
"""Bits in a word of signs."""
SIFT_FACTOR: Final = 6
"""Vectors compared by value for each requested one; more of them miss fewer of the nearest."""
SAMPLE: Final = 4_096
"""Vectors sampled to choose the limit of differing signs."""
SAMPLED: Final = 256
"""Vectors whose cosines show how far those of an embedder lie apart."""
MIN_SHARE: Final = 1 / 32
"""Least share of vectors that remain after half of the signs."""
WIDER: Final = 16
"""Vectors that then remain at least, as a multiple of those compared by value."""
ALL: Final = 2_000
"""Up to this number, all vectors are compared by value."""
UNKNOWN: Final = 10
"""Rows of which nothing is known when the mean cosine is taken: of one text alone it tells nothing."""
_ONE: Final = 32_767
"""The value 1.0 in 16-bit integers, which are as exact as the stored floats, converted much faster, and half as large
as 32-bit floats."""


class Vectors:
    def __init__(self, dimensions: int) -> None:
        self.dimensions: Final = dimensions
        # One column for each word of signs: comparing columns is much faster than comparing short rows.
        self._signs: list[Column] = []
        """Empty while all vectors are compared by value."""
        self._values = Column(np.int16, dimensions)
        self._rows = Column(np.int32)
        self._sum: Array = np.zeros(dimensions, np.int64)
        """Of all values, exactly: what was removed leaves nothing."""

    def extend(self, rows: Sequence[int], vectors: Sequence[bytes]) -> None:
        """Append vectors of 16-bit floats for these rows of the index; malformed ones are skipped."""
        fits = [len(vector) == 2 * self.dimensions for vector in vectors]
        values = np.frombuffer(b"".join(compress(vectors, fits)), np.float16).reshape(-1, self.dimensions)
        finite = np.isfinite(values).all(axis=1)
        values = values[finite]
        new = np.rint(np.clip(values.astype(np.float32), -1, 1) * _ONE).astype(np.int16)
        self._values.extend(new)
        self._sum += new.sum(axis=0, dtype=np.int64)
        self._rows.extend(np.fromiter(compress(rows, fits), np.int32)[finite])
        if not self._signs and len(self._rows.values) > ALL:
            self._signs = [Column(np.uint64) for _ in range(-(-self.dimensions // WORD))]
            values = self._values.values
        for column, words in zip(self._signs, _pack_signs(values).T if self._signs else (), strict=True):
            column.extend(words)

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in (*self._signs, self._values, self._rows))

    def remove(self, rows: Array) -> None:
        places = places_of(rows, self._rows.values)
        self._sum -= self._values.values[places].sum(axis=0, dtype=np.int64)
        for column in (*self._signs, self._values, self._rows):
            column.remove(places)

    def typical_cosine(self, asked: Array) -> float:
        """Return the mean cosine of a question with all texts; with few texts it is nearer to 0.

        How wide the cosines of an embedder are shows in its own rows: no constant is needed for one.
        """
        return float(self._sum @ asked) / _ONE / (len(self._rows.values) + UNKNOWN)

    def cosine_deviation(self, asked: Array) -> float:
        """Return the standard deviation of a question's cosines with all texts, or with `SAMPLED` of very many."""
        values = self._values.values
        sample = values[:: -(-len(values) // SAMPLED) or 1]
        return float(np.vecdot(sample.astype(np.float32), asked / _ONE).std()) if len(sample) else 0.0

    def nearest(self, asked: Array, count: int, allowed: Array | None) -> tuple[Array, Array]:
        """Return the rows of the `count` nearest vectors, unordered, and their cosines; `allowed` is by row."""
        rows = self._rows.values
        which = None if allowed is None else np.flatnonzero(allowed[rows])
        sifted = count * SIFT_FACTOR
        if (len(rows) if which is None else len(which)) > max(sifted, ALL):
            nearest = self._sift_by_signs(_pack_signs(asked[None, :])[0], which, sifted)
            which = nearest if which is None else which[nearest]
        values = self._values.values if which is None else self._values.values.take(which, axis=0)
        rows = rows if which is None else rows.take(which)
        # Not `@`, which starts threads: they take 10 ms to synchronise when other processes use the cores.
        cosines: Array = np.vecdot(values.astype(np.float32), asked / _ONE)
        if len(rows) > count:
            best = np.argpartition(-cosines, count)[:count]
            return rows[best], cosines[best]
        return rows, cosines

    def _sift_by_signs(self, asked: Array, which: Array | None, count: int) -> Array:
        """Return the places of about `count` vectors with the fewest differing signs; half of the signs sift first."""
        half = -(-len(asked) // 2)
        distances = self._count_differing_signs(asked, range(half), which)
        sample, left = distances[:: len(distances) // SAMPLE or 1], max(MIN_SHARE, WIDER * count / len(distances))
        place = min(int(left * len(sample)), len(sample) - 1)
        near = np.flatnonzero(distances <= np.partition(sample, place)[place])
        distances = distances[near] + self._count_differing_signs(
            asked, range(half, len(asked)), near if which is None else which[near]
        )
        last = min(count, len(near)) - 1
        most = np.partition(distances, last)[last]
        nearer, as_near = np.flatnonzero(distances < most), np.flatnonzero(distances == most)[:count]
        return near[np.concatenate((nearer, as_near))]  # many equal ones must not displace nearer ones

    def _count_differing_signs(self, asked: Array, words: Iterable[int], which: Array | None) -> Array:
        """Return for each vector how many of the signs in these words differ."""
        distances = np.zeros(len(self._rows.values) if which is None else len(which), np.uint16)
        for at in words:
            held = self._signs[at].values
            distances += np.bitwise_count((held if which is None else held[which]) ^ asked[at])
        return distances


def stored_vector(values: Array) -> bytes:
    """Return a vector in its stored form: 16-bit floats, little-endian."""
    return values.astype(np.float16).tobytes()


def split_vector(stored: bytes, embedder: str, passages: int) -> Sequence[bytes]:
    """Return the vectors of a text's passages, by the dimensions in the embedder's name if it has them."""
    dimensions = embedder.rpartition("/")[2]
    size = 2 * int(dimensions) if dimensions.isdecimal() else len(stored) // passages
    return [stored[at : at + size] for at in range(0, min(len(stored), size * passages), size or 1)]


def _pack_signs(vectors: Array) -> Array:
    bits = np.packbits(vectors > 0, axis=1)
    words = np.zeros((len(bits), -(-bits.shape[1] * 8 // WORD)), np.uint64)
    words.view(np.uint8)[:, : bits.shape[1]] = bits
    return words
