"""The sleep state: read or set it, for one agent or for many agents of a session."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from pydantic import Field, StrictBool, StrictFloat, StrictInt, model_validator

from circadia.agents.access import require_sleep_control
from circadia.agents.directory import find_agent, find_session, hold_agents
from circadia.api.bodies import Body, Names
from circadia.api.context import ApiContext, Context, Who, noun_router
from circadia.errors import Forbidden, InvalidRequest
from circadia.ids import AgentId, MemberId
from circadia.records.agent import Agent, Cause
from circadia.records.principal import Principal
from circadia.schemas.agents import SleepingList, SleepingView
from circadia.stores.base import Tx
from circadia.wake.own_routines import NewAlarm
from circadia.wake.own_sleep import MAX_WAKERS, SleepWish, read_wake_on
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


class SetOwnSleeping(SetSleeping):
    """The new sleep state; an agent that puts itself to sleep may say until when, and what wakes it."""

    until: datetime | None = Field(
        None, description="Sets an alarm at this time; without an offset, in the agent's zone."
    )
    for_seconds: StrictFloat | StrictInt | None = Field(None, gt=0, description="Sets an alarm after this time.")
    wake_on: list[str] = Field(
        [],
        max_length=MAX_WAKERS,
        description="What wakes it from this sleep besides what its policy says: `mention`, `message` or `event:NAME`.",
        examples=[["event:batch.completed"]],
    )
    filter: dict[str, Any] = Field({}, description="What the data of these events must contain.")
    reason: str = Field("", max_length=2_000, description="What the alarm is for; the agent gets it with the alarm.")
    cancel_if_woken: StrictBool = Field(False, description="A wake before its time deletes the alarm.")

    @model_validator(mode="before")
    @classmethod
    def _path_names_the_agent(cls, value: Any) -> Any:
        """Ignore what the path says: custom tools post all of their arguments."""
        if not isinstance(value, dict):
            return value
        return {key: each for key, each in cast("dict[str, Any]", value).items() if key not in ("session", "agent")}

    def read_wish(self) -> SleepWish | None:
        """Return what it says besides the state, if anything. Raises InvalidRequest."""
        if not self.model_fields_set - {"sleeping"}:
            return None
        if not self.sleeping:
            raise InvalidRequest("an alarm and `wake_on` belong to a sleep: set `sleeping` to true, or leave them out")
        wake_on, events = read_wake_on(self.wake_on)
        alarm = None
        if self.until is not None or self.for_seconds is not None:
            alarm = NewAlarm(
                until=self.until, after_seconds=self.for_seconds, reason=self.reason, ends_on_wake=self.cancel_if_woken
            )
        elif self.reason or self.cancel_if_woken:
            raise InvalidRequest("`reason` and `cancel_if_woken` are for an alarm; state `until` or `for_seconds` too")
        return SleepWish(alarm=alarm, wake_on=wake_on, events=events, filter=self.filter)


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
async def set_sleeping(session: str, agent: str, body: SetOwnSleeping, who: Who, context: Context) -> SleepingView:
    """Put an agent to sleep or wake it.

    The server answers after the change is on disk. It answers a sleep once the other live gateways have confirmed that
    they send nothing more of the agent, or after 100 ms. After a wake, each GET returns false and the held calls are
    being admitted. An agent with a launcher sleeps until its `pulse` has started. A person's wake bypasses the
    guardrails, an agent's does not. Setting the current value changes nothing. Only the agent itself may set an
    alarm or `wake_on`. Access: the operator, the agent, and agents with a grant in `may_wake` or `may_sleep`.
    """
    wish = body.read_wish()
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session, open_only=True)
        await hold_agents(tx, who, found_session, [agent])
        found_agent = await find_agent(tx, found_session, agent)
        require_sleep_control(who, found_agent, asleep=body.sleeping)
        if wish is not None:
            outcome = await _sleep_by_wish(tx, context, who, found_agent, wish)
        else:
            outcome = await context.wake.control.set(tx, who, found_agent, asleep=body.sleeping, cause=Cause.REST)
    return _view(outcome, context, await context.confirmer.confirm([outcome.agent]))


async def _sleep_by_wish(tx: Tx, context: ApiContext, who: Principal, agent: Agent, wish: SleepWish) -> SleepOutcome:
    if who.agent is None or who.agent.id != agent.id:
        raise Forbidden("an alarm and `wake_on` are the agent's own to set; for other times, write its schedule")
    return await context.wake.own_sleep.sleep(tx, who, agent, wish, cause=Cause.REST)


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
        alarm=None if outcome.alarm is None else outcome.alarm.name,
    )
