"""Sessions and their agents: create one with its whole graph, list, show, change, close, delete, rotate tokens."""

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, cast

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator
from pydantic_core import PydanticCustomError

from circadia.agents.access import require_operator
from circadia.agents.directory import find_agent, find_session
from circadia.agents.registry import NewAgent
from circadia.agents.sessions import NewThread
from circadia.api.bodies import (
    TAGGED,
    AgentName,
    Body,
    IfMatch,
    Names,
    SessionName,
    drop_defaults,
    entity_tag,
    require_match,
    set_etag,
)
from circadia.api.context import ApiContext, Context, Limit, LongLimit, NextPage, Who, fetch_page, noun_router
from circadia.api.messages import ThreadBody, thread_view
from circadia.errors import InvalidRequest
from circadia.ids import SessionId
from circadia.records.agent import DEFAULT_WAKE_EVENTS, Agent, AgentPolicy, FirstMistake, SleepEvent, WakeEvent
from circadia.records.principal import Principal
from circadia.records.session import DEFAULT_SESSION, Session, SessionStatus
from circadia.schemas.agents import AgentCreated, AgentList, AgentStateList, AgentStateView, AgentToken, AgentView
from circadia.schemas.sessions import SessionCreated, SessionDetail, SessionList, SessionView
from circadia.stores.base import Tx

router = noun_router("agents")

AGENTS: Final = 200
"""Agents of a page, unless its caller asks for more: 1,000 take the server a quarter of a second."""
_STATES: Final = 10_000
"""Maximum number of sleep states in a page."""

_EVENT_KEYS: Final = {"sleepEvents": "sleep_events", "wakeEvents": "wake_events"}
"""DjinnBot's camelCase for the event lists."""

SleepEvents = Annotated[frozenset[SleepEvent], FirstMistake()]
WakeEvents = Annotated[frozenset[WakeEvent], FirstMistake()]


class PolicyBody(AgentPolicy, Body):
    """Policy keys. Missing keys come from the server's `defaults`; in a change, they stay unchanged."""

    model_config = ConfigDict(json_schema_extra=drop_defaults)

    def changes(self) -> dict[str, object]:
        """Return the policy keys of the request."""
        return {name: getattr(self, name) for name in AgentPolicy.model_fields if name in self.model_fields_set}


class BodyWithPolicy(PolicyBody):
    """A body that takes policy keys in `policy` or beside the other keys."""

    policy: PolicyBody | None = Field(None, description="Policy keys to set; null removes a limit.")

    def policy_changes(self) -> dict[str, object]:
        """Return the policy keys of the request.

        Raises:
            InvalidRequest: a key is in both places.
        """
        inside = self.policy.changes() if self.policy else {}
        beside = self.changes()
        if twice := sorted(inside.keys() & beside.keys()):
            raise InvalidRequest(f"{twice[0]!r} is in `policy` and beside it; send it once")
        return inside | beside


