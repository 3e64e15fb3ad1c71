"""Holds: calls of sleeping agents that wait at the gate."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from circadia.agents.access import require_operator
from circadia.agents.directory import require_names
from circadia.api.parts import Parts, Who, noun_router
from circadia.gateway.model_call.hold import HoldView
from circadia.ids import HoldId
from circadia.records.member import MemberHolds
from circadia.records.session import build_reference
from circadia.schemas.holds import HeldCall, HoldList, MemberHoldsView

router = noun_router("holds")


@router.get("/holds")
async def list_holds(
    who: Who,
    parts: Parts,
    session: Annotated[str | None, Query(description="Only of this session.")] = None,
    agent: Annotated[str | None, Query(description="Only of agents with this name.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number of rows.")] = 1000,
) -> HoldList:
    """List the calls that this server holds, and count those that the other servers of its cluster hold.

    Operator only.
    """
    require_operator(who)
    async with parts.store.begin_read() as tx:
        await require_names(tx, who, session, agent)
        others: Sequence[MemberHolds] = ()
        total_elsewhere = 0
        if parts.member_id is not None:
            others, total_elsewhere = await tx.hold_places.find_of_others(
                parts.member_id, parts.clock.now(), session=session, agent=agent, limit=limit
            )
    views, total = parts.holds.list_holds(session=session, agent=agent, limit=limit)
    return HoldList(
        holds=[_held_call(view) for view in views],
        total=total,
        elsewhere=[MemberHoldsView.of(each) for each in others],
        total_elsewhere=total_elsewhere,
    )


@router.post("/holds/{hold}/drop")
async def drop_hold(hold: str, who: Who, parts: Parts) -> HeldCall:
    """End a call that this server holds, with an error that SDKs do not retry; its agent stays asleep.

    Operator only.
    """
    require_operator(who)
    return _held_call(parts.holds.drop(HoldId(hold), by=who.name))


def _held_call(view: HoldView) -> HeldCall:
    return HeldCall.of(view, reference=build_reference(view.session, view.agent))
