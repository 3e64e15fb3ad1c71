"""A connection to the database, and the interface of all blocks."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from sqlalchemy import Connection, Table

from circadia.errors import CircadiaError
from circadia.stores.locks import LockKey
from circadia.stores.sql.statement import Statement

T = TypeVar("T")
Work = Callable[[Connection], T]
Tables = Collection[Table] | None
Single = Literal["read", "write"] | None
Row = Sequence[object]


class Link(Protocol):
    """One connection. Its work runs in order, and to its end even if the caller is cancelled.

    It connects on first use, and again after `drop`. Errors are those of `driver_errors`.
    """

    async def run(
        self, work: Work[T], *, first: Sequence[str] = (), opens: bool = False, short: bool | None = None
    ) -> T:
        """Send the statements `first`, then do `work`, in one trip. See `Runner.run` for `short`.

        With `opens` the first statement opens a transaction; without it, a transaction must be open. With `opens` and
        no statement, the work is a read that needs no transaction.

        Raises:
            StorageUnavailable: the database does not answer, or the transaction is gone.
            Conflict: a constraint rejects the row.
            InvalidRequest: the database cannot store a value.
        """
        ...

    def roll_back(self) -> None:
        """Roll back the open transaction before the next work, without waiting."""
        ...

    async def drop(self) -> None: ...


class WritingLink(Link, Protocol):
    """A writing connection. Its commits do not wait for the disk."""

    async def sync(self) -> None:
        """Wait until all earlier commits are on disk; the connection stays usable meanwhile.

        Raises:
            StorageUnavailable: they may not be on disk.
        """
        ...

    def check(self) -> None:
        """Raise StorageUnavailable if no sync can succeed before a restart."""
        ...


class Runner(Protocol):
    """Runs work in a transaction, for the noun classes. Each call of `run` is one trip."""

    async def run(self, work: Work[T], *, of: Tables = None, short: bool | None = None, single: Single = None) -> T:
        """Run work after the queued writes; with `of`, the only tables it touches, writes to other tables may wait.

        `short` says where it runs on SQLite: work that reads a few rows by key in the event loop, and work that may
        touch many rows in the connection's thread. By default, reads run in the thread and the work of write blocks in
        the loop: that goes by key, and takes less time than the way to a thread and back.

        `single` is work of one statement. A read of one sees one state without a transaction. A write of one needs none
        in a block that holds no key and has done nothing else.
        """
        ...

    async def hold(self, *keys: LockKey) -> bool:
        """Hold these keys until the end of a write block; a read block holds none.

        Return whether a key was taken after the block had read something: read again what it guards.

        Raises:
            StorageUnavailable: another block holds a key for too long.
        """
        ...

    def queue_write(
        self, statement: Statement[Any], row: Row, *, key: object = None, or_raise: CircadiaError | None = None
    ) -> None:
        """Queue a write for the next `run` or the end of the block, in one trip with all queued writes.

        Its errors are raised there, and `or_raise` if a checked statement changes nothing. Writes of the same statement
        keep their order; of unchecked ones with the same `key` only the last is done. A statement that changes rows
        needs keys, one per row. A second statement on the same table takes a trip of its own.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class OpeningStatements:
    """Statements that open a transaction in a dialect."""

    write: Sequence[str]
    read: Sequence[str]
    """From here on the reader sees one state."""


def do_nothing(connection: Connection) -> None:
    """Do nothing, for a trip that has only control statements."""
