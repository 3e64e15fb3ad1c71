"""The writer of a database that locks rows: each block is a transaction on a connection of its own.

    keys: wait here for other blocks of this process
        -> connection -> BEGIN, locks -> work … -> COMMIT -> callbacks

The first step keeps the blocks of this process apart, and takes no connection: so those that wait for one busy agent do
not occupy all of them. A block that has only read, and holds no key yet, gives its connection back while it waits. The
database's locks keep all processes apart. A key taken later is waited for here, too: of a process that stands still,
one connection at most has or awaits a key in the database, which ends idle transactions after 2 s.

A block that holds banks only gives them back before its commit is on the disk, and waits for the disk afterwards: else
a busy bank would take one turn for each wait (8 writers into one bank on a disk whose sync takes 3 ms more: 0.16 times
the bare commits, `python -m benchmarks remember`). The log keeps the order: what builds on a commit is never on the
disk before it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Final, TypeVar

from sqlalchemy import text

from circadia.errors import CircadiaError, StorageUnavailable
from circadia.stores.locks import LockKey, LockRank
from circadia.stores.sql.driver_errors import BUSY, is_contention
from circadia.stores.sql.link import Link, OpeningStatements, Single, Work, do_nothing
from circadia.stores.sql.link_pool import LinkPool
from circadia.stores.sql.write_block import BlockWriter, WriteBlock, build_write_failure

T = TypeVar("T")

_logger = logging.getLogger(__name__)

LOCK_SECONDS: Final = 10
"""Longest wait for a lock."""
LATE_LOCK_MILLISECONDS: Final = 250
"""The same out of order. Shorter than PostgreSQL's `deadlock_timeout` of 1 s: two such blocks fail one by one."""
STANDSTILL_SECONDS: Final = 2
"""Longest time for which a process that stands still in a transaction holds up others."""
_QUEUE_SECONDS: Final = 30.0
"""Longest wait without a connection for other blocks of this process."""
_SIGN_OF_LIFE_SECONDS: Final = 1.0
"""Time between two trips of a transaction that waits for another block of this process, so that it is not ended."""
# A block that has only read waits for a standby too, since it may answer with a row that is not there yet: PostgreSQL
# lets only a commit wait that has written something.
_COMMIT_OF_READS: Final = (
    "SELECT pg_logical_emit_message(true, 'circadia', '') WHERE pg_current_xact_id_if_assigned() IS NULL", "COMMIT",
)  # fmt: skip
# The first commit is visible at once and gives the keys back; the second waits until both are on the disk.
_COMMIT_BEFORE_DISK: Final = (
    "SET LOCAL synchronous_commit = off", "COMMIT", "BEGIN", "SET LOCAL synchronous_commit = on",
    "SELECT pg_logical_emit_message(true, 'circadia', '')", "COMMIT",
)  # fmt: skip
_HAS_ONLY_READ: Final = text("SELECT pg_current_xact_id_if_assigned() IS NULL")
# Between the messages that prepare a statement and those that run it, it is not idle for PostgreSQL.
_END_STUCK: Final = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = user "
    "AND application_name = 'circadia' AND state = 'active' AND wait_event = 'ClientRead' "
    "AND state_change < clock_timestamp() - :seconds * interval '1 second'"
).bindparams(seconds=STANDSTILL_SECONDS)


def _build_lock_statement(keys: Iterable[LockKey]) -> str:
    numbers = ",".join(map(str, sorted({key.number for key in keys})))
    return f"SELECT pg_advisory_xact_lock(number) FROM unnest('{{{numbers}}}'::bigint[]) AS number"  # noqa: S608 - numbers


