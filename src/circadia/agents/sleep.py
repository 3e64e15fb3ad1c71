"""The sleep state: its only writer, and the events that change it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from circadia.clock import Clock
from circadia.errors import Conflict, TargetGone
from circadia.ids import AgentId, SessionId
from circadia.records.agent import Agent, Cause, SleepEvent, WakeEvent
from circadia.records.coordination import RESIDENT
from circadia.records.event import EventType
from circadia.records.event_data import SleepChange
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog


class ThreadEventListener(Protocol):
    """Called for each event of an agent in a thread, in the transaction of the change and after it."""

    async def on_event(self, tx: Tx, agent: Agent, event: SleepEvent | WakeEvent, *, by: str) -> None: ...


class AgentSleepListener(Protocol):
    """Called for each change of a sleep state, in its transaction: a time awake is a pulse (WAKE-56)."""

    async def on_sleep_change(self, tx: Tx, agent: Agent) -> None: ...


class AgentSleepService:
    """Writes `asleep`, its generation and its event, in the caller's transaction (GATE-03, GATE-04)."""

    def __init__(self, clock: Clock, events: EventLog, times_awake: AgentSleepListener) -> None:
        self._clock = clock
        self._events = events
        self._times_awake = times_awake
        self._draining = False
        self.shut: Callable[[Tx, Agent], Awaitable[None]] | None = None
        """Closes the gate of an agent that falls asleep, and records earlier calls; it gets the agent's new row."""

    def drain(self) -> None:
        """Open no gate any more, except for a pulse that has begun: the server is stopping (WAKE-55)."""
        self._draining = True

    async def set(self, tx: Tx, agent: Agent, *, asleep: bool, cause: Cause, actor: str) -> Agent:
        """Put the agent to sleep or wake it, and return its row; do nothing if it is already so.

        Raises:
            Conflict: the agent was deleted meanwhile. TargetGone: it was to wake, and the server is stopping.
        """
        moved_agent = await self.set_if_exists(tx, agent.id, asleep=asleep, cause=cause, actor=actor)
        if moved_agent is None:
            raise Conflict(f"agent {agent.reference!r} was deleted")
        return moved_agent

    async def set_if_exists(self, tx: Tx, agent_id: AgentId, *, asleep: bool, cause: Cause, actor: str) -> Agent | None:
        """Do the same as `set` by id; return None if the agent was deleted."""
        current = await tx.agents.get(agent_id)
        if current is None or current.deleted_at is not None:
            return None
        if current.asleep == asleep:
            return current
        if self._draining and not asleep and cause is not Cause.PULSE:
            raise TargetGone(f"{current.reference!r} is not woken: the server is stopping; send it again")
        now = self._clock.now()
        moved_agent = replace(
            current, asleep=asleep, generation=current.generation + 1, since=now, cause=cause, actor=actor
        )
        await tx.agents.save_sleep_state(moved_agent, from_generation=current.generation)
        if asleep and self.shut is not None:
            await self.shut(tx, moved_agent)
        lasted = max(0.0, (now - current.since).total_seconds())
        await self._record_event(tx, moved_agent, lasted)
        await self._times_awake.on_sleep_change(tx, moved_agent)
        await tx.sessions.touch(SessionId(moved_agent.session_id), now)
        state = {
            "asleep": asleep, "generation": moved_agent.generation, "actor": actor, "since": now,
            "lasted_seconds": lasted,
        }  # fmt: skip
        self._events.signal(tx, "sleep", moved_agent.id, state)
        return moved_agent

    async def sleep_self(self, tx: Tx, agent: Agent) -> Agent:
        """Put an agent to sleep at its own wish, unless a mention came that it has not seen; return its row.

        The mention found it awake, so it woke nobody; it wakes it now, and a next wish is granted. Agents whose
        mentions pass guardrails read it at their heartbeat.
        """
        present = await tx.agents.get(agent.id)
        fallen = await self.set(tx, agent, asleep=True, cause=Cause.TOOL, actor=agent.reference)
        coordination = fallen.coordination
        if present is None or present.asleep or coordination.guard_thread_events or coordination.launcher != RESIDENT:
            return fallen
        for delivery in await tx.deliveries.find_unread(agent.id, mentioned=True):
            if delivery.seen_at is None and delivery.message.at >= present.since:
                await self.on_event(tx, fallen, WakeEvent.MENTIONED, by=delivery.message.sender)
                return await tx.agents.get(agent.id) or fallen
        return fallen

    async def on_event(self, tx: Tx, agent: Agent, event: SleepEvent | WakeEvent, *, by: str) -> None:
        """Wake the agent or put it to sleep if its lists name the event; ignore other events (GATE-13)."""
        if isinstance(event, WakeEvent) and event in agent.wake_events:
            await self.set(tx, agent, asleep=False, cause=Cause.EVENT, actor=f"{event.value} by {by}")
        elif isinstance(event, SleepEvent) and event in agent.sleep_events:
            await self.set(tx, agent, asleep=True, cause=Cause.EVENT, actor=f"{event.value} by {by}")

    async def _record_event(self, tx: Tx, agent: Agent, lasted: float) -> None:
        kind = EventType.SLEEP_START if agent.asleep else EventType.SLEEP_STOP
        data = SleepChange(
            generation=agent.generation, cause=agent.cause, actor=agent.actor, lasted_seconds=round(lasted, 3)
        )
        await self._events.record(tx, kind, data, session=agent.session, agent=agent.name, at=agent.since)
