"""Inboxes on Redis: entries of the agents' streams become messages, and publications become wakes.

The streams are read in a consumer group: each entry becomes one message, or is set aside with the reason.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from circadia.agents.chains import fetch_place
from circadia.agents.directory import find_agent, find_session, hold_agents
from circadia.clock import Clock, Every
from circadia.errors import CallerError, Conflict, InvalidRequest
from circadia.records.agent import Agent
from circadia.records.event import EventType
from circadia.records.message import MessageType, Priority, build_external_sender
from circadia.records.principal import Principal
from circadia.records.session import Session
from circadia.records.wake import Wake, WakeReason, WakeSource
from circadia.settings.server import RedisBridgeSettings
from circadia.stores.base import Store
from circadia.stores.locks import request_key
from circadia.stores.redis_connection import wrap_redis_errors
from circadia.wake.admission.requests import WakeRequests
from circadia.wake.inbox import Inbox, MessageReceipt, OutgoingMessage
from circadia.wake.wake_rows import NewWake

_ENTRY_ID: Final = re.compile(r"\d{1,20}-\d{1,20}")
_OPERATOR: Final = Principal()
_PLAIN_TYPES: Final = frozenset({"urgent", "work_assignment"})
"""Types that DjinnBot's API takes besides Circadia's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxEntry:
    """An entry of an agent's stream."""

    agent: str
    """Name of the recipient."""
    id: str
    fields: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeCall:
    """A publication on an agent's wake channel."""

    agent: str
    sender: str
    message: str | None
    reason: WakeReason
    entry_id: str | None
    """The entry that it announces."""


def parse_wake_call(agent: str, payload: bytes) -> WakeCall:
    """Return the request in a publication. Raises InvalidRequest if it is no JSON object."""
    try:
        value: Any = orjson.loads(payload)
        given: Mapping[str, Any] = dict(value)
    except (ValueError, TypeError):
        raise InvalidRequest('a wake is a JSON object, such as {"from": "ann"}') from None
    reason = given.get("reason")
    return WakeCall(
        agent=agent,
        sender=_text(given, "from") or "unknown",
        message=_text(given, "message"),
        reason=WakeReason(reason) if reason in set(WakeReason) else WakeReason.USER_REQUEST,
        entry_id=entry_id if (entry_id := _text(given, "messageId")) and _ENTRY_ID.fullmatch(entry_id) else None,
    )


class RedisDelivery:
    """Stores what Redis brings, each in a transaction of its own.

    Whoever may write to Redis may write in the name of any agent of the session. A sender who is no agent is shown as
    `redis:name`, and its words are not taken for a person's.
    """

    def __init__(self, store: Store, inbox: Inbox, requests: WakeRequests, session: str) -> None:
        self._store = store
        self._inbox = inbox
        self._requests = requests
        self._session = session

    async def deliver(self, entry: InboxEntry) -> MessageReceipt:
        """Store the entry as a message; an entry that is stored already changes nothing. Raises CallerError."""
        return await self._send(entry.fields.get("from", ""), _build_outgoing(entry))

    async def wake(self, call: WakeCall, entry: InboxEntry | None) -> Wake | None:
        """Ask for a wake; return the request, or the one that the message of `entry` has made. Raises CallerError."""
        receipt = None if entry is None else await self.deliver(entry)
        if receipt is not None and receipt.wake is not None:
            return receipt.wake
        if receipt is None and call.message is not None:
            outgoing = OutgoingMessage(to=call.agent, content=call.message, wake=call.reason)
            return (await self._send(call.sender, outgoing)).wake
        session, sender = await self._find_sender(call.sender)
        key = None if entry is None else f"redis wake {call.agent} {entry.id}"
        async with self._store.begin_write() as tx:
            principal = Principal(agent=sender)
            await hold_agents(tx, principal, session, [call.agent], *([] if key is None else [request_key(key)]))
            target = await find_agent(tx, session, call.agent)
            ask = NewWake(
                target=target,
                source=WakeSource.AGENT,
                sender=sender,
                by=build_external_sender(call.sender) if sender is None else sender.reference,
                reason=call.reason.value,
                message_id=None if receipt is None else receipt.message.id,
                message_root=None if receipt is None else receipt.message.root_id,
                place=await fetch_place(tx, principal),
                key=key,
            )
            return await self._requests.ask(tx, ask)

    async def _send(self, name: str, outgoing: OutgoingMessage) -> MessageReceipt:
        session, sender = await self._find_sender(name)
        if sender is None:
            outgoing = replace(outgoing, sender=build_external_sender(name))
        async with self._store.begin_write() as tx:
            return await self._inbox.send(tx, Principal(agent=sender), session, outgoing)

    async def _find_sender(self, name: str) -> tuple[Session, Agent | None]:
        """Return the session, and the sender if it is one of its agents; hold neither."""
        async with self._store.begin_read() as tx:
            session = await find_session(tx, _OPERATOR, self._session)
            return session, await tx.agents.get_by_name(session.id, name)


def _build_outgoing(entry: InboxEntry) -> OutgoingMessage:
    fields = entry.fields
    content = fields.get("message", "")
    if subject := fields.get("subject"):
        content = f"{subject}\n\n{content}"
    kind, priority = fields.get("type", MessageType.INFO.value), fields.get("priority", Priority.NORMAL.value)
    if kind not in _PLAIN_TYPES and kind not in set(MessageType):
        raise InvalidRequest(f"there is no message type {kind!r}; use one of {', '.join(MessageType)}")
    if priority not in set(Priority):
        raise InvalidRequest(f"there is no priority {priority!r}; use one of {', '.join(Priority)}")
    return OutgoingMessage(
        to=entry.agent,
        content=content,
        type=MessageType.INFO if kind in _PLAIN_TYPES else MessageType(kind),
        priority=Priority.URGENT if kind == "urgent" else Priority(priority),
        key=f"redis {entry.agent} {entry.id}",
    )


def _text(given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    return value if isinstance(value, str) and value else None


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
