"""What write blocks have in common: queued writes, callbacks and locks."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, TypeVar

from sqlalchemy import Connection

from circadia.errors import CircadiaError, StorageUnavailable
from circadia.stores.locks import LockKey
from circadia.stores.sql.link import Row, Single, Tables, Work
from circadia.stores.sql.statement import Statement

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class _QueuedRow(NamedTuple):
    values: Sequence[object]
    or_raise: CircadiaError | None


_Batch = dict[Statement[Any], dict[object, _QueuedRow]]


class WriteBlock(ABC):
    """One write block: an async context manager that runs work in a transaction."""

    def __init__(self) -> None:
        self._acts: list[Callable[[], None]] = []
        self._acts_of_failure: list[Callable[[], None]] = []
        self._batches: list[_Batch] = []
        """Queued writes. Those of a batch see no rows of each other, so it has one statement for each table."""
        self._ended = False
        self._has_written = False
        """Whether queued writes were sent."""

    async def run(self, work: Work[T], *, of: Tables = None, short: bool | None = None, single: Single = None) -> T:
        """Do work in the block's transaction. After an error the block can only be left, which undoes it."""
        if self._ended:
            raise RuntimeError("the write block has ended")
        if self._batches and (of is None or any(write.table in of for batch in self._batches for write in batch)):
            return await self._run(self._with_queued_writes(work), short=short)
        return await self._run(work, short=short, single=single)

    @abstractmethod
    async def hold(self, *keys: LockKey) -> bool:
        """See `Runner.hold`."""

    def queue_write(
        self, statement: Statement[Any], row: Row, *, key: object = None, or_raise: CircadiaError | None = None
    ) -> None:
        if self._ended:
            raise RuntimeError("the write block has ended")
        if statement.is_checked != (or_raise is not None):
            raise RuntimeError("a checked statement needs an error, and no other has one")
        if not self._batches or self._must_wait_for(self._batches[-1], statement, key):
            self._batches.append({})
        rows = self._batches[-1].setdefault(statement, {})
        rows[len(rows) if key is None else key] = _QueuedRow(row, or_raise)

    def _must_wait_for(self, batch: "_Batch", statement: Statement[Any], key: object) -> bool:
        """Return whether a write of the batch must be done before this one."""
        if statement.is_checked and key in batch.get(statement, ()):
            return True
        return statement.table is not None and any(
            other.table is statement.table for other in batch if other is not statement
        )

    @abstractmethod
    async def _run(self, work: Work[T], *, short: bool | None = None, single: Single = None) -> T: ...

    def _with_queued_writes(self, work: Work[T]) -> Callable[[Connection], T]:
        batches, self._batches = self._batches, []
        self._has_written |= bool(batches)

        def run_both(connection: Connection) -> T:
            for batch in batches:
                _run_batch(connection, batch)
            return work(connection)

        return run_both

    def after_commit(self, act: Callable[[], None]) -> None:
        self._acts.append(act)

    def after_rollback(self, act: Callable[[], None]) -> None:
        self._acts_of_failure.append(act)

    def run_commit_callbacks(self) -> None:
        acts, self._acts = self._acts, []
        _run_callbacks(acts)

    def run_rollback_callbacks(self) -> None:
        acts, self._acts_of_failure = self._acts_of_failure, []
        _run_callbacks(acts)

    @abstractmethod
    async def __aenter__(self) -> "WriteBlock": ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class BlockWriter(ABC):
    """Opens write blocks on one database."""

    commits_in_order: ClassVar[bool]
    """Whether a block that commits later has greater numbers in its rows."""

    def __init__(self) -> None:
        self.failure: str | None = None
        """Reason of a failed write, until writes are known to work again."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    @abstractmethod
    def begin(self, keys: Sequence[LockKey]) -> WriteBlock: ...

    @abstractmethod
    def check(self) -> None:
        """Raise StorageUnavailable if no write can succeed before a restart."""

    @abstractmethod
    async def close(self) -> None:
        """Refuse new blocks, let the waiting ones end, and close the connections."""

    def record_failure(self, failure: str) -> None:
        if self.failure is None:
            _logger.warning("nothing can be written: %s", failure)
        self.failure = failure

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work that must end even if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _run_batch(connection: Connection, batch: _Batch) -> None:
    """Send queued writes. Raises the error of the first checked one that changes nothing."""
    writes = {statement: [row.values for row in rows.values()] for statement, rows in batch.items()}
    failures = [row.or_raise for rows in batch.values() for row in rows.values() if row.or_raise is not None]
    for count, failure in zip(Statement.run_batch(connection, writes), failures, strict=True):
        if count == 0:
            raise failure


def build_write_failure(what: str, error: CircadiaError) -> StorageUnavailable:
    failure = StorageUnavailable(f"{what}: {error.message}", retry_after_seconds=_RETRY_SECONDS)
    failure.__cause__ = error
    return failure


def _run_callbacks(acts: Sequence[Callable[[], None]]) -> None:
    """Run callbacks; one that raises is logged and does not stop the others."""
    for act in acts:
        try:
            act()
        except Exception:
            _logger.exception("a callback after a transaction failed")
