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
