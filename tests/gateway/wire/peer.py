"""A provider on a real socket that sends exactly the bytes which a test says, and counts its connections."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from circadia.gateway.wire.base import Origin
from circadia.gateway.wire.connection import ProviderResponse
from circadia.gateway.wire.pool import ConnectionPool

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
KEY = b"sk-of-the-provider"


class Caller:
    """One connection, as the provider sees it."""

    def __init__(self, peer: "Peer", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self.reader = reader
        self.writer = writer

    async def head(self) -> bytes:
        """Return the head of the next request; it is noted at the peer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.peer.heads.append(head)
        self.peer.changed.set()
        return head

    async def request(self) -> bytes:
        """Return the next request."""
        head = await self.head()
        length = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")]
        return head + await self.reader.readexactly(int(length[0].split()[1]) if length else 0)

    async def say(self, *pieces: bytes) -> None:
        """Send the pieces, each in a packet of its own where the network allows it."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def gone(self) -> None:
        """Return when the client has closed."""
        while await self.reader.read(2**16):
            pass


Script = Callable[[Caller], Awaitable[None]]


class Peer:
    """Plays a script on each connection. A connection counts as open until its client has closed it."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.port = 0
        self.open = 0
        self.most = 0
        self.made = 0
        self.heads: list[bytes] = []
        self.changed = asyncio.Event()

    async def until(self, true: Callable[[], bool]) -> None:
        """Return once it is true; it can become so only by what a connection does."""
        async with asyncio.timeout(60):
            while not true():
                self.changed.clear()
                await self.changed.wait()

    async def emptied(self) -> None:
        """Return once no connection is open."""
        await self.until(lambda: self.open == 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Play the script."""
        self.made += 1
        self.open += 1
        self.most = max(self.most, self.open)
        self.changed.set()
        caller = Caller(self, reader, writer)
        try:
            await self.script(caller)
            await caller.gone()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self.open -= 1
            self.changed.set()
            writer.transport.abort()


def answering(*pieces: bytes, then_close: bool = False) -> Script:
    """Return a script that answers each request with these pieces."""

    async def script(caller: Caller) -> None:
        while True:
            await caller.request()
            await caller.say(*pieces)
            if then_close:
                caller.writer.close()
                return

    return script


@asynccontextmanager
async def peer(script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncGenerator[Peer]:
    """Run a provider."""
    it = Peer(script)
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await it.serve(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    it.port = server.sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def pool(at: Peer | int, base: str = "http://127.0.0.1:{port}", **given: Any) -> AsyncGenerator[ConnectionPool]:
    """Make connections to a provider; `given` are settings that differ from the usual ones."""
    port = at if isinstance(at, int) else at.port
    settings: dict[str, Any] = {
        "max_connections": 10, "connect_timeout_seconds": 10.0, "answer_timeout_seconds": 20.0, "context": None, **given
    }  # fmt: skip
    made = ConnectionPool(Origin.from_url(base.format(port=port)), [(b"Authorization", b"Bearer " + KEY)], **settings)
    try:
        yield made
    finally:
        async with asyncio.timeout(60):
            await made.close()


async def ask(
    pool: ConnectionPool, body: bytes = b"hi", method: str = "POST", target: str = "/v1/x"
) -> tuple[ProviderResponse, bytes]:
    """Send a call and return its answer with its body."""
    async with asyncio.timeout(60):
        answer = await pool.send(method, target, [(b"content-type", b"text/plain")], body)
        return answer, b"".join([chunk async for chunk in answer])
