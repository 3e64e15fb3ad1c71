"""Tools for the sleep state."""

from collections.abc import Sequence
from datetime import datetime
from operator import not_
from typing import Annotated, Any, Final, Self

from pydantic import Field

from circadia.agents.access import require_sleep_control
from circadia.agents.directory import find_agent_by_reference, hold_agents
from circadia.errors import InvalidRequest
from circadia.mcp_server.caller import Caller, name_from
from circadia.mcp_server.tool import Arguments, ToolResult, tool
from circadia.mcp_server.tools.threads import AgentName
from circadia.records.agent import Agent, Cause
from circadia.records.schedule import MAX_EVERY_SECONDS, MIN_EVERY_SECONDS, Recurrence, Routine, RoutineSpec
from circadia.stores.locks import event_key
from circadia.wake.own_routines import NewAlarm
from circadia.wake.own_sleep import SleepWish, read_wake_on
from circadia.wake.sleep_control import list_wakers

Unconfirmed = Annotated[
    tuple[str, ...],
    Field(description="Servers that have not confirmed the sleep: they may send calls for a second.", exclude_if=not_),
]


class SetSleepingArguments(Arguments):
    agent: AgentName
    sleeping: bool = Field(description="true puts it to sleep, false wakes it.")


class SleepSelf(Arguments):
    until: str | None = Field(
        default=None, max_length=200, description="Alarm: ISO 8601; without an offset, in your zone."
    )
    for_seconds: float | None = Field(default=None, gt=0, description="Alarm after this time, instead of `until`.")
    reason: str | None = Field(default=None, max_length=1_000, description="What the alarm is for.")
    cancel_if_woken: bool = Field(default=False, description="Drop the alarm if something else wakes you first.")
    wake_on: list[str] = Field(
        default=[], max_length=200, description="More that wakes you: `mention`, `message`, `event:NAME`."
    )
    filter: dict[str, Any] | None = Field(default=None, description="What the events' data must contain.")

    def read_wish(self) -> SleepWish:
        """Return what it asks for. Raises InvalidRequest."""
        wake_on, events = read_wake_on(self.wake_on)
        alarm = None
        if self.until is not None or self.for_seconds is not None:
            alarm = NewAlarm(
                until=None if self.until is None else _read_time(self.until), after_seconds=self.for_seconds,
                reason=self.reason or "", ends_on_wake=self.cancel_if_woken,
            )  # fmt: skip
        elif self.reason or self.cancel_if_woken:
            raise InvalidRequest("reason and cancel_if_woken are for an alarm; state until or for_seconds too")
        return SleepWish(alarm=alarm, wake_on=wake_on, events=events, filter=self.filter or {})


def _read_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(f"until: {text!r} is no time; write one such as 2026-11-30T09:00:00+01:00") from error


class SelfAnswer(ToolResult):
    sleeping: bool
    actor: str = Field(description="What has woken you at once: a mention that you have not read.")
    wakes_on: list[str] = Field(description="What can wake you. If it is empty, only a person can.")
    alarm: str | None = Field(default=None, description="Name of your alarm.", exclude_if=not_)
    unconfirmed: Unconfirmed = ()


class SleepingResult(ToolResult):
    agent: str = Field(description="Agent.")
    sleeping: bool = Field(
        description="Whether the agent is asleep now; one that must be launched sleeps until its program has started."
    )
    unread: list[str] = Field(description="Ids of mentions that it has not seen; they do not wake it from this sleep.")
    unconfirmed: Unconfirmed = ()


async def list_unconfirmed(caller: Caller, agent: Agent) -> tuple[str, ...]:
    """Return the gateways that have not confirmed that the agent sleeps, once all have or 100 ms have passed."""
    return tuple((await caller.context.confirmer.confirm([agent])).get(agent.id, ()))


