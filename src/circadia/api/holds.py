"""Holds: the calls of sleeping agents that wait at the gate."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from circadia.agents.access import require_operator
from circadia.api.parts import Parts, Who, noun_router
from circadia.records.session import DEFAULT_SESSION

router = noun_router("holds")


class HeldCall(BaseModel):
    """One held call."""

    id: str = Field(description="Key.", examples=["hold_0cwd…"])
    agent: str = Field(description="Name of the agent.", examples=["writer"])
    session: str = Field(description="Its session's name.", examples=["default"])
    reference: str = Field(description="`name` in the session `default`, else `session:name`.", examples=["writer"])
    door: str = Field(description="`model` or `mcp`.", examples=["model"])
    what: str = Field(description="What is called.", examples=["POST /v1/chat/completions", "tools/call echo"])
    since: datetime = Field(description="When it came.")
    waited_seconds: float = Field(description="For how long it is held.")
    phase: str = Field(description="`silent`, or `opened`: a 200 and signs of life went out.", examples=["silent"])
    bytes: int = Field(description="Size of its body.")


class HoldList(BaseModel):
    """The calls that are held now."""

    holds: list[HeldCall] = Field(description="Longest first.")


@router.get("/holds")
async def list_holds(
    who: Who,
    parts: Parts,
    session: Annotated[str | None, Query(description="Of this session only.")] = None,
    agent: Annotated[str | None, Query(description="Of agents of this name only.")] = None,
) -> HoldList:
    """List the calls that are held now. The operator only."""
    require_operator(who)
    return HoldList(
        holds=[
            HeldCall(
                id=each.id,
                agent=each.agent,
                session=each.session,
                reference=each.agent if each.session == DEFAULT_SESSION else f"{each.session}:{each.agent}",
                door=each.door,
                what=each.what,
                since=each.since,
                waited_seconds=each.waited_seconds,
                phase=each.phase,
                bytes=each.bytes,
            )
            for each in parts.holds.holds()
            if session in (None, each.session) and agent in (None, each.agent)
        ]
    )
