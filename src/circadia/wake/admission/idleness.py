"""Whether a routine has something to do (WAKE-46)."""

from circadia.records.agent import Agent
from circadia.records.coordination import RESIDENT
from circadia.records.schedule import Routine
from circadia.stores.base import Tx


async def find_idle_reason(tx: Tx, agent: Agent, routine: Routine) -> str | None:
    """Return why a pulse of the routine has nothing to do, or None if it has something."""
    if agent.coordination.launcher == RESIDENT and not agent.asleep:
        return "the agent is already awake"
    if routine.spec.instructions.strip() or await tx.deliveries.count_unread(agent.id):
        return None
    return "no instructions and nothing unread"
