"""The interface of stores, and what services need of the SQL behind it: they import `stores.sql` from here alone."""

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from circadia.stores.locks import LockKey
from circadia.stores.sql.answer_frames import RecentScope
from circadia.stores.sql.answers import AnswerChanges, AnswerEntry
from circadia.stores.sql.episodes import Episodes
from circadia.stores.sql.notes import Notes
from circadia.stores.sql.readers import NotASingleRead
from circadia.stores.sql.tx import Tx
from circadia.stores.sql.wakes import ALL

__all__ = ["ALL", "AnswerChanges", "AnswerEntry", "Episodes", "NotASingleRead", "Notes", "RecentScope", "Store", "Tx"]


class Store(Protocol):
    """Opens transactions on one database.

    Two write blocks that touch the same agent, bank, thread … run one after the other: a block holds the keys of what
    it changes or reads (see `locks`). Its `async with` returns only when the commit is durable and the `after_commit`
    callbacks have run. A block that raises is rolled back alone. `begin_read` opens a consistent, read-only view, which
    can be ahead of the disk by commits that no caller knows of yet. Both raise StorageUnavailable when the database
    does not answer or its disk is full.
    """

    @property
    def commits_in_order(self) -> bool:
        """Whether a block that commits later has greater numbers in its rows."""
        ...

    def begin_write(self, *keys: LockKey) -> AbstractAsyncContextManager[Tx]:
        """Open a write block that holds these keys from its begin: name them if the block needs more than one."""
        ...

    def begin_read(self) -> AbstractAsyncContextManager[Tx]: ...

    def begin_single_read(self) -> AbstractAsyncContextManager[Tx]:
        """Open a read that may need one statement only, which saves beginning and ending a transaction.

        A second statement raises NotASingleRead; repeat the block with `begin_read`. A bank's row is always available.
        """
        ...

    @property
    def for_operators(self) -> "Store":
        """The same store for what people read: its read blocks have connections of their own.

        A statement that takes too long raises ReadTooSlow.
        """
        ...

    async def read_clock(self) -> datetime | None:
        """Return the database's clock, or None if it has none of its own. Raises StorageUnavailable."""
        ...

    async def ping(self) -> None:
        """Check that the database answers and, as far as known, accepts writes. Raises StorageUnavailable."""
        ...

    async def save_touches(self) -> None:
        """Store when sessions were last touched. At once with each change, all writers would wait for that row."""
        ...

    async def close(self) -> None: ...
