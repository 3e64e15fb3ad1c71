"""A timing wheel that sends keep-alives to all waiting callers from one task: 10,000 holds need no 10,000 timers.

A caller waits in the slot of its next due time, rounded up to the wheel's resolution. Adding and dropping take one
dictionary operation each; the task sleeps until the first occupied slot.
"""

import asyncio
import heapq
import logging
import math
from collections.abc import Callable
from typing import Final, Protocol

from circadia.clock import Clock, wait_for_event

_logger = logging.getLogger(__name__)

RESOLUTION_SECONDS: Final = 0.05
"""Width of a slot. Keep-alives are seconds apart, so 50 ms do not matter, and idle wake-ups are rare."""


class Tickable(Protocol):
    """Something with a due time. `slot` belongs to the ticker; -1 means not waiting."""

    slot: int

    def tick(self, now: float) -> float | None:
        """Act without waiting; return the monotonic time of the next tick, or None to stop."""
        ...


class Ticker:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[int, dict[Tickable, None]] = {}
        self._order: list[int] = []
        self._sooner = asyncio.Event()

    def add(self, ticking: Tickable, due: float) -> None:
        """Schedule a tick at the monotonic time `due` or up to one slot later."""
        self.drop(ticking)
        slot = ticking.slot = math.ceil(due / RESOLUTION_SECONDS)
        if slot not in self._slots:
            self._slots[slot] = {}
            heapq.heappush(self._order, slot)
            if self._order[0] == slot:
                self._sooner.set()
        self._slots[slot][ticking] = None

    def drop(self, ticking: Tickable) -> None:
        waiting = self._slots.get(ticking.slot)
        if waiting is not None:
            waiting.pop(ticking, None)
        ticking.slot = -1

    @property
    def waiting(self) -> int:
        return sum(len(slot) for slot in self._slots.values())

    async def run(self) -> None:
        while True:
            self._sooner.clear()
            if not self._order:
                await self._sooner.wait()
                continue
            wait = self._order[0] * RESOLUTION_SECONDS - self._clock.monotonic()
            if wait > 0:
                await wait_for_event(self._clock, self._sooner, wait)
                continue
            for ticking in self._slots.pop(heapq.heappop(self._order)):
                self._tick(ticking)

    def _tick(self, ticking: Tickable) -> None:
        ticking.slot = -1
        try:
            due = ticking.tick(self._clock.monotonic())
        except Exception:  # one failing caller must not end the keep-alives of all
            _logger.exception("a keep-alive failed; its caller is left alone")
            return
        if due is not None:
            self.add(ticking, due)


class Alarm:
    """Calls a function once at its due time."""

    __slots__ = ("_call", "slot")

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.slot = -1

    def tick(self, now: float) -> float | None:
        self._call()
        return None
