"""How long ago this process last saw all changes by others (CLU-17)."""

from typing import Final

from circadia.clock import Clock
from circadia.errors import StorageUnavailable

LOST_SECONDS: Final = 5.0
"""Changes are read every second. After this time without, calls do not wait for what they can do without."""


class DatabaseContact:
    """What is cached is valid for `grace_seconds` after a contact; forever if no other process writes."""

    def __init__(self, clock: Clock, *, is_shared: bool, grace_seconds: float, carries_signals: bool = False) -> None:
        """With `carries_signals` the database also carries the signals of other processes, which stop with it."""
        self.carries_signals = carries_signals
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._last = clock.monotonic()
        self.is_shared = is_shared

    def note(self, at: float) -> None:
        """Note that all changes up to this time of the clock are known."""
        self._last = at

    def require_cache(self) -> None:
        """Raise StorageUnavailable if what is cached may be too old."""
        self._require(self._grace_seconds)

    def allows_cache(self, *, failing_seconds: float) -> bool:
        """Return whether what is cached is valid, although the database has failed for so long."""
        age = self._clock.monotonic() - self._last
        return self.is_shared and max(age, failing_seconds) < self._grace_seconds

    def require_database(self) -> None:
        """Raise StorageUnavailable if the database does not answer at present."""
        self._require(LOST_SECONDS)

    def _require(self, seconds: float) -> None:
        if self.is_shared and (age := self._clock.monotonic() - self._last) > seconds:
            message = f"the database has not answered for {age:.0f} s; send it again"
            raise StorageUnavailable(message, retry_after_seconds=5)
