"""A network's delay in front of a local PostgreSQL, measured before it counts; and the count of round trips."""

import asyncio
import contextlib
import socket
import statistics
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.tools import find_compiler, tool

MOST_OFF: Final = 0.05
"""Part of the stated round trip by which the measured median may be off."""
_PINGS: Final = 101
_TRIES: Final = 5


class NoDelay(Exception):
    """There is no delay to measure with; says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """What went through the proxy since counting began."""

    trips: int
    """Times that a client sent something and waited for the answer."""
    kept_ms: float
    """Median time for which bytes were kept, both ways together."""


class DelayProxy:
    """The running proxy."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, echo_port: int) -> None:
        self._process = process
        self._port = port
        self._echo_port = echo_port

    def build_url(self, direct: str) -> str:
        """Return the URL of the database behind the proxy."""
        parts = urlsplit(direct)
        return f"{parts.scheme}://{parts.username}@127.0.0.1:{self._port}{parts.path}?sslmode=disable"

    async def set_round_trip(self, milliseconds: float) -> float:
        """Set the delay so that a round trip takes so long, and return the measured median in milliseconds.

        Raises:
            NoDelay: the median is off by more than 5 %.
        """
        delay, measured = milliseconds, 0.0
        for _ in range(_TRIES):
            await self._tell(f"delay {max(0, round(1000 * delay))}")
            measured = await asyncio.to_thread(self._measure)
            if abs(measured - milliseconds) <= MOST_OFF / 5 * milliseconds or not milliseconds:
                break
            delay -= measured - milliseconds  # what the way and the timers take is part of the round trip
        if milliseconds and abs(measured - milliseconds) > MOST_OFF * milliseconds:
            raise NoDelay(f"a round trip of {milliseconds:g} ms took {measured:.3f} ms")
        return measured

    async def begin_count(self) -> None:
        await self._tell("begin")

    async def count(self) -> Traffic:
        """Return what went through since `begin_count`."""
        trips, kept = (await self._tell("count")).split()
        return Traffic(trips=int(trips), kept_ms=int(kept) / 1000)

    async def _tell(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n".encode())
        return (await self._process.stdout.readline()).decode()

    def _measure(self) -> float:
        """Return the median of round trips to the echo in milliseconds."""
        times: list[float] = []
        with socket.create_connection(("127.0.0.1", self._echo_port)) as echo:
            echo.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(_PINGS):
                began = time.perf_counter()
                echo.sendall(b"a statement")
                echo.recv(64)
                times.append((time.perf_counter() - began) * 1000)
        return statistics.median(times)


@contextlib.asynccontextmanager
async def delay_proxy(url: str) -> AsyncGenerator[DelayProxy]:
    """Run a proxy in front of the server at this URL, which has a socket. Raises NoDelay: no C compiler."""
    if find_compiler() is None:
        raise NoDelay("there is no C compiler")
    path = Path(urlsplit(url).query.removeprefix("host=")) / ".s.PGSQL.5432"
    process = await asyncio.create_subprocess_exec(
        *tool("delay_proxy"), str(path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        port, echo_port = map(int, (await process.stdout.readline()).split())
        yield DelayProxy(process, port, echo_port)
    finally:
        process.stdin.close()
        await process.wait()
