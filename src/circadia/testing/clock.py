"""A clock that tests advance by hand."""

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A `circadia.clock.Clock` whose time passes only in `advance`.

    Sleepers wake in the order of their times, in the event loop's next turn after the clock has reached them.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._more = asyncio.Event()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has advanced by `seconds`; at once if they are not positive."""
        if seconds <= 0:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        self._more.set()
        await future

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake the sleepers that are due. Raises ValueError: time does not go back."""
        if seconds < 0:
            raise ValueError(f"time does not go back, got {seconds!r}")
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed + 1e-9:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)

    @property
    def sleepers(self) -> int:
        return sum(not future.done() for _, _, future in self._sleepers)

    async def wait_for_sleepers(self, number: int) -> None:
        """Return once at least `number` tasks sleep, so that a test advances only when all have come to rest."""
        while self.sleepers < number:
            self._more.clear()
            await self._more.wait()
