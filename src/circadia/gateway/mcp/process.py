"""A child process in a group of its own, spoken to in lines.

Its environment holds what it was given and nothing of this server's own. When it ends, or is ended, its whole group is
killed, so that nothing that it started stays behind.
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
"""How long a child may take to end by itself, once its input is closed and again once it was told to."""
_CHUNK: Final = 2**16
_TAIL_LINES: Final = 20
_TAIL_CHARACTERS: Final = 500
_SHORTEST_SECRET: Final = 6


class _ExitProtocol(SubprocessStreamProtocol):
    """Tells when the process itself has ended, even if something that it started still holds its pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_CHUNK, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """Note the end."""
        super().process_exited()
        self.exited.set()


class ChildProcess:
    """One running child; made by `start`, and ended by `end`, which must be called."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport, protocol: _ExitProtocol) -> None:
        self.exited = protocol.exited
        """Set once the process has ended."""
        self.pid = process.pid
        self._process = process
        self._transport = transport
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)

    @classmethod
    async def start(
        cls, name: str, command: Sequence[str], environment: Mapping[str, str], folder: str | None
    ) -> "ChildProcess":
        """Start the program.

        Raises:
            UpstreamFailed: it cannot be started.
        """
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
        """Return the exit status; negative is the signal that killed it."""
        return self._process.returncode

    async def lines(self) -> AsyncGenerator[bytes]:
        """Yield the lines of its output until it is closed.

        Raises:
            UpstreamFailed: a line is too long.
        """
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
        """Send one line; waits while the child does not read. Raises OSError if it is gone."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def keep_errors(self, secrets: Sequence[str]) -> None:
        """Read what the child says on its error output, and keep the end of it without the secrets."""
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
        """Return the end of what it said on its error output."""
        return "\n".join(self._tail)

    async def end(self, *, patient: bool) -> None:
        """End the child and all that it started; patient: close its input and tell it first."""
        if patient:
            assert self._process.stdin is not None
            self._process.stdin.close()
            if not await self._wait_for_exit(GRACE_SECONDS):
                self._signal(signal.SIGTERM)
                await self._wait_for_exit(GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        await self._wait_for_exit(GRACE_SECONDS)

    def close(self) -> None:
        """Close the pipes, whoever else may hold them."""
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
            pass  # nobody is left in the group
