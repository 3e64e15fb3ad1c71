"""Where work runs on SQLite, and what it needs: short work in the event loop, long work in the connection's thread."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")

FEW: Final = 100
"""Maximum number of rows in a short read."""


class _ReadWork(Generic[T]):
    __slots__ = ("_work",)

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self._work: Final = work

    def __call__(self, connection: Connection) -> T:
        return self._work(connection)


class SingleRead(_ReadWork[T]):
    """A read of one statement, which sees a consistent state without a transaction."""

    __slots__ = ()


class ShortRead(_ReadWork[T]):
    """Work in a read block that reads a few rows by key: SQLite runs it in the event loop."""

    __slots__ = ()


class LongWork(_ReadWork[T]):
    """Work in a write block that may touch many rows: SQLite runs it in a thread, as it runs all other reads.

    A write block's other work goes by key, and takes less time than the way to a thread and back.
    """

    __slots__ = ()


class ShortSingleRead(ShortRead[T], SingleRead[T]):
    """A short read of one statement."""

    __slots__ = ()
