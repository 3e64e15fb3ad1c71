"""Request bodies: read within a limit, and spooled to disk while a large one is held (GATE-46)."""

import asyncio
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from starlette.types import Receive, Scope

from circadia.errors import InvalidRequest, LimitReached, StorageUnavailable, TooLarge
from circadia.settings import LimitsSettings

BODY_SECONDS: Final = 300.0
"""Maximum time for a body to arrive: 32 MiB at 1 Mbit/s."""


T = TypeVar("T")
LARGE_BYTES: Final = 128 * 2**10
"""Larger bodies are parsed in a thread: the smallest messages that fit into this take 20 ms."""
_READER: Final = ThreadPoolExecutor(1, "large-bodies")
"""One thread for all: several would compete with the event loop for the interpreter lock."""


class CallerGone(Exception): ...


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Read the whole body.

    Raises:
        TooLarge: it has more than `limit` bytes; nothing is kept.
        InvalidRequest: bad content-length, or it arrived too slowly.
        CallerGone: the caller disconnected.
    """
    for name, value in scope["headers"]:
        if name == b"content-length":
            if not value.isdigit():
                raise InvalidRequest(f"content-length {value!r} is not a number")
            if int(value) > limit:
                raise TooLarge(f"the body has {int(value)} bytes; the limit is {limit}")
    task = asyncio.current_task()
    assert task is not None
    is_late = False

    def expire() -> None:
        nonlocal is_late
        is_late = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(BODY_SECONDS, expire)  # asyncio.timeout costs ten times as much
    try:
        return await _read_chunks(receive, limit)
    except asyncio.CancelledError:
        if not is_late:
            raise
        task.uncancel()
        raise InvalidRequest(f"the body did not arrive within {BODY_SECONDS:g} s") from None
    finally:
        timer.cancel()


async def run_off_loop(body: bytes, work: Callable[[], T]) -> T:
    """Return the result of `work`, run in a thread if the body is large."""
    if len(body) <= LARGE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_READER, work)


async def _read_chunks(receive: Receive, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"the body has more than {limit} bytes")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class BodyRef:
    """Hands a body on without a second reference to it.

    Functions that wait for a held call keep their arguments alive. Passing this in place of the bytes lets a body that
    was spooled to disk leave the memory.
    """

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def take(self) -> bytes:
        body, self._body = self._body, b""
        return body


class SpooledBody:
    __slots__ = ("body", "path", "size")

    def __init__(self, body: bytes) -> None:
        self.body: bytes | None = body
        self.path: str | None = None
        self.size = len(body)


class BodySpool:
    """Holds bodies in memory up to a limit, then in private files of the data folder."""

    def __init__(self, folder: Path, limits: LimitsSettings) -> None:
        self._folder = folder
        self._limits = limits
        self.in_memory = 0
        self.on_disk = 0

    async def spool(self, body_ref: BodyRef) -> SpooledBody:
        """Take over a body.

        Raises:
            LimitReached: memory and disk limits are used up.
            StorageUnavailable: the disk cannot take it.
        """
        spooled = SpooledBody(body_ref.take())
        small = spooled.size <= self._limits.spill_bytes
        if small and self.in_memory + spooled.size <= self._limits.max_held_bytes:
            self.in_memory += spooled.size
            return spooled
        if self.on_disk + spooled.size > self._limits.max_spilled_bytes:
            raise LimitReached("held calls fill the space for bodies; try again later", retry_after_seconds=30)
        body, spooled.body = spooled.body or b"", None
        self.on_disk += spooled.size
        writing = asyncio.ensure_future(asyncio.to_thread(self._spill, body))
        del body
        try:
            spooled.path = await asyncio.shield(writing)
        except OSError as error:
            self.on_disk -= spooled.size
            raise StorageUnavailable(
                f"cannot keep the body on disk: {error.strerror}; make room for the data folder", retry_after_seconds=30
            ) from error
        except asyncio.CancelledError:  # the thread goes on and writes a file without an owner
            writing.add_done_callback(lambda done: self._discard(done, spooled.size))
            raise
        return spooled

    async def take(self, spooled: SpooledBody) -> bytes:
        """Return the body and forget it. Raises StorageUnavailable if its file cannot be read."""
        body, path = spooled.body, spooled.path
        try:
            if body is None and path is not None:
                body = await asyncio.to_thread(Path(path).read_bytes)
        except OSError as error:
            raise StorageUnavailable(f"cannot read the held body back: {error.strerror}") from error
        finally:
            self.drop(spooled)
        return body or b""

    def drop(self, spooled: SpooledBody) -> None:
        """Forget a body; calling it again has no effect."""
        if spooled.path is not None:
            Path(spooled.path).unlink(missing_ok=True)
            self.on_disk -= spooled.size
        elif spooled.body is not None:
            self.in_memory -= spooled.size
        spooled.body = spooled.path = None

    def _discard(self, writing: asyncio.Future[str], size: int) -> None:
        self.on_disk -= size
        if not writing.cancelled() and writing.exception() is None:
            Path(writing.result()).unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete the files of an earlier process, whose held calls ended with it."""
        for left in self._folder.glob("held-*"):
            left.unlink(missing_ok=True)

    def _spill(self, body: bytes) -> str:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix="held-", dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(body)
        except BaseException:
            Path(path).unlink(missing_ok=True)
            raise
        return path
