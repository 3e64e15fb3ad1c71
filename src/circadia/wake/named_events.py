"""Named events: what happened elsewhere, for agents that wait for it (WAKE-81, WAKE-83).

`NamedEvents.emit` is the one function by which such an event enters: REST, tools and inbound webhooks call it. An event
is delivered to the agents that wait for it, each of its waits once, as a message of the sender `event:NAME` in the
inbox. So a call that waits takes it by the lease of every other message, a caller whose connection broke finds it
again, and a prompt shows it.

A job may end before its agent begins to wait. So each event is kept for an hour, and a new wait also takes one of the
last minute, or of as long as it asks for, that its agent has not had.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import orjson

from circadia.agents.access import is_allowed
from circadia.agents.chains import NOWHERE, ChainPosition, fetch_place
from circadia.clock import Clock
from circadia.errors import Conflict, InvalidRequest
from circadia.ids import AgentId, EventWaitId, IdSource, NamedEventId
from circadia.records.agent import Agent
from circadia.records.event import EventType, NamedEventRecord
from circadia.records.message import Delivery, Message, Priority, build_event_sender
from circadia.records.named_event import (
    MAX_FILTER_CHARACTERS,
    EventWait,
    NamedEvent,
    RecentEvent,
    contains,
    require_event_name,
)
from circadia.records.principal import Principal
from circadia.records.wake import Wake, WakeSource
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import agent_key, event_key
from circadia.wake.admission.requests import WakeRequests
from circadia.wake.inbox import Inbox
from circadia.wake.wake_rows import NewWake

MAX_WAITS: Final = 100
"""Waits of one agent at the same time."""
KEPT: Final = timedelta(days=1)
"""How long a wait outlasts the call that waited in vain, so that the next one finds what came between."""
GRACE_SECONDS: Final = 60.0
"""Age of an event that a new wait still takes, unless it says otherwise."""
MAX_SINCE_SECONDS: Final = 3_600.0
"""How long an event is kept for agents that begin to wait after it."""
_KEPT_AT_ONCE: Final = 100
_AT_ONCE: Final = 1_000
"""Waits per read: all of an event's are read, and most have another filter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventDelivery:
    """An event that reached an agent."""

    agent: Agent
    message: Message
    wake: Wake | None
    """The request to wake it, if its sleep waits for the event."""


