"""A yardstick: a proxy on the same server and client libraries that does nothing but pass bytes on.

`python -m benchmarks.bare_relay UPSTREAM_PORT` listens on a free port of 127.0.0.1 and prints it.
"""

import asyncio
import socket
import sys

import aiohttp
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

_LENGTH = (b"content-length", b"transfer-encoding")


class Relay:
    """ASGI application."""

    def __init__(self, base: str, session: aiohttp.ClientSession) -> None:
        self._base = base
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, and its answer back."""
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {"content-type": "application/json"}
        async with self._session.post(self._base + scope["path"], data=body, headers=headers) as answer:
            kept = [(name.lower(), value) for name, value in answer.raw_headers if name.lower() not in _LENGTH]
            await send({"type": "http.response.start", "status": answer.status, "headers": kept})
            async for chunk in answer.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def serve(upstream: int) -> None:
    """Serve until killed."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        bound.listen()  # before its port is told, so that nobody is turned away
        config = uvicorn.Config(
            Relay(f"http://127.0.0.1:{upstream}", session),
            http="httptools",
            lifespan="off",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
        )
        serving = asyncio.create_task(uvicorn.Server(config).serve(sockets=[bound]))
        print(bound.getsockname()[1], flush=True)
        await serving


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
