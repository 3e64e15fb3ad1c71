"""One connection to the database, and what every kind of block asks of it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Table

from circadia.stores.sql.statement import Statement

T = TypeVar("T")


class Link(Protocol):
    """One connection. What it is given runs in order, and to its end even if the caller is cancelled.

    It connects when it is first used, and anew after `drop`. Failures come out as `driver_errors` tells.
    """

    async def run(self, work: Callable[[Connection], T], *, first: Sequence[str] = (), opens: bool = False) -> T:
        """Send the statements `first`, then do `work`, in one trip.

        With `opens` the first statement opens a transaction; without, one must be open. With `opens` and no statement
        the work is one that reads, and needs no transaction.

        Raises:
            StorageUnavailable: The database does not answer, or the transaction is gone.
            Conflict: A constraint does not allow the row.
            InvalidRequest: The database cannot hold a value.
        """
        ...

    def roll_back(self) -> None:
        """Roll back what is open, before what is given next; do not wait for it."""
        ...

    async def drop(self) -> None:
        """Close the connection."""
        ...


class WritingLink(Link, Protocol):
    """A connection that writes. Its commits do not wait for the disk."""

    async def sync(self) -> None:
        """Return when all that it had committed before the call is on the disk; others may use it meanwhile.

        Raises:
            StorageUnavailable: It may not be on the disk.
        """
        ...

    def check(self) -> None:
        """Raise StorageUnavailable if no sync can end well until a new start."""
        ...


class Runner(Protocol):
    """Does work in a transaction; the nouns stand on it. Work that is one function is one trip."""

    async def run(self, work: Callable[[Connection], T], *, of: Collection[Table] | None = None) -> T:
        """Do work, after what is kept; with `of`, the only tables that it touches, what is kept for others may wait."""
        ...

    def queue_write(self, statement: Statement, row: Sequence[object], *, key: object = None) -> None:
        """Run the statement for the row with the next `run` or at the end, in one trip with all that is kept.

        Its answer is not awaited, so its errors come from there. What is kept for the same statement is done in order;
        with a `key` only the last row of that key is. A statement that changes rows needs keys, one for each row.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class OpeningStatements:
    """The statements that open a transaction in a dialect."""

    write: Sequence[str]
    """For a writer: from here on no other transaction writes, in any process."""
    read: Sequence[str]
    """For a reader: from here on it sees one state."""


def do_nothing(connection: Connection) -> None:
    """Work that does nothing, for a trip that has only statements of control."""
