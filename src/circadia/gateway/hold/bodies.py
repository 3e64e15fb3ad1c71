"""Bodies of held calls, spooled to disk if they are large (GATE-46)."""

import asyncio
import os
import tempfile
from pathlib import Path

from circadia.errors import LimitReached, StorageUnavailable
from circadia.gateway.hold.in_flight import CallBody
from circadia.settings import LimitsSettings


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
