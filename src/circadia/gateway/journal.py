"""Writes what nobody waits for (events of the gate, usage, conversations) in batches, in order.

What a caller is acknowledged for goes through the store's own transactions instead. A batch that fails is kept and
tried again; beyond a bound the oldest lines are dropped and counted, so that a dead database never fills the memory.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from circadia.clock import Clock
from circadia.errors import StorageUnavailable
from circadia.records.call import Call
from circadia.records.conversation import Conversation
from circadia.records.event import Event, EventType
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals

_logger = logging.getLogger(__name__)

BOUND: Final = 200_000
"""Lines kept while the database is away; about 100 MB."""
PAUSE_SECONDS: Final = 0.05
"""Time that lines gather before they are written; what a reader of events lags behind at most, when all is well."""
RETRY_SECONDS: Final = 1.0
"""Time until a failed batch is tried again."""


class Journal:
    """A queue in front of the store."""

    def __init__(
        self, clock: Clock, store: Store, signals: Signals, saw: Callable[[Event | Call | Conversation], None]
    ) -> None:
        self._clock = clock
        self._store = store
        self._signals = signals
        self._saw = saw
        self._lines: deque[Event | Call | Conversation] = deque()
        self._some = asyncio.Event()
        self._writing = asyncio.Lock()  # protects the order of the lines: one batch after the other
        self._stopping = False
        self.dropped = 0

    def put(self, line: Event | Call | Conversation) -> None:
        """Have the line written soon."""
        if len(self._lines) >= BOUND:
            self._lines.popleft()
            self.dropped += 1
        self._lines.append(line)
        self._saw(line)
        self._some.set()

    def event(self, kind: EventType, session: str, agent: str, **data: object) -> None:
        """Have an event of now written soon."""
        self.put(Event(type=kind, at=self._clock.now(), session=session, agent=agent, data=data))

    @property
    def waiting(self) -> int:
        """Return how many lines are not written yet."""
        return len(self._lines)

    def stop(self) -> None:
        """Let `run` end after what it is writing now; a cancellation could leave a batch written and queued again."""
        self._stopping = True
        self._some.set()

    async def run(self) -> None:
        """Write until `stop` is called."""
        while not self._stopping:
            await self._some.wait()
            await self._clock.sleep(PAUSE_SECONDS)
            try:
                await self.flush()
            except StorageUnavailable as error:
                _logger.warning("cannot write %d lines yet: %s", len(self._lines), error)
                await self._clock.sleep(RETRY_SECONDS)

    async def flush(self) -> None:
        """Write all lines now.

        Raises:
            StorageUnavailable: the lines are kept.
        """
        async with self._writing:
            while self._lines:
                batch = [self._lines.popleft() for _ in range(min(len(self._lines), 2000))]
                try:
                    await self._write(batch)
                except StorageUnavailable:
                    self._lines.extendleft(reversed(batch))
                    raise
                except Exception:  # a line that the database cannot hold must cost neither the others nor the journal
                    _logger.exception("%d lines of the journal cannot be written together", len(batch))
                    await self._write_one_by_one(batch)
            self._some.clear()

    async def _write_one_by_one(self, batch: list[Event | Call | Conversation]) -> None:
        for index, line in enumerate(batch):
            try:
                await self._write([line])
            except StorageUnavailable:
                self._lines.extendleft(reversed(batch[index:]))
                raise
            except Exception:
                _logger.exception("a line of the journal cannot be written and is dropped")
                self.dropped += 1

    async def _write(self, batch: list[Event | Call | Conversation]) -> None:
        events = [line for line in batch if isinstance(line, Event)]
        calls = [line for line in batch if isinstance(line, Call)]
        talks = {(line.agent_id, line.id): line for line in batch if isinstance(line, Conversation)}
        async with self._store.write() as tx:
            if events:
                await tx.events.add(events)
            if calls:
                await tx.calls.add(calls)
            if talks:
                await tx.conversations.put(list(talks.values()))
            for session in {event.session for event in events if event.session}:
                tx.after_commit(lambda name=session: self._signals.publish("event", name))
