"""Notices that the wall clock was set, by the clock that cannot be: no span of time may be longer or shorter by it."""

from datetime import datetime, timedelta
from typing import Final

from circadia.clock import Clock

CLOCK_SET_SECONDS: Final = 5.0
"""What the wall clock may gain or lose between two looks until it counts as set."""


class ClockJumps:
    """How far the wall clock was set since the last look at it. One per process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = self._wall_offset()
        self._looked_at = clock.monotonic()

    @property
    def gained_seconds(self) -> float:
        """How far it was set, back if negative; 0 if it was not."""
        gained = self._wall_offset() - self._offset
        return gained if abs(gained) > CLOCK_SET_SECONDS else 0.0

    @property
    def last_check_at(self) -> datetime:
        """The instant of the last look, on the clock as it is set now: what began between it and now is right."""
        return self._clock.now() - timedelta(seconds=self._clock.monotonic() - self._looked_at)

    def resync(self) -> None:
        """Take the clock as it stands: what began before was corrected, or it was not set."""
        self._offset = self._wall_offset()
        self._looked_at = self._clock.monotonic()

    def corrected_start(self, began: datetime) -> datetime:
        """Return when something that has not ended began, on the clock as it is set now."""
        now, gained = self._clock.now(), self.gained_seconds
        moved = began + timedelta(seconds=gained)
        return began if moved > now or self.last_check_at <= began <= now else moved

    def _wall_offset(self) -> float:
        """Return what the wall clock is ahead of the one that cannot be set."""
        return self._clock.now().timestamp() - self._clock.monotonic()
