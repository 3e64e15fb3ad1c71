"""A server of the official MCP SDK as an ASGI application: both protocol eras, no session, complete JSON answers.

The door in front replaces sessions and streams: it binds session ids to tokens, keeps callers alive and watches for
disconnects. When it cancels a call, the SDK cancels the handler.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send


class McpSdk:
    """ASGI application; it serves inside `run`, which may be entered once."""

    def __init__(self, server: Server[Any]) -> None:
        self._manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve within the block.

        The SDK's task group runs in its own task, so that an error of the block is raised as it is and not in an
        exception
        group.
        """
        started, over = asyncio.Event(), asyncio.Event()

        async def keep() -> None:
            async with self._manager.run():
                started.set()
                await over.wait()

        keeping = asyncio.create_task(keep())
        await started.wait()
        try:
            yield
        finally:
            over.set()
            await keeping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)
