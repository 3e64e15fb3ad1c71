"""A fair share of the event loop for background work."""

import asyncio
from typing import Final

SHORTEST_SECONDS: Final = 0.004
"""Minimum length of a slice; a yield costs a whole turn of a busy loop."""
LONGEST_SECONDS: Final = 0.04
"""Maximum length of a slice, which is how long a call may wait for its turn."""


class TimeSlice:
    """Yields to other tasks and then works for as long as they did, so that they share a busy loop in halves."""

    def __init__(self) -> None:
        self._ends = 0.0

    async def yield_at_end(self) -> None:
        """Let other tasks run if the slice is over; call it between steps of a few milliseconds at most."""
        clock = asyncio.get_running_loop().time
        left = clock()
        if left < self._ends:
            return
        await asyncio.sleep(0)
        back = clock()
        self._ends = back + min(max(back - left, SHORTEST_SECONDS), LONGEST_SECONDS)