class NamedEvents:
    """Delivers named events to the agents that wait for them, in the caller's transaction."""

    def __init__(self, clock: Clock, ids: IdSource, events: EventLog, requests: WakeRequests, inbox: Inbox) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events
        self._requests = requests
        self._inbox = inbox

    async def emit(
        self, tx: Tx, event: NamedEvent, *, by: str, principal: Principal | None = None
    ) -> Sequence[EventDelivery]:
        """Deliver the event to each agent with a wait that it matches, wake those that sleep over it, end these waits.

        A wake passes the guardrails of its agent. `by` names the author for people, such as `hook github`.
        `principal` is the caller, if there is one: an agent's event reaches only agents that it may address. Call it
        before the block holds any key.

        Raises:
            InvalidRequest: a bad name or key, or the data is too long for a message.
        """
        require_event_name(event.name)
        content = self._inbox.require_event_content(event.data, event.key)
        sender = None if principal is None else principal.agent
        await tx.hold(event_key(event.name))
        waits = await self._find_matching(tx, event)
        keys = [agent_key(wait.agent_id) for wait in waits]
        await tx.hold(*dict.fromkeys(keys if sender is None else [*keys, agent_key(sender.id)]))
        place = NOWHERE if principal is None else await fetch_place(tx, principal)
        kept = await self._keep(tx, event, content, sender, place)
        deliveries: list[EventDelivery] = []
        for agent_id in dict.fromkeys(wait.agent_id for wait in waits):
            agent = await tx.agents.get(agent_id)
            if agent is not None and agent.enabled and agent.deleted_at is None and _may_reach(sender, agent):
                deliveries += await self._deliver(tx, event, kept, agent, sender, place)
        record = NamedEventRecord(name=event.name, by=by, agents=[each.agent.reference for each in deliveries])
        await self._events.record(tx, EventType.NAMED_EVENT, record)
        self._events.signal(tx, "named_event", event.name, {"outcome": "delivered" if deliveries else "unheard"})
        return deliveries

    async def wait(
        self, tx: Tx, agent: Agent, name: str, wanted: Mapping[str, Any], seconds: float, *, since_seconds: float
    ) -> None:
        """Have the agent wait for an event, unless one that it has not handled matches; renew a wait that is there.

        An event that came within the last `since_seconds`, and that the agent has not had, is delivered to it now. Call
        it before the block holds any key.

        Raises:
            InvalidRequest: a bad name, or a filter that is too long. Conflict: it has too many waits.
        """
        _require_wait(name, wanted)
        await tx.hold(event_key(name), agent_key(agent.id))
        if await self.find_unread(tx, agent, name, wanted):
            return
        if await self._deliver_kept(tx, agent, name, wanted, since_seconds):
            await tx.event_waits.remove(agent.id, [wait.id for wait in await self._find_same(tx, agent, name, wanted)])
            return
        until = self._clock.now() + timedelta(seconds=seconds) + KEPT
        await self._add(tx, agent, [name], wanted, until, generation=None)

    async def sleep_until(
        self, tx: Tx, agent: Agent, names: Sequence[str], wanted: Mapping[str, Any], *, generation: int
    ) -> None:
        """Have one of these events end the agent's sleep of this generation.

        One that came within the last minute, and that the agent has not had, is delivered to it now. The block should
        hold their keys from its begin (`event_key`). Raises InvalidRequest or Conflict, as `wait` does.
        """
        for name in names:
            _require_wait(name, wanted)
        until = self._clock.now() + timedelta(days=366)
        await self._add(tx, agent, names, wanted, until, generation=generation)
        for name in names:
            await self._deliver_kept(tx, agent, name, wanted, GRACE_SECONDS)

    async def find_unread(self, tx: Tx, agent: Agent, name: str, wanted: Mapping[str, Any]) -> Sequence[Delivery]:
        """Return the agent's unread events of this name with this data, oldest first."""
        unread = await tx.deliveries.find_unread(agent.id, sender=build_event_sender(name), limit=_AT_ONCE)
        return [delivery for delivery in unread if matches(delivery.message, wanted)]

    def build_wake(self, agent: Agent, name: str, message: Message) -> NewWake:
        """Build the request of an agent that sleeps over an event; it counts as one by somebody outside."""
        return NewWake(
            target=agent,
            source=WakeSource.AGENT,
            by=message.sender,
            reason=f"event {name}",
            priority=Priority.HIGH,
            message_id=message.id,
            message_root=message.root_id,
            place=_read_place(message),
        )

    async def _keep(
        self, tx: Tx, event: NamedEvent, content: str, sender: Agent | None, place: ChainPosition
    ) -> RecentEvent:
        kept = RecentEvent(
            id=NamedEventId(self._ids.new("nev")), name=event.name, content=content, key=event.key,
            sender_id=None if sender is None else sender.id, root_id=place.root_id, parent_id=place.parent_id,
            depth=place.depth, at=self._clock.now(),
        )  # fmt: skip
        await tx.recent_events.keep(kept)
        return kept

    async def _deliver_kept(
        self, tx: Tx, agent: Agent, name: str, wanted: Mapping[str, Any], since_seconds: float
    ) -> bool:
        """Deliver the oldest kept event that the agent waits for and has not had; return whether there is one."""
        since = self._clock.now() - timedelta(seconds=since_seconds)
        last: RecentEvent | None = None
        while since_seconds > 0:
            page = await tx.recent_events.find_since(name, since, after=last, limit=_KEPT_AT_ONCE)
            fitting = [kept for kept in page if contains(orjson.loads(kept.content), wanted)]
            had = await tx.messages.find_keys([_message_key(kept, agent.id) for kept in fitting])
            for kept in fitting:
                if _message_key(kept, agent.id) not in had and await self._may_have(tx, agent, kept):
                    await self._put_into_inbox(tx, agent, kept)
                    return True
            if len(page) < _KEPT_AT_ONCE:
                break
            last = page[-1]
        return False

    async def _may_have(self, tx: Tx, agent: Agent, kept: RecentEvent) -> bool:
        if kept.sender_id is None:
            return True
        sender = await tx.agents.get(kept.sender_id)
        return sender is not None and _may_reach(sender, agent)

    async def _put_into_inbox(self, tx: Tx, agent: Agent, kept: RecentEvent) -> Message:
        place = ChainPosition(root_id=kept.root_id, parent_id=kept.parent_id, depth=kept.depth)
        key = _message_key(kept, agent.id)
        return await self._inbox.deliver_event(tx, agent, kept.name, kept.content, key=key, place=place)

    async def _find_same(self, tx: Tx, agent: Agent, name: str, wanted: Mapping[str, Any]) -> Sequence[EventWait]:
        waits = await tx.event_waits.find_by_agent(agent.id)
        return [wait for wait in waits if (wait.name, wait.filter, wait.generation) == (name, wanted, None)]

    async def _add(
        self,
        tx: Tx,
        agent: Agent,
        names: Sequence[str],
        wanted: Mapping[str, Any],
        until: Any,
        *,
        generation: int | None,
    ) -> None:
        known = await tx.event_waits.find_by_agent(agent.id)
        same = [
            wait.id
            for wait in known
            if wait.name in names and wait.filter == wanted and (wait.generation is None) == (generation is None)
        ]
        if len(known) - len(same) + len(names) > MAX_WAITS:
            raise Conflict(f"{agent.reference!r} waits for {MAX_WAITS} events already; cancel some or let them end")
        await tx.event_waits.remove(agent.id, same)
        for name in dict.fromkeys(names):
            await tx.event_waits.add(
                EventWait(
                    id=EventWaitId(self._ids.new("evw")),
                    agent_id=agent.id,
                    name=name,
                    filter=wanted,
                    generation=generation,
                    created_at=self._clock.now(),
                    until=until,
                )
            )

    async def _find_matching(self, tx: Tx, event: NamedEvent) -> Sequence[EventWait]:
        matching: list[EventWait] = []
        after = ""
        while page := await tx.event_waits.find_by_name(event.name, after=after, limit=_AT_ONCE):
            matching += self._select_matching(page, event)
            after = page[-1].id
            if len(page) < _AT_ONCE:
                break
        return matching

    def _select_matching(self, waits: Sequence[EventWait], event: NamedEvent) -> Sequence[EventWait]:
        now = self._clock.now()
        return [
            wait for wait in waits if wait.name == event.name and wait.until > now and contains(event.data, wait.filter)
        ]

    async def _deliver(
        self, tx: Tx, event: NamedEvent, kept: RecentEvent, agent: Agent, sender: Agent | None, place: ChainPosition
    ) -> Sequence[EventDelivery]:
        """Deliver to an agent, by the waits that it has now; a wait of a sleep that is over counts as none."""
        waits = self._select_matching(await tx.event_waits.find_by_agent(agent.id), event)
        await tx.event_waits.remove(agent.id, [wait.id for wait in waits])
        waits = [wait for wait in waits if wait.generation in (None, agent.generation)]
        if not waits:
            return []
        if event.key is not None and await tx.messages.find_keys([_message_key(kept, agent.id)]):
            await self._restore(tx, waits)
            return []
        message = await self._put_into_inbox(tx, agent, kept)
        wake = None
        if agent.asleep and any(wait.generation is not None for wait in waits):
            ask = replace(self.build_wake(agent, event.name, message), sender=sender, place=place)
            wake = await self._requests.ask(tx, ask)
        return [EventDelivery(agent=agent, message=message, wake=wake)]

    async def _restore(self, tx: Tx, waits: Sequence[EventWait]) -> None:
        """Keep the waits of an agent that has had this event before: they wait for the next one."""
        for wait in waits:
            await tx.event_waits.add(wait)


def matches(message: Message, wanted: Mapping[str, Any]) -> bool:
    """Return whether the message of an event has this data."""
    return contains(orjson.loads(message.content), wanted)


def _read_place(message: Message) -> ChainPosition:
    return ChainPosition(root_id=message.root_id, parent_id=message.parent_id, depth=message.depth)


def _message_key(kept: RecentEvent, agent_id: AgentId) -> str:
    """Return the idempotency key of the event's message to an agent: it gets one of a key, or of an event, once."""
    return f"event {kept.name} {kept.key or kept.id} {agent_id}"


def _may_reach(sender: Agent | None, agent: Agent) -> bool:
    is_own = sender is None or sender.session_id == agent.session_id
    return is_own or (sender is not None and is_allowed(sender.policy.sessions, agent.session))


def _require_wait(name: str, wanted: Mapping[str, Any]) -> None:
    require_event_name(name)
    try:
        size = len(orjson.dumps(wanted))
    except TypeError as error:  # a lone surrogate, which no text has
        raise InvalidRequest(f"the filter is no JSON that can be stored: {error}") from error
    if size > MAX_FILTER_CHARACTERS:
        raise InvalidRequest(f"the filter is longer than {MAX_FILTER_CHARACTERS} characters of JSON; name fewer values")
