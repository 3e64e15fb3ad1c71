"""Read blocks: each sees one state of the database, on a connection from a pool."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

from circadia.errors import CircadiaError, ReadTooSlow, StorageUnavailable
from circadia.stores.locks import LockKey
from circadia.stores.sql.driver_errors import is_interrupted
from circadia.stores.sql.link import Link, OpeningStatements, Row, Single, Tables, Work
from circadia.stores.sql.link_pool import LinkPool
from circadia.stores.sql.statement import Statement

T = TypeVar("T")


class NotASingleRead(Exception):
    """A `Store.begin_single_read` block ran more than one statement."""


class ReadBlock:
    """One read block: an async context manager that runs work in a transaction."""

    def __init__(self, readers: LinkPool, openings: OpeningStatements) -> None:
        self._readers = readers
        self._openings = openings
        self._link: Link | None = None
        self._begun = False
        self._failed = False

    async def hold(self, *keys: LockKey) -> bool:
        return False  # it sees one state from its beginning to its end

    def queue_write(
        self, statement: Statement[Any], row: Row, *, key: object = None, or_raise: CircadiaError | None = None
    ) -> None:
        """Raise RuntimeError: a read block cannot write."""
        raise RuntimeError("a read block writes nothing")

    async def run(self, work: Work[T], *, of: Tables = None, short: bool | None = None, single: Single = None) -> T:
        """Run work in the block's transaction."""
        opens = not self._begun
        self._begun = True
        return await self._run_work(work, self._openings.read if opens else (), opens=opens, short=short)

    async def _run_work(self, work: Work[T], first: Sequence[str], *, opens: bool, short: bool | None) -> T:
        if self._link is None:
            raise RuntimeError("the read block has ended")
        try:
            return await self._link.run(work, first=first, opens=opens, short=short)
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


class LimitedReadBlock(ReadBlock):
    """A read block on connections that end a statement which takes too long."""

    async def _run_work(self, work: Work[T], first: Sequence[str], *, opens: bool, short: bool | None) -> T:
        try:
            return await super()._run_work(work, first, opens=opens, short=short)
        except StorageUnavailable as error:
            if not is_interrupted(error):
                raise
            raise ReadTooSlow(
                "reading this takes too long; ask for less: a shorter time (`since`, `until`), one session or agent,"
                " or a smaller `limit`"
            ) from error


class SingleReadBlock(ReadBlock):
    """A read block of one statement, which needs no transaction."""

    _has_run = False

    async def run(self, work: Work[T], *, of: Tables = None, short: bool | None = None, single: Single = None) -> T:
        """Run one `single` read. Raises NotASingleRead for other work, or a second call."""
        if self._has_run or single != "read":
            raise NotASingleRead
        self._has_run = True
        return await self._run_work(work, (), opens=True, short=short)
