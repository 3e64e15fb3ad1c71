"""Holds: calls of sleeping agents that wait at the gate."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from circadia.agents.access import require_operator
from circadia.agents.directory import require_names
from circadia.api.parts import Parts, Who, noun_router
from circadia.gateway.hold.gate import HoldView
from circadia.records.session import DEFAULT_SESSION

router = noun_router("holds")


class HeldCall(BaseModel):
    """A held call."""

    id: str = Field(description="Unique id.", examples=["hold_0cwd…"])
    agent: str = Field(description="Name of the agent.", examples=["writer"])
    session: str = Field(description="Name of the session.", examples=["default"])
    reference: str = Field(description="`name` in the session `default`, else `session:name`.", examples=["writer"])
    door: str = Field(description="`model` or `mcp`.", examples=["model"])
    what: str = Field(description="Called endpoint or tool.", examples=["POST /v1/chat/completions", "tools/call echo"])
    since: datetime = Field(description="Time of arrival.")
    waited_seconds: float = Field(description="Time held so far.")
    phase: str = Field(description="`silent`, or `opened` after a 200 and keep-alive signals.", examples=["silent"])
    bytes: int = Field(description="Size of the body.")


class HoldList(BaseModel):
    """The held calls."""

    holds: list[HeldCall] = Field(description="Longest hold first, at most `limit`.")
    total: int = Field(description="Total number of held calls.")


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
    return HoldList(holds=[_held_call(each) for each in views], total=total)


def _held_call(view: HoldView) -> HeldCall:
    return HeldCall(
        id=view.id,
        agent=view.agent,
        session=view.session,
        reference=view.agent if view.session == DEFAULT_SESSION else f"{view.session}:{view.agent}",
        door=view.door,
        what=view.what,
        since=view.since,
        waited_seconds=view.waited_seconds,
        phase=view.phase,
        bytes=view.bytes,
    )
