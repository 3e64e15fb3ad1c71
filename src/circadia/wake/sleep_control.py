"""Sleep and wakes that somebody asks for, and what a thread's events do to sleep (GATE-31, WAKE-07, WAKE-87)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from circadia.agents.chains import fetch_agent_place, fetch_place
from circadia.errors import Conflict
from circadia.ids import AgentId, PulseId
from circadia.records.agent import Agent, Cause, OwnWake, SleepEvent, WakeEvent
from circadia.records.coordination import RESIDENT
from circadia.records.message import Delivery, Message
from circadia.records.principal import Principal
from circadia.records.pulse import PulseStatus
from circadia.records.schedule import ALARM_SENDER, Routine
from circadia.records.wake import WakeSource
from circadia.stores.base import Tx
from circadia.wake.admission.requests import WakeRequests
from circadia.wake.pulse_lifecycle import find_launched_run
from circadia.wake.sleep_changes import SleepChanges
from circadia.wake.wake_rows import NewWake, build_thread_wake

BY_HAND: Final = "woken by hand"
"""Reason of a pulse that a wake by name starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepOutcome:
    agent: Agent
    pulse_id: PulseId | None = None
    """The pulse with which a launched agent wakes: it runs, or it was just requested."""
    missed: Sequence[Delivery] = ()
    """What the agent has not seen, and what does not wake it, since somebody else put it to sleep."""
    alarm: Routine | None = None
    """The alarm that it set with its sleep."""


class SleepControl:
    """Puts agents to sleep and wakes them: it opens a gate, or starts a pulse of an agent that must be launched.

    It listens to the events of threads.
    """

    def __init__(self, sleep: SleepChanges, requests: WakeRequests) -> None:
        self._sleep = sleep
        self._requests = requests

    async def set(
        self, tx: Tx, principal: Principal, agent: Agent, *, asleep: bool, cause: Cause, overrides: bool = True
    ) -> SleepOutcome:
        """Put the agent to sleep or wake it. The block must hold the agent and the principal's own.

        A launched agent sleeps on until its pulse has started. A person's wake `overrides` the guardrails; an agent's
        passes them. What an agent has missed wakes it from a sleep of its own wish only (WAKE-88).

        Raises:
            Conflict: the agent was deleted meanwhile. TargetGone: it was to wake, and the server is stopping.
        """
        launched = agent.coordination.launcher != RESIDENT
        run = await find_launched_run(tx, agent.id) if launched and not asleep else None
        if asleep or not launched or run is not None:
            own = principal.agent is not None and principal.agent.id == agent.id
            ask = None if asleep else await _build_ask(tx, principal, agent)
            changed = await self._sleep.change_sleep(
                tx, agent.id, asleep=asleep, cause=cause, actor=principal.name, wake=ask, can_rouse=own
            )
            if changed is None:
                raise Conflict(f"agent {agent.reference!r} was deleted")
            missed = await self._sleep.find_missed(tx, changed) if asleep and not own else ()
            return SleepOutcome(agent=changed, pulse_id=None if run is None else run.id, missed=missed)
        by_person = principal.agent is None and overrides
        if by_person:
            starting = await find_launched_run(tx, agent.id, status=PulseStatus.STARTING)
            if starting is not None:  # one that has not been claimed is joined
                return SleepOutcome(agent=agent, pulse_id=starting.id)
        ask = await _build_ask(tx, principal, agent)
        if by_person:
            ask = replace(ask, overridden_by=f"{principal.name}: {BY_HAND}")
        wake = await self._requests.ask(tx, ask)
        return SleepOutcome(agent=agent, pulse_id=wake.pulse_id)

    async def on_event(
        self, tx: Tx, agent: Agent, event: SleepEvent | WakeEvent, *, by: str, message: Message | None = None
    ) -> None:
        """Change the sleep state at once, or ask for a wake if the event is guarded (WAKE-07).

        For an agent that must be launched, an open gate has no effect, so the event requests a pulse whatever the
        policy says (WAKE-56). While the server stops it becomes a waiting request too (WAKE-55).
        """
        if isinstance(event, SleepEvent):
            if event in agent.sleep_events:
                actor = f"{event.value} by {by}"
                await self._sleep.change_sleep(tx, agent.id, asleep=True, cause=Cause.EVENT, actor=actor)
            return
        is_wished = event is WakeEvent.MENTIONED and agent.asked_for(OwnWake.MENTION, OwnWake.MESSAGE)
        if event in agent.wake_events or is_wished:
            await self._wake(tx, agent, event.value, message, by=by)

    async def on_message(self, tx: Tx, agent_id: AgentId, message: Message) -> None:
        """Wake an agent that sleeps until any message comes (WAKE-80)."""
        agent = await tx.agents.get(agent_id)
        if agent is not None and agent.asleep and agent.asked_for(OwnWake.MESSAGE):
            await self._wake(tx, agent, OwnWake.MESSAGE.value, message, by=message.sender)

    async def _wake(self, tx: Tx, agent: Agent, event: str, message: Message | None, *, by: str) -> None:
        guarded = agent.coordination.guard_thread_events
        launched = agent.coordination.launcher != RESIDENT
        actor = f"{event} by {by}"
        ask = build_thread_wake(agent, event, message, by=by)
        if not (guarded or launched or self._sleep.is_draining):
            await self._sleep.change_sleep(tx, agent.id, asleep=False, cause=Cause.EVENT, actor=actor, wake=ask)
            return
        present = await tx.agents.get(agent.id)
        if present is None or not present.asleep:
            return
        sender = await self._find_sender(tx, by) if guarded else None  # an unguarded event counts against nobody
        if sender is not None:
            ask = replace(ask, sender=sender, place=await fetch_agent_place(tx, sender))
        await self._requests.ask(tx, replace(ask, target=present))

    async def _find_sender(self, tx: Tx, by: str) -> Agent | None:
        """Return the agent that caused the event, or None for a person."""
        session_name, colon, name = by.rpartition(":")
        session = await tx.sessions.get_by_name(session_name if colon else "default")
        return None if session is None else await tx.agents.get_by_name(session.id, name)


