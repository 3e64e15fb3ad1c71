"""The tasks of a server, started together and ended in order, and the end of its life, step by step (CLU-31)."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from circadia.errors import TargetGone
from circadia.gateway.accounting.write_behind import WriteBehindQueue
from circadia.gateway.model_call.hold import Gate
from circadia.jobs.loops import run_guarded
from circadia.records.member import Role
from circadia.server.context import ServerContext
from circadia.server.front import DoorRouter
from circadia.server.late_app import LateApp
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.wake.worker import WakeWorker

if TYPE_CHECKING:
    from circadia.gateway.mcp.stdio import StdioServers

_logger = logging.getLogger(__name__)


async def start_background(
    stack: AsyncExitStack, apps: "Sequence[LateApp | StdioServers | None]", queues: Sequence[WriteBehindQueue[Any]],
    works: Sequence[Coroutine[Any, Any, None]], on_death: Callable[[str], None],
) -> None:  # fmt: skip
    """Start applications and background tasks, which end in reverse order.

    `on_death` gets the name of a task that ends earlier.
    """

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
    for app in apps:
        if app is not None:
            await stack.enter_async_context(app.run())
    for work in works:
        stack.push_async_callback(_cancel_task, start(work.__qualname__.partition(".")[0], work))


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


SERVER_STOPS: Final = "the server is stopping; the call was not executed, send it again"
_NOTICE_SECONDS: Final = 3.0
"""Time for a balancer that checks each second to see that `/readyz` is red, before a stopping gateway refuses calls."""
MOVE_SECONDS: Final = 1.0
"""`Retry-After` of a call that another gateway can take at once."""


class Drain:
    """Lets the work of a server end, then ends what is left."""

    def __init__(
        self, context: ServerContext, front: DoorRouter, gate: Gate, worker: WakeWorker, sleep_worker: SleepWorker,
        queues: Sequence[WriteBehindQueue[Any]],
    ) -> None:  # fmt: skip
        self._clock = context.clock
        self._membership = context.membership
        has_balancer = self._membership is not None and context.role is not Role.WORKER
        self._notice_seconds = _NOTICE_SECONDS if has_balancer else 0.0
        self._front = front
        self._gate = gate
        self._worker = worker
        self._sleep_worker = sleep_worker
        self._queues = queues

    async def run(self, requests: Collection[asyncio.Task[Any]]) -> None:
        """Let balancers notice and pulses end, while calls are served; then take none, and let `requests` end.

        What is queued for the database is written, or kept while the database is away.

        It has no limit of its own. Passes are put back at once; another process goes on with them.
        """
        self._front.is_draining = True
        if self._membership is not None:
            await run_guarded("giving up the lead", self._membership.resign)
        await asyncio.gather(self._worker.drain(), self._sleep_worker.drain(), self._clock.sleep(self._notice_seconds))
        error = TargetGone(SERVER_STOPS, retry_after_seconds=MOVE_SECONDS)
        self._front.refusal = error
        if self._membership is None:
            self._gate.presence.stop(TargetGone(SERVER_STOPS))
        else:
            self._gate.hand_over(error)
        if running := tuple(requests):
            await asyncio.wait(running)
        await asyncio.gather(*(queue.drain() for queue in self._queues))

    async def stop(self) -> None:
        """Put back the pulses that still run, and end all holds.

        What is queued goes to the disk first: a database that hangs could delay the rest until the process is killed.
        """
        await asyncio.gather(*(queue.close() for queue in self._queues))
        await asyncio.gather(self._worker.drain(0.0), self._sleep_worker.drain())
        self._front.refusal = error = TargetGone(SERVER_STOPS)
        self._gate.presence.stop(error)
