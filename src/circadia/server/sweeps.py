"""What looks at the clock: leases that ran out, sessions that stalled."""

import logging
from collections.abc import Awaitable, Callable

from circadia.agents.sessions import Sessions
from circadia.agents.waits import Waits
from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.stores.base import Store

_logger = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
"""A lost signal costs a second (the design's bound)."""


class Sweeps:
    """Runs the sweeps, one after the other, for ever."""

    def __init__(self, clock: Clock, store: Store, waits: Waits, sessions: Sessions, *, stall_seconds: float) -> None:
        self._clock = clock
        self._store = store
        self._waits = waits
        self._sessions = sessions
        self._stall_seconds = stall_seconds

    async def run(self) -> None:
        """Sweep until cancelled; a failing sweep is told and tried again."""
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            for sweep in (self._waits.sweep, self._tell_stalls):
                await self._guarded(sweep)

    async def _guarded(self, sweep: Callable[[], Awaitable[None]]) -> None:
        try:
            await sweep()
        except CircadiaError as error:
            _logger.warning("a sweep failed: %s", error)
        except Exception:  # the next sweep may pass, and nobody else does this work
            _logger.exception("a sweep failed")

    async def _tell_stalls(self) -> None:
        async with self._store.write() as tx:
            for name in await self._sessions.tell_stalls(tx, self._stall_seconds):
                _logger.warning("session %r has stalled: all its agents sleep, and nobody acts", name)
