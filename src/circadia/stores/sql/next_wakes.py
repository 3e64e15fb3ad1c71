"""What will wake an agent next: two columns of its row, written when what they rest on changes (WAKE-89)."""

from typing import Final

from sqlalchemy import Select, bindparam, literal, select, text, union_all, update

from circadia.ids import AgentId
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import agents, routines, wakes
from circadia.stores.sql.statement import Statement


def _build_soonest(column: str) -> Select[tuple[object]]:
    """Build the query for a column of the soonest of the agent's routines and deferred wakes."""
    known = union_all(
        select(routines.c.next_at.label("at"), (literal("routine ") + routines.c.name).label("by")).where(
            routines.c.agent_id == bindparam("agent"), text("routines.enabled"), routines.c.next_at.is_not(None)
        ),
        select(wakes.c.not_before, literal("deferred wake by ") + wakes.c.sender).where(
            wakes.c.agent_id == bindparam("agent"),
            text("wakes.decision = 'deferred'"),  # as the index says
            wakes.c.not_before.is_not(None),
        ),
    ).subquery("soonest")
    return select(known.c[column]).order_by(known.c.at, known.c.by).limit(1)


_SET: Final = Statement(
    update(agents)
    .where(agents.c.id == bindparam("agent"))
    .values(next_at=_build_soonest("at").scalar_subquery(), next_by=_build_soonest("by").scalar_subquery())
)


async def save_next_wake(runner: Runner, agent_id: AgentId) -> None:
    """Write what wakes the agent next, after a change of its routines or deferred wakes. The block holds the agent."""
    await runner.run(lambda connection: _SET.execute(connection, {"agent": agent_id}))
