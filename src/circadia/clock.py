"""The only source of time: the wall clock for timestamps, the monotonic clock for durations; shares of the loop."""

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol


class Clock(Protocol):
    """Time as the program sees it.

    `now` may jump when the machine's clock is set; `monotonic` never goes back. Take timestamps from the first, waits
    and durations from the second.
    """

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary fixed point."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`, or at once if not positive."""
        ...


class SystemClock:
    """The machine's clocks. `offset` is added to the wall clock, where the database's clock counts."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class Every:
    """Work that is done at most once in `seconds`: due at first, and again that long after `take` or `restart`."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._due_at = -math.inf

    @property
    def is_due(self) -> bool:
        return self._clock.monotonic() >= self._due_at

    def take(self) -> bool:
        """Return whether it is due, and if so start the next pause."""
        is_due = self.is_due
        if is_due:
            self.restart()
        return is_due

    def restart(self) -> None:
        """Start a pause now; call it after the work if a failure must be tried again at once."""
        self._due_at = self._clock.monotonic() + self._seconds

    def end_pause(self) -> None:
        """Make it due now."""
        self._due_at = -math.inf


async def wait_for_event(clock: Clock, event: asyncio.Event, seconds: float) -> None:
    """Return once `event` is set, or after `seconds`."""
    waits = (asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(event.wait()))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def system_milliseconds() -> int:
    """Return the wall clock in milliseconds since 1970, without building a datetime."""
    return time.time_ns() // 1_000_000


MIN_SLICE_SECONDS: Final = 0.004
"""Minimum length of a slice; a yield costs a whole turn of a busy loop."""
MAX_SLICE_SECONDS: Final = 0.04
"""Maximum length of a slice, which is how long a call may wait for its turn."""


class TimeSlice:
    """Yields to other tasks and then works for as long as they did, so that they share a busy loop in halves."""

    def __init__(self) -> None:
        self._ends = 0.0

    async def yield_at_end(self) -> None:
        """Let other tasks run if the slice is over; call it between steps of a few milliseconds at most."""
        clock = asyncio.get_running_loop().time
        left = clock()
        if left < self._ends:
            return
        await asyncio.sleep(0)
        back = clock()
        self._ends = back + min(max(back - left, MIN_SLICE_SECONDS), MAX_SLICE_SECONDS)
