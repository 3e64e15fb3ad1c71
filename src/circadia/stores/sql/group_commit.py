"""The writer: blocks run one at a time, are committed in groups, and wait for the disk together.

To wait for the disk costs far more than the work before it. So blocks that follow each other share a commit, each on
its own savepoint (the first needs none, since nothing is lost when the transaction is rolled back under it). A commit
does not wait: the next block runs at once, and a block returns when a sync that began after its commit has ended. What
is committed during one sync shares the next. That one waits for the blocks of those whom the last one let go, if they
come back at once and the work of all takes no longer than a sync: else two halves would wait for each other's in turns.

    turn -> block -> turn -> block -> COMMIT -> turn -> block -> turn -> block -> COMMIT -> turn -> …
                                        `-> sync -> acts, both return               `-> sync -> …

What is committed is seen by all blocks from then on, and what was built on it is on the disk no sooner than it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from types import TracebackType
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Table

from circadia.errors import CircadiaError, StorageUnavailable
from circadia.stores.sql.link import OpeningStatements, WritingLink, do_nothing
from circadia.stores.sql.statement import Statement

T = TypeVar("T")

_logger = logging.getLogger(__name__)

GROUP_BLOCKS: Final = 4
"""Blocks that make a commit worth its trips, while others wait whose work takes longer than a sync, and none is on."""
FULL_BLOCKS: Final = 128
"""Blocks in a group at most, while the disk is busy."""
FULL_SECONDS: Final = 0.02
"""Age at which a group takes no further block, so that other processes need not wait for long."""

_RETRY_SECONDS: Final = 1.0
_SAVE: Final = "SAVEPOINT block"
_RELEASE: Final = "RELEASE SAVEPOINT block"
_UNDO: Final = "ROLLBACK TO SAVEPOINT block"


class _Group:
    """Blocks that share a transaction."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.blocks: list[WriteTransaction] = []
        """Those that ended well."""
        self.began = loop.time()
        self.open = False
        """Whether the transaction was begun."""
        self.saved = False
        """Whether a savepoint is set."""


