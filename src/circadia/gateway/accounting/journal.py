"""Writes gate events, spans of held calls, usage and conversations in the background, in ordered batches."""

from collections.abc import Callable, Sequence
from typing import Final

from circadia.clock import Clock
from circadia.gateway.accounting.write_behind import BacklogSpool, WriteBehindQueue
from circadia.records.agent import Agent
from circadia.records.call import Call
from circadia.records.conversation import Conversation
from circadia.records.event import Event, EventData, EventType
from circadia.records.span import Span
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog

BOUND: Final = 200_000
"""Lines kept while the database is unavailable; about 100 MB."""
_BATCH: Final = 2_000

Line = Event | Call | Conversation | Span
LINES: Final = (Event, Call, Conversation, Span)


class Journal(WriteBehindQueue[Line]):
    def __init__(
        self, clock: Clock, store: Store, spool: BacklogSpool[Line], events: EventLog, saw: Callable[[Line], None]
    ) -> None:
        super().__init__(clock, store, spool, what="lines of events and usage", bound=BOUND, batch=_BATCH)
        self._events = events
        self._saw = saw

    def put(self, entry: Line) -> None:
        super().put(entry)
        self._saw(entry)

    def event(self, kind: EventType, data: EventData, *, session: str, agent: str) -> None:
        self.put(self._events.build(kind, data, session=session, agent=agent))

    async def write_agent_events(self, tx: Tx, agent: Agent) -> None:
        """Write an agent's queued events in this transaction, so that they precede the events it adds itself."""

        def of_agent(line: Line) -> bool:
            return isinstance(line, Event) and (line.session, line.agent) == (agent.session, agent.name)

        events = [line for line in self.take_out(of_agent) if isinstance(line, Event)]
        if events:
            await self._events.write(tx, events)
            tx.after_rollback(lambda: self.put_back(events))

    async def write(self, batch: Sequence[Line]) -> None:
        async with self._store.begin_write() as tx:
            await self.mark_written(tx)  # from now on `write_agent_events` cannot take lines out of this batch
            events = [line for line in batch if isinstance(line, Event)]
            calls = [line for line in batch if isinstance(line, Call)]
            conversations = [line for line in batch if isinstance(line, Conversation)]
            for span in batch:
                if isinstance(span, Span):
                    await tx.spans.add(span)
            if events:
                await self._events.write(tx, events)
            if calls:
                await tx.calls.add(calls)
            if conversations:
                await tx.conversations.add(conversations)