@tool(
    "sleep_self",
    "Fall asleep when you have nothing to do. This call is still answered; your next call "
    "waits, at no cost, until something in `wakes_on`, or a person, wakes you. Then continue as if no time had passed: "
    "call wait_for_mention to read what woke you.",
)
async def _sleep_self(caller: Caller, arguments: SleepSelf) -> SelfAnswer:
    wish = arguments.read_wish()
    async with caller.context.store.begin_write(*map(event_key, wish.events)) as tx:
        slept = await caller.context.wake.own_sleep.sleep(tx, caller.principal, caller.agent, wish, cause=Cause.TOOL)
        changed = slept.agent
        wakers = await list_wakers(tx, changed)
    return SelfAnswer(
        sleeping=changed.asleep,
        actor="" if changed.asleep else changed.actor,
        wakes_on=list(wakers),
        alarm=None if slept.alarm is None else slept.alarm.name,
        unconfirmed=await list_unconfirmed(caller, changed),
    )


class CancelAlarm(Arguments):
    cancel: str | None = Field(default=None, description="Name of one to cancel.")


class OwnAlarm(ToolResult):
    name: str
    at: datetime | None = Field(description="Next time; none once an alarm has rung.")
    reason: str


class AlarmsAnswer(ToolResult):
    alarms: list[OwnAlarm]

    @classmethod
    def of(cls, routines: Sequence[Routine]) -> Self:
        return cls(
            alarms=[
                OwnAlarm(name=routine.name, at=routine.next_at, reason=routine.spec.instructions)
                for routine in routines
            ]
        )


@tool("alarms", "List the alarms and routines that you set for yourself, or cancel one.")
async def _alarms(caller: Caller, arguments: CancelAlarm) -> AlarmsAnswer:
    alarms = caller.context.wake.own_routines
    if arguments.cancel is None:
        async with caller.context.store.begin_read() as tx:
            return AlarmsAnswer.of(await alarms.list(tx, caller.agent))
    async with caller.context.store.begin_write() as tx:
        await alarms.cancel(tx, caller.agent, arguments.cancel)
        return AlarmsAnswer.of(await alarms.list(tx, caller.agent))


class KeepRoutine(Arguments):
    name: str = Field(description="Name; the same one replaces it.")
    instructions: str = Field(max_length=2_000, description="What you shall do then.")
    every_seconds: int | None = Field(
        default=None, ge=MIN_EVERY_SECONDS, le=MAX_EVERY_SECONDS, description="Interval; or state `cron`."
    )
    cron: str | None = Field(default=None, description="Minute, hour, day of month, month, day of week, in your zone.")


@tool("keep_routine", "Keep a routine of your own: it wakes you at its times, again and again. alarms cancels it.")
async def _keep_routine(caller: Caller, arguments: KeepRoutine) -> AlarmsAnswer:
    async with caller.context.store.begin_write() as tx:
        agent = await tx.agents.get(caller.agent.id) or caller.agent
        recurrence = Recurrence(
            every_seconds=arguments.every_seconds, cron=arguments.cron, zone=agent.coordination.zone
        )
        spec = RoutineSpec(name=arguments.name, recurrence=recurrence, instructions=arguments.instructions)
        await caller.context.wake.own_routines.set_routine(tx, agent, spec)
        return AlarmsAnswer.of(await caller.context.wake.own_routines.list(tx, agent))


@tool(
    "set_sleeping",
    "Put another agent to sleep, or wake it, if the operator allows you to. Its calls wait while it is asleep. "
    "To get an agent's attention, mention it in a message instead.",
)
async def _set_sleeping(caller: Caller, arguments: SetSleepingArguments) -> SleepingResult:
    async with caller.context.store.begin_write() as tx:
        session = await caller.find_session(tx)
        await hold_agents(tx, caller.principal, session, [arguments.agent])
        agent = await find_agent_by_reference(tx, caller.principal, session, arguments.agent)
        require_sleep_control(caller.principal, agent, asleep=arguments.sleeping)
        outcome = await caller.context.wake.control.set(
            tx, caller.principal, agent, asleep=arguments.sleeping, cause=Cause.TOOL
        )
    return SleepingResult(
        agent=name_from(session, agent.reference),
        sleeping=outcome.agent.asleep,
        unread=[str(delivery.message.id) for delivery in outcome.missed],
        unconfirmed=await list_unconfirmed(caller, outcome.agent),
    )


SLEEP_TOOLS: Final = (_sleep_self, _alarms, _set_sleeping)
ROUTINE_TOOLS: Final = (_keep_routine,)
"""Only for agents whose policy allows routines of their own."""
