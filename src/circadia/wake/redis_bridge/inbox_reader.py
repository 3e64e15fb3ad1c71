"""Reads the agents' streams in a consumer group: each entry becomes one message, or is set aside with the reason."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from circadia.clock import Clock, Every
from circadia.errors import CallerError, Conflict
from circadia.records.event import EventType
from circadia.settings.redis_bridge import RedisBridgeSettings
from circadia.stores.base import Store
from circadia.stores.redis_connection import wrap_redis_errors
from circadia.wake.redis_bridge.delivery import InboxEntry, RedisDelivery

_logger = logging.getLogger(__name__)

BLOCK_SECONDS: Final = 1.0
"""Longest wait for an entry, after which new agents are looked for."""
PENDING_SECONDS: Final = 30.0
"""Time between two looks for entries that somebody took and did not finish."""
_AT_ONCE: Final = 50
"""Entries of one stream in one answer."""
_CONSUMER: Final = "circadia"
"""The same in all processes, so that each finds at once what another left; a message's key makes up for the rest."""
_OF_AGENTS: Final = (
    EventType.SESSION_CREATED, EventType.AGENT_CREATED, EventType.AGENT_CHANGED, EventType.AGENT_DELETED,
)  # fmt: skip


class InboxReader:
    """Takes entries of all agents of a session; an entry is acknowledged once its message is committed."""

    def __init__(self, clock: Clock, store: Store, delivery: RedisDelivery, settings: RedisBridgeSettings) -> None:
        self._clock = clock
        self._store = store
        self._delivery = delivery
        self._settings = settings
        self._agents: dict[str, str] = {}
        """Names of agents by their streams, as of the event with the number `_seen`."""
        self._seen: int | None = None
        self._grouped: set[str] = set()
        self._pending_reads = Every(clock, PENDING_SECONDS)

    def forget(self) -> None:
        """Look at everything again: the connection was lost, or another process read meanwhile."""
        self._grouped.clear()
        self._pending_reads.end_pause()

    async def step(self, client: Any) -> None:
        """Deliver what is there, or wait for an entry for a short time.

        Raises:
            StorageUnavailable: Redis or the database does not answer; what was not acknowledged stays pending.
        """
        await self._refresh_agents()
        await self._create_groups(client)
        if not self._agents:
            await self._clock.sleep(BLOCK_SECONDS)
            return
        if self._pending_reads.is_due:
            while await self._deliver_entries(client, "0", block=None):
                pass
            self._pending_reads.restart()
        await self._deliver_entries(client, ">", block=BLOCK_SECONDS)

    async def _refresh_agents(self) -> None:
        async with self._store.begin_read() as tx:
            last = await tx.events.last_number()
            if self._seen is not None and not await tx.events.find_after(self._seen, limit=1, types=_OF_AGENTS):
                self._seen = last
                return
            session = await tx.sessions.get_by_name(self._settings.session)
            agents = () if session is None else await tx.agents.find_by_session(session.id)
        template = self._settings.inbox_stream
        self._agents = {
            self._settings.name(template, agent.name): agent.name for agent in agents if agent.deleted_at is None
        }
        self._seen = last

    async def _create_groups(self, client: Any) -> None:
        """Create missing groups: DjinnBot's own mark, or else the start of the stream, is where reading begins."""
        missing = [stream for stream in self._agents if stream not in self._grouped]
        if not missing:
            return
        with wrap_redis_errors():
            marks = await client.mget([f"{stream}:last_read" for stream in missing])
            pipeline = client.pipeline(transaction=False)
            for stream, mark in zip(missing, marks, strict=True):
                pipeline.xgroup_create(stream, self._settings.group, id=mark or "0", mkstream=True)
            for result in await pipeline.execute(raise_on_error=False):
                if isinstance(result, Exception) and "BUSYGROUP" not in str(result):
                    raise result
        self._grouped.update(missing)

    async def _deliver_entries(self, client: Any, after: str, *, block: float | None) -> int:
        """Read once, deliver, and return the number of entries; `after` is `>` for new ones, `0` for pending ones."""
        milliseconds = None if block is None else int(block * 1_000)
        with wrap_redis_errors():
            answer = await client.xreadgroup(
                self._settings.group, _CONSUMER, dict.fromkeys(self._agents, after), count=_AT_ONCE, block=milliseconds
            )
        count = 0
        for stream, entries in _by_stream(answer):
            for entry_id, fields in entries:
                entry = InboxEntry(agent=self._agents[stream], id=entry_id.decode(), fields=decode_fields(fields))
                await self._deliver(client, stream, entry)
                count += 1
        return count

    async def _deliver(self, client: Any, stream: str, entry: InboxEntry) -> None:
        reason = await self._explain_refusal(entry) if entry.fields else None  # none are left of a deleted entry
        with wrap_redis_errors():
            pipeline = client.pipeline(transaction=True)
            if reason is not None:
                _logger.warning("entry %s of %s is set aside: %s", entry.id, stream, reason)
                dead = {**entry.fields, "entry": entry.id, "reason": reason}
                pipeline.xadd(f"{stream}:dead", dead, maxlen=self._settings.max_entries, approximate=True)
            pipeline.xack(stream, self._settings.group, entry.id)
            await pipeline.execute()

    async def _explain_refusal(self, entry: InboxEntry) -> str | None:
        """Deliver the entry, and return None; or return why it can never be a message."""
        for is_last in (False, True):
            try:
                await self._delivery.deliver(entry)
                return None
            except Conflict as error:  # once more, in case another change came between
                if is_last:
                    return error.message
            except CallerError as error:
                return error.message
        return None


def _by_stream(answer: Any) -> Sequence[tuple[str, Sequence[tuple[bytes, Mapping[bytes, bytes] | None]]]]:
    return [(stream.decode(), entries) for stream, entries in answer or ()]


def decode_fields(fields: Mapping[bytes, bytes] | None) -> Mapping[str, str]:
    """Return fields as text."""
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in (fields or {}).items()}
