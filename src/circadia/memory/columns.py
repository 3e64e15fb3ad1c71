"""Arrays that grow."""

from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]

_FIRST: Final = 64
_GROWTH: Final = 1.5
"""By how much a full array grows; a row is copied twice on average."""


class Column:
    """Values of one type, or rows of `width` values each; appending is cheap, `values` is a view and costs nothing."""

    def __init__(self, kind: DTypeLike, width: int | None = None) -> None:
        shape = (_FIRST,) if width is None else (_FIRST, width)
        self._held: Array = np.zeros(shape, kind)
        self._count = 0

    @property
    def values(self) -> Array:
        """Return what there is, to read and to write in place; valid until the next `extend`."""
        return self._held[: self._count]

    def extend(self, values: Array) -> None:
        """Append."""
        needed = self._count + len(values)
        if needed > len(self._held):
            room = max(needed, int(len(self._held) * _GROWTH))
            held = np.zeros((room, *self._held.shape[1:]), self._held.dtype)
            held[: self._count] = self.values
            self._held = held
        self._held[self._count : needed] = values
        self._count = needed


def ranked(scores: Array, count: int) -> Array:
    """Return where the best of the scores above 0 stand, so many at most, in order; of equal ones the last."""
    least = np.partition(scores, -count)[-count] if 0 < count < len(scores) else 0.0
    found = np.flatnonzero(scores >= least if least > 0 else scores > 0)[::-1]
    return found[np.argsort(-scores[found], kind="stable")[:count]]


def highest(scores: Array, depth: int) -> Array:
    """Return the best rows with a score, so many at most."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > depth:
        rows = rows[np.argpartition(-scores[rows], depth)[:depth]]
    return rows
