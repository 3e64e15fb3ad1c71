"""The tasks of a server, started together and cancelled in order; what is queued is written or spooled last."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

from circadia.gateway.accounting.write_behind import WriteBehindQueue
from circadia.gateway.mcp.stdio import StdioServers
from circadia.mcp_server.app import McpServer

_logger = logging.getLogger(__name__)


async def start_background(
    stack: AsyncExitStack, own: McpServer, stdio: StdioServers, queues: Sequence[WriteBehindQueue[Any]],
    works: Sequence[Coroutine[Any, Any, None]], on_death: Callable[[str], None],
) -> None:  # fmt: skip
    """Start the background tasks; they end in reverse order. `on_death` gets the name of one that ends earlier."""

    def start(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        def report(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                return
            _logger.critical("the background task %r has ended; restart the server", name, exc_info=task.exception())
            on_death(name)

        task = asyncio.create_task(work, name=name)
        task.add_done_callback(report)
        return task

    for queue in queues:
        stack.push_async_callback(queue.close)
        stack.push_async_callback(_cancel_task, start(type(queue).__name__, queue.run()))
    await stack.enter_async_context(own.run())
    await stack.enter_async_context(stdio.run())
    for work in works:
        stack.push_async_callback(_cancel_task, start(work.__qualname__.partition(".")[0], work))


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
