"""Chains: an agent's actions in a pulse belong to the chain of that pulse (WAKE-60)."""

from dataclasses import dataclass
from datetime import datetime

from circadia.ids import PulseId
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.records.pulse import Pulse, PulseStatus
from circadia.stores.base import Tx


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainPosition:
    root_id: str | None = None
    """First wake or message of the chain; None outside of all chains, where an action starts one."""
    parent_id: str | None = None
    """The wake behind the pulse."""
    depth: int = 0
    pulse_id: PulseId | None = None
    since: datetime | None = None
    """Start of that pulse, or of the time awake."""
    endless_in: str | None = None
    """The agent's zone if only a sleep ends that pulse or time awake; None if a time limit does."""


NOWHERE = ChainPosition()


async def fetch_place(tx: Tx, principal: Principal) -> ChainPosition:
    """Return the principal's position: in the pulse of its token, else in its time awake, else nowhere."""
    agent = principal.agent
    if agent is None:
        return NOWHERE
    if principal.pulse_id is None:
        return await fetch_agent_place(tx, agent)
    pulse = await tx.pulses.get(principal.pulse_id)
    return _awake_place(agent) if pulse is None else _pulse_place(pulse, agent)


async def fetch_agent_place(tx: Tx, agent: Agent) -> ChainPosition:
    """Return an agent's position without a token: in its latest pulse, else in its time awake."""
    running = [pulse for pulse in await tx.pulses.find_open(agent.id) if pulse.status is PulseStatus.RUNNING]
    return _pulse_place(running[-1], agent) if running else _awake_place(agent)


def _awake_place(agent: Agent) -> ChainPosition:
    return ChainPosition(since=agent.since, endless_in=agent.coordination.zone)


def _pulse_place(pulse: Pulse, agent: Agent) -> ChainPosition:
    return ChainPosition(
        root_id=pulse.root_id,
        parent_id=pulse.wake_id,
        depth=pulse.depth,
        pulse_id=pulse.id,
        since=pulse.created_at,  # not of this attempt: earlier requests count
        endless_in=agent.coordination.zone if pulse.timeout_seconds is None else None,
    )
