"""A mapping of what was used last, within a bound on what all of it weighs together."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lru(Generic[K, V]):
    """Values with weights; of more than `most` in all, those that were used longest ago go, but never the last one.

    The sum is kept, so that no use costs more with more values.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0
        """Of all together."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return a value, which does not count as a use."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Write a value as the one that was used last, in place of one of the same key."""
        self.pop(key)
        self._entries[key] = (value, weight)
        self.weight += weight
        while self.weight > self._most and len(self._entries) > 1:
            self.weight -= self._entries.popitem(last=False)[1][1]

    def update_weight(self, key: K, value: V, weight: int) -> None:
        """Write what a value weighs by now; nothing if it is not there any more."""
        if self.get(key) is value:
            self.put(key, value, weight)

    def pop(self, key: K) -> V | None:
        """Take a value out."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self.weight -= entry[1]
        return entry[0]
