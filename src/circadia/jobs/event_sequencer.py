"""Numbers events after their commit, on a database where blocks commit side by side.

A number drawn before the commit could become visible after a greater one, and a reader that had seen the greater one
would never read it. So events are numbered by one block at a time, once they are committed: by the process that wrote
them, or, if that died, by any other within two seconds.
"""

import asyncio
from typing import Final

from circadia.clock import Clock, wait_for_event
from circadia.jobs.loops import DueWatch, run_guarded
from circadia.stores.base import Store
from circadia.stores.locks import EVENTS_KEY
from circadia.stores.signals.base import Signals

EVERY_SECONDS: Final = 1.0
"""Time between two looks for events of a process that died; `DueWatch` may know them a second late."""


class EventSequencer:
    """One per process."""

    def __init__(self, clock: Clock, store: Store, signals: Signals, due: DueWatch | None = None) -> None:
        self._clock = clock
        self._store = store
        self._signals = signals
        self._due = due or DueWatch(clock, store)
        self._bell = asyncio.Event()
        self._sessions: set[str] = set()
        """Sessions with new events of this process."""

    def announce(self, session: str) -> None:
        """Have the session's committed events numbered, and then signalled."""
        self._sessions.add(session)
        self._bell.set()

    async def run(self) -> None:
        """Number events until cancelled."""
        while True:
            await wait_for_event(self._clock, self._bell, EVERY_SECONDS)
            self._bell.clear()
            await run_guarded("the numbering of events", self._number_due_events)

    async def _number_due_events(self) -> None:
        if self._sessions or (await self._due.look()).events:
            await self.number_events()

    async def number_events(self) -> None:
        """Number all events that are committed, so that whoever reads next finds them."""
        sessions, self._sessions = self._sessions, set()
        if not sessions:
            async with self._store.begin_read() as tx:
                if not await tx.events.has_unnumbered():
                    return
        try:
            async with self._store.begin_write(EVENTS_KEY) as tx:
                await tx.events.assign_numbers()
        except BaseException:
            self._sessions |= sessions
            raise
        for session in sessions or {""}:
            self._signals.publish("event", session)
