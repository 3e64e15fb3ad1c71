"""Entries and wake requests from Redis, as messages and wakes of Circadia."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from circadia.agents.chains import fetch_place
from circadia.agents.directory import find_agent, find_session, hold_agents
from circadia.errors import InvalidRequest
from circadia.records.agent import Agent
from circadia.records.message import MessageType, Priority, build_external_sender
from circadia.records.principal import Principal
from circadia.records.session import Session
from circadia.records.wake import Wake, WakeReason, WakeSource
from circadia.stores.base import Store
from circadia.stores.locks import request_key
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
        return await self._send(entry.fields.get("from", ""), _build_letter(entry))

    async def wake(self, call: WakeCall, entry: InboxEntry | None) -> Wake | None:
        """Ask for a wake; return the request, or the one that the message of `entry` has made. Raises CallerError."""
        receipt = None if entry is None else await self.deliver(entry)
        if receipt is not None and receipt.wake is not None:
            return receipt.wake
        if receipt is None and call.message is not None:
            letter = OutgoingMessage(to=call.agent, content=call.message, wake=call.reason)
            return (await self._send(call.sender, letter)).wake
        home, sender = await self._find_sender(call.sender)
        key = None if entry is None else f"redis wake {call.agent} {entry.id}"
        async with self._store.begin_write() as tx:
            principal = Principal(agent=sender)
            await hold_agents(tx, principal, home, [call.agent], *([] if key is None else [request_key(key)]))
            target = await find_agent(tx, home, call.agent)
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

    async def _send(self, name: str, letter: OutgoingMessage) -> MessageReceipt:
        home, sender = await self._find_sender(name)
        if sender is None:
            letter = replace(letter, sender=build_external_sender(name))
        async with self._store.begin_write() as tx:
            return await self._inbox.send(tx, Principal(agent=sender), home, letter)

    async def _find_sender(self, name: str) -> tuple[Session, Agent | None]:
        """Return the session, and the sender if it is one of its agents; hold neither."""
        async with self._store.begin_read() as tx:
            home = await find_session(tx, _OPERATOR, self._session)
            return home, await tx.agents.get_by_name(home.id, name)


def _build_letter(entry: InboxEntry) -> OutgoingMessage:
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