class GroupCommitWriter:
    """Gives the turn to one block after another, first come first served, and makes them durable."""

    def __init__(self, link: WritingLink, openings: OpeningStatements) -> None:
        self.link = link
        self.openings = openings
        self.group: _Group | None = None
        self.owner: asyncio.Task[Any] | None = None
        self._taken = False
        self._queue: deque[asyncio.Future[None]] = deque()
        self._committed: list[WriteTransaction] = []
        """Those that no sync has begun for, in the order of their commits."""
        self._syncing = False
        self._sync_seconds = 0.0
        """What the last sync took."""
        self._block_seconds = 0.0
        """What a block of the last commit took."""
        self.failure: str | None = None
        """Why something could not be written, until it is found that writes pass again."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def acquire_turn(self) -> _Group:
        """Wait for the turn; return the group to work in.

        Raises:
            StorageUnavailable: The store is closed.
            RuntimeError: The caller's task is in a block already, which would wait for itself.
        """
        task = asyncio.current_task()
        if self._closed:
            raise StorageUnavailable("the store is closed")
        if self._taken:
            if self.owner is task:
                raise RuntimeError("a write block must not open another: it would wait for itself")
            await self._wait_in_queue()
        self._taken = True
        self.owner = task
        if self.group is None:
            self.group = _Group(asyncio.get_running_loop())
        return self.group

    async def _wait_in_queue(self) -> None:
        place = asyncio.get_running_loop().create_future()
        self._queue.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release_turn()  # the turn had come already
            raise

    def release_turn(self) -> None:
        """Give up the turn: to the next block, or to the commit."""
        self.owner = None
        group = self.group
        if group is not None and group.blocks and (not self._has_waiters() or self._is_due(group)):
            self.group = None
            self.spawn(self._commit(group))
        else:
            self._start_next()

    def _is_due(self, group: _Group) -> bool:
        blocks, age = len(group.blocks), asyncio.get_running_loop().time() - group.began
        enough = FULL_BLOCKS if self._syncing or self._fits_in_sync(blocks + len(self._queue)) else GROUP_BLOCKS
        return blocks >= enough or age >= FULL_SECONDS

    def _fits_in_sync(self, blocks: int) -> bool:
        """Return whether so many take less than a sync: then one for all of them is sooner than two in turns."""
        return blocks * self._block_seconds < self._sync_seconds

    def _has_waiters(self) -> bool:
        while self._queue and self._queue[0].done():
            self._queue.popleft()  # its caller was cancelled
        return bool(self._queue)

    def _start_next(self) -> None:
        if self._has_waiters():
            self._queue.popleft().set_result(None)
        else:
            self._taken = False
            self._begin_sync()

    async def _commit(self, group: _Group) -> None:
        if self._has_waiters() and not self._is_due(group):  # those whom one sync let go come back together
            self.group = group
            self._start_next()
            return
        failure: StorageUnavailable | None = StorageUnavailable("the server stopped during the commit")
        try:
            await self.link.run(do_nothing, first=("COMMIT",))
            failure = None
            self._block_seconds = (asyncio.get_running_loop().time() - group.began) / len(group.blocks)
        except CircadiaError as error:
            failure = _build_failure("the commit failed", error)
            self.record_failure(failure.message)
            await self.link.drop()
        finally:
            if failure is None:
                self._committed += group.blocks
                self._begin_sync()
            else:
                _finish_blocks(group.blocks, failure)
            self._start_next()

    def _begin_sync(self) -> None:
        if self._committed and not self._syncing:
            self._syncing = True
            self.spawn(self._sync())

    async def _sync(self) -> None:
        loop = asyncio.get_running_loop()
        while self._committed:
            blocks, self._committed = self._committed, []
            began = loop.time()
            failure: StorageUnavailable | None = StorageUnavailable("the server stopped before the disk had it")
            try:
                await self.link.sync()
                failure = None
                for block in blocks:
                    block.run_commit_callbacks()
            except CircadiaError as error:
                failure = _build_failure("it may not be on the disk", error)
                self.record_failure(failure.message)
            finally:
                _finish_blocks(blocks, failure)
            self._sync_seconds = loop.time() - began
            if self._committed and await self._should_wait_for_blocks(len(blocks)):
                # The commit that ends their group begins the sync, or time does, if that takes longer.
                loop.call_later(self._sync_seconds, self._begin_sync)
                break
        self._syncing = False

    async def _should_wait_for_blocks(self, blocks: int) -> bool:
        """Return whether those that were let go come back at once, and the work of all that wait fits in a sync."""
        await asyncio.sleep(0)
        return self._taken and self._fits_in_sync(blocks + len(self._committed))

    def record_failure(self, failure: str) -> None:
        """Keep that something could not be written."""
        if self.failure is None:
            _logger.warning("nothing can be written: %s", failure)
        self.failure = failure

    async def undo(self, block: "WriteTransaction") -> None:
        """Take back what the block did, and pass the turn on."""
        block.run_rollback_callbacks()
        group = block.group
        try:
            if block.begun and group.blocks:
                await self.link.run(do_nothing, first=(_UNDO,))
            elif block.begun:
                self.group = None
                self.link.roll_back()
        except CircadiaError as error:
            self.group = None
            _finish_blocks(group.blocks, _build_failure("the transaction was lost before its commit", error))
            await self.link.drop()
        finally:
            self.release_turn()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start what must end even if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Take no new block, let those that wait end, and close the connection."""
        self._closed = True
        while self._taken or self._tasks:
            if self._taken:
                await self._wait_in_queue()
                self.release_turn()
            await asyncio.gather(*self._tasks)
        await self.link.drop()


def _finish_blocks(blocks: Sequence["WriteTransaction"], failure: StorageUnavailable | None) -> None:
    """Let the blocks return: they are durable, or failed."""
    for block in blocks:
        if failure is not None:
            block.run_rollback_callbacks()
        if not block.settled.done():  # it is when its caller was cancelled
            block.settled.set_result(failure)


def _run_callbacks(acts: Sequence[Callable[[], None]]) -> None:
    """Do what was kept; an act that raises is logged and hinders no other."""
    for act in acts:
        try:
            act()
        except Exception:
            _logger.exception("an act after a transaction failed")


