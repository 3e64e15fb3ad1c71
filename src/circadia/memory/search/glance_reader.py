"""Looks at banks: at a glance where that is enough, which it is as long as nothing of the bank is new (MEM-02)."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Final, TypeVar

from circadia.clock import Clock
from circadia.stores.base import NotASingleRead, Store, Tx

AGAIN_SECONDS: Final = 1.0
"""After a glance that was not enough none is tried for so long: where much is said, each call finds something new."""
MAX_TRACKED: Final = 1_000
"""Those whose last glance was not enough."""

T = TypeVar("T")


class GlanceReader:
    """Reads what one statement may tell."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._too_short: dict[Hashable, float] = {}
        """Until when none is tried, by what is looked at."""

    async def run_read(self, store: Store, what: Hashable, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Return what `work` makes of a reading transaction, or of less; it may be begun twice.

        None is `what` a glance is never enough for.
        """
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
