"""Read a bank with a single statement while nothing in it is new, else in a transaction (MEM-02)."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Final, TypeVar

from circadia.clock import Clock
from circadia.stores.base import NotASingleRead, Store, Tx

AGAIN_SECONDS: Final = 1.0
"""Pause after a single read that was not enough: in a busy bank, each call finds something new."""
MAX_TRACKED: Final = 1_000
"""Most targets whose last single read was not enough."""

T = TypeVar("T")


class GlanceReader:
    """Tries a single-statement read before a transaction."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._too_short: dict[Hashable, float] = {}
        """End of the pause by target."""

    async def run_read(self, store: Store, what: Hashable, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run `work` in a single read, unless `what` is None, or in a transaction; it may be started twice."""
        now = self._clock.monotonic()
        if what is not None and self._too_short.get(what, now) <= now:
            try:
                async with store.begin_single_read() as tx:
                    return await work(tx)
            except NotASingleRead:
                if len(self._too_short) >= MAX_TRACKED:
                    self._too_short.clear()
                self._too_short[what] = now + AGAIN_SECONDS
        async with store.begin_read() as tx:
            return await work(tx)
