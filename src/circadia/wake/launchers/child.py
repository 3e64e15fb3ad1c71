"""A program run for one pulse in a new session, with everything that it starts."""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Final

from circadia.child_process import CHUNK_BYTES, ChildProcess, wait_within
from circadia.output_tail import Tail
from circadia.wake.launchers.base import LaunchFailed
from circadia.wake.launchers.processes import ProcessInfo, find_processes, kill_processes, send_signal

_logger = logging.getLogger(__name__)

_DRAIN_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05
_BURST_BYTES: Final = 2**19
_BURST_PAUSE_SECONDS: Final = 0.01


class ProgramRun:
    """One run of a program. Call `start` once, and `end` in any case, even if `start` was cancelled."""

    def __init__(self, pulse_id: str, epoch: int, tail: Tail) -> None:
        self._pulse_id = pulse_id
        self._epoch = epoch
        self._output = _Output(tail)
        self._process: ChildProcess | None = None

    async def start(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str | None, stdin: int
    ) -> None:
        """Start the program; the file descriptor `stdin` is its standard input. Raises LaunchFailed."""
        # Own pipes: event loops make sockets instead, and a program cannot open /dev/stdout on a socket.
        reading, writing = os.pipe()
        try:
            self._output.listen(reading)
            self._process = await ChildProcess.start(
                command, environment, folder, stdin=stdin, stdout=writing, stderr=writing
            )
        except (OSError, ValueError) as error:
            raise LaunchFailed(_explain_start_failure(command[0], folder, error)) from error
        finally:
            os.close(writing)

    async def wait(self) -> int:
        """Return the exit status of the program itself; a negative one is the signal that killed it."""
        assert self._process is not None
        await self._process.exited.wait()
        status = self._process.returncode
        return -signal.SIGKILL if status is None else status

    async def end(self, *, grace_seconds: float) -> None:
        """End the program with everything it started, first with SIGTERM, then by force, and close its pipes.

        What a program leaves behind when it ends by itself is killed at once.
        """
        try:
            if self._process is not None:
                if not self._process.exited.is_set():
                    send_signal(await self._find_processes_in_thread(), signal.SIGTERM)
                await self._process.end(grace_seconds=grace_seconds, until=self._wait_for_all)
                left = await asyncio.to_thread(kill_processes, self._find_processes)
                if left:
                    _logger.error("processes %r of pulse %s do not end", [p.pid for p in left], self._pulse_id)
                await wait_within(_DRAIN_SECONDS, self._output.over.wait())
        finally:
            self._output.close()
            if self._process is not None:
                self._process.close()

    def _find_processes(self) -> list[ProcessInfo]:
        session = None if self._process is None else self._process.pid
        return find_processes(self._pulse_id, lambda epoch: epoch == self._epoch, session=session)

    async def _find_processes_in_thread(self) -> list[ProcessInfo]:
        return await asyncio.to_thread(self._find_processes)

    async def _wait_for_all(self) -> None:
        assert self._process is not None
        await self._process.exited.wait()
        # Nothing signals the end of a grandchild.
        while self._process.signal_group(0) or await self._find_processes_in_thread():  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)


class _Output:
    """Reads the program's output into its tail, with pauses, so that a flood slows the program and not the server.

    It closes its descriptor itself: uvloop would close a pipe twice, by libuv and by its file object, and by then
    another thread may have the number.
    """

    def __init__(self, tail: Tail) -> None:
        self.over = asyncio.Event()
        """Set once the other end is closed."""
        self._tail = tail
        self._burst_bytes = 0
        self._pipe: int | None = None

    def listen(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._resume()

    def close(self) -> None:
        if self._pipe is not None:
            asyncio.get_running_loop().remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None
            self.over.set()

    def _resume(self) -> None:
        if self._pipe is not None:
            asyncio.get_running_loop().add_reader(self._pipe, self._read_chunk, self._pipe)

    def _read_chunk(self, pipe: int) -> None:
        data = os.read(pipe, CHUNK_BYTES)  # readable: data, or the end
        if not data:
            self.close()
            return
        self._tail.feed(data)
        self._burst_bytes += len(data)
        if self._burst_bytes >= _BURST_BYTES:
            self._burst_bytes = 0
            loop = asyncio.get_running_loop()
            loop.remove_reader(pipe)
            loop.call_later(_BURST_PAUSE_SECONDS, self._resume)


def _explain_start_failure(program: str, folder: str | None, error: Exception) -> str:
    """Return the problem and its remedy; an OSError names the program even if the folder is missing."""
    if folder is not None and not os.path.isdir(folder):
        return f"the folder {folder!r} does not exist; make it, or correct `cwd`"
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return f"the program {program!r} cannot be started: {reason}; install it, or correct `command`"
