"""What background loops share: a step that may fail, and the look for due work."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from circadia.clock import Clock
from circadia.errors import CircadiaError, Conflict
from circadia.records.due_work import DueWork
from circadia.records.wake import FLEET
from circadia.stores.base import Store

_logger = logging.getLogger(__name__)


async def run_guarded(name: str, step: Callable[[], Awaitable[None]]) -> bool:
    """Run the step, log its failure under `name`, and return whether it succeeded."""
    try:
        await step()
    except Conflict as error:  # another process was first
        _logger.debug("%s: %s", name, error)
    except CircadiaError as error:
        _logger.warning("%s waits: %s", name, error)
    except Exception:  # the next try may pass, and nobody else does this work
        _logger.exception("%s failed in a step", name)
    else:
        return True
    return False


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
