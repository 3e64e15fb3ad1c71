"""The look for due work, which all sweeps of a process share."""

from circadia.clock import Clock
from circadia.records.due_work import DueWork
from circadia.records.wake import FLEET
from circadia.stores.base import Store


class DueWatch:
    """Looks at most once in `seconds`: who asks in between gets the same answer."""

    def __init__(self, clock: Clock, store: Store, *, seconds: float = 0.0) -> None:
        self._clock = clock
        self._store = store
        self._seconds = seconds
        self._last: DueWork | None = None
        self._until = 0.0

    async def look(self, *, fresh: bool = False) -> DueWork:
        """Return what is due; with `fresh` as of now. Raises StorageUnavailable."""
        now = self._clock.monotonic()
        if self._last is None or fresh or now >= self._until:
            async with self._store.begin_single_read() as tx:
                self._last = await tx.due_work.find(self._clock.now(), fleet_rule=FLEET)
            self._until = now + self._seconds
        return self._last
