"""A fair share of the event loop for work that nobody waits for."""

import asyncio
from typing import Final

SHORTEST_SECONDS: Final = 0.004
"""Of a share; a yield costs a whole turn of a busy loop."""
LONGEST_SECONDS: Final = 0.04
"""Of a share; a call waits that much longer for its turn."""


class TimeSlice:
    """Yields to other tasks after as long as they took the last time, so that a busy loop is shared in halves."""

    def __init__(self) -> None:
        self._ends = 0.0

    async def yield_at_end(self) -> None:
        """Let others run if the slice is over; call it between steps of less than a few milliseconds."""
        clock = asyncio.get_running_loop().time
        left = clock()
        if left < self._ends:
            return
        await asyncio.sleep(0)
        back = clock()
        self._ends = back + min(max(back - left, SHORTEST_SECONDS), LONGEST_SECONDS)
