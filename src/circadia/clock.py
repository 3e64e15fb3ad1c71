"""The only source of time: wall clock for stamps, monotonic clock for durations."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as the program sees it.

    `now` may jump (the machine's clock is set); `monotonic` never goes back. Stamps come from the first, waits and
    durations from the second.
    """

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed point."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`, at once if not positive."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the wall clock's instant."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the monotonic clock's seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep in the event loop."""
        await asyncio.sleep(max(0.0, seconds))


def system_milliseconds() -> int:
    """Return the machine's wall clock in milliseconds since 1970, without the cost of an instant."""
    return time.time_ns() // 1_000_000
