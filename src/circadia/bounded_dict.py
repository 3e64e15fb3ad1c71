"""A mapping of the entries that were written last, so many at most: what need not be asked for again."""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """Entries in the order in which they were written; with one more than `most`, the one written longest ago goes.

    To read an entry does not make it later; whoever wants that calls `move_to_end`.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
