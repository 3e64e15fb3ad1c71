"""Admits a crowd a few calls at a time, so that other callers are served in between."""

import asyncio
from collections import deque
from typing import Final

AT_ONCE: Final = 16
"""Calls prepared at the same time. Each takes about half a millisecond of the event loop; fewer make the
crowd slower, more make other callers wait.
"""
SLOT_SECONDS: Final = 0.1
"""Maximum time in a slot: a call that waits for a connection or a model does not need the event loop."""


class PacePermit:
    __slots__ = ("_pace", "_timer")

    def __init__(self, pace: "Pace") -> None:
        self._pace: Pace | None = pace
        self._timer = asyncio.get_running_loop().call_later(SLOT_SECONDS, self.release)

    def release(self) -> None:
        """Pass the slot to the next in the queue; calling it again has no effect."""
        self._timer.cancel()
        pace, self._pace = self._pace, None
        if pace is not None:
            pace.next()


class Pace:
    """A queue for slots, in order of arrival.

    Without it, waking ten thousand held calls makes each turn of the loop ten thousand steps long, and a control API
    answer, which takes some ten turns, comes after the last of them.
    """

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._free_slots = AT_ONCE

    async def slot(self) -> PacePermit:
        if self._free_slots:
            self._free_slots -= 1
            return PacePermit(self)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # granted and cancelled at the same time: pass it on
                self.next()
            raise
        return PacePermit(self)

    def next(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():  # else its caller was cancelled
                waiter.set_result(None)
                return
        self._free_slots += 1
