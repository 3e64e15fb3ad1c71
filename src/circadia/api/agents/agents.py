"""Agents of a session: list, make, change, delete, and a new token."""

from datetime import datetime
from typing import Annotated

from fastapi import Response
from pydantic import AliasChoices, BaseModel, Field, StrictBool

from circadia.agents.access import require_operator
from circadia.agents.directory import find_agent, find_session
from circadia.agents.registry import NewAgent
from circadia.api.bodies import FirstMistake, Name
from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.policies import BodyWithPolicy, PolicyView, policy_view
from circadia.records.agent import Agent, Cause, SleepEvent, WakeEvent
from circadia.records.principal import Principal

router = noun_router("agents")

SleepEvents = Annotated[frozenset[SleepEvent], FirstMistake()]
WakeEvents = Annotated[frozenset[WakeEvent], FirstMistake()]

_SLEEP_EVENTS = AliasChoices("sleep_events", "sleepEvents")
_WAKE_EVENTS = AliasChoices("wake_events", "wakeEvents")


class AgentChange(BodyWithPolicy):
    """What of an agent to change; what is left out, or null, stays as it is. Policy keys may stand here too."""

    enabled: StrictBool | None = Field(
        None, description="Whether its token opens anything; held calls of a disabled agent end."
    )
    description: str | None = Field(None, max_length=4000, description="What it is for, as other agents read it.")
    sleep_events: SleepEvents | None = Field(
        None, validation_alias=_SLEEP_EVENTS, description="What puts it to sleep; also `sleepEvents`."
    )
    wake_events: WakeEvents | None = Field(
        None, validation_alias=_WAKE_EVENTS, description="What wakes it; also `wakeEvents`."
    )


class AgentBody(BodyWithPolicy):
    """An agent to make. Policy keys stand in `policy`, or beside the name."""

    name: Name = Field(description="`[a-z0-9][a-z0-9_-]{0,62}`, unique in its session.", examples=["writer"])
    description: str = Field("", max_length=4000, description="What it is for, as other agents read it.")
    sleep_events: SleepEvents = Field(
        frozenset(),
        validation_alias=_SLEEP_EVENTS,
        description="What puts it to sleep; with `agent_started` it starts asleep. Also `sleepEvents`.",
        examples=[["agent_started", "removed_from_last_thread"]],
    )
    wake_events: WakeEvents = Field(
        frozenset(),
        validation_alias=_WAKE_EVENTS,
        description="What wakes it; any one suffices. Also `wakeEvents`.",
        examples=[["mentioned", "added_to_any_thread"]],
    )

    def new_agent(self) -> NewAgent:
        """Return what the registry makes the agent from."""
        return NewAgent(
            name=self.name,
            description=self.description,
            sleep_events=self.sleep_events,
            wake_events=self.wake_events,
            policy=self.policy_changes(),
        )


class AgentView(BaseModel):
    """An agent and its sleep state."""

    id: str = Field(description="Key; a deleted and re-made agent has another.", examples=["agt_0cwd…"])
    name: str = Field(description="Its name in the session.", examples=["writer"])
    session: str = Field(description="Its session's name.", examples=["default"])
    reference: str = Field(description="`name` in the session `default`, else `session:name`.", examples=["writer"])
    description: str = Field(description="What it is for.")
    enabled: bool = Field(description="Whether its token opens anything.")
    sleeping: bool = Field(description="Whether it is asleep.")
    since: datetime = Field(description="When that last changed.")
    cause: Cause = Field(description="Through which door it last changed.")
    actor: str = Field(description="Who changed it.", examples=["operator", "mentioned by lead"])
    generation: int = Field(description="Counts the changes.")
    held: int = Field(description="How many of its calls are held now.")
    sleep_events: list[SleepEvent] = Field(description="What puts it to sleep.")
    wake_events: list[WakeEvent] = Field(description="What wakes it.")
    policy: PolicyView | None = Field(description="What it may reach and spend; null where another agent asks.")
    in_file: bool = Field(
        description="Whether the configuration file names it: its description, events and policy are then set by the "
        "file at each start, and whenever the file changes."
    )
    created_at: datetime = Field(description="When it was made.")


class AgentCreated(AgentView):
    """A new agent, with its token."""

    token: str = Field(description="Its token, shown this once; only its hash is stored.")


