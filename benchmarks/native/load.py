"""What load.c does, for machines without a C compiler; several times slower."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import cast

import uvloop

from benchmarks.callers import whole


class LoadConnection(asyncio.Protocol):
    """One connection: sends a request, reads the whole answer, sends the next."""

    def __init__(self, requests: Iterator[bytes], mark: bytes, until: float, every: float) -> None:
        self._requests = requests
        self._mark = mark
        self._until = until
        self._every = every
        self._answer = bytearray()
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None
        self.times: list[float] = []
        self.errors = 0
        self.first_bad = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first."""
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Take a part of an answer; after the last part, ask again until the time is over."""
        self._answer += data
        if not whole(self._answer):
            return
        now = time.monotonic()
        if self._answer.startswith(b"HTTP/1.1 200") and self._mark in self._answer:
            self.times.append((now - self._sent_at) * 1000)
        else:
            self.errors += 1
            self.first_bad = self.first_bad or bytes(self._answer[:300])
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if time.monotonic() < self._until:
            self.errors += 1
        self.ended.set_result(None)

    def _next(self) -> None:
        """Send the next, unless it is too soon or too late; a timer may fire a moment before its time."""
        due, now = self._sent_at + self._every, time.monotonic()
        if max(due, now) >= self._until:
            assert self._transport is not None
            self._until = now  # its time is over: the end of the connection is no error
            self._transport.close()
        elif due > now:
            asyncio.get_running_loop().call_later(due - now, self._next)
        else:
            self._ask()

    def _ask(self) -> None:
        assert self._transport is not None
        self._answer.clear()
        self._sent_at = time.monotonic()
        self._transport.write(next(self._requests))


async def run(
    port: int, connections: int, seconds: float, content: bytes, mark: bytes, size: int | None = None, every: float = 0
) -> dict[str, float]:
    """Return what was found; the content is one request, or some of this size each; `every` is in milliseconds."""
    step = size or len(content)
    requests = cycle([content[at : at + step] for at in range(0, len(content), step)])
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    asking: list[LoadConnection] = []
    for _ in range(connections):
        _, one = await loop.create_connection(
            lambda: LoadConnection(requests, mark, began + seconds, every / 1000), "127.0.0.1", port
        )
        asking.append(one)
    await asyncio.gather(*(one.ended for one in asking))
    times = sorted(each for one in asking for each in one.times)
    bad = next((one.first_bad for one in asking if one.first_bad), b"")
    if bad:
        print(f"load: first bad answer: {bad.decode(errors='replace')}", file=sys.stderr)
    at = {name: times[int(part * (len(times) - 1))] if times else 0.0
          for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}  # fmt: skip
    errors = sum(one.errors for one in asking)
    return {"requests": len(times), "errors": errors, "seconds": time.monotonic() - began, **at}


if __name__ == "__main__":
    _port, _connections, _seconds, _file, _mark, *_rest = sys.argv[1:8]
    _size, _every = int(_rest[0]) if _rest else None, float(_rest[1]) if len(_rest) > 1 else 0.0
    print(json.dumps(uvloop.run(run(
        int(_port), int(_connections), float(_seconds), Path(_file).read_bytes(), _mark.encode(), _size, _every
    ))))  # fmt: skip
