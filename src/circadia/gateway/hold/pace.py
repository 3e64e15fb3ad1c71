"""Lets a crowd go on a few at a time, so that whoever did not come with it is served in between."""

import asyncio
from collections import deque
from typing import Final

AT_ONCE: Final = 16
"""Calls that are made ready at the same time. Each takes about half a millisecond of the event loop; fewer make the
crowd slower, more make everybody else wait."""
SLOT_SECONDS: Final = 0.1
"""How long one call keeps its slot: one that waits for a connection or a model does not need the event loop."""


class PacePermit:
    """A place among those that are made ready; released once."""

    __slots__ = ("_pace", "_timer")

    def __init__(self, pace: "Pace") -> None:
        self._pace: Pace | None = pace
        self._timer = asyncio.get_running_loop().call_later(SLOT_SECONDS, self.release)

    def release(self) -> None:
        """Give the place to the next in the queue; a second time does nothing."""
        self._timer.cancel()
        pace, self._pace = self._pace, None
        if pace is not None:
            pace.next()


class Pace:
    """A queue for slots, in order of arrival.

    Without it, a wake of ten thousand held calls makes each turn of the loop ten thousand steps long, and an answer of
    the control API, which takes some ten turns, comes after the last of them.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._free = AT_ONCE

    async def slot(self) -> PacePermit:
        """Return a slot when it is the caller's turn."""
        if self._free:
            self._free -= 1
            return PacePermit(self)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # given and cancelled at once: to the next one
                self.next()
            raise
        return PacePermit(self)

    def next(self) -> None:
        """Give a free slot to whoever waits longest."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():  # else its caller was cancelled
                place.set_result(None)
                return
        self._free += 1
