"""The sleep state: its only writer, and all that follows from a change of it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime

from circadia.clock import Clock
from circadia.errors import TargetGone
from circadia.ids import AgentId, SessionId
from circadia.records.agent import Agent, Cause, OwnWake, WakeEvent
from circadia.records.coordination import RESIDENT
from circadia.records.event import AlarmState, EventType, SleepChange
from circadia.records.message import Delivery
from circadia.records.pulse import Pulse, PulseKind, PulseStatus
from circadia.records.span import end_state
from circadia.records.wake import Wake
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.wake.own_routines import record_alarm
from circadia.wake.pulse_lifecycle import PulseLifecycle
from circadia.wake.wake_rows import NewWake, WakeRows, build_thread_wake


class SleepChanges:
    """Writes `asleep` and its generation, in the caller's transaction (GATE-03, GATE-04)."""

    def __init__(self, clock: Clock, events: EventLog, pulses: PulseLifecycle, wakes: WakeRows) -> None:
        self._clock = clock
        self._events = events
        self._pulses = pulses
        self._wakes = wakes
        self.is_draining = False
        self.close_gate: Callable[[Tx, Agent], Awaitable[None]] | None = None
        """Closes the gate of an agent that falls asleep, and records earlier calls; it gets the agent's new row."""

    def drain(self) -> None:
        """Open no gate any more, except for a pulse that has begun: the server is stopping (WAKE-55)."""
        self.is_draining = True

    async def change_sleep(
        self,
        tx: Tx,
        agent_id: AgentId,
        *,
        asleep: bool,
        cause: Cause,
        actor: str,
        wake: Wake | NewWake | None = None,
        can_rouse: bool = False,
    ) -> Agent | None:
        """Put the agent to sleep or wake it, and return its row; do nothing if it is already so.

        `wake` is what wakes it: a new one is stored, unguarded (WAKE-89). With `can_rouse`, what came while it was
        awake, and which it has not seen, wakes it from this sleep (WAKE-88).
        Return None if the agent was deleted.

        Raises:
            TargetGone: it was to wake, and the server is stopping.
        """
        agent = await tx.agents.get(agent_id)
        if agent is None or agent.deleted_at is not None:
            return None
        if agent.asleep == asleep:
            return agent
        if self.is_draining and not asleep and cause is not Cause.PULSE:
            raise TargetGone(f"{agent.reference!r} is not woken: the server is stopping; send it again")
        now = self._clock.now()
        changed = replace(agent, asleep=asleep, generation=agent.generation + 1, since=now, cause=cause, actor=actor)
        await tx.agents.save_sleep_state(changed, from_generation=agent.generation)
        await tx.spans.add(end_state(agent, now))
        if asleep and self.close_gate is not None:
            await self.close_gate(tx, changed)
        if agent.asked_for(OwnWake.ALARM, OwnWake.EVENT):
            await self._end_own_wakes(tx, agent)
        request = self._wakes.build(wake) if isinstance(wake, NewWake) else wake
        await self._record_event(tx, changed, request, lasted_from=agent.since)
        pulse = await self._follow_with_pulse(tx, changed, request)
        if request is not wake and request is not None:
            await self._wakes.add_unguarded(tx, request, changed, None if pulse is None else pulse.id)
        await tx.sessions.touch(SessionId(changed.session_id), now)
        self._signal(tx, changed, lasted_from=agent.since)
        return await self._rouse(tx, changed, awake_since=agent.since) if can_rouse else changed

    async def find_missed(self, tx: Tx, agent: Agent) -> Sequence[Delivery]:
        """Return what found the agent awake, so that it woke nobody, and which it has not seen, oldest first."""
        if WakeEvent.MENTIONED not in agent.wake_events and not agent.asked_for(OwnWake.MENTION):
            return ()
        newest = await tx.deliveries.find_unread(agent.id, mentioned=True, newest=True)
        return [delivery for delivery in reversed(newest) if delivery.missed and delivery.seen_at is None]

    async def _follow_with_pulse(self, tx: Tx, agent: Agent, wake: Wake | None) -> Pulse | None:
        """Begin or end the pulse that an agent's time awake is, unless its gate moved for one (WAKE-56)."""
        if not agent.asleep and agent.cause is Cause.PULSE:
            return None
        pulses = [pulse for pulse in await tx.pulses.find_open(agent.id) if pulse.launcher == RESIDENT]
        if agent.asleep:
            for pulse in pulses:
                await self._pulses.move(tx, pulse, PulseStatus.SUCCEEDED, detail=f"fell asleep ({agent.actor})")
        elif not pulses:
            reason = agent.cause.value
            return await self._pulses.add(
                tx, agent, kind=PulseKind.GATE, by=agent.actor, reason=reason, running=True, wake=wake
            )
        return pulses[-1] if pulses else None

    async def _end_own_wakes(self, tx: Tx, agent: Agent) -> None:
        """Delete what the agent had asked for until it wakes."""
        await tx.event_waits.end_sleep(agent.id)
        for routine in await tx.routines.remove_ending_on_wake(agent.id):
            await record_alarm(tx, self._events, agent, routine, AlarmState.ENDED)

    async def _find_unread(self, tx: Tx, agent: Agent, awake_since: datetime) -> Sequence[Delivery]:
        """Return what came while it was awake and it has not seen, if a message is to wake it; else what it missed."""
        if not agent.asked_for(OwnWake.MESSAGE):
            return await self.find_missed(tx, agent)
        newest = await tx.deliveries.find_unread(agent.id, newest=True)
        return [each for each in reversed(newest) if each.seen_at is None and each.message.at >= awake_since]

    async def _rouse(self, tx: Tx, agent: Agent, *, awake_since: datetime) -> Agent:
        """Wake an agent that falls asleep over what it missed, or ask for its wake; each item does so once."""
        missed = await self._find_unread(tx, agent, awake_since)
        if not missed:
            return agent
        await tx.deliveries.mark_noticed(agent.id, [delivery.message.id for delivery in missed])
        coordination = agent.coordination
        asks = [build_thread_wake(agent, _name_event(each), each.message, by=each.message.sender) for each in missed]
        if coordination.launcher == RESIDENT and not coordination.guard_thread_events and not self.is_draining:
            actor = f"{asks[0].reason} by {asks[0].by}"
            woken = await self.change_sleep(tx, agent.id, asleep=False, cause=Cause.EVENT, actor=actor, wake=asks[0])
            return woken or agent
        for ask, delivery in zip(asks, missed, strict=True):
            sender_id = delivery.message.sender_id if coordination.guard_thread_events else None
            await self._wakes.add_due(tx, ask, sender_id)
        return agent

    async def _record_event(self, tx: Tx, agent: Agent, wake: Wake | None, *, lasted_from: datetime) -> None:
        kind = EventType.SLEEP_START if agent.asleep else EventType.SLEEP_STOP
        lasted = round(_seconds_since(agent, lasted_from), 3)
        data = SleepChange(
            generation=agent.generation, cause=agent.cause, actor=agent.actor, lasted_seconds=lasted,
            wake=wake and wake.id, message=wake and wake.message_id,
        )  # fmt: skip
        await self._events.record(tx, kind, data, session=agent.session, agent=agent.name, at=agent.since)

    def _signal(self, tx: Tx, agent: Agent, *, lasted_from: datetime) -> None:
        state = {
            "asleep": agent.asleep, "generation": agent.generation, "actor": agent.actor, "since": agent.since,
            "lasted_seconds": _seconds_since(agent, lasted_from),
        }  # fmt: skip
        self._events.signal(tx, "sleep", agent.id, state)


def _name_event(delivery: Delivery) -> str:
    return WakeEvent.MENTIONED.value if delivery.mentioned else OwnWake.MESSAGE.value


def _seconds_since(agent: Agent, before: datetime) -> float:
    return max(0.0, (agent.since - before).total_seconds())
