"""Finds out who is dead: whose lease has stood still for its length, by our own clock that cannot be set."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from circadia.clock import Clock

K = TypeVar("K", bound=Hashable)


class LeaseMonitor(Generic[K]):
    """Leases of others, as this process sees them. A key holds the lease's end, so that one that is renewed is another.

    The wall clocks of processes, and one that is set, play no part.
    """

    def __init__(self, clock: Clock, *, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._since: dict[K, float] = {}

    def find_expired(self, seen: Iterable[K]) -> list[K]:
        """Return those of the leases seen now that have stood still for their length."""
        now = self._clock.monotonic()
        self._since = {key: self._since.get(key, now) for key in seen}
        return [key for key, since in self._since.items() if now - since >= self._seconds]

    def reset(self) -> None:
        """Begin anew: the database was away, and nobody could renew a lease."""
        self._since.clear()
