"""Caches with a bound on the number of their entries, or on the total weight of their values."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """A dict in order of writing; beyond `most` entries, it drops the oldest.

    Reading an entry does not refresh it: call `move_to_end` for that.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class Lru(Generic[K, V]):
    """Weighted values; beyond `most` in total, it drops the least recently used ones, but never the last value.

    It keeps the total, so that the cost of an operation does not grow with the number of values.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0
        """Total of all values."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return a value; this does not count as a use."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Store a value as the most recently used one and replace any value of the same key."""
        self.pop(key)
        self._entries[key] = (value, weight)
        self.weight += weight
        while self.weight > self._most and len(self._entries) > 1:
            self.weight -= self._entries.popitem(last=False)[1][1]

    def update_weight(self, key: K, value: V, weight: int) -> None:
        """Update the weight of a value, unless it is no longer there."""
        if self.get(key) is value:
            self.put(key, value, weight)

    def clear(self) -> None:
        self._entries.clear()
        self.weight = 0

    def pop(self, key: K) -> V | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self.weight -= entry[1]
        return entry[0]
