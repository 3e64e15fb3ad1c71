"""Entries that wait to be written, and the files that keep them if the process must end first (CLU-31).

A backlog numbers its entries from 1 on. Each batch stores its last number in the transaction that writes it, in the row
of the backlog's name. So a batch whose commit broke off, and a file that is read again, are never written twice.
"""

import hashlib
import json
import logging
import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from circadia.errors import Conflict
from circadia.ids import IdSource
from circadia.stores.base import Tx

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

    def fill_batch(self, most: int) -> None:
        if not self.batch:
            most = 1 if self._suspects else most
            self.batch = [self.entries.popleft() for _ in range(min(most, len(self.entries)))]
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
        """Yield the files, oldest first, with their backlogs; set a damaged file aside."""
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
