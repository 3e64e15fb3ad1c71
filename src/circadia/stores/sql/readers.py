"""Read blocks: each sees one state of the database, on a connection from a small pool."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Final, TypeVar

from sqlalchemy import Connection, Table

from circadia.errors import StorageUnavailable
from circadia.stores.base import NotASingleRead
from circadia.stores.sql.link import Link, OpeningStatements
from circadia.stores.sql.short_reads import SingleRead
from circadia.stores.sql.statement import Statement

T = TypeVar("T")

WAIT_SECONDS: Final = 30.0
"""Longest wait for a free connection."""


class ReaderPool:
    """Lends connections, the last used first, since its caches are warm."""

    def __init__(self, connect: Callable[[], Link], openings: OpeningStatements, *, size: int) -> None:
        self.openings = openings
        self._connect = connect
        self._size = size
        self._free = asyncio.Semaphore(size)
        self._idle: list[Link] = []
        self._closed = False

    async def borrow(self) -> Link:
        """Return a connection. Raises StorageUnavailable if none becomes free in time."""
        if self._closed:
            raise StorageUnavailable("the store is closed")
        if self._free.locked():
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._free.acquire()
            except TimeoutError as error:
                raise StorageUnavailable("all connections for reading are busy", retry_after_seconds=1.0) from error
        else:
            await self._free.acquire()
        return self._idle.pop() if self._idle else self._connect()

    def give_back(self, link: Link) -> None:
        self._idle.append(link)
        self._free.release()

    async def close(self) -> None:
        """Lend no more connections, wait for those on loan, and close all."""
        if self._closed:
            return
        self._closed = True
        for _ in range(self._size):
            await self._free.acquire()
        for link in self._idle:
            await link.drop()


class ReadBlock:
    """One read block: an async context manager that runs work in a transaction."""

    def __init__(self, readers: ReaderPool) -> None:
        self._readers = readers
        self._link: Link | None = None
        self._begun = False
        self._failed = False

    def queue_write(self, statement: Statement, row: Sequence[object], *, key: object = None) -> None:
        """Raise RuntimeError: a read block cannot write."""
        raise RuntimeError("a read block writes nothing")

    async def run(self, work: Callable[[Connection], T], *, of: Collection[Table] | None = None) -> T:
        """Run work in the block's transaction."""
        opens = not self._begun
        self._begun = True
        return await self._run_work(work, self._readers.openings.read if opens else (), opens=opens)

    async def _run_work(self, work: Callable[[Connection], T], first: Sequence[str], *, opens: bool) -> T:
        if self._link is None:
            raise RuntimeError("the read block has ended")
        try:
            return await self._link.run(work, first=first, opens=opens)
        except Exception:
            self._failed = True
            raise

    async def __aenter__(self) -> "ReadBlock":
        self._link = await self._readers.borrow()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        try:
            if self._failed:
                await asyncio.shield(asyncio.ensure_future(link.drop()))
            elif self._begun:
                link.roll_back()
        finally:
            self._readers.give_back(link)


class SingleReadBlock(ReadBlock):
    """A read block of one statement, which needs no transaction."""

    _has_run = False

    async def run(self, work: Callable[[Connection], T], *, of: Collection[Table] | None = None) -> T:
        """Run one `SingleRead`. Raises NotASingleRead for other work, or a second call."""
        if self._has_run or not issubclass(type(work), SingleRead):
            raise NotASingleRead
        self._has_run = True
        return await self._run_work(work, (), opens=True)
