"""Detects dead lease holders by the monotonic clock of this process."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from circadia.clock import Clock

K = TypeVar("K", bound=Hashable)


class LeaseMonitor(Generic[K]):
    """Leases of other processes, as this one sees them. A key has the lease's end, so a renewed lease is a new key.

    Wall clocks, which may differ or be set, play no part.
    """

    def __init__(self, clock: Clock, *, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._since: dict[K, float] = {}

    def find_expired(self, seen: Iterable[K]) -> list[K]:
        """Return the leases in `seen` that have not been renewed for their length."""
        now = self._clock.monotonic()
        self._since = {key: self._since.get(key, now) for key in seen}
        return [key for key, since in self._since.items() if now - since >= self._seconds]

    def reset(self) -> None:
        """Start over after the database was away: nobody could renew a lease."""
        self._since.clear()
