"""Lets a crowd go on a few at a time, so that whoever did not come with it is served in between."""

import asyncio
from collections import deque
from typing import Final

AT_ONCE: Final = 16
"""Calls that go on in one turn of the event loop. Each takes about half a millisecond until it is upstream; fewer make
the crowd slower, more make everybody else wait."""


class Pace:
    """A queue in which nobody waits for anybody, only for the next turn of the event loop.

    Without it, a wake of ten thousand held calls makes each turn of the loop ten thousand steps long, and an answer of
    the control API, which takes some ten turns, comes after the last of them.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._going = False

    async def turn(self) -> None:
        """Return when it is the caller's turn, in order of arrival."""
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.append(place)
        if not self._going:
            self._going = True
            loop.call_soon(self._next, loop)
        await place

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        gone = 0
        while self._waiting and gone < AT_ONCE:
            place = self._waiting.popleft()
            if not place.done():  # else its caller was cancelled
                place.set_result(None)
                gone += 1
        self._going = bool(self._waiting)
        if self._going:
            loop.call_soon(self._next, loop)
