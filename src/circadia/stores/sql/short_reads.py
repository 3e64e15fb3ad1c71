"""Work that is done sooner than a thread could be told of it."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")

FEW: Final = 100
"""Rows."""


class ShortRead(Generic[T]):
    """Work in a read block that reads a few rows by their keys: SQLite does it in the event loop."""

    __slots__ = ("_work",)

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self._work: Final = work

    def __call__(self, connection: Connection) -> T:
        """Do it."""
        return self._work(connection)


class SingleRead(ShortRead[T]):
    """Such work that is one statement, and so sees one state of the database without a transaction."""

    __slots__ = ()
