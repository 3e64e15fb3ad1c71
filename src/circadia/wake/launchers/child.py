"""A program run for one pulse in a new session, with everything that it starts."""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from circadia.wake.launchers.base import LaunchFailed
from circadia.wake.launchers.output import Tail
from circadia.wake.launchers.processes import ProcessInfo, find_processes, kill_processes, send_signal

_logger = logging.getLogger(__name__)

_DRAIN_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05
_READ_BYTES: Final = 2**16
_BURST_BYTES: Final = 2**19
_BURST_PAUSE_SECONDS: Final = 0.01


class ProgramRun:
    """One run of a program. Call `start` once, and `end` in any case, even if `start` was cancelled."""

    def __init__(self, pulse_id: str, epoch: int, tail: Tail) -> None:
        self._pulse_id = pulse_id
        self._epoch = epoch
        self._output = _Output(tail)
        self._exit = _Exit()
        self._transport: asyncio.SubprocessTransport | None = None
        self._pid = 0

    async def start(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str | None, stdin: int
    ) -> None:
        """Start the program; the file descriptor `stdin` is its standard input. Raises LaunchFailed."""
        loop = asyncio.get_running_loop()
        # Own pipes: event loops make sockets instead, and a program cannot open /dev/stdout on a socket.
        reading, writing = os.pipe()
        try:
            self._output.listen(reading)
            transport, _ = await loop.subprocess_exec(
                lambda: self._exit,
                *command,
                stdin=stdin,
                stdout=writing,
                stderr=writing,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise LaunchFailed(_explain_start_failure(command[0], folder, error)) from error
        finally:
            os.close(writing)
        self._transport = transport
        self._pid = transport.get_pid()

    async def wait(self) -> int:
        """Return the exit status of the program itself; a negative one is the signal that killed it."""
        await self._exit.event.wait()
        return self._exit_status()

    async def end(self, *, grace_seconds: float) -> None:
        """End the program with everything it started, first with SIGTERM, then by force, and close its pipes.

        What a program leaves behind when it ends by itself is killed at once.
        """
        try:
            if self._transport is not None:
                if not self._exit.event.is_set():
                    send_signal(await self._find_processes_in_thread(), signal.SIGTERM)
                    self._signal_group(signal.SIGTERM)
                    await self._wait_for_all(grace_seconds)
                self._signal_group(signal.SIGKILL)
                left = await asyncio.to_thread(kill_processes, self._find_processes)
                if left:
                    _logger.error("processes %r of pulse %s do not end", [p.pid for p in left], self._pulse_id)
                await _wait_within(_DRAIN_SECONDS, self._exit.event)
                await _wait_within(_DRAIN_SECONDS, self._output.over)
        finally:
            self._output.close()
            if self._transport is not None:
                self._transport.close()

    def _find_processes(self) -> list[ProcessInfo]:
        return find_processes(self._pulse_id, lambda epoch: epoch == self._epoch, session=self._pid)

    async def _find_processes_in_thread(self) -> list[ProcessInfo]:
        return await asyncio.to_thread(self._find_processes)

    async def _wait_for_all(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._exit.event.wait()
                # Nothing signals the end of a grandchild.
                while self._signal_group(0) or await self._find_processes_in_thread():  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_SECONDS)

    def _signal_group(self, number: int) -> bool:
        """Return whether any process got the signal."""
        try:
            os.killpg(self._pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _exit_status(self) -> int:
        assert self._transport is not None
        status = self._transport.get_returncode()
        return -signal.SIGKILL if status is None else status


class _Exit(asyncio.SubprocessProtocol):
    """Signals the end of the program itself, even if one of its children still runs."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def process_exited(self) -> None:
        self.event.set()


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
        data = os.read(pipe, _READ_BYTES)  # readable: data, or the end
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


async def _wait_within(seconds: float, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _explain_start_failure(program: str, folder: str | None, error: Exception) -> str:
    """Return the problem and its remedy; an OSError names the program even if the folder is missing."""
    if folder is not None and not os.path.isdir(folder):
        return f"the folder {folder!r} does not exist; make it, or correct `cwd`"
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return f"the program {program!r} cannot be started: {reason}; install it, or correct `command`"
