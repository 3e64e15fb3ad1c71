"""The end of a server's life, step by step (CLU-31)."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import TargetGone
from circadia.gateway.accounting.write_behind import WriteBehindQueue
from circadia.gateway.hold.gate import Gate
from circadia.jobs.loops import run_guarded
from circadia.server.front import DoorRouter
from circadia.server.membership import Membership
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.wake.worker import WakeWorker

SERVER_STOPS: Final = "the server is stopping; the call was not executed, send it again"
MOVE_SECONDS: Final = 1.0
"""`Retry-After` of a call that another gateway can take at once."""


class Drain:
    """Lets the work of a server end, then ends what is left."""

    def __init__(
        self,
        clock: Clock,
        front: DoorRouter,
        gate: Gate,
        worker: WakeWorker,
        dreamer: SleepWorker,
        queues: Sequence[WriteBehindQueue[Any]],
        membership: Membership | None,
        *,
        notice_seconds: float,
    ) -> None:
        """`membership` is None if no other process can wake the agents of held calls."""
        self._clock = clock
        self._notice_seconds = notice_seconds
        self._front = front
        self._gate = gate
        self._worker = worker
        self._dreamer = dreamer
        self._queues = queues
        self._membership = membership

    async def run(self, requests: Collection[asyncio.Task[Any]]) -> None:
        """Let balancers notice and pulses end, while calls are served; then take none, and let `requests` end.

        What is queued for the database is written, or kept while the database is away.

        It has no limit of its own. Passes are put back at once; another process goes on with them.
        """
        self._front.is_draining = True
        if self._membership is not None:
            await run_guarded("giving up the lead", self._membership.resign)
        await asyncio.gather(self._worker.drain(), self._dreamer.drain(), self._clock.sleep(self._notice_seconds))
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
        await asyncio.gather(self._worker.drain(0.0), self._dreamer.drain())
        self._front.refusal = error = TargetGone(SERVER_STOPS)
        self._gate.presence.stop(error)
