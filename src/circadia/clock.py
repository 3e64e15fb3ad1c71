"""The only source of time: the wall clock for timestamps, the monotonic clock for durations."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


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
