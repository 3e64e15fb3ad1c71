"""A child process in its own process group, with a line protocol.

Its environment contains only what it is given, nothing of this server's. When it ends, its whole group is killed, so
that nothing it started stays behind.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final

from circadia.errors import UpstreamFailed

LINE_BYTES: Final = 32 * 2**20
"""Longest line that is read; a child that sends a longer one is broken."""
GRACE_SECONDS: Final = 2.0
"""Time for a child to end by itself after its input is closed, and again after SIGTERM."""
_CHUNK: Final = 2**16
_TAIL_LINES: Final = 20
_TAIL_CHARACTERS: Final = 500
_SHORTEST_SECRET: Final = 6


class _ExitProtocol(SubprocessStreamProtocol):
    """Reports the exit of the process, even if a process it started still holds its pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_CHUNK, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class ChildProcess:
    """A running child, made by `start`. `end` must be called."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport, protocol: _ExitProtocol) -> None:
        self.exited = protocol.exited
        self.pid = process.pid
        self._process = process
        self._transport = transport
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)

    @classmethod
    async def start(
        cls, name: str, command: Sequence[str], environment: Mapping[str, str], folder: str | None
    ) -> "ChildProcess":
        """Start the program. Raises UpstreamFailed if that fails."""
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: _ExitProtocol(loop),
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "bad command"
            raise UpstreamFailed(f"MCP server {name!r} cannot be started: {command[0]!r}: {reason}") from error
        return cls(Process(transport, protocol, loop), transport, protocol)

    @property
    def returncode(self) -> int | None:
        """Return the exit status; a negative one is the signal that killed it."""
        return self._process.returncode

    async def lines(self) -> AsyncGenerator[bytes]:
        """Yield the lines of its output until it is closed. Raises UpstreamFailed if a line is too long."""
        assert self._process.stdout is not None
        parts: list[bytes] = []
        length = 0
        while chunk := await self._process.stdout.read(_CHUNK):
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield b"".join([*parts, line])
                parts.clear()
                length = 0
            length += len(rest)
            if length > LINE_BYTES:
                raise UpstreamFailed(f"a line of more than {LINE_BYTES} bytes")
            if rest:
                parts.append(rest)

    async def write(self, line: bytes) -> None:
        """Send one line; waits while the child does not read. Raises OSError if it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def keep_errors(self, secrets: Sequence[str]) -> None:
        """Read the child's error output and keep its end, without the secrets."""
        assert self._process.stderr is not None
        cut = b""
        while chunk := await self._process.stderr.read(_CHUNK):
            *whole, cut = (cut + chunk).split(b"\n")
            cut = cut[-_CHUNK:]
            for line in whole:
                text = line.decode("utf-8", "replace").rstrip()
                for secret in secrets:
                    text = text.replace(secret, "[redacted]") if len(secret) >= _SHORTEST_SECRET else text
                self._tail.append(text[:_TAIL_CHARACTERS])

    def errors(self) -> str:
        return "\n".join(self._tail)

    async def end(self, *, patient: bool) -> None:
        """End the child and everything it started; `patient` first closes its input, then sends SIGTERM."""
        if patient:
            assert self._process.stdin is not None
            self._process.stdin.close()
            if not await self._wait_for_exit(GRACE_SECONDS):
                self._signal(signal.SIGTERM)
                await self._wait_for_exit(GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        await self._wait_for_exit(GRACE_SECONDS)

    def close(self) -> None:
        """Close the pipes, even if other processes hold them."""
        self._transport.close()

    async def _wait_for_exit(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        except TimeoutError:
            return False
        return True

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # the group is empty
