"""The writer: runs blocks one at a time, commits them in groups and syncs them together.

Waiting for the disk costs far more than the work before it. So consecutive blocks share a commit, each on a savepoint
(except the first, since a rollback of the transaction then loses nothing else). A commit does not wait for the disk:
the next block runs at once, and a block returns when a sync that began after its commit has ended. Commits during one
sync share the next. That one waits for the blocks of callers that the last sync released, if they come back at once and
all the work takes no longer than a sync: else two halves of the callers would wait for each other's syncs in turns.

    turn -> block -> turn -> block -> COMMIT -> turn -> block -> turn -> block -> COMMIT -> turn -> …
                                        `-> sync -> callbacks, both return          `-> sync -> …

Later blocks see a commit at once; work that builds on it never reaches the disk before it.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, TypeVar

from circadia.errors import CircadiaError, StorageUnavailable
from circadia.stores.locks import LockKey
from circadia.stores.sql.link import OpeningStatements, Single, Work, WritingLink, do_nothing
from circadia.stores.sql.write_block import BlockWriter, WriteBlock, build_write_failure

T = TypeVar("T")

GROUP_BLOCKS: Final = 4
"""Blocks worth a commit, while others wait, their work takes longer than a sync, and no sync is running."""
FULL_BLOCKS: Final = 128
"""Maximum number of blocks in a group while the disk is busy."""
FULL_SECONDS: Final = 0.02
"""Age at which a group is closed, so that its first blocks do not wait for long."""

_SAVE: Final = "SAVEPOINT block"
_RELEASE: Final = "RELEASE SAVEPOINT block"
_UNDO: Final = "ROLLBACK TO SAVEPOINT block"


class _Group:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.blocks: list[GroupedBlock] = []
        """Blocks that succeeded."""
        self.began = loop.time()
        self.open = False
        """Whether the transaction has begun."""
        self.saved = False
        """Whether a savepoint is set."""


class GroupCommitWriter(BlockWriter):
    """Gives the turn to one block after another in order of arrival, and makes them durable."""

    commits_in_order = True

    def __init__(self, link: WritingLink, openings: OpeningStatements) -> None:
        super().__init__()
        self.link = link
        self.openings = openings
        self.group: _Group | None = None
        self.owner: asyncio.Task[Any] | None = None
        self._taken = False
        self._queue: deque[asyncio.Future[None]] = deque()
        self._committed: list[GroupedBlock] = []
        """Committed blocks without a started sync, in commit order."""
        self._syncing = False
        self._sync_seconds = 0.0
        """Duration of the last sync."""
        self._block_seconds = 0.0
        """Average duration of a block in the last commit."""

    def begin(self, keys: Sequence[LockKey]) -> "GroupedBlock":
        return GroupedBlock(self)

    def check(self) -> None:
        self.link.check()

    async def acquire_turn(self) -> _Group:
        """Wait for the turn; return the group to work in.

        Raises:
            StorageUnavailable: the store is closed.
            RuntimeError: the caller's task already has a block, and would wait for itself.
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
                self.release_turn()  # the turn had already arrived
            raise

    def release_turn(self) -> None:
        """Pass the turn to the next block or to the commit."""
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
        """Return whether this work is shorter than a sync: then a common sync is faster than two in turn."""
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
        if self._has_waiters() and not self._is_due(group):  # callers that one sync released come back together
            self.group = group
            self._start_next()
            return
        failure: StorageUnavailable | None = StorageUnavailable("the server stopped during the commit")
        try:
            await self.link.run(do_nothing, first=("COMMIT",))
            failure = None
            self._block_seconds = (asyncio.get_running_loop().time() - group.began) / len(group.blocks)
        except CircadiaError as error:
            failure = build_write_failure("the commit failed", error)
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
            failure: StorageUnavailable | None = StorageUnavailable("the server stopped before the commit was on disk")
            try:
                await self.link.sync()
                failure = None
                for block in blocks:
                    block.run_commit_callbacks()
            except CircadiaError as error:
                failure = build_write_failure("the commit may not be on disk", error)
                self.record_failure(failure.message)
            finally:
                _finish_blocks(blocks, failure)
            self._sync_seconds = loop.time() - began
            if self._committed and await self._should_wait_for_blocks(len(blocks)):
                # The commit of their group begins the sync, or this timer does if that takes longer.
                loop.call_later(self._sync_seconds, self._begin_sync)
                break
        self._syncing = False

    async def _should_wait_for_blocks(self, blocks: int) -> bool:
        """Return whether the released callers come back at once and all the waiting work fits in a sync."""
        await asyncio.sleep(0)
        return self._taken and self._fits_in_sync(blocks + len(self._committed))

    async def undo(self, block: "GroupedBlock") -> None:
        """Undo the block and pass on the turn."""
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
            _finish_blocks(group.blocks, build_write_failure("the transaction was lost before its commit", error))
            await self.link.drop()
        finally:
            self.release_turn()

    async def close(self) -> None:
        """Refuse new blocks, let the waiting ones end, and close the connection."""
        self._closed = True
        while self._taken or self._tasks:
            if self._taken:
                await self._wait_in_queue()
                self.release_turn()
            if self._tasks:
                await asyncio.wait(self._tasks)
        await self.link.drop()


def _finish_blocks(blocks: Sequence["GroupedBlock"], failure: StorageUnavailable | None) -> None:
    """Let the blocks return: they are durable, or have failed."""
    for block in blocks:
        if failure is not None:
            block.run_rollback_callbacks()
        if not block.settled.done():  # its caller was cancelled
            block.settled.set_result(failure)


class GroupedBlock(WriteBlock):
    """One write block in a group."""

    def __init__(self, writer: GroupCommitWriter) -> None:
        super().__init__()
        self._writer = writer
        self._failure: Exception | None = None
        self.begun = False
        """Whether anything was sent."""
        self.group: _Group
        self.settled: asyncio.Future[StorageUnavailable | None]
        """Resolved when the block is durable or has failed: none, or the failure."""

    async def hold(self, *keys: LockKey) -> bool:
        return False  # it is the only block that runs

    async def _run(self, work: Work[T], *, short: bool | None = None, single: Single = None) -> T:
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
            return await self._writer.link.run(work, first=first, opens=opens, short=short)
        except Exception as error:
            self._failure = error
            if isinstance(error, StorageUnavailable):
                self._writer.record_failure(error.message)
            raise

    async def __aenter__(self) -> "GroupedBlock":
        self.group = await self._writer.acquire_turn()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if error is None and self._failure is None and self._batches:
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
        if not self.group.open:  # no block of this transaction sent anything
            self.run_commit_callbacks()
            self._writer.release_turn()
            return
        self.settled = asyncio.get_running_loop().create_future()
        self.group.blocks.append(self)
        del self.group  # else a reference cycle keeps everything that the callbacks hold until garbage collection
        self._writer.release_turn()
        failure = await self.settled
        if failure is not None:
            raise StorageUnavailable(failure.message, retry_after_seconds=failure.retry_after_seconds) from failure