class _KeyQueues:
    """Waiting lines of this process, one for each key in use."""

    def __init__(self) -> None:
        self._locks: dict[int, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def _wait_for(self, number: int) -> AsyncGenerator[None]:
        lock, users = self._locks.get(number, (asyncio.Lock(), 0))
        self._locks[number] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[number]
            if users == 1:
                del self._locks[number]
            else:
                self._locks[number] = lock, users - 1

    def are_free(self, keys: Collection[LockKey]) -> bool:
        return not any(key.number in self._locks for key in keys)

    async def enter(self, keys: Collection[LockKey], until: AsyncExitStack) -> None:
        for number in sorted({key.number for key in keys}):
            await until.enter_async_context(self._wait_for(number))


class PooledWriter(BlockWriter):
    """Opens write blocks, as many at a time as there are connections."""

    commits_in_order = False

    def __init__(self, pool: LinkPool, openings: OpeningStatements) -> None:
        super().__init__()
        self.pool = pool
        self.openings = openings
        self.queues = _KeyQueues()
        self.late_locks = 0
        """Number of keys that blocks took out of order."""
        self._owners: set[asyncio.Task[Any]] = set()
        """Tasks that are in a write block, or wait for one."""
        self._idle = asyncio.Event()
        """Set when the last block has ended after `close`."""
        self._rescue: asyncio.Task[None] | None = None

    def begin(self, keys: Sequence[LockKey]) -> "PooledBlock":
        return PooledBlock(self, keys)

    def enter(self) -> asyncio.Task[Any]:
        """Count a block of the present task, and return that.

        Raises:
            StorageUnavailable: the store is closed. RuntimeError: the task has a block already.
        """
        task = asyncio.current_task()
        if self._closed:
            raise StorageUnavailable("the store is closed")
        if task is None or task in self._owners:
            raise RuntimeError("a write block must not open another: it could wait for itself")
        self._owners.add(task)
        return task

    def leave(self, task: asyncio.Task[Any]) -> None:
        self._owners.discard(task)
        if not self._owners:
            self._idle.set()

    def check(self) -> None:
        """Do nothing: a new connection recovers from earlier failures."""

    def end_stuck_transactions(self) -> None:
        """End transactions of processes that stand still in a statement, where no time-out of PostgreSQL counts."""
        if self._rescue is None or self._rescue.done():
            self._rescue = self.spawn(self._end_stuck_transactions())

    async def _end_stuck_transactions(self) -> None:
        link = self.pool.connect()  # all others may be waiting
        try:
            ended = await link.run(lambda connection: connection.execute(_END_STUCK).rowcount, opens=True)
            if ended:
                _logger.warning("a process stood still in a statement; %d of its transactions are ended", ended)
        except CircadiaError as error:
            _logger.debug("transactions that stand still are not ended: %s", error)
        finally:
            await link.drop()

    async def close(self) -> None:
        self._closed = True
        while self._owners or self._tasks:
            self._idle.clear()
            if self._owners:
                await self._idle.wait()
            if self._tasks:
                await asyncio.wait(self._tasks)
        await self.pool.close()


class PooledBlock(WriteBlock):
    """One write block on a connection of its own."""

    def __init__(self, writer: PooledWriter, keys: Sequence[LockKey]) -> None:
        super().__init__()
        self._writer = writer
        self._held = set(keys)
        self._places = AsyncExitStack()
        """Places in the queues of this process."""
        self._link: Link | None = None
        """Borrowed at the first work."""
        self._task: asyncio.Task[Any]
        self._begun = False
        self._failure: Exception | None = None
        self._is_in_doubt = False
        """Whether the commit failed, so that it may have happened."""

    async def hold(self, *keys: LockKey) -> bool:
        missing = {key for key in keys if key not in self._held}
        if not missing:
            return False
        in_order = not self._held or max(key.number for key in self._held) < min(key.number for key in missing)
        has_read = self._begun
        if has_read and not await self._may_begin_again(missing):
            await self._queue_for(missing, LOCK_SECONDS if in_order else LATE_LOCK_MILLISECONDS / 1000)
            await self._run(do_nothing, first=self._build_late_locks(missing, in_order=in_order))
        else:
            await self._queue_without_connection(missing, in_order=in_order)
        self._held |= missing
        return has_read

    async def _may_begin_again(self, keys: Collection[LockKey]) -> bool:
        """Return whether the block must wait for these keys, and would lose nothing with its transaction."""
        if self._held or self._writer.queues.are_free(keys):
            return False
        return bool(await self._run(lambda connection: connection.execute(_HAS_ONLY_READ).scalar_one()))

    async def _queue_without_connection(self, keys: Collection[LockKey], *, in_order: bool) -> None:
        """Wait for other blocks of this process; the transaction begins afterwards, with the locks."""
        if self._link is not None:
            link, self._link, self._begun = self._link, None, False
            link.roll_back()
            self._writer.pool.give_back(link)
        if not in_order and not self._writer.queues.are_free(keys):
            await self._places.aclose()  # who holds later keys while it waits for an earlier one could wait for itself
            keys = {*keys, *self._held}
        await self._enter_queues(keys)

    async def _enter_queues(self, keys: Collection[LockKey]) -> None:
        try:
            async with asyncio.timeout(None if self._writer.queues.are_free(keys) else _QUEUE_SECONDS):
                await self._writer.queues.enter(keys, self._places)
        except TimeoutError as error:
            raise StorageUnavailable(BUSY, retry_after_seconds=1.0) from error

    async def _queue_for(self, keys: Collection[LockKey], seconds: float) -> None:
        """Wait for other blocks of this process that hold the keys, and keep the transaction alive meanwhile."""
        if self._writer.queues.are_free(keys):
            await self._writer.queues.enter(keys, self._places)
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        queueing = loop.create_task(self._writer.queues.enter(keys, self._places))
        try:
            while not queueing.done():
                left = until - loop.time()
                if left <= 0:
                    raise StorageUnavailable(BUSY, retry_after_seconds=1.0)
                await asyncio.wait((queueing,), timeout=min(left, _SIGN_OF_LIFE_SECONDS))
                if not queueing.done():
                    await self._run(do_nothing, first=("SELECT 1",))
        finally:
            queueing.cancel()

    def _build_late_locks(self, keys: Collection[LockKey], *, in_order: bool) -> Sequence[str]:
        """Return the statements that lock further keys; out of order they wait briefly."""
        lock = _build_lock_statement(keys)
        if in_order:
            return (lock,)
        self._writer.late_locks += 1
        _logger.debug("locks out of order: %r after %r", sorted(keys), sorted(self._held))
        return (
            f"SET LOCAL lock_timeout = {LATE_LOCK_MILLISECONDS}", lock, f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'",
        )  # fmt: skip

    async def _run(
        self, work: Work[T], *, short: bool | None = None, single: Single = None, first: Sequence[str] = ()
    ) -> T:
        if self._failure is not None:
            raise StorageUnavailable("the transaction has failed already") from self._failure
        if self._link is None:
            self._link = await self._writer.pool.borrow()
        opens = not self._begun
        if opens and not self._held and single == "write":
            first = ()
        elif opens:
            self._begun = True
            first = self._writer.openings.write
            if self._held:
                first = (*first, _build_lock_statement(self._held))
        rescue = asyncio.get_running_loop().call_later(STANDSTILL_SECONDS, self._writer.end_stuck_transactions)
        try:
            return await self._link.run(work, first=first, opens=opens, short=short)
        except Exception as error:
            self._failure = error
            if isinstance(error, StorageUnavailable) and not is_contention(error):
                self._writer.record_failure(error.message)
            raise
        finally:
            rescue.cancel()

    async def __aenter__(self) -> "PooledBlock":
        self._task = self._writer.enter()
        try:
            await self._enter_queues(self._held)
        except BaseException:
            await self._places.aclose()
            self._writer.leave(self._task)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self._writer.leave(self._task)  # a cancelled task may clean up in a block of its own before this one ends
        commits = error is None and self._failure is None
        failure = await asyncio.shield(self._writer.spawn(self._finish(commits=commits)))
        if failure is not None:
            raise failure
        if error is None and not commits:
            raise StorageUnavailable("the transaction has failed") from self._failure

    async def _finish(self, *, commits: bool) -> CircadiaError | None:
        """Commit or roll back, give the connection back and run the callbacks; return the failure of a commit."""
        failure: CircadiaError | None = StorageUnavailable("the server stopped during the commit")
        async with self._places:
            try:
                failure = await self._commit() if commits else None
            finally:
                try:
                    if not commits or failure is not None:
                        self.run_rollback_callbacks()
                        await self._undo()
                finally:
                    if self._link is not None:
                        self._writer.pool.give_back(self._link)
            if commits and failure is None:  # before the next block with these keys begins, unless they are banks
                self.run_commit_callbacks()
        return failure

    async def _commit(self) -> CircadiaError | None:
        try:
            if self._batches:
                await self._run(self._with_queued_writes(do_nothing))
        except CircadiaError as error:
            return error
        if self._link is None or not self._begun:  # it sent nothing
            return None
        commit = ("COMMIT",) if self._has_written else _COMMIT_OF_READS
        if self._held and all(key.rank is LockRank.BANK for key in self._held):
            commit = _COMMIT_BEFORE_DISK
            await self._places.aclose()  # the next block waits in the database, until this commit has arrived there
        try:
            await self._link.run(do_nothing, first=commit)
        except CircadiaError as error:
            self._is_in_doubt = True
            failure = build_write_failure("the commit may not be on disk", error)
            self._writer.record_failure(failure.message)
            return failure
        return None

    async def _undo(self) -> None:
        if self._link is None:
            return
        if self._is_in_doubt:
            await self._link.drop()
        elif self._begun:
            self._link.roll_back()
