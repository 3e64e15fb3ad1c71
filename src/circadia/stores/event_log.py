"""The event log as services write it: each entry's row, and the signal that the log has grown."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from circadia.clock import Clock
from circadia.records.event import EVENT_DATA, Event, EventData, EventType
from circadia.stores.base import Tx
from circadia.stores.signals.base import Signals


class EventLog:
    """The only writer of events; what it writes and signals belongs to the caller's transaction."""

    def __init__(self, clock: Clock, signals: Signals, announce: Callable[[str], None] | None = None) -> None:
        """`announce` is called after the commit with each session of new events, in place of the signal `event`."""
        self._clock = clock
        self._signals = signals
        self._announce = announce or partial(signals.publish, "event")

    def build(
        self,
        kind: EventType,
        data: EventData,
        *,
        session: str | None = None,
        agent: str | None = None,
        at: datetime | None = None,
    ) -> Event:
        assert isinstance(data, EVENT_DATA[kind]), f"{kind} has no {type(data).__name__}"
        return Event(type=kind, at=at or self._clock.now(), session=session, agent=agent, data=data.to_json())

    async def record(
        self,
        tx: Tx,
        kind: EventType,
        data: EventData,
        *,
        session: str | None = None,
        agent: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Write an event of now, or of `at`."""
        await self.write(tx, [self.build(kind, data, session=session, agent=agent, at=at)])

    async def write(self, tx: Tx, events: Sequence[Event]) -> None:
        await tx.events.add(events)
        for session in {event.session or "" for event in events}:
            tx.after_commit(partial(self._announce, session))

    def signal(self, tx: Tx, topic: str, key: str, data: Mapping[str, object] | None = None) -> None:
        """Publish a signal once the transaction is durable."""
        tx.after_commit(lambda: self._signals.publish(topic, key, data))
