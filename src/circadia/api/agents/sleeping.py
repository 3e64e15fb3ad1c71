"""The one boolean: read it, set it, for one agent or for many of a session."""

from datetime import datetime
from typing import Final

from pydantic import BaseModel, Field, StrictBool

from circadia.agents.access import require_sleep_control
from circadia.agents.directory import find_agent, find_session
from circadia.api.bodies import Body, Names
from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.records.agent import Agent, Cause

router = noun_router("sleeping", prefix="")

_STATE: Final = "/api/v1/sessions/{s}/agents/{a}/sleeping"
_SHORT: Final = "/api/v1/sessions/{s}/{a}/sleeping"
_LAST: Final = "/api/v1/sleeping/{s}/{a}"
_BARE: Final = "/sessions/{s}/{a}/sleeping"
"""The other paths of the state, for tools that append the names or know no prefix (GATE-34)."""


class SetSleeping(Body):
    """What the state is to be."""

    sleeping: StrictBool = Field(description="True: its next calls are held. False: the held ones go on.")


class SetManySleeping(SetSleeping):
    """What the state of many is to be."""

    agents: Names | None = Field(None, description="Names; all agents of the session if left out or null.")


class SleepingView(BaseModel):
    """An agent's sleep state."""

    sleeping: bool = Field(description="Whether it is asleep.")
    since: datetime = Field(description="When that last changed.")
    cause: Cause = Field(description="Through which door it last changed.")
    actor: str = Field(description="Who changed it.", examples=["operator"])
    generation: int = Field(description="Counts the changes.")
    held: int = Field(description="How many of its calls are held now.")
    agent: str = Field(description="Its name.", examples=["writer"])
    session: str = Field(description="Its session's name.", examples=["default"])


class SleepingList(BaseModel):
    """The sleep states after the change."""

    agents: list[SleepingView] = Field(description="One for each agent that was named, in that order.")


@router.get(_BARE, operation_id="get_sleeping_bare")
@router.get(_LAST, operation_id="get_sleeping_last")
@router.get(_SHORT, operation_id="get_sleeping_short")
@router.get(_STATE, operation_id="get_sleeping")
async def get_sleeping(s: str, a: str, who: Who, parts: Parts) -> SleepingView:
    """Tell an agent's sleep state. The operator, the agent, and agents of its session (or granted it)."""
    async with parts.store.begin_read() as tx:
        agent = await find_agent(tx, await find_session(tx, who, s, open_only=True), a)
    return _view(agent, parts)


@router.post(_BARE, operation_id="set_sleeping_by_post_bare")
@router.put(_BARE, operation_id="set_sleeping_bare")
@router.post(_LAST, operation_id="set_sleeping_by_post_last")
@router.put(_LAST, operation_id="set_sleeping_last")
@router.post(_SHORT, operation_id="set_sleeping_by_post_short")
@router.put(_SHORT, operation_id="set_sleeping_short")
@router.post(_STATE, operation_id="set_sleeping_by_post")
@router.put(_STATE, operation_id="set_sleeping")
async def set_sleeping(s: str, a: str, body: SetSleeping, who: Who, parts: Parts) -> SleepingView:
    """Put an agent to sleep or wake it; POST does what PUT does.

    The answer comes when the change is on the disk: after a false, each GET says false and the held calls are being
    admitted. The value that it already has changes nothing. The operator, the agent, and agents that its lists
    `may_wake` and `may_sleep` grant it to.
    """
    async with parts.store.begin_write() as tx:
        agent = await find_agent(tx, await find_session(tx, who, s, open_only=True), a)
        require_sleep_control(who, agent, asleep=body.sleeping)
        agent = await parts.sleep.set(tx, agent, asleep=body.sleeping, cause=Cause.REST, actor=who.name)
    return _view(agent, parts)


@router.put("/api/v1/sessions/{s}/sleeping")
async def set_many_sleeping(s: str, body: SetManySleeping, who: Who, parts: Parts) -> SleepingList:
    """Put agents of a session to sleep, or wake them: all of the named or, if one may not be set, none."""
    async with parts.store.begin_write() as tx:
        session = await find_session(tx, who, s, open_only=True)
        if body.agents is None:
            agents = list(await tx.agents.find_by_session(session.id))
        else:
            agents = [await find_agent(tx, session, name) for name in dict.fromkeys(body.agents)]
        for agent in agents:
            require_sleep_control(who, agent, asleep=body.sleeping)
        moved = [
            await parts.sleep.set(tx, agent, asleep=body.sleeping, cause=Cause.REST, actor=who.name) for agent in agents
        ]
    return SleepingList(agents=[_view(agent, parts) for agent in moved])


def _view(agent: Agent, parts: ApiParts) -> SleepingView:
    return SleepingView(
        sleeping=agent.asleep,
        since=agent.since,
        cause=agent.cause,
        actor=agent.actor,
        generation=agent.generation,
        held=parts.holds.count_held(agent.id),
        agent=agent.name,
        session=agent.session,
    )