def _build_failure(what: str, error: CircadiaError) -> StorageUnavailable:
    failure = StorageUnavailable(f"{what}: {error.message}", retry_after_seconds=_RETRY_SECONDS)
    failure.__cause__ = error
    return failure


class WriteTransaction:
    """One write block: `async with` it, and run work in it."""

    def __init__(self, writer: GroupCommitWriter) -> None:
        self._writer = writer
        self._acts: list[Callable[[], None]] = []
        self._acts_of_failure: list[Callable[[], None]] = []
        self._kept: dict[Statement, dict[object, Sequence[object]]] = {}
        self._failure: Exception | None = None
        self._ended = False
        self.begun = False
        """Whether something was sent."""
        self.group: _Group
        self.settled: asyncio.Future[StorageUnavailable | None]
        """Set when it is durable: to none, or to why it is not."""

    async def run(self, work: Callable[[Connection], T], *, of: Collection[Table] | None = None) -> T:
        """Do work in the block's transaction. After an error the block can only be left; it is undone then."""
        if self._ended:
            raise RuntimeError("the write block has ended")
        if self._kept and (of is None or any(statement.table in of for statement in self._kept)):
            return await self._run(self._with_queued_writes(work))
        return await self._run(work)

    def queue_write(self, statement: Statement, row: Sequence[object], *, key: object = None) -> None:
        """Keep a write for the next trip, as `Runner.queue_write` tells."""
        if self._ended:
            raise RuntimeError("the write block has ended")
        rows = self._kept.setdefault(statement, {})
        rows[len(rows) if key is None else key] = row

    def _with_queued_writes(self, work: Callable[[Connection], T]) -> Callable[[Connection], T]:
        kept, self._kept = self._kept, {}
        writes = {statement: list(rows.values()) for statement, rows in kept.items()}

        def run_both(connection: Connection) -> T:
            Statement.run_batch(connection, writes)
            return work(connection)

        return run_both

    async def _run(self, work: Callable[[Connection], T]) -> T:
        if self._failure is not None:
            raise StorageUnavailable("the transaction has failed already") from self._failure
        first: list[str] = []
        group = self.group
        opens = not group.open
        if not self.begun:
            self.begun = True
            if opens:
                group.open = True
                first += self._writer.openings.write
            if group.saved:
                first.append(_RELEASE)
            if group.blocks:
                group.saved = True
                first.append(_SAVE)
        try:
            return await self._writer.link.run(work, first=first, opens=opens)
        except Exception as error:
            self._failure = error
            if isinstance(error, StorageUnavailable):
                self._writer.record_failure(error.message)
            raise

    def after_commit(self, act: Callable[[], None]) -> None:
        """Keep `act` for when the block is durable."""
        self._acts.append(act)

    def after_rollback(self, act: Callable[[], None]) -> None:
        """Keep `act` for when the block has failed."""
        self._acts_of_failure.append(act)

    def run_commit_callbacks(self) -> None:
        """Do what was kept for a durable block."""
        acts, self._acts = self._acts, []
        _run_callbacks(acts)

    def run_rollback_callbacks(self) -> None:
        """Do what was kept for a block that has failed."""
        acts, self._acts_of_failure = self._acts_of_failure, []
        _run_callbacks(acts)

    async def __aenter__(self) -> "WriteTransaction":
        self.group = await self._writer.acquire_turn()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if error is None and self._failure is None and self._kept:
            try:
                await self._run(self._with_queued_writes(do_nothing))
            except BaseException:
                await asyncio.shield(self._writer.spawn(self._writer.undo(self)))
                raise
        if error is not None or self._failure is not None:
            await asyncio.shield(self._writer.spawn(self._writer.undo(self)))
            if error is None:
                raise StorageUnavailable("the transaction has failed") from self._failure
            return
        if not self.group.open:  # neither this block nor one before it sent anything
            self.run_commit_callbacks()
            self._writer.release_turn()
            return
        self.settled = asyncio.get_running_loop().create_future()
        self.group.blocks.append(self)
        del self.group  # a ring of each would be left to the collector, with all that the block's acts hold
        self._writer.release_turn()
        failure = await self.settled
        if failure is not None:
            raise StorageUnavailable(failure.message, retry_after_seconds=failure.retry_after_seconds) from failure
