"""Holds: calls of sleeping agents that wait at the gate."""

from typing import Annotated

from fastapi import Query

from circadia.agents.access import require_operator
from circadia.agents.directory import require_names
from circadia.api.parts import Parts, Who, noun_router
from circadia.gateway.hold.gate import HoldView
from circadia.records.session import DEFAULT_SESSION
from circadia.schemas.holds import HeldCall, HoldList

router = noun_router("holds")


@router.get("/holds")
async def list_holds(
    who: Who,
    parts: Parts,
    session: Annotated[str | None, Query(description="Only of this session.")] = None,
    agent: Annotated[str | None, Query(description="Only of agents with this name.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number of rows.")] = 1000,
) -> HoldList:
    """List the held calls. Operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        await require_names(tx, who, session, agent)
    views, total = parts.holds.list_holds(session=session, agent=agent, limit=limit)
    return HoldList(holds=[_held_call(view) for view in views], total=total)


def _held_call(view: HoldView) -> HeldCall:
    reference = view.agent if view.session == DEFAULT_SESSION else f"{view.session}:{view.agent}"
    return HeldCall.of(view, reference=reference)
