"""The tasks of a server, started together and cancelled in order; what is queued is written or spooled last."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

from circadia.gateway.accounting.write_behind import WriteBehindQueue
from circadia.gateway.mcp.stdio import StdioServers
from circadia.mcp_server.app import McpServer

_logger = logging.getLogger(__name__)


async def start_background(
    stack: AsyncExitStack, own: McpServer, stdio: StdioServers, queues: Sequence[WriteBehindQueue[Any]],
    works: Sequence[Coroutine[Any, Any, None]],
) -> None:  # fmt: skip
    """Start the background tasks; they end in reverse order."""
    for queue in queues:
        stack.push_async_callback(queue.close)
        stack.push_async_callback(_cancel_task, asyncio.create_task(queue.run()))
    await stack.enter_async_context(own.run())
    await stack.enter_async_context(stdio.run())
    for work in works:
        task = asyncio.create_task(work)
        task.add_done_callback(_log_if_failed)
        stack.push_async_callback(_cancel_task, task)


def _log_if_failed(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.critical("a background task has ended; restart the server", exc_info=error)


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
