"""The tasks of the Redis bridge, each on a connection of its own. Nothing of Circadia waits for them, nor for Redis.

Sleeps, wakes, pulses and messages of the event log are published as a stream and by pub/sub. A transaction of Redis
holds the entries and the number of the last event. So an event is published once, whichever process does it, also if
Redis loses its last second. The database keeps the number too, in case Redis loses everything.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import orjson

from circadia.clock import Clock, wait_for_event
from circadia.errors import CallerError, StorageUnavailable
from circadia.jobs.loops import run_guarded
from circadia.records.event import Event, EventType
from circadia.records.pulse import PulseStatus
from circadia.settings.server import RedisBridgeSettings
from circadia.stores.base import Store
from circadia.stores.redis_connection import open_redis, read_messages, wrap_redis_errors
from circadia.stores.signals.base import Signals
from circadia.wake.redis_inboxes import InboxEntry, InboxReader, RedisDelivery, decode_fields, parse_wake_call

CURSOR: Final = "redis_bridge"
_AT_ONCE: Final = 500
_STATES: Final = {EventType.SLEEP_START: ("working", "idle"), EventType.SLEEP_STOP: ("idle", "working")}
_PUBLISHED: Final = (*_STATES, EventType.WAKE, EventType.PULSE, EventType.DIRECT_MESSAGE, EventType.MESSAGE)


class EventPublisher:
    """Starts with the events that follow its first start."""

    def __init__(self, store: Store, settings: RedisBridgeSettings) -> None:
        self._store = store
        self._settings = settings
        self._stream = settings.name(settings.events_stream)
        self._channel = settings.name(settings.events_channel)
        self._cursor_key = f"{self._stream}:circadia"
        self._looked: int | None = None
        """Up to this number nothing is left to publish."""

    def forget(self) -> None:
        """Look at both cursors again: the connection was lost, or another process published meanwhile."""
        self._looked = None

    async def step(self, client: Any) -> None:
        """Publish all that is in the log. Raises StorageUnavailable or Conflict; a later call goes on."""
        more = True
        while more:
            if self._looked is not None:
                last, events = await self._fetch_events(self._looked)
                if not events:
                    self._looked = last
                    return
            more = await self._publish_batch(client)

    async def _publish_batch(self, client: Any) -> bool:
        """Publish the next events; return whether there may be more."""
        with wrap_redis_errors():
            async with client.pipeline(transaction=True) as pipeline:
                await pipeline.watch(self._cursor_key)
                cursor = await self._find_cursor(await pipeline.get(self._cursor_key))
                last, events = await self._fetch_events(cursor)
                reached = events[-1].number if len(events) == _AT_ONCE else last
                pipeline.multi()
                for event in events:
                    body = orjson.dumps(_describe(event, self._settings.session))
                    pipeline.xadd(self._stream, {"data": body}, maxlen=self._settings.max_entries, approximate=True)
                    pipeline.publish(self._channel, body)
                pipeline.set(self._cursor_key, reached)
                await pipeline.execute()
        if reached != cursor:
            async with self._store.begin_write() as tx:
                await tx.cursors.save(CURSOR, reached)
        self._looked = reached
        return len(events) == _AT_ONCE

    async def _find_cursor(self, stored: bytes | None) -> int:
        """Return the number of the last published event: Redis's own, unless it is gone or of another database."""
        async with self._store.begin_read() as tx:
            last, cursor = await tx.events.last_number(), await tx.cursors.get(CURSOR)
        if stored is not None and int(stored) <= last:
            return int(stored)
        if cursor is None:
            cursor = last
            async with self._store.begin_write() as tx:
                await tx.cursors.save(CURSOR, cursor)
        return min(cursor, last)

    async def start(self) -> None:
        """Note where the log stands at the first start, so that nothing after it is missed while Redis is away."""
        await self._find_cursor(None)

    async def _fetch_events(self, after: int) -> tuple[int, Sequence[Event]]:
        """Return the last number of the log, and the next events to publish."""
        async with self._store.begin_read() as tx:
            last = await tx.events.last_number()
            return last, await tx.events.find_after(after, limit=_AT_ONCE, types=_PUBLISHED)


def _describe(event: Event, session: str) -> Mapping[str, object]:
    """Return an event in DjinnBot's form, with Circadia's own beside it."""
    agent = event.agent if event.session == session else f"{event.session}:{event.agent}"
    return {
        **_details(event),
        "agentId": None if event.agent is None else agent,
        "timestamp": int(event.at.timestamp() * 1_000),
        "number": event.number,
        "session": event.session,
        "event": event.type.value,
        "data": dict(event.data),
    }


