"""Background writes, in ordered batches.

Acknowledged work goes through the store's own transactions instead. A failed batch is kept and retried. Above a
bound the oldest entries are dropped and counted, so that a dead database never fills the memory.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from circadia.clock import Clock
from circadia.errors import StorageUnavailable

T = TypeVar("T")

_logger = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 0.05
"""Time that entries gather before a write, and so the usual maximum lag of a reader."""
RETRY_SECONDS: Final = 1.0


class WriteBehindQueue(ABC, Generic[T]):
    """A bounded queue in front of the store."""

    def __init__(
        self, clock: Clock, *, what: str, bound: int, batch: int, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        """`what` names the entries in the log; `bound` limits the queue, `batch` one write."""
        self._clock = clock
        self._what = what
        self._bound = bound
        self._batch = batch
        self._entries: deque[T] = deque()
        self._some = asyncio.Event()
        self._write_lock = asyncio.Lock()  # protects the order of the entries: one batch after the other
        self._pause_seconds = pause_seconds
        self._pause: asyncio.Future[None] | None = None
        self._stopping = False
        self._batch_now: list[T] = []
        self._begun = False
        """Whether the batch is being written, not only waiting; set by a `write` that allows `take_out` until then."""
        self.dropped = 0
        self.taken = 0
        """Entries ever queued."""

    def put(self, entry: T) -> None:
        if len(self._entries) >= self._bound:
            self._entries.popleft()
            self.dropped += 1
        self._entries.append(entry)
        self.taken += 1
        self._some.set()

    def take_out(self, wanted: Callable[[T], bool]) -> list[T]:
        """Remove and return matching entries whose write has not begun, in order. The caller must write them."""
        batch = [] if self._begun else self._batch_now
        taken_entries = [entry for entry in (*batch, *self._entries) if wanted(entry)]
        if taken_entries:
            batch[:] = [entry for entry in batch if not wanted(entry)]
            self._entries = deque(entry for entry in self._entries if not wanted(entry))
        return taken_entries

    def put_back(self, entries: Sequence[T]) -> None:
        self._entries.extendleft(reversed(entries))
        self._some.set()

    @property
    def waiting(self) -> int:
        return len(self._entries)

    @property
    def finished_count(self) -> int:
        """Return the number of entries that were written, taken out or dropped."""
        return self.taken - len(self._entries) - len(self._batch_now)

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def stop(self) -> None:
        """Let `run` end after the current write; cancelling it could leave a batch both written and queued."""
        self._stopping = True
        self._some.set()
        if self._pause is not None:
            self._pause.cancel()

    async def run(self) -> None:
        while not self._stopping:
            await self._some.wait()
            await self._gather()
            try:
                await self.flush()
            except StorageUnavailable as error:
                _logger.warning("cannot write %d %s yet: %s", len(self._entries), self._what, error)
                await self._clock.sleep(RETRY_SECONDS)

    async def _gather(self) -> None:
        self._pause = asyncio.ensure_future(self._clock.sleep(0 if self._stopping else self._pause_seconds))
        try:
            await asyncio.wait((self._pause,))
        finally:
            self._pause.cancel()

    async def flush(self) -> None:
        """Write all entries queued now, while later ones gather. Raises StorageUnavailable and keeps the entries."""
        async with self._write_lock:
            due = len(self._entries)
            while due > 0 and self._entries:
                batch = [self._entries.popleft() for _ in range(min(due, len(self._entries), self._batch))]
                due -= len(batch)
                self._batch_now, self._begun = batch, False
                try:
                    await self.write(batch)
                except StorageUnavailable:
                    self._entries.extendleft(reversed(batch))
                    raise
                except Exception:  # an entry that the database rejects must not cost the others or the queue
                    _logger.exception("%d %s cannot be written together", len(batch), self._what)
                    self._begun = True
                    await self._write_one_by_one(batch)
                finally:
                    self._batch_now = []
            if not self._entries:
                self._some.clear()

    async def last_flush(self) -> None:
        """Write the rest once; an unavailable database is not waited for."""
        try:
            await self.flush()
        except StorageUnavailable as error:
            _logger.warning("%d %s are lost: %s", self.waiting, self._what, error)

    async def _write_one_by_one(self, batch: Sequence[T]) -> None:
        for index, entry in enumerate(batch):
            try:
                await self.write([entry])
            except StorageUnavailable:
                self._entries.extendleft(reversed(batch[index:]))
                raise
            except Exception:
                _logger.exception("one of the %s cannot be written and is dropped", self._what)
                self.dropped += 1

    @abstractmethod
    async def write(self, batch: Sequence[T]) -> None:
        """Write entries in one transaction. Raises StorageUnavailable to have them retried later."""
