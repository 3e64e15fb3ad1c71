"""The tasks of the bridge, each on a connection of its own. Nothing of Circadia waits for them, nor for Redis."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from circadia.clock import Clock, wait_for_event
from circadia.errors import CallerError, StorageUnavailable
from circadia.jobs.loops import run_guarded
from circadia.settings.redis_bridge import RedisBridgeSettings
from circadia.stores.base import Store
from circadia.stores.redis_connection import open_redis, read_messages, wrap_redis_errors
from circadia.stores.signals.base import Signals
from circadia.wake.redis_bridge.delivery import InboxEntry, RedisDelivery, parse_wake_call
from circadia.wake.redis_bridge.event_publisher import EventPublisher
from circadia.wake.redis_bridge.inbox_reader import InboxReader, decode_fields

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
