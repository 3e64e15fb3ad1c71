"""A child process in a session of its own, and its end with all of its process group."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

CHUNK_BYTES: Final = 2**16
_KILL_SECONDS: Final = 2.0
"""Time until the kernel must have reported the end of a killed child."""


class _ExitProtocol(SubprocessStreamProtocol):
    """Reports the exit of the process, even if a process it started still holds its pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=CHUNK_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class ChildProcess:
    """A running program, made by `start`. Call `end`, then `close`."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport, protocol: _ExitProtocol) -> None:
        self.exited = protocol.exited
        self.pid = process.pid
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self._transport = transport

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str | None,
        *,
        stdin: int = PIPE,
        stdout: int = PIPE,
        stderr: int = PIPE,
    ) -> "ChildProcess":
        """Start the program with nothing of this server's environment. Raises OSError or ValueError."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _ExitProtocol(loop),
            *command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        return cls(Process(transport, protocol, loop), transport, protocol)

    @property
    def returncode(self) -> int | None:
        """Return the exit status; a negative one is the signal that killed it."""
        return self._transport.get_returncode()

    async def end(self, *, grace_seconds: float, until: Callable[[], Awaitable[object]] | None = None) -> None:
        """Kill the process group; first send SIGTERM and wait for `until`, by default the exit of the child."""
        if grace_seconds and not self.exited.is_set():
            self.signal_group(signal.SIGTERM)
            await wait_within(grace_seconds, (until or self.exited.wait)())
        self.signal_group(signal.SIGKILL)
        await wait_within(_KILL_SECONDS, self.exited.wait())

    def signal_group(self, number: int) -> bool:
        """Return whether any process got the signal."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def close(self) -> None:
        """Close the pipes, even if other processes hold them."""
        self._transport.close()


async def wait_within(seconds: float, event: Awaitable[object]) -> bool:
    """Return whether the event came in time."""
    try:
        async with asyncio.timeout(seconds):
            await event
    except TimeoutError:
        return False
    return True
