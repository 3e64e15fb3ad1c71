"""Where in a chain somebody acts: what an agent does in a pulse belongs to the chain of that pulse (WAKE-60)."""

from dataclasses import dataclass
from datetime import datetime

from circadia.ids import PulseId
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.records.pulse import Pulse, PulseStatus
from circadia.stores.base import Tx


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A place in a chain."""

    root_id: str | None = None
    """First wake or message of the chain; none outside of all chains: what is done there is a root itself."""
    parent_id: str | None = None
    """The wake behind the pulse."""
    depth: int = 0
    """Wakes from the root so far."""
    pulse_id: PulseId | None = None
    """The pulse in which it is done."""
    since: datetime | None = None
    """When that pulse, or the time awake, began."""


NOWHERE = Place()


async def place_of(tx: Tx, principal: Principal) -> Place:
    """Return where the principal acts: in the pulse of its token, else in its time awake, else nowhere."""
    agent = principal.agent
    if agent is None:
        return NOWHERE
    if principal.pulse_id is None:
        return await place_of_agent(tx, agent)
    pulse = await tx.pulses.get(principal.pulse_id)
    return Place(since=agent.since) if pulse is None else _place(pulse)


async def place_of_agent(tx: Tx, agent: Agent) -> Place:
    """Return where an agent acts that no token tells more of: in its latest pulse, else in its time awake."""
    running = [each for each in await tx.pulses.open_of(agent.id) if each.status is PulseStatus.RUNNING]
    return _place(running[-1]) if running else Place(since=agent.since)


def _place(pulse: Pulse) -> Place:
    return Place(
        root_id=pulse.root_id,
        parent_id=pulse.wake_id,
        depth=pulse.depth,
        pulse_id=pulse.id,
        since=pulse.created_at,  # not of the present attempt: what it asked for before counts
    )
