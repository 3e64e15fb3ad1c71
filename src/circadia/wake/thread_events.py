"""Effects of thread events on an agent: they change its sleep at once, or become wake requests (WAKE-07)."""

from dataclasses import replace

from circadia.agents.chains import fetch_agent_place
from circadia.records.agent import Agent, Cause, SleepEvent, WakeEvent
from circadia.records.coordination import RESIDENT
from circadia.records.message import Message
from circadia.stores.base import Tx
from circadia.wake.admission.requests import WakeRequests
from circadia.wake.sleep_changes import SleepChanges
from circadia.wake.wake_rows import build_thread_wake


class ThreadEventHandler:
    """Turns guarded wake events into wake requests; other events change the sleep state directly.

    For an agent that must be launched, an open gate has no effect, so the event requests a pulse whatever the policy
    says (WAKE-56). While the server stops it becomes a waiting request too (WAKE-55).
    """

    def __init__(self, sleep: SleepChanges, requests: WakeRequests) -> None:
        self._sleep = sleep
        self._requests = requests

    async def on_event(
        self, tx: Tx, agent: Agent, event: SleepEvent | WakeEvent, *, by: str, message: Message | None = None
    ) -> None:
        guarded = agent.coordination.guard_thread_events
        launched = agent.coordination.launcher != RESIDENT
        actor = f"{event.value} by {by}"
        if isinstance(event, SleepEvent):
            if event in agent.sleep_events:
                await self._sleep.change_sleep(tx, agent.id, asleep=True, cause=Cause.EVENT, actor=actor)
            return
        if event not in agent.wake_events:
            return
        ask = build_thread_wake(agent, event, message, by=by)
        if not (guarded or launched or self._requests.is_draining):
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
