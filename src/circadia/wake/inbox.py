"""Direct messages to agents and their delivery (WAKE-01 … WAKE-06, WAKE-30 … WAKE-34)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import orjson

from circadia.agents.chains import ChainPosition, fetch_place
from circadia.agents.directory import find_agent_by_reference, hold_agents
from circadia.agents.threads import require_content
from circadia.clock import Clock
from circadia.errors import Conflict, Forbidden, InvalidRequest, NotFound
from circadia.ids import AgentId, IdSource, MessageId, ThreadId
from circadia.records.agent import Agent, OwnWake
from circadia.records.event import DeliveryUpdate, DirectMessage, EventData, EventType
from circadia.records.message import Delivery, DeliveryState, Message, MessageType, Priority, build_event_sender
from circadia.records.principal import Principal
from circadia.records.session import Session
from circadia.records.thread import Thread, ThreadStatus
from circadia.records.wake import GuardrailCounts, Wake, WakeReason, WakeSource, matches_override
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import agent_key, request_key
from circadia.wake.admission.requests import WakeRequests
from circadia.wake.wake_rows import NewWake

MAX_SNOOZE_SECONDS: Final = 30 * 86_400.0
MAX_KEY_CHARACTERS: Final = 200
_WAKING: Final = frozenset({Priority.HIGH, Priority.URGENT})


@dataclass(frozen=True, kw_only=True, slots=True)
class OutgoingMessage:
    to: str
    """`name`, or `session:name`."""
    content: str
    type: MessageType = MessageType.INFO
    priority: Priority = Priority.NORMAL
    wake: WakeReason | None = None
    reply_to: MessageId | None = None
    key: str | None = None
    override: str | None = None
    sender: str | None = None
    """Display name of somebody outside for whom the operator's program speaks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageReceipt:
    """A stored message, with its wake request if it made one."""

    message: Message
    to: Agent
    place: ChainPosition
    wake: Wake | None = None
    counts: GuardrailCounts | None = None
    """The ledger with this wake, if it is new."""