def _details(event: Event) -> Mapping[str, object]:
    data = event.data
    match event.type:
        case EventType.SLEEP_START | EventType.SLEEP_STOP:
            was, now = _STATES[event.type]
            return {"type": "AGENT_STATE_CHANGED", "fromState": was, "toState": now}
        case EventType.PULSE:
            return {"type": _PULSES.get(str(data.get("status")), "AGENT_PULSE_COMPLETED"), "status": data.get("status")}
        case EventType.WAKE:
            return {"type": "AGENT_WAKE", "from": data.get("from"), "decision": data.get("decision")}
        case EventType.DIRECT_MESSAGE:
            return {
                "type": "AGENT_MESSAGE_RECEIVED", "from": data.get("from"), "messageType": data.get("type"),
                "priority": data.get("priority"), "messageId": data.get("message"),
            }  # fmt: skip
        case _:
            return {"type": "AGENT_MESSAGE", "from": data.get("from"), "messageId": data.get("message")}


_PULSES: Final = {
    status.value: "AGENT_PULSE_STARTED" if status is PulseStatus.RUNNING else "AGENT_PULSE_QUEUED"
    for status in PulseStatus
    if not status.is_over
}


_logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
"""Time between two tries while Redis is away, and between two looks at who leads."""


class RedisBridge:
    """Carries messages, wakes and events. Of several processes the one that leads works."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        signals: Signals,
        delivery: RedisDelivery,
        settings: RedisBridgeSettings,
        url: str,
        *,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._clock = clock
        self._delivery = delivery
        self._settings = settings
        self._url = url
        self._leads = leads
        self._reader = InboxReader(clock, store, delivery, settings)
        self._publisher = EventPublisher(store, settings)
        self._away: set[str] = set()
        """Tasks for which Redis or the database was away at the last try."""
        self._bell = asyncio.Event()
        signals.listen("event", lambda _, __: self._bell.set())

    async def run(self) -> None:
        """Work until cancelled; go on by itself after Redis or the database was away."""
        while not await run_guarded("the Redis bridge", self._publisher.start):
            await self._clock.sleep(RETRY_SECONDS)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_doing("inboxes", self._reader.step, self._reader.forget))
            tasks.create_task(self._keep_doing("events", self._publish, self._publisher.forget))
            tasks.create_task(self._keep_doing("wakes", self._hear_wakes, lambda: None))

    async def _keep_doing(self, what: str, step: Callable[[Any], Awaitable[None]], forget: Callable[[], None]) -> None:
        """Repeat a step with a client while this process leads; after a failure, with a new one."""
        while True:
            forget()
            client = open_redis(self._url, f"circadia {what}")
            attempt = partial(self._attempt, what, step, client)
            try:
                while self._leads() and await run_guarded(f"the Redis bridge ({what})", attempt):
                    if what in self._away:
                        break
            finally:
                with suppress(StorageUnavailable), wrap_redis_errors():
                    await client.aclose()
            await self._clock.sleep(RETRY_SECONDS)

    async def _attempt(self, what: str, step: Callable[[Any], Awaitable[None]], client: Any) -> None:
        """Do a step; log the first of several failures in a row, as Redis may be away for hours."""
        try:
            await step(client)
        except StorageUnavailable as error:
            if what not in self._away:
                _logger.warning("the Redis bridge (%s) waits: %s", what, error.message)
            self._away.add(what)
        else:
            self._away.discard(what)

    async def _publish(self, client: Any) -> None:
        self._bell.clear()
        await self._publisher.step(client)
        await wait_for_event(self._clock, self._bell, RETRY_SECONDS)

    async def _hear_wakes(self, client: Any) -> None:
        """Answer publications on the agents' wake channels until the connection is lost."""
        template = self._settings.wake_channel
        names = re.compile(re.escape(self._settings.name(template, "\0")).replace("\0", "(.+)"))
        with wrap_redis_errors():
            subscription = client.pubsub()
            await subscription.psubscribe(self._settings.name(template, "*"))
        async for message in read_messages(subscription):
            self._away.discard("wakes")
            if message["type"] == "pmessage" and self._leads():
                channel = message["channel"].decode(errors="replace")
                if match := names.fullmatch(channel):
                    await run_guarded("a wake by Redis", partial(self._wake, client, match[1], message["data"]))

    async def _wake(self, client: Any, agent: str, payload: bytes) -> None:
        try:
            call = parse_wake_call(agent, payload)
            entry = None if call.entry_id is None else await self._fetch_entry(client, agent, call.entry_id)
            await self._delivery.wake(call, entry)
        except CallerError as error:
            _logger.warning("a wake of %r by Redis is refused: %s", agent, error.message)

    async def _fetch_entry(self, client: Any, agent: str, entry_id: str) -> InboxEntry | None:
        stream = self._settings.name(self._settings.inbox_stream, agent)
        with wrap_redis_errors():
            entries = await client.xrange(stream, entry_id, entry_id)
        return InboxEntry(agent=agent, id=entry_id, fields=decode_fields(entries[0][1])) if entries else None
