"""Sessions: create one with its whole graph, list, show, close."""

import re
from typing import Annotated, Any, Final

from fastapi import Query, Response
from pydantic import BeforeValidator, Field

from circadia.agents.access import require_operator
from circadia.agents.directory import find_session
from circadia.agents.sessions import NewThread
from circadia.api.agents.agents import AGENTS, AgentBody, agent_created, agent_view, fetch_agents, set_no_store
from circadia.api.bodies import Body, Names
from circadia.api.context import Context, Who, noun_router
from circadia.api.messaging.threads import ThreadBody, thread_view
from circadia.api.pages import fetch_page
from circadia.ids import SessionId
from circadia.records.agent import FirstMistake, Name
from circadia.schemas.sessions import SessionCreated, SessionDetail, SessionList, SessionView

router = noun_router("sessions")


class SleeperPreset(Body):
    """The common pattern: all agents start asleep, and wake when added to a thread."""

    all_but: Names = Field(description="Names of agents that stay awake.", examples=[["lead"]])


_ALL_BUT: Final = r"all-but\s*\[?([^\[\]]*)\]?"


def _preset(given: Any) -> Any:
    """Parse `all-but [lead, reviewer]`."""
    if isinstance(given, str) and (match := re.fullmatch(_ALL_BUT, given.strip())):
        return {"all_but": [name for name in re.split(r"[\s,]+", match[1]) if name]}
    return given


def _describe_sleepers(schema: dict[str, Any]) -> None:
    """Add the short form to the schema, and examples of both."""
    schema["anyOf"].insert(0, {"type": "string", "pattern": _ALL_BUT})
    schema["examples"] = ["all-but [lead]", {"all_but": ["lead"]}]


class SessionBody(Body):
    """A new session: empty, with a name, or with its whole graph."""

    name: Name | None = Field(
        None, description="`[a-z0-9][a-z0-9_-]{0,62}`; default: generated.", examples=["release-7"]
    )
    agents: Annotated[list[AgentBody], FirstMistake()] = Field(default_factory=list[AgentBody], description="Agents.")
    threads: Annotated[list[ThreadBody], FirstMistake()] = Field(
        default_factory=list[ThreadBody], description="Threads."
    )
    sleepers: Annotated[SleeperPreset | None, BeforeValidator(_preset)] = Field(
        None,
        description='Agents other than these start asleep and wake when added to a thread: `"all-but [lead]"` or '
        '`{"all_but": ["lead"]}`.',
        json_schema_extra=_describe_sleepers,
    )


@router.post("/sessions", status_code=201)
async def create_session(body: SessionBody, response: Response, who: Who, context: Context) -> SessionCreated:
    """Create a session with its agents and threads, all or nothing. Operator only."""
    require_operator(who)
    agents = [agent.new_agent() for agent in body.agents]
    threads = [NewThread(name=thread.name, participants=tuple(thread.participants)) for thread in body.threads]
    all_but = body.sleepers.all_but if body.sleepers else None
    async with context.store.begin_write() as tx:
        created = await context.sessions.create(tx, who, body.name, agents=agents, threads=threads, all_but=all_but)
        opened = await tx.threads.find_by_session(created.session.id)
        thread_views = [await thread_view(tx, created.session.name, thread) for thread in opened]
    set_no_store(response)
    return SessionCreated.of(
        created.session,
        agents=[agent_created(agent, token, context, who) for agent, token in created.agents],
        threads=thread_views,
        warnings=list(created.warnings),
    )


@router.get("/sessions")
async def list_sessions(
    who: Who,
    context: Context,
    closed: Annotated[bool, Query(description="Also list closed sessions.")] = False,
    after: Annotated[str | None, Query(description="`next` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number of rows.")] = 1000,
) -> SessionList:
    """List the open sessions. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        first = None if after is None else SessionId(after)
        sessions, more = await fetch_page(
            lambda last, most: tx.sessions.find_all(
                closed=closed, after=first if last is None else last.id, limit=most
            ),
            limit,
        )
    return SessionList(
        sessions=[SessionView.of(session) for session in sessions], next=sessions[-1].id if more else None
    )


@router.get("/sessions/{session}")
async def show_session(session: str, who: Who, context: Context) -> SessionDetail:
    """Show a session with its agents. Access: operator, agents with access to the session."""
    async with context.store.begin_read() as tx:
        found_session = await find_session(tx, who, session)
        agents, more = await fetch_agents(tx, found_session, None, AGENTS)
    views = [agent_view(agent, context, who) for agent in agents]
    return SessionDetail.of(found_session, agents=views, next=agents[-1].name if more else None)


@router.delete("/sessions/{session}")
async def close_session(session: str, who: Who, context: Context) -> SessionView:
    """Close a session: its threads close, its agents' tokens become invalid, their held calls end. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session)
        await context.sessions.close(tx, found_session, by=who.name)
        closed = await tx.sessions.get(found_session.id) or found_session
    return SessionView.of(closed)
