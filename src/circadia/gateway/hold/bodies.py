"""Request bodies: on their way within limits (LARGE-07), and of held calls, on disk if they are large (GATE-46)."""

import asyncio
import ctypes
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from starlette.types import Receive, Scope

from circadia.errors import InvalidRequest, LimitReached, StorageUnavailable, TooLarge
from circadia.settings import LimitsSettings

T = TypeVar("T")

BODY_SECONDS: Final = 300.0
"""Maximum time for a body to arrive: 32 MiB at 1 Mbit/s."""
WAIT_SECONDS: Final = 30.0
"""Maximum wait of a new call until bodies before it have left."""
WOKEN_WAIT_SECONDS: Final = 300.0
"""The same for a woken call: it gets keep-alives, and its caller has waited for hours perhaps."""
LARGE_BYTES: Final = 128 * 2**10
"""Larger bodies are parsed in a thread: the smallest messages that fit into this take 20 ms."""
_READER: Final = ThreadPoolExecutor(1, "large-bodies")
"""One thread for all: several would compete with the event loop for the interpreter lock."""
TRIM_BYTES: Final = 32 * 2**20
"""Bytes of large bodies that have left after which freed memory is given back to the system."""
TRIM_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 5.0


class CallerGone(Exception): ...


class BodiesInFlight:
    """Bounds the bytes of all bodies in flight. Calls above the bound wait in order of arrival.

    One body always fits. A small one passes waiting large ones while there is room. A call holds its body, the body
    with memory, and for a moment the text of it: up to three times these bytes.
    """

    def __init__(self, limits: LimitsSettings) -> None:
        self._limit = limits.max_body_bytes_in_flight
        self._waiters: OrderedDict[asyncio.Future[None], int] = OrderedDict()
        self._left_bytes = 0
        """Bytes of large bodies that have left since memory was given back."""
        self.bytes = 0

    def try_take(self, size: int) -> bool:
        """Count a body if there is room for it now."""
        if self.bytes and (self.bytes + size > self._limit or (self._waiters and size > LARGE_BYTES)):
            return False
        self.bytes += size
        return True

    async def take(self, size: int, seconds: float) -> None:
        """Count a body once there is room. Raises LimitReached if there is none within so many seconds."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = size
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except BaseException as error:
            was_granted = self._waiters.pop(waiter, None) is None and not waiter.cancelled()
            if was_granted:  # at the same time: pass it on
                self.give_back(size)
            else:
                self._grant()
            if not isinstance(error, TimeoutError):
                raise
            raise LimitReached(
                f"{self.bytes} bytes of other calls are on their way already; send it again later",
                retry_after_seconds=_RETRY_SECONDS,
            ) from error

    def give_back(self, size: int) -> None:
        """Uncount a body that has left."""
        self.bytes -= size
        if size > LARGE_BYTES:
            before, self._left_bytes = self._left_bytes, self._left_bytes + size
            if before < TRIM_BYTES <= self._left_bytes:
                asyncio.get_running_loop().call_later(TRIM_SECONDS, self._trim)
        if self._waiters:
            self._grant()

    def _grant(self) -> None:
        while self._waiters:
            waiter, size = next(iter(self._waiters.items()))
            is_gone = waiter.cancelled()  # and has not run yet
            if not is_gone and self.bytes and self.bytes + size > self._limit:
                return
            del self._waiters[waiter]
            if not is_gone:
                self.bytes += size
                waiter.set_result(None)

    def _trim(self) -> None:
        self._left_bytes = 0
        asyncio.get_running_loop().run_in_executor(None, give_memory_back)


class CallBody:
    """The body of a call, with its share of the bytes in flight.

    It is the only reference to the body, so that one that was spooled or sent leaves the memory: functions that wait
    keep their arguments alive.
    """

    __slots__ = ("_in_flight", "_taken", "content", "document", "with_additions")

    def __init__(self, in_flight: BodiesInFlight) -> None:
        self._in_flight = in_flight
        self._taken = 0
        self.content = b""
        self.document: dict[str, object] | None = None
        """The parsed body of up to 1 MiB, kept only until ready answers are looked up for a call that is not held."""
        self.with_additions: bytes | None = None
        """What is sent first if memory or a wake notice was added."""

    async def read(self, scope: Scope, receive: Receive, limit: int) -> bytes:
        """Read the whole body, once there is room for it, and return it.

        Raises:
            TooLarge: it has more than `limit` bytes; nothing is kept.
            InvalidRequest: bad content-length, or it arrived too slowly.
            LimitReached: too many bytes are in flight.
            CallerGone: the caller disconnected.
        """
        for name, value in scope["headers"]:
            if name == b"content-length":
                if not value.isdigit():
                    raise InvalidRequest(f"content-length {value!r} is not a number")
                if int(value) > limit:
                    raise TooLarge(f"the body has {int(value)} bytes; the limit is {limit}")
                await self.take_room(int(value))
        task = asyncio.current_task()
        assert task is not None
        is_late = False

        def expire() -> None:
            nonlocal is_late
            is_late = True
            task.cancel()

        timer = asyncio.get_running_loop().call_later(BODY_SECONDS, expire)  # asyncio.timeout costs ten times as much
        try:
            self.content = await self._read_chunks(receive, limit)
        except asyncio.CancelledError:
            if not is_late:
                raise
            task.uncancel()
            raise InvalidRequest(f"the body did not arrive within {BODY_SECONDS:g} s") from None
        finally:
            timer.cancel()
        self._keep_room(len(self.content))
        return self.content

    async def take_room(self, size: int, seconds: float = WAIT_SECONDS) -> None:
        """Take room for a body of this size. Raises LimitReached."""
        more = size - self._taken
        if more > 0 and not self._in_flight.try_take(more):
            await self._in_flight.take(more, seconds)
        self._taken = size

    def hand_over(self) -> bytes:
        """Return the body and forget it: it leaves, or somebody else keeps it now."""
        content = self.content
        self.drop()
        return content

    def drop(self) -> None:
        """Forget the body; calling it again has no effect."""
        self.content, self.document, self.with_additions = b"", None, None
        self._keep_room(0)

    def _keep_room(self, size: int) -> None:
        excess, self._taken = self._taken - size, size
        if excess:
            self._in_flight.give_back(excess)

    async def _read_chunks(self, receive: Receive, limit: int) -> bytes:
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
            if size > self._taken:  # it states no length
                await self.take_room(limit if size > LARGE_BYTES else min(limit, LARGE_BYTES))
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def run_off_loop(body: bytes, work: Callable[[], T]) -> T:
    """Return the result of `work`, run in a thread if the body is large."""
    if len(body) <= LARGE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_READER, work)


def give_memory_back() -> None:
    """Let the C library give freed memory back to the system; glibc alone keeps it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


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

    async def spool(self, call_body: CallBody) -> SpooledBody:
        """Take over a body, which is no longer in flight.

        Raises:
            LimitReached: memory and disk limits are used up.
            StorageUnavailable: the disk cannot take it.
        """
        spooled = SpooledBody(call_body.hand_over())
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