class CamelCaseEvents(BaseModel):
    """A body that takes `sleepEvents` and `wakeEvents` too."""

    @model_validator(mode="before")
    @classmethod
    def _rename_keys(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        values = cast("dict[str, Any]", body)
        for camel, name in _EVENT_KEYS.items():
            if camel in values and name in values:
                message = f"{camel!r} and {name!r} are the same key; send one of them"
                raise PydanticCustomError("key_twice", "{message}", {"message": message})
        return {_EVENT_KEYS.get(key, key): value for key, value in values.items()}


class AgentChange(CamelCaseEvents, BodyWithPolicy):
    """Changes to an agent; keys that are missing or null stay unchanged. Policy keys are allowed here too."""

    enabled: StrictBool | None = Field(None, description="Whether its token is valid; false ends its held calls.")
    description: str | None = Field(None, max_length=4000, description="Purpose of the agent, shown to other agents.")
    sleep_events: SleepEvents | None = Field(None, description="Events that put it to sleep; also `sleepEvents`.")
    wake_events: WakeEvents | None = Field(None, description="Events that wake it; also `wakeEvents`.")


class AgentBody(CamelCaseEvents, BodyWithPolicy):
    """A new agent. Policy keys go into `policy` or beside the name."""

    name: AgentName = Field(description="`[a-z0-9][a-z0-9_-]{0,62}`, unique in its session.", examples=["writer"])
    description: str = Field("", max_length=4000, description="Purpose of the agent, shown to other agents.")
    sleep_events: SleepEvents = Field(
        frozenset(),
        description="Events that put it to sleep; with `agent_started` it starts asleep. Also `sleepEvents`.",
        examples=[["agent_started", "removed_from_last_thread"]],
    )
    wake_events: WakeEvents = Field(
        DEFAULT_WAKE_EVENTS,
        description="Events that wake it; any of them suffices. Also `wakeEvents`.",
        examples=[["mentioned", "added_to_any_thread"]],
    )

    def new_agent(self) -> NewAgent:
        return NewAgent(
            name=self.name,
            description=self.description,
            sleep_events=self.sleep_events,
            wake_events=self.wake_events,
            policy=self.policy_changes(),
        )


def agent_view(agent: Agent, context: ApiContext, principal: Principal) -> AgentView:
    """Return the agent as this caller may see it."""
    own = principal.agent is not None and principal.agent.id == agent.id
    return AgentView.of(
        agent,
        held=context.holds.count_held(agent.id),
        sleep_events=sorted(agent.sleep_events),
        wake_events=sorted(agent.wake_events),
        policy=agent.policy if principal.is_operator or own else None,
        in_file=agent.id in context.registry.in_file,
    )


def agent_created(agent: Agent, token: str, context: ApiContext, principal: Principal) -> AgentCreated:
    return AgentCreated(**dict(agent_view(agent, context, principal)), token=token)


def _tag(view: AgentView) -> str:
    """Return the tag of the settings that the view shows."""
    return entity_tag(view.enabled, view.description, view.sleep_events, view.wake_events, view.policy)


def _tagged_view(agent: Agent, response: Response, context: ApiContext, principal: Principal) -> AgentView:
    view = agent_view(agent, context, principal)
    set_etag(response, _tag(view))
    return view


def set_no_store(response: Response) -> None:
    """Forbid caches to store the answer: it holds a token."""
    response.headers["Cache-Control"] = "no-store"


@router.get("/agents", response_model=AgentStateList)
async def list_agent_states(
    who: Who,
    context: Context,
    agent: Annotated[
        list[str] | None, Query(max_length=100, description="Only the agents of these references; may be repeated.")
    ] = None,
    after: NextPage = None,
    limit: Annotated[
        int, Query(ge=1, le=100_000, description="Maximum number of rows; a page has 10,000 at most.")
    ] = 10_000,
) -> Response:
    """List the sleep states of the agents in all open sessions. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        if agent is None:
            number = min(limit, _STATES)
            agents = await tx.agents.find_in_open_sessions(after=_split_cursor(after), limit=number)
        else:
            number = len(agent) + 1
            agents = [found_agent for name in agent[:limit] if (found_agent := await _find_open(tx, name)) is not None]
        pulsing = await tx.pulses.find_busy_agents()
    held = [context.holds.count_held(row.id) for row in agents]

    def encode() -> str:
        rows = [
            AgentStateView.of(row, held=count, pulsing=row.id in pulsing)
            for row, count in zip(agents, held, strict=True)
        ]
        last = f"{agents[-1].session}:{agents[-1].name}" if len(agents) == number else None
        return AgentStateList(agents=rows, next=last).model_dump_json(by_alias=True)

    body = await asyncio.to_thread(encode)  # thousands of rows would keep the event loop busy for tens of milliseconds
    return Response(body, media_type="application/json")


def _split_cursor(after: str | None) -> tuple[str, str] | None:
    if after is None:
        return None
    session, _, name = after.rpartition(":")
    return session, name


async def _find_open(tx: Tx, reference: str) -> Agent | None:
    session_name, _, name = reference.rpartition(":")
    session = await tx.sessions.get_by_name(session_name or DEFAULT_SESSION)
    if session is None or session.status is SessionStatus.CLOSED:
        return None
    return await tx.agents.get_by_name(session.id, name)


@router.get("/sessions/{session}/agents")
async def list_agents(
    session: str, who: Who, context: Context, after: NextPage = None, limit: Limit = AGENTS
) -> AgentList:
    """List the agents of a session with their sleep state. Access: operator, agents with access to the session."""
    async with context.store.begin_read() as tx:
        found_session = await find_session(tx, who, session)
        agents, more = await fetch_agents(tx, found_session, after, limit)
    return AgentList(
        agents=[agent_view(agent, context, who) for agent in agents], next=agents[-1].name if more else None
    )


async def fetch_agents(tx: Tx, session: Session, after: str | None, limit: int) -> tuple[Sequence[Agent], bool]:
    """Return a page of the session's agents after this name, and whether there may be more."""
    return await fetch_page(
        lambda last, most: tx.agents.find_page(session.id, after=after if last is None else last.name, limit=most),
        limit,
    )


@router.post("/sessions/{session}/agents", status_code=201)
async def create_agent(session: str, body: AgentBody, response: Response, who: Who, context: Context) -> AgentCreated:
    """Create an agent; only this answer shows its token. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session, open_only=True)
        agent, token = await context.registry.add(tx, found_session, body.new_agent(), by=who.name)
    set_no_store(response)
    return agent_created(agent, token, context, who)


@router.get("/sessions/{session}/agents/{agent}", responses=TAGGED)
async def show_agent(session: str, agent: str, response: Response, who: Who, context: Context) -> AgentView:
    """Show an agent with its sleep state. Access: operator, agents with access to the session."""
    async with context.store.begin_read() as tx:
        found_agent = await find_agent(tx, await find_session(tx, who, session), agent)
    return _tagged_view(found_agent, response, context, who)


@router.patch("/sessions/{session}/agents/{agent}", responses=TAGGED)
async def change_agent(
    session: str,
    agent: str,
    body: AgentChange,
    response: Response,
    who: Who,
    context: Context,
    if_match: IfMatch = None,
) -> AgentView:
    """Change, disable or enable an agent. Operator only."""
    require_operator(who)
    changes = body.policy_changes()
    async with context.store.begin_write() as tx:
        found_agent = await find_agent(tx, await find_session(tx, who, session, open_only=True), agent)
        tag = _tag(agent_view(found_agent, context, who))
        await require_match(tx, if_match, tag, f"agent {found_agent.reference!r}")
        found_agent = await context.registry.change(
            tx,
            found_agent,
            by=who.name,
            enabled=body.enabled,
            description=body.description,
            sleep_events=body.sleep_events,
            wake_events=body.wake_events,
            policy=changes or None,
        )
    return _tagged_view(found_agent, response, context, who)


@router.delete("/sessions/{session}/agents/{agent}", status_code=204)
async def delete_agent(session: str, agent: str, who: Who, context: Context) -> None:
    """Delete an agent: its token becomes invalid, its held calls end, its records remain. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_agent = await find_agent(tx, await find_session(tx, who, session, open_only=True), agent)
        await context.registry.delete(tx, found_agent, by=who.name)


@router.post("/sessions/{session}/agents/{agent}/token")
async def rotate_token(session: str, agent: str, response: Response, who: Who, context: Context) -> AgentToken:
    """Give an agent a new token; the old one becomes invalid. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_agent = await find_agent(tx, await find_session(tx, who, session, open_only=True), agent)
        token = await context.registry.rotate(tx, found_agent, by=who.name)
    set_no_store(response)
    return AgentToken(agent=found_agent.reference, token=token)


session_router = noun_router("sessions")


class SleeperPreset(Body):
    """The common pattern: all agents start asleep, and wake when added to a thread."""

    all_but: Names = Field(description="Names of agents that stay awake.", examples=[["lead"]])


_ALL_BUT: Final = r"all-but\s*\[?([^\[\]]*)\]?"


def _preset(value: Any) -> Any:
    """Parse `all-but [lead, reviewer]`."""
    if isinstance(value, str) and (match := re.fullmatch(_ALL_BUT, value.strip())):
        return {"all_but": [name for name in re.split(r"[\s,]+", match[1]) if name]}
    return value


def _describe_sleepers(schema: dict[str, Any]) -> None:
    """Add the short form to the schema, and examples of both."""
    schema["anyOf"].insert(0, {"type": "string", "pattern": _ALL_BUT})
    schema["examples"] = ["all-but [lead]", {"all_but": ["lead"]}]


class SessionBody(Body):
    """A new session: empty, with a name, or with its whole graph."""

    name: SessionName | None = Field(
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


@session_router.post("/sessions", status_code=201)
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


@session_router.get("/sessions")
async def list_sessions(
    who: Who,
    context: Context,
    closed: Annotated[bool, Query(description="Also list closed sessions.")] = False,
    after: NextPage = None,
    limit: LongLimit = 1000,
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


@session_router.get("/sessions/{session}")
async def show_session(session: str, who: Who, context: Context) -> SessionDetail:
    """Show a session with its agents. Access: operator, agents with access to the session."""
    async with context.store.begin_read() as tx:
        found_session = await find_session(tx, who, session)
        agents, more = await fetch_agents(tx, found_session, None, AGENTS)
    views = [agent_view(agent, context, who) for agent in agents]
    return SessionDetail.of(found_session, agents=views, next=agents[-1].name if more else None)


@session_router.delete("/sessions/{session}")
async def close_session(session: str, who: Who, context: Context) -> SessionView:
    """Close a session: its threads close, its agents' tokens become invalid, their held calls end. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session)
        await context.sessions.close(tx, found_session, by=who.name)
        closed = await tx.sessions.get(found_session.id) or found_session
    return SessionView.of(closed)