async def _build_ask(tx: Tx, principal: Principal, target: Agent) -> NewWake:
    return NewWake(
        target=target,
        source=WakeSource.PERSON if principal.agent is None else WakeSource.AGENT,
        sender=principal.agent,
        by=principal.name,
        reason=BY_HAND,
        place=await fetch_place(tx, principal),
    )


async def list_wakers(tx: Tx, agent: Agent) -> Sequence[str]:
    """Return what can wake the agent besides a person: events, messages, and its routines with their next time."""
    own = {WakeEvent.MENTIONED.value} if agent.asked_for(OwnWake.MENTION) else set[str]()
    wakers = sorted({event.value for event in agent.wake_events} | own)
    if agent.asked_for(OwnWake.MESSAGE):
        wakers.append("any message")
    if not agent.coordination.wakes_enabled:
        return wakers
    wakers.append("wake_agent")
    if agent.coordination.wake_on_high_priority:
        wakers.append("message_agent with priority high or urgent")
    if agent.asked_for(OwnWake.EVENT):
        waits = await tx.event_waits.find_by_agent(agent.id)
        wakers += [f"event {wait.name}" for wait in waits if wait.generation == agent.generation]
    routines = [routine for routine in await tx.routines.find_by_agent(agent.id) if routine.spec.enabled]
    return wakers + [
        f"{_name_routine(routine)} at {routine.next_at.isoformat(timespec='seconds')}"
        for routine in routines
        if routine.next_at is not None
    ]


def _name_routine(routine: Routine) -> str:
    return ALARM_SENDER if routine.is_alarm else f"routine {routine.name}"
