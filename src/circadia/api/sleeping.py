"""The sleep state: read or set it, for one agent or for many agents of a session."""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import Field, StrictBool

from circadia.agents.access import require_sleep_control
from circadia.agents.directory import find_agent, find_session, hold_agents
from circadia.api.bodies import Body, Names
from circadia.api.context import ApiContext, Context, Who, noun_router
from circadia.ids import AgentId, MemberId
from circadia.records.agent import Cause
from circadia.schemas.agents import SleepingList, SleepingView
from circadia.wake.sleep_control import SleepOutcome

router = noun_router("sleeping", prefix="")

_NOBODY: Final[Mapping[AgentId, Sequence[MemberId]]] = {}

_STATE: Final = "/api/v1/sessions/{session}/agents/{agent}/sleeping"
_SHORT: Final = "/api/v1/sessions/{session}/{agent}/sleeping"
_LAST: Final = "/api/v1/sleeping/{session}/{agent}"
_BARE: Final = "/sessions/{session}/{agent}/sleeping"
"""Further paths of the state, for tools that append the names or know no prefix (GATE-34)."""


class SetSleeping(Body):
    """The new sleep state."""

    sleeping: StrictBool = Field(description="True holds its next calls; false releases the held ones.")


class SetManySleeping(SetSleeping):
    """The new sleep state of many agents."""

    agents: Names | None = Field(None, description="Names; by default, or if null, all agents of the session.")


@router.get(_BARE, include_in_schema=False)
@router.get(_LAST, include_in_schema=False)
@router.get(_SHORT, include_in_schema=False)
@router.get(_STATE)
async def get_sleeping(session: str, agent: str, who: Who, context: Context) -> SleepingView:
    """Show an agent's sleep state. Access: operator, agents with access to the session."""
    async with context.store.begin_read() as tx:
        found_agent = await find_agent(tx, await find_session(tx, who, session, open_only=True), agent)
    return _view(SleepOutcome(agent=found_agent), context)


@router.post(_BARE, include_in_schema=False)
@router.put(_BARE, include_in_schema=False)
@router.post(_LAST, include_in_schema=False)
@router.put(_LAST, include_in_schema=False)
@router.post(_SHORT, include_in_schema=False)
@router.put(_SHORT, include_in_schema=False)
@router.post(_STATE, include_in_schema=False)
@router.put(_STATE)
async def set_sleeping(session: str, agent: str, body: SetSleeping, who: Who, context: Context) -> SleepingView:
    """Put an agent to sleep or wake it.

    The server answers after the change is on disk. It answers a sleep once the other live gateways have confirmed that
    they send nothing more of the agent, or after 100 ms. After a wake, each GET returns false and the held calls are
    being admitted. An agent with a launcher sleeps until its `pulse` has started. A person's wake bypasses the
    guardrails, an agent's does not. Setting the current value changes nothing. Access: the operator, the agent, and
    agents with a grant in `may_wake` or `may_sleep`.
    """
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session, open_only=True)
        await hold_agents(tx, who, found_session, [agent])
        found_agent = await find_agent(tx, found_session, agent)
        require_sleep_control(who, found_agent, asleep=body.sleeping)
        outcome = await context.wake.control.set(tx, who, found_agent, asleep=body.sleeping, cause=Cause.REST)
    return _view(outcome, context, await context.confirmer.confirm([outcome.agent]))


@router.put("/api/v1/sessions/{session}/sleeping")
async def set_many_sleeping(session: str, body: SetManySleeping, who: Who, context: Context) -> SleepingList:
    """Put agents of a session to sleep or wake them, all or none.

    Agents with a launcher get a pulse each; if `agents` names none, their guardrails decide when.
    """
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session, open_only=True)
        names = body.agents
        if names is None:
            names = [agent.name for agent in await tx.agents.find_by_session(found_session.id)]
        await hold_agents(tx, who, found_session, names)
        agents = [await find_agent(tx, found_session, name) for name in dict.fromkeys(names)]
        for agent in agents:
            require_sleep_control(who, agent, asleep=body.sleeping)
        outcomes = [
            await context.wake.control.set(
                tx, who, agent, asleep=body.sleeping, cause=Cause.REST, overrides=body.agents is not None
            )
            for agent in agents
        ]
    unconfirmed = await context.confirmer.confirm([outcome.agent for outcome in outcomes])
    return SleepingList(agents=[_view(outcome, context, unconfirmed) for outcome in outcomes])


def _view(
    outcome: SleepOutcome, context: ApiContext, unconfirmed: Mapping[AgentId, Sequence[MemberId]] = _NOBODY
) -> SleepingView:
    return SleepingView.of(
        outcome.agent,
        held=context.holds.count_held(outcome.agent.id),
        unconfirmed=list(unconfirmed.get(outcome.agent.id, ())),
        pulse=outcome.pulse_id,
        unread=[delivery.message.id for delivery in outcome.missed],
    )
