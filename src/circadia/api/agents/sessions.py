"""Sessions: make one with its whole graph, list, show, close."""

import re
from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, Field

from circadia.agents.access import require_operator
from circadia.agents.directory import find_session
from circadia.agents.sessions import NewThread
from circadia.api.agents.agents import AgentBody, AgentCreated, AgentView, agent_created, agent_view, set_no_store
from circadia.api.bodies import Body, FirstMistake, Name, Names
from circadia.api.messaging.threads import ThreadBody, ThreadView, thread_view
from circadia.api.parts import Parts, Who, noun_router
from circadia.records.session import Session, SessionStatus

router = noun_router("sessions")


class SleeperPreset(Body):
    """The common pattern: all agents start asleep, and wake when they are added to a thread."""

    all_but: Names = Field(description="Names of the agents that this does not change.", examples=[["lead"]])


def _preset(given: Any) -> Any:
    """Return what `all-but [lead, reviewer]` says."""
    if isinstance(given, str) and (match := re.fullmatch(r"all-but\s*\[?([^\[\]]*)\]?", given.strip())):
        return {"all_but": [name for name in re.split(r"[\s,]+", match[1]) if name]}
    return given


class SessionBody(Body):
    """A session to make: nothing, a name, or its whole graph."""

    name: Name | None = Field(
        None, description="`[a-z0-9][a-z0-9_-]{0,62}`; made up if it is left out.", examples=["release-7"]
    )
    agents: Annotated[list[AgentBody], FirstMistake()] = Field(
        default_factory=list[AgentBody], description="Its agents."
    )
    threads: Annotated[list[ThreadBody], FirstMistake()] = Field(
        default_factory=list[ThreadBody], description="Its threads."
    )
    sleepers: Annotated[SleeperPreset | None, BeforeValidator(_preset)] = Field(
        None,
        description='All agents but the named start asleep and wake when added to a thread: `"all-but [lead]"` or '
        '`{"all_but": ["lead"]}`.',
        json_schema_extra={"examples": ["all-but [lead]", {"all_but": ["lead"]}]},
    )


class SessionView(BaseModel):
    """A session."""

    id: str = Field(description="Key.", examples=["ses_0cwd…"])
    name: str = Field(description="Unique among the open sessions.", examples=["release-7"])
    status: SessionStatus = Field(description="Open or closed; closed is final.")
    created_at: datetime = Field(description="When it was made.")
    closed_at: datetime | None = Field(description="When it was closed.")
    touched_at: datetime = Field(description="When somebody last did something in it.")
    stalled: bool = Field(description="Whether all its agents sleep and nobody has acted for long.")


class SessionDetail(SessionView):
    """A session with its agents."""

    agents: list[AgentView] = Field(description="By name.")


class SessionCreated(SessionView):
    """A new session with its graph, and the agents' tokens."""

    agents: list[AgentCreated] = Field(description="In the order given, each with its token, shown this once.")
    threads: list[ThreadView] = Field(description="In the order given.")
    warnings: list[str] = Field(description="Ways in which the graph can fall asleep and never wake.")


class SessionList(BaseModel):
    """Sessions."""

    sessions: list[SessionView] = Field(description="Oldest first.")


def _values(session: Session) -> dict[str, Any]:
    return {name: getattr(session, name) for name in SessionView.model_fields}


@router.post("/sessions", status_code=201)
async def create_session(body: SessionBody, response: Response, who: Who, parts: Parts) -> SessionCreated:
    """Make a session, with its agents and threads in one go or not at all. The operator only."""
    require_operator(who)
    agents = [each.new_agent() for each in body.agents]
    threads = [NewThread(name=each.name, participants=tuple(each.participants)) for each in body.threads]
    all_but = body.sleepers.all_but if body.sleepers else None
    async with parts.store.begin_write() as tx:
        made = await parts.sessions.create(tx, who, body.name, agents=agents, threads=threads, all_but=all_but)
        opened = await tx.threads.find_by_session(made.session.id)
        shown = [await thread_view(tx, made.session.name, thread) for thread in opened]
    set_no_store(response)
    return SessionCreated(
        **_values(made.session),
        agents=[agent_created(agent, token, parts, who) for agent, token in made.agents],
        threads=shown,
        warnings=list(made.warnings),
    )


@router.get("/sessions")
async def list_sessions(
    who: Who,
    parts: Parts,
    closed: Annotated[bool, Query(description="Whether closed sessions are listed too.")] = False,
) -> SessionList:
    """List the open sessions. The operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        found = await tx.sessions.find_all(closed=closed)
    return SessionList(sessions=[SessionView(**_values(session)) for session in found])


@router.get("/sessions/{s}")
async def show_session(s: str, who: Who, parts: Parts) -> SessionDetail:
    """Show a session with its agents. The operator, and agents of the session (or granted it)."""
    async with parts.store.begin_read() as tx:
        session = await find_session(tx, who, s)
        agents = await tx.agents.find_by_session(session.id)
    return SessionDetail(**_values(session), agents=[agent_view(agent, parts, who) for agent in agents])


@router.delete("/sessions/{s}")
async def close_session(s: str, who: Who, parts: Parts) -> SessionView:
    """Close a session: its threads close, its agents' tokens open nothing, their held calls end. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        session = await find_session(tx, who, s)
        await parts.sessions.close(tx, session)
        closed = await tx.sessions.get(session.id) or session
    return SessionView(**_values(closed))
