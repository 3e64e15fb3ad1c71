"""New wake requests: their rows and the events of their decisions."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from circadia.agents.chains import NOWHERE, ChainPosition
from circadia.clock import Clock
from circadia.ids import AgentId, IdSource, MessageId, PulseId, WakeId
from circadia.records.agent import Agent
from circadia.records.event import EventType, WakeVerdict
from circadia.records.message import Message, Priority
from circadia.records.span import Span, SpanKind
from circadia.records.wake import Decision, Wake, WakeSource
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog

UNDECIDED = "its agent fell asleep without having seen this"
"""Detail of a request that the worker decides at once."""
_MARKS: Final = {Decision.ADMITTED: SpanKind.WAKE, Decision.REFUSED: SpanKind.REFUSAL}


@dataclass(frozen=True, kw_only=True, slots=True)
class NewWake:
    target: Agent
    source: WakeSource
    sender: Agent | None = None
    by: str
    reason: str
    priority: Priority = Priority.URGENT
    message_id: MessageId | None = None
    message_root: str | None = None
    """Root of the chain that the message begins, if it begins one."""
    routine: str | None = None
    timeout_seconds: float | None = None
    place: ChainPosition = NOWHERE
    key: str | None = None
    """Idempotency key, prefixed with the sender."""
    overridden_by: str | None = None
    """The person who overrides the guardrails, and the reason."""


def build_thread_wake(target: Agent, event: str, message: Message | None, *, by: str) -> NewWake:
    """Build the request of a thread event that counts against nobody; a message links it to its chain."""
    if message is None:
        return NewWake(target=target, source=WakeSource.THREAD, by=by, reason=event)
    return NewWake(
        target=target,
        source=WakeSource.THREAD,
        by=by,
        reason=event,
        message_id=message.id,
        place=ChainPosition(root_id=message.root_id, parent_id=message.parent_id, depth=message.depth),
    )


class WakeRows:
    def __init__(self, clock: Clock, ids: IdSource, events: EventLog) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events

    async def add_due(self, tx: Tx, ask: NewWake, sender_id: AgentId | None) -> Wake:
        """Store a request that the worker decides at once (WAKE-21); the sender's row need not be read."""
        wake = self.build(ask)
        wake = replace(wake, sender_id=sender_id, not_before=wake.at, detail=UNDECIDED)
        await tx.wakes.add(wake)
        await self.record_decision(tx, wake, ask.target)
        return wake

    async def add_unguarded(self, tx: Tx, wake: Wake, target: Agent, pulse_id: PulseId | None) -> None:
        """Store a request that opened its agent's gate without a decision: no limit counts it (WAKE-89)."""
        wake = replace(wake, decision=Decision.ADMITTED, expires_at=None, pulse_id=pulse_id)
        await tx.wakes.add(wake)
        await self.record_decision(tx, wake, target)

    def build(self, ask: NewWake) -> Wake:
        """Return the row of a request that is not decided yet."""
        now = self._clock.now()
        wake_id = WakeId(self._ids.new("wak"))
        return Wake(
            id=wake_id,
            at=now,
            agent_id=ask.target.id,
            agent=ask.target.reference,
            source=ask.source,
            sender_id=ask.sender.id if ask.sender else None,
            sender=ask.by,
            sender_pulse=ask.place.pulse_id,
            reason=ask.reason,
            priority=ask.priority,
            message_id=ask.message_id,
            routine=ask.routine,
            decision=Decision.DEFERRED,
            expires_at=now + timedelta(seconds=ask.target.coordination.defer_max_seconds),
            decided_at=now,
            root_id=ask.place.root_id or ask.message_root or wake_id,
            parent_id=ask.place.parent_id,
            depth=ask.place.depth + 1,
            key=ask.key,
            timeout_seconds=ask.timeout_seconds,
        )

    async def record_decision(self, tx: Tx, wake: Wake, target: Agent) -> None:
        data = WakeVerdict(
            wake=wake.id,
            decision=wake.decision,
            source=wake.source,
            sender=wake.sender,
            reason=wake.reason,
            rule=wake.rule,
            detail=wake.detail,
            not_before=wake.not_before,
            pulse=wake.pulse_id,
            message=wake.message_id,
            root=wake.root_id,
            depth=wake.depth,
            overridden_by=wake.overridden_by,
        )
        await self._events.record(tx, EventType.WAKE, data, session=target.session, agent=target.name)
        kind = _MARKS.get(wake.decision)
        if kind is not None:
            now = self._clock.now()
            mark = Span(
                agent_id=target.id, session=target.session, agent=target.name, kind=kind, started_at=now, ended_at=now,
                by=wake.sender, reason=wake.reason, outcome=wake.rule or "", ref=wake.id,
            )  # fmt: skip
            await tx.spans.add(mark)
        payload = {"decision": wake.decision.value, "rule": wake.rule or "", "source": wake.source.value}
        self._events.signal(tx, "wake", target.id, payload)
