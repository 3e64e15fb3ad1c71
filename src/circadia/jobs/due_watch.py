"""The look for due work, which all sweeps of a process share."""

import asyncio
import math
from collections.abc import Collection
from typing import Final

from circadia.clock import Clock
from circadia.records.due_work import DueWork
from circadia.records.wake import FLEET
from circadia.stores.base import Store

TICK_SECONDS: Final = 1.0
"""The longest delay that a lost signal causes."""


class DueWatch:
    """Looks at most once in a tick, if it is `shared`; sweeps that wait for the next tick all get the same answer."""

    def __init__(self, clock: Clock, store: Store, *, launchers: Collection[str] = (), shared: bool = False) -> None:
        """`launchers` are those whose pulses this process can start."""
        self._clock = clock
        self._store = store
        self._launchers = launchers
        self._shared = shared
        self._last: DueWork | None = None
        self._looked_in = -1
        self._looking = asyncio.Lock()  # so that those who come at once share the answer

    @property
    def next_tick_at(self) -> float:
        """When the next tick begins, on the monotonic clock."""
        return (self._count_ticks() + 1) * TICK_SECONDS

    async def wait_for_tick(self) -> None:
        await self._clock.sleep(self.next_tick_at - self._clock.monotonic())

    async def look(self) -> DueWork:
        """Return what is due, as of this tick. Raises StorageUnavailable."""
        async with self._looking:
            tick = self._count_ticks()
            if self._last is None or not self._shared or tick != self._looked_in:
                async with self._store.begin_single_read() as tx:
                    self._last = await tx.due_work.find(self._clock.now(), fleet_rule=FLEET, launchers=self._launchers)
                self._looked_in = tick
            return self._last

    def _count_ticks(self) -> int:
        return math.floor(self._clock.monotonic() / TICK_SECONDS)
