"""A clock that moves when a test moves it."""

import asyncio
from datetime import UTC, datetime, timedelta


class ManualClock:
    """Time stands still until `advance`; who sleeps wakes in the order of the times."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._changed = asyncio.Condition()

    def now(self) -> datetime:
        """Return the present instant."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was moved so far."""
        if seconds <= 0:
            return
        entry = (self._seconds + seconds, asyncio.get_running_loop().create_future())
        self._sleepers.append(entry)
        async with self._changed:
            self._changed.notify_all()
        try:
            await entry[1]
        finally:
            self._sleepers = [each for each in self._sleepers if each is not entry]
            async with self._changed:
                self._changed.notify_all()

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self._seconds += seconds
        for due, future in sorted(self._sleepers, key=lambda each: each[0]):
            if due <= self._seconds and not future.done():
                future.set_result(None)

    async def sleepers(self, count: int) -> None:
        """Return once so many sleep."""
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(lambda: len(self._sleepers) == count)
