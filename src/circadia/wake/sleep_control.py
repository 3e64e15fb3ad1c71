"""Sleep and wakes that somebody asks for: a person, or an agent that may (GATE-31, WAKE-87)."""

from dataclasses import dataclass
from typing import Final

from circadia.agents.sleep import AgentSleepService
from circadia.ids import PulseId
from circadia.records.agent import Agent, Cause
from circadia.records.coordination import RESIDENT
from circadia.records.principal import Principal
from circadia.records.wake import WakeSource
from circadia.stores.base import Tx
from circadia.wake.admission.chains import fetch_place
from circadia.wake.admission.requests import NewWake, WakeRequests
from circadia.wake.pulse_lifecycle import find_launched_run

BY_HAND: Final = "woken by hand"
"""Reason of a pulse that a wake by name starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepOutcome:
    agent: Agent
    pulse_id: PulseId | None = None
    """The pulse with which a launched agent wakes: it runs, or it was just requested."""


class SleepControl:
    """Puts agents to sleep and wakes them: it opens a gate, or starts a pulse of an agent that must be launched."""

    def __init__(self, sleep: AgentSleepService, requests: WakeRequests) -> None:
        self._sleep = sleep
        self._requests = requests

    async def set(
        self, tx: Tx, principal: Principal, agent: Agent, *, asleep: bool, cause: Cause, overrides: bool = True
    ) -> SleepOutcome:
        """Put the agent to sleep or wake it. The block must hold the agent and the principal's own.

        A launched agent sleeps on until its pulse has started. A person's wake `overrides` the guardrails; an agent's
        passes them.

        Raises:
            Conflict: the agent was deleted meanwhile. TargetGone: it was to wake, and the server is stopping.
        """
        launched = agent.coordination.launcher != RESIDENT
        run = await find_launched_run(tx, agent.id) if launched and not asleep else None
        if asleep or not launched or run is not None:
            changed = await self._sleep.set(tx, agent, asleep=asleep, cause=cause, actor=principal.name)
            return SleepOutcome(agent=changed, pulse_id=None if run is None else run.id)
        is_person = principal.agent is None
        ask = NewWake(
            target=agent,
            source=WakeSource.PERSON if is_person else WakeSource.AGENT,
            sender=principal.agent,
            by=principal.name,
            reason=BY_HAND,
            place=await fetch_place(tx, principal),
            overridden_by=f"{principal.name}: {BY_HAND}" if is_person and overrides else None,
        )
        wake = await self._requests.ask(tx, ask)
        return SleepOutcome(agent=agent, pulse_id=wake.pulse_id)
