"""What befalls an agent in a thread: it moves its sleep at once, or asks like everybody else (WAKE-07)."""

from circadia.agents.sleep import AgentSleepService
from circadia.records.agent import Agent, SleepEvent, WakeEvent
from circadia.records.wake import WakeSource
from circadia.stores.base import Tx
from circadia.wake.admission.chains import NOWHERE, fetch_agent_place
from circadia.wake.admission.requests import NewWake, WakeRequests
from circadia.wake.pulse_lifecycle import RESIDENT


class ThreadEventHandler:
    """Lets the wake events of agents whose policy says so pass the guardrails; all else goes straight to the sleep.

    An open gate does nothing for an agent that has to be launched: there the event asks for a pulse, whatever the
    policy says (WAKE-56). So it does while the server stops, and waits as a request (WAKE-55).
    """

    def __init__(self, sleep: AgentSleepService, requests: WakeRequests) -> None:
        self._sleep = sleep
        self._requests = requests

    async def on_event(self, tx: Tx, agent: Agent, event: SleepEvent | WakeEvent, *, by: str) -> None:
        """Let the event have its effect; `by` is who caused it."""
        guarded = agent.coordination.guard_thread_events
        launched = agent.coordination.launcher != RESIDENT
        if not isinstance(event, WakeEvent) or not (guarded or launched or self._requests.is_draining):
            await self._sleep.on_event(tx, agent, event, by=by)
            return
        present = await tx.agents.get(agent.id)
        if present is None or not present.asleep or event not in present.wake_events:
            return
        sender = await self._find_sender(tx, by) if guarded else None  # what is not guarded counts against nobody
        place = NOWHERE if sender is None else await fetch_agent_place(tx, sender)
        await self._requests.ask(
            tx, NewWake(target=present, source=WakeSource.THREAD, sender=sender, by=by, reason=event.value, place=place)
        )

    async def _find_sender(self, tx: Tx, by: str) -> Agent | None:
        """Return the agent that caused it, none for a person."""
        session_name, colon, name = by.rpartition(":")
        session = await tx.sessions.get_by_name(session_name if colon else "default")
        return None if session is None else await tx.agents.get_by_name(session.id, name)