class Inbox:
    """Sends and keeps direct messages, in the caller's transaction."""

    def __init__(
        self, clock: Clock, ids: IdSource, events: EventLog, requests: WakeRequests, *, max_message_characters: int
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events
        self._requests = requests
        self._max_characters = max_message_characters
        self._directs: set[ThreadId] = set()
        """Known threads of direct messages; none is ever deleted."""

    def forget(self) -> None:
        """Drop the known threads."""
        self._directs.clear()

    async def send(self, tx: Tx, principal: Principal, session: Session, outgoing: OutgoingMessage) -> MessageReceipt:
        """Store the message with its wake request; return the first result if the key was used before.

        Raises:
            InvalidRequest: empty or too long, to oneself, or a bad key.
            NotFound: no such agent.
            Forbidden: the sender may not reach it, or may not override.
            Conflict: the agent is disabled, or the key belongs to another message.
        """
        require_content(outgoing.content, self._max_characters)
        _require_key(outgoing.key)
        if outgoing.override is not None and not principal.is_operator:
            raise Forbidden("only the operator lets a wake pass its guardrails; leave `override` out")
        sender_id = principal.agent.id if principal.agent else principal.name
        key = None if outgoing.key is None else f"{sender_id} {outgoing.key}"
        await hold_agents(tx, principal, session, [outgoing.to], *([] if key is None else [request_key(key)]))
        target = await find_agent_by_reference(tx, principal, session, outgoing.to)
        self._require_reader(principal, target)
        known = await tx.messages.get_by_key(key) if key is not None else None
        place = await fetch_place(tx, principal)
        if known is not None:
            return await self._find_repeated(tx, target, outgoing, place, known)
        message = await self._store_message(tx, principal, target, outgoing, place, key)
        wake, counts = None, None
        is_waking = outgoing.priority in _WAKING and target.coordination.wake_on_high_priority
        if outgoing.wake is not None or is_waking or (target.asleep and target.asked_for(OwnWake.MESSAGE)):
            ask = self._build_ask(principal, target, outgoing, message, place, key)
            wake, counts = await self._requests.request(tx, ask)
        return MessageReceipt(message=message, to=target, place=place, wake=wake, counts=counts)

    async def notify(self, tx: Tx, agent: Agent, content: str, *, root_id: str | None = None) -> None:
        """Put a message from Circadia into an inbox; it wakes nobody."""
        message = Message(
            id=MessageId(self._ids.new("msg")),
            number=0,
            thread_id=await self._ensure_direct_thread(tx, agent),
            session_id=agent.session_id,
            sender_id=None,
            sender="circadia",
            content=content,
            at=self._clock.now(),
            root_id=root_id,
        )
        await tx.messages.add(message, [(agent.id, False)])
        self._signal_delivery(tx, agent.id)

    def require_event_content(self, data: Mapping[str, Any], key: str | None) -> str:
        """Return the text of an event's message. Raises InvalidRequest: it is too long, or its key is."""
        try:
            content = orjson.dumps(data).decode()
        except TypeError as error:  # a lone surrogate, or deeper than 250 levels
            raise InvalidRequest(f"the data is no JSON that can be stored: {error}") from error
        require_content(content, self._max_characters)
        _require_key(key)
        return content

    async def deliver_event(
        self, tx: Tx, agent: Agent, name: str, content: str, *, key: str, place: ChainPosition
    ) -> Message:
        """Put a named event into an inbox; what it wakes is up to the caller."""
        message_id = MessageId(self._ids.new("msg"))
        message = Message(
            id=message_id,
            number=0,
            thread_id=await self._ensure_direct_thread(tx, agent),
            session_id=agent.session_id,
            sender_id=None,
            sender=build_event_sender(name),
            content=content,
            at=self._clock.now(),
            priority=Priority.HIGH,
            key=key,
            root_id=place.root_id or message_id,
            parent_id=place.parent_id,
            depth=place.depth,
        )
        await self._add_message(tx, message, agent)
        return message

    async def ack(
        self, tx: Tx, agent: Agent, messages: Sequence[MessageId], *, by: str | None = None
    ) -> Sequence[MessageId]:
        """Mark messages as handled; return those that were not handled before. Raises NotFound.

        `by` is the operator who does it in place of the agent.
        """
        await self._require_own(tx, agent, messages)
        handled = await tx.deliveries.mark_handled(agent.id, messages, self._clock.now())
        await self._record_delivery_event(tx, agent, "handled", handled, by=by)
        return handled

    async def snooze(
        self, tx: Tx, agent: Agent, messages: Sequence[MessageId], seconds: float, *, by: str | None = None
    ) -> datetime:
        """Snooze messages that are unread or in the current prompt; return when they become unread again.

        Raises:
            InvalidRequest: too long. NotFound: one is not in this inbox. Conflict: one is handled.
        """
        if not 0 < seconds <= MAX_SNOOZE_SECONDS:
            raise InvalidRequest(f"a snooze of {seconds:g} s is out of range; write more than 0, at most 30 days")
        await self._require_own(tx, agent, messages)
        now = self._clock.now()
        until = now + timedelta(seconds=seconds)
        await tx.deliveries.release(agent.id, messages)
        snoozed = await tx.deliveries.lease(agent.id, messages, until, now=now, snoozed=True)
        if set(snoozed) != set(messages):
            raise Conflict("some of these messages are handled already; read the inbox again")
        await self._record_delivery_event(tx, agent, "snoozed", snoozed, by=by)
        return until

    async def requeue(
        self, tx: Tx, principal: Principal, message_id: MessageId
    ) -> tuple[Sequence[Agent], Sequence[Wake]]:
        """Return a dead letter to the inboxes where it is dead, and ask for a wake as when it was sent.

        Return the agents whose inbox has changed, none on a repeat, and the requests; these begin new pulses, so the
        attempts count anew.

        Raises:
            NotFound: no such message. Conflict: it is neither dead nor unread anywhere.
        """
        deliveries = await tx.deliveries.find_by_message(message_id)
        if not deliveries:
            raise NotFound(f"no inbox has a message {message_id!r}; list the dead letters with `circadia messages`")
        await tx.hold(*(agent_key(delivery.agent_id) for delivery in deliveries))
        deliveries = await tx.deliveries.find_by_message(message_id)
        agents: list[Agent] = []
        wakes: list[Wake] = []
        for delivery in deliveries:
            agent = await tx.agents.get(delivery.agent_id) if delivery.state is DeliveryState.DEAD else None
            if agent is None or agent.deleted_at is not None:
                continue
            await tx.deliveries.requeue(agent.id, [message_id])
            await self._record_delivery_event(tx, agent, "requeued", [message_id], by=principal.name)
            self._signal_delivery(tx, agent.id)
            agents.append(agent)
            message = delivery.message
            if message.priority in _WAKING and agent.coordination.wake_on_high_priority:
                ask = NewWake(
                    target=agent,
                    source=WakeSource.PERSON,
                    by=principal.name,
                    reason=f"{message.priority.value} message",
                    priority=message.priority,
                    message_id=message_id,
                    message_root=message.root_id,
                )
                wakes.append(await self._requests.ask(tx, ask))
        if not agents and all(delivery.state is not DeliveryState.UNREAD for delivery in deliveries):
            states = ", ".join(sorted({delivery.state.value for delivery in deliveries}))
            raise Conflict(f"message {message_id!r} is {states}; only a dead letter of a present agent is requeued")
        return agents, wakes

    def _require_reader(self, principal: Principal, target: Agent) -> None:
        if principal.agent is not None and principal.agent.id == target.id:
            raise InvalidRequest(f"{target.reference!r} may not send a message to itself")
        if not target.enabled:
            raise Conflict(f"{target.reference!r} is disabled; the operator can enable it")

    async def _find_repeated(
        self, tx: Tx, target: Agent, outgoing: OutgoingMessage, place: ChainPosition, known: Message
    ) -> MessageReceipt:
        """Return the result that is stored under the key (WAKE-03)."""
        wake = None if known.key is None else await tx.wakes.get_by_key(known.key)
        same = (
            known.content == outgoing.content
            and known.type is outgoing.type
            and known.priority is _priority(outgoing)
            and known.reply_to == outgoing.reply_to
            and (outgoing.wake is None if wake is None else wake.reason == _reason(outgoing))
            and (wake is None or matches_override(wake, override=outgoing.override is not None))
            and await tx.deliveries.get(target.id, known.id) is not None
        )
        if not same:
            raise Conflict(f"the key {outgoing.key!r} belongs to another message or wake reason; use a new key")
        return MessageReceipt(message=known, to=target, place=place, wake=wake)

    async def _store_message(
        self,
        tx: Tx,
        principal: Principal,
        target: Agent,
        outgoing: OutgoingMessage,
        place: ChainPosition,
        key: str | None,
    ) -> Message:
        if outgoing.reply_to is not None:
            await self._require_answerable(tx, principal, outgoing.reply_to)
        message_id = MessageId(self._ids.new("msg"))
        message = Message(
            id=message_id,
            number=0,
            thread_id=await self._ensure_direct_thread(tx, target),
            session_id=target.session_id,
            sender_id=principal.agent.id if principal.agent else None,
            sender=outgoing.sender or principal.name,
            content=outgoing.content,
            at=self._clock.now(),
            type=outgoing.type,
            priority=_priority(outgoing),
            reply_to=outgoing.reply_to,
            key=key,
            root_id=place.root_id or message_id,
            parent_id=place.parent_id,
            depth=place.depth,
        )
        await self._add_message(tx, message, target)
        return message

    async def _add_message(self, tx: Tx, message: Message, target: Agent) -> None:
        await tx.messages.add(message, [(target.id, False)])
        data = DirectMessage(
            message=message.id, sender=message.sender, type=message.type, priority=message.priority,
            root=message.root_id or message.id, depth=message.depth,
        )  # fmt: skip
        await self._record_event(tx, EventType.DIRECT_MESSAGE, target, data)
        self._signal_delivery(tx, target.id)

    async def _require_answerable(self, tx: Tx, principal: Principal, message_id: MessageId) -> None:
        message = await tx.messages.get(message_id)
        is_own = message is not None and (
            principal.is_operator
            or (
                principal.agent is not None
                and (
                    message.sender_id == principal.agent.id
                    or await tx.deliveries.get(principal.agent.id, message_id) is not None
                )
            )
        )
        if not is_own:
            raise NotFound(f"no message {message_id!r} in your inbox or among those that you sent")

    def _build_ask(
        self,
        principal: Principal,
        target: Agent,
        outgoing: OutgoingMessage,
        message: Message,
        place: ChainPosition,
        key: str | None,
    ) -> NewWake:
        return NewWake(
            target=target,
            source=WakeSource.PERSON if principal.is_operator and outgoing.sender is None else WakeSource.AGENT,
            sender=principal.agent,
            by=outgoing.sender or principal.name,
            reason=_reason(outgoing),
            priority=message.priority,
            message_id=message.id,
            message_root=message.root_id,
            place=place,
            key=key,
            overridden_by=None if outgoing.override is None else f"{principal.name}: {outgoing.override}",
        )

    async def _ensure_direct_thread(self, tx: Tx, target: Agent) -> ThreadId:
        thread_id = ThreadId(f"direct_{target.session_id}")
        if thread_id in self._directs:
            return thread_id
        if await tx.threads.get(thread_id) is None:
            thread = Thread(
                id=thread_id,
                session_id=target.session_id,
                name="direct",
                status=ThreadStatus.DIRECT,
                created_by="circadia",
                created_at=self._clock.now(),
            )
            with suppress(Conflict):  # another process has added it at this moment
                await tx.threads.add(thread)
        tx.after_commit(lambda: self._directs.add(thread_id))
        return thread_id

    async def _require_own(self, tx: Tx, agent: Agent, messages: Sequence[MessageId]) -> None:
        for message in messages:
            if await tx.deliveries.get(agent.id, message) is None:
                raise NotFound(
                    f"no message {message!r} in the inbox of {agent.reference!r}; read the inbox for the ids"
                )

    async def _record_delivery_event(
        self,
        tx: Tx,
        agent: Agent,
        state: Literal["handled", "snoozed", "requeued"],
        messages: Sequence[MessageId],
        *,
        by: str | None = None,
    ) -> None:
        if messages:
            data = DeliveryUpdate(state=state, messages=list(messages))
            data = data if by is None else data.model_copy(update={"by": by})
            await self._record_event(tx, EventType.DELIVERY, agent, data)

    async def _record_event(self, tx: Tx, kind: EventType, agent: Agent, data: EventData) -> None:
        await self._events.record(tx, kind, data, session=agent.session, agent=agent.name)
        await tx.sessions.touch(agent.session_id, self._clock.now())

    def _signal_delivery(self, tx: Tx, agent_id: AgentId) -> None:
        self._events.signal(tx, "delivery", agent_id)


def _require_key(key: str | None) -> None:
    if key is not None and not 0 < len(key) <= MAX_KEY_CHARACTERS:
        raise InvalidRequest(f"an idempotency key has 1 to {MAX_KEY_CHARACTERS} characters")


def _priority(outgoing: OutgoingMessage) -> Priority:
    return Priority.URGENT if outgoing.wake is not None else outgoing.priority


def _reason(outgoing: OutgoingMessage) -> str:
    return f"{outgoing.priority.value} message" if outgoing.wake is None else outgoing.wake.value


def delivery_status(delivery: Delivery) -> str:
    """Return the state that the sender sees: `delivered`, `seen`, `handled` or `expired` (WAKE-34)."""
    if delivery.state is DeliveryState.HANDLED:
        return "handled"
    if delivery.state is DeliveryState.DEAD:
        return "expired"
    return "delivered" if delivery.seen_at is None else "seen"
