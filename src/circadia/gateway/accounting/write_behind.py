"""Background writes, in ordered batches, and the files that keep the rest if the process must end first (CLU-31).

Acknowledged work goes through the store's own transactions instead. A failed batch is kept and retried. Above a
bound the oldest entries are dropped and counted, so that a dead database never fills the memory. What is left at the
end of the process goes into a file, which the next start writes first.

A backlog numbers its entries from 1 on. Each batch stores its last number in the transaction that writes it, in the row
of the backlog's name. So a batch whose commit broke off, and a file that is read again, are never written twice.
"""

import asyncio
import hashlib
import json
import logging
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from circadia.clock import Clock
from circadia.errors import CircadiaError, Conflict, StorageUnavailable
from circadia.ids import IdSource
from circadia.stores.base import Store, Tx

T = TypeVar("T")

_logger = logging.getLogger(__name__)

NAME_PREFIX: Final = "bkl"


class QueueBacklog(Generic[T]):
    """Entries in order. The first ones are the batch that is being written, if any."""

    def __init__(self, name: str, *, position: int = 0, batch: Iterable[T] = (), entries: Iterable[T] = ()) -> None:
        self.name = name
        self.position = position
        """Number of the last entry that was written or dropped."""
        self.batch = list(batch)
        self.entries = deque(entries)
        self.has_begun = bool(self.batch)
        """Whether a transaction with the batch has begun, so that it may be written already."""
        self.written = Conflict("this batch is written already")
        self._suspects = 0
        """Number of next entries of which the database rejects one: they are written one by one."""

    def __len__(self) -> int:
        return len(self.batch) + len(self.entries)

    def skip_written(self, number: int) -> None:
        """Leave out the entries up to this number."""
        while self and self.position < number:
            if self.batch:
                self.batch.pop(0)
            else:
                self.entries.popleft()
            self.position += 1

    def fill_batch(self, max_entries: int) -> None:
        if not self.batch:
            max_entries = 1 if self._suspects else max_entries
            self.batch = [self.entries.popleft() for _ in range(min(max_entries, len(self.entries)))]
            self.has_begun = False

    async def advance(self, tx: Tx) -> None:
        """Store the number of the batch's last entry with it. Raises `written` by the end of the transaction."""
        self.has_begun = True
        await tx.cursors.advance(self.name, self.position + len(self.batch), or_raise=self.written)

    def finish_batch(self) -> int:
        """Return the number of entries that are done with."""
        done = len(self.batch)
        self.position += done
        self._suspects = max(0, self._suspects - done)
        self.batch = []
        return done

    def split_batch(self) -> None:
        """Write each entry of the batch alone."""
        self._suspects = max(self._suspects, len(self.batch))
        self.entries.extendleft(reversed(self.batch[1:]))
        del self.batch[1:]