class AgentList(BaseModel):
    """The agents of a session."""

    agents: list[AgentView] = Field(description="By name.")


class AgentToken(BaseModel):
    """A new token."""

    agent: str = Field(description="Reference of the agent.", examples=["writer"])
    token: str = Field(description="The token, shown this once; the old one opens nothing from now on.")


def agent_view(agent: Agent, parts: ApiParts, principal: Principal) -> AgentView:
    """Return the agent as this caller sees it."""
    own = principal.agent is not None and principal.agent.id == agent.id
    return AgentView(
        id=agent.id,
        name=agent.name,
        session=agent.session,
        reference=agent.reference,
        description=agent.description,
        enabled=agent.enabled,
        sleeping=agent.asleep,
        since=agent.since,
        cause=agent.cause,
        actor=agent.actor,
        generation=agent.generation,
        held=parts.holds.count_held(agent.id),
        sleep_events=sorted(agent.sleep_events),
        wake_events=sorted(agent.wake_events),
        policy=policy_view(agent.policy) if principal.is_operator or own else None,
        in_file=agent.id in parts.registry.in_file,
        created_at=agent.created_at,
    )


def agent_created(agent: Agent, token: str, parts: ApiParts, principal: Principal) -> AgentCreated:
    """Return the new agent with its token."""
    return AgentCreated(**dict(agent_view(agent, parts, principal)), token=token)


def set_no_store(response: Response) -> None:
    """Tell whatever stands in between not to keep the answer: it holds a token."""
    response.headers["Cache-Control"] = "no-store"


@router.get("/sessions/{s}/agents")
async def list_agents(s: str, who: Who, parts: Parts) -> AgentList:
    """List the agents of a session with their sleep state.

    The operator, and agents of the session (or granted it).
    """
    async with parts.store.begin_read() as tx:
        session = await find_session(tx, who, s)
        agents = await tx.agents.find_by_session(session.id)
    return AgentList(agents=[agent_view(agent, parts, who) for agent in agents])


@router.post("/sessions/{s}/agents", status_code=201)
async def create_agent(s: str, body: AgentBody, response: Response, who: Who, parts: Parts) -> AgentCreated:
    """Make an agent; the answer holds its token, this once. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        session = await find_session(tx, who, s, open_only=True)
        agent, token = await parts.registry.add(tx, session, body.new_agent())
    set_no_store(response)
    return agent_created(agent, token, parts, who)


@router.get("/sessions/{s}/agents/{a}")
async def show_agent(s: str, a: str, who: Who, parts: Parts) -> AgentView:
    """Show an agent with its sleep state. The operator, and agents of the session (or granted it)."""
    async with parts.store.begin_read() as tx:
        agent = await find_agent(tx, await find_session(tx, who, s), a)
    return agent_view(agent, parts, who)


@router.patch("/sessions/{s}/agents/{a}")
async def change_agent(s: str, a: str, body: AgentChange, who: Who, parts: Parts) -> AgentView:
    """Change, disable or enable an agent. The operator only."""
    require_operator(who)
    changes = body.policy_changes()
    async with parts.store.begin_write() as tx:
        agent = await find_agent(tx, await find_session(tx, who, s, open_only=True), a)
        agent = await parts.registry.change(
            tx,
            agent,
            enabled=body.enabled,
            description=body.description,
            sleep_events=body.sleep_events,
            wake_events=body.wake_events,
            policy=changes or None,
        )
    return agent_view(agent, parts, who)


@router.delete("/sessions/{s}/agents/{a}", status_code=204)
async def delete_agent(s: str, a: str, who: Who, parts: Parts) -> None:
    """Delete an agent: its token opens nothing, its held calls end, its rows stay for the record. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        agent = await find_agent(tx, await find_session(tx, who, s, open_only=True), a)
        await parts.registry.delete(tx, agent)


@router.post("/sessions/{s}/agents/{a}/token")
async def rotate_token(s: str, a: str, response: Response, who: Who, parts: Parts) -> AgentToken:
    """Give an agent a new token; the old one opens nothing from now on. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        agent = await find_agent(tx, await find_session(tx, who, s, open_only=True), a)
        token = await parts.registry.rotate(tx, agent)
    set_no_store(response)
    return AgentToken(agent=agent.reference, token=token)
