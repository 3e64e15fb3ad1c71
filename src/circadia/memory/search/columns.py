"""Arrays that grow."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Array = NDArray[Any]

ARRAY_BYTES: Final = 112
_GROWTH: Final = 1.25
"""Factor by which a full array grows; a row is copied four times on average."""


class Column:
    """Values of one type, or rows of `width` values; appending is cheap, and `values` is a view."""

    __slots__ = ("_count", "_held")

    def __init__(self, kind: DTypeLike, width: int | None = None) -> None:
        self._held: Array = np.zeros((0,) if width is None else (0, width), kind)
        self._count = 0

    @property
    def values(self) -> Array:
        """Return the values, readable and writable in place, until their number changes."""
        return self._held[: self._count]

    @property
    def nbytes(self) -> int:
        return ARRAY_BYTES + self._held.nbytes

    def extend(self, values: Array) -> None:
        needed = self._count + len(values)
        if needed > len(self._held):
            held = np.zeros((_grown_capacity(needed, len(self._held)), *self._held.shape[1:]), self._held.dtype)
            held[: self._count] = self.values
            self._held = held
        self._held[self._count : needed] = values
        self._count = needed

    def remove(self, places: Array) -> None:
        """Remove the values at these places; the last values move into the gaps."""
        left = self._count - len(places)
        last = np.ones(len(places), np.bool_)
        last[places[places >= left] - left] = False
        self._held[places[places < left]] = self._held[left : self._count][last]
        self._count = left


class Layout:
    """The columns of a table; tables with the same columns share one layout."""

    def __init__(self, kinds: Mapping[str, DTypeLike]) -> None:
        self.kinds: Final[dict[np.dtype[Any], int]] = {}
        """Number of columns of each type."""
        self.places: Final[dict[str, tuple[np.dtype[Any], int]]] = {}
        """Type, and index among the columns of this type, by name."""
        for name, dtype in kinds.items():
            kind = np.dtype(dtype)
            self.places[name] = (kind, self.kinds.setdefault(kind, 0))
            self.kinds[kind] += 1


class Columns:
    """Named, contiguous columns of one length. Columns of one type share an array, which saves small ones."""

    __slots__ = ("_count", "_held", "_layout")

    def __init__(self, layout: "Layout") -> None:
        self._layout = layout
        self._held = {kind: np.zeros((many, 0), kind) for kind, many in layout.kinds.items()}
        self._count = 0

    def __getitem__(self, name: str) -> Array:
        """Return a column, readable and writable in place, until the length changes."""
        kind, at = self._layout.places[name]
        return self._held[kind][at, : self._count]

    @property
    def nbytes(self) -> int:
        return sum(ARRAY_BYTES + held.nbytes for held in self._held.values())

    def extend(self, values: Mapping[str, ArrayLike], count: int) -> None:
        needed = self._count + count
        for kind, held in self._held.items():
            if needed > held.shape[1]:
                self._held[kind] = np.zeros((len(held), _grown_capacity(needed, held.shape[1])), kind)
                self._held[kind][:, : self._count] = held[:, : self._count]
        for name, some in values.items():
            kind, at = self._layout.places[name]
            self._held[kind][at, self._count : needed] = some
        self._count = needed

    def remove(self, places: Array) -> None:
        """Remove the values at these places; the others keep their order."""
        gaps = places if len(places) > 1 else int(places[0])
        self._held = {kind: np.delete(held[:, : self._count], gaps, axis=1) for kind, held in self._held.items()}
        self._count -= len(places)


def _grown_capacity(needed: int, before: int) -> int:
    return max(needed, int(before * _GROWTH))


def places_of(asked: Array, values: Array) -> Array:
    """Return the places of these values, at least one, among others."""
    asked = asked.astype(values.dtype)
    return np.flatnonzero(values == asked[0] if len(asked) == 1 else np.isin(values, asked))


def rank_best(scores: Array, count: int) -> Array:
    """Return the places of up to `count` scores above 0, best first; of equal ones the last first."""
    least = np.partition(scores, -count)[-count] if 0 < count < len(scores) else 0.0
    places = np.flatnonzero(scores >= least if least > 0 else scores > 0)[::-1]
    return places[np.argsort(-scores[places], kind="stable")[:count]]


def highest_rows(scores: Array, depth: int) -> Array:
    """Return up to `depth` rows with the highest scores above 0."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > depth:
        rows = rows[np.argpartition(-scores[rows], depth)[:depth]]
    return rows