class BacklogSpool(Generic[T]):
    """The files of one queue's backlogs in the data folder: one line on the backlog, then one for each entry."""

    def __init__(self, folder: Path, ids: IdSource, queue: str, kinds: Collection[type[Any]]) -> None:
        """`kinds` are the classes of the entries."""
        self._folder = folder
        self._ids = ids
        self._queue = queue
        self._newest = ""
        self._kinds: dict[str, TypeAdapter[Any]] = {kind.__name__: TypeAdapter(kind) for kind in kinds}

    def start_backlog(self) -> QueueBacklog[T]:
        """Return an empty backlog; its name, and so its file, comes after those of earlier ones."""
        name = self._ids.new(NAME_PREFIX)
        while name < self._newest:  # an id of the same millisecond
            name = self._ids.new(NAME_PREFIX)
        self._newest = name
        return QueueBacklog(name)

    def save(self, backlog: QueueBacklog[T], entries: Iterable[T]) -> None:
        """Write a file that survives a crash and that only its owner can read. Raises OSError.

        `entries` stand for those of the backlog, in its order.
        """
        body = b"".join(self._encode(entry) for entry in entries)
        head = {
            "name": backlog.name, "position": backlog.position, "sha256": hashlib.sha256(body).hexdigest(),
            "batch": len(backlog.batch) if backlog.has_begun else 0,
        }  # fmt: skip
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{self._queue}-{backlog.name}.jsonl"
        draft = path.with_suffix(".draft")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(orjson.dumps(head) + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        self._sync_folder()

    def load(self) -> Iterator[tuple[Path, QueueBacklog[T]]]:
        """Yield the files, oldest first, with their backlogs; set a damaged file aside, delete a broken draft."""
        for draft in self._folder.glob(f"{self._queue}-*.draft"):
            draft.unlink()
        for path in sorted(self._folder.glob(f"{self._queue}-*.jsonl")):
            try:
                yield path, self._read(path.read_bytes())
            except (OSError, ValueError, KeyError, ValidationError) as error:
                aside = path.with_suffix(".damaged")
                _logger.error("cannot read %s, which is kept as %s: %s", path, aside.name, type(error).__name__)  # noqa: TRY400 - the message may hold texts
                path.rename(aside)

    def remove(self, path: Path) -> None:
        path.unlink()
        self._sync_folder()

    def _encode(self, entry: T) -> bytes:
        name = entry.__class__.__name__
        document = {name: self._kinds[name].dump_python(entry, mode="json")}
        return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def _read(self, content: bytes) -> QueueBacklog[T]:
        first, _, body = content.partition(b"\n")
        head = orjson.loads(first)
        if hashlib.sha256(body).hexdigest() != head["sha256"]:
            raise ValueError("the checksum is wrong")
        entries: list[T] = []
        for line in body.splitlines():
            ((name, document),) = orjson.loads(line).items()
            entries.append(self._kinds[name].validate_python(document))
        batch = head["batch"]
        return QueueBacklog(head["name"], position=head["position"], batch=entries[:batch], entries=entries[batch:])

    def _sync_folder(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


PAUSE_SECONDS: Final = 0.05
"""Time that entries gather before a write, and so the usual maximum lag of a reader."""
RETRY_SECONDS: Final = 1.0
LAST_SECONDS: Final = 3.0
"""Time for the last write at the end of the process, before the rest is spooled."""


class WriteBehindQueue(ABC, Generic[T]):
    """A bounded queue in front of the store."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        spool: BacklogSpool[T],
        *,
        what: str,
        bound: int,
        batch: int,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        """`what` names the entries in the log; `bound` limits the queue, `batch` one write."""
        self._clock = clock
        self._store = store
        self._spool = spool
        self._what = what
        self._bound = bound
        self._batch_size = batch
        self._backlog = spool.start_backlog()
        self._writing = self._backlog
        """The backlog that `write` belongs to: the queue's own, or one of an earlier process."""
        self._some = asyncio.Event()
        self._write_lock = asyncio.Lock()  # protects the order of the entries: one batch after the other
        self._writer: asyncio.Task[Any] | None = None
        """The task that holds the lock."""
        self._pause_seconds = pause_seconds
        self.dropped = 0
        self.taken = 0
        """Entries ever queued."""

    def put(self, entry: T) -> None:
        if len(self._backlog.entries) >= self._bound:
            self._backlog.entries.popleft()
            self.dropped += 1
        self._backlog.entries.append(entry)
        self.taken += 1
        self._some.set()

    def take_out(self, wanted: Callable[[T], bool]) -> list[T]:
        """Remove and return matching entries whose write has not begun, in order. The caller must write them."""
        backlog = self._backlog
        batch = [] if backlog.has_begun else backlog.batch
        taken_entries = [entry for entry in (*batch, *backlog.entries) if wanted(entry)]
        if taken_entries:
            batch[:] = [entry for entry in batch if not wanted(entry)]
            backlog.entries = deque(entry for entry in backlog.entries if not wanted(entry))
        return taken_entries

    def put_back(self, entries: Sequence[T]) -> None:
        self._backlog.entries.extendleft(reversed(entries))
        self._some.set()

    @property
    def waiting(self) -> int:
        return len(self._backlog)

    @property
    def finished_count(self) -> int:
        """Return the number of entries that were written, taken out, spooled or dropped."""
        return self.taken - len(self._backlog)

    async def run(self) -> None:
        """Write what earlier processes have left, then what is queued, until cancelled."""
        while not await self._try(self._recover):
            await self._clock.sleep(RETRY_SECONDS)
        while True:
            await self._some.wait()
            await self._clock.sleep(self._pause_seconds)
            if not await self._try(self.flush):
                await self._clock.sleep(RETRY_SECONDS)

    async def _try(self, work: Callable[[], Any]) -> bool:
        try:
            await work()
        except StorageUnavailable as error:
            _logger.warning("cannot write %d %s yet: %s", len(self._writing), self._what, error)
            return False
        return True

    async def flush(self) -> None:
        """Write all entries queued now, while later ones gather. Raises StorageUnavailable and keeps the entries."""
        async with self._write_lock:
            await self._write_backlog(self._backlog)
            if not self._backlog:
                self._some.clear()

    async def drain(self) -> None:
        """Return once nothing is left, however long the database is away."""
        while self._backlog:
            if not await self._try(self.flush):
                await self._clock.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """Write the rest, or spool it if the database does not take it in time.

        Entries may still be put, and closed again.
        """
        why = "the database does not answer in time"
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.flush()
                with suppress(CircadiaError):
                    await self._remove_cursor(self._backlog)
            return
        except TimeoutError:
            pass
        except StorageUnavailable as error:
            why = error.message
        if self._writer is not None:
            self._writer.cancel()
        async with self._write_lock:
            self._spool_rest(why)

    def _spool_rest(self, why: str) -> None:
        rest, self._backlog = self._backlog, self._spool.start_backlog()
        if not rest:
            return
        try:
            self._spool.save(rest, self.prepare_spool([*rest.batch, *rest.entries]))
        except Exception:
            _logger.exception("%d %s are lost: %s, and they cannot be spooled", len(rest), self._what, why)
            self.dropped += len(rest)
        else:
            _logger.warning("%d %s are spooled for the next start: %s", len(rest), self._what, why)

    def prepare_spool(self, entries: Sequence[T]) -> Sequence[T]:
        """Return the entries as they may lie on the disk, in the same order."""
        return entries

    async def _recover(self) -> None:
        """Write the spooled backlogs of earlier processes."""
        async with self._write_lock:
            for path, backlog in self._spool.load():
                async with self._store.begin_read() as tx:
                    backlog.skip_written(await tx.cursors.get(backlog.name) or 0)
                number = len(backlog)
                await self._write_backlog(backlog)
                self._spool.remove(path)
                await self._remove_cursor(backlog)
                _logger.warning("%d %s of an earlier run are written", number, self._what)

    async def _write_backlog(self, backlog: QueueBacklog[T]) -> None:
        """Write the entries that are there now; the caller holds the lock."""
        self._writing, self._writer = backlog, asyncio.current_task()
        try:
            due = len(backlog)
            while due > 0 and backlog:
                backlog.fill_batch(min(due, self._batch_size))
                due -= await self._write_batch(backlog)
        finally:
            self._writing, self._writer = self._backlog, None

    async def _write_batch(self, backlog: QueueBacklog[T]) -> int:
        """Write a batch; return the number of entries that are done with."""
        try:
            await self.write(backlog.batch)
        except StorageUnavailable:
            raise
        except Exception as error:  # an entry that the database rejects must not cost the others or the queue
            if error is not backlog.written:
                _logger.exception("%d %s cannot be written", len(backlog.batch), self._what)
                if len(backlog.batch) > 1:
                    backlog.split_batch()
                    return 0
                self.dropped += 1
        return backlog.finish_batch()

    async def _remove_cursor(self, backlog: QueueBacklog[T]) -> None:
        async with self._store.begin_write() as tx:
            await tx.cursors.remove(backlog.name)

    async def mark_written(self, tx: Tx) -> None:
        """Store with the batch that it is written. Raises Conflict, which `write` passes on, if it was before."""
        await self._writing.advance(tx)

    @abstractmethod
    async def write(self, batch: Sequence[T]) -> None:
        """Write entries in one transaction, with `mark_written`. Raises StorageUnavailable to have them retried."""
