"""What agents set for themselves: alarms, routines of their own, and waits for named events (WAKE-80, WAKE-81)."""

from collections.abc import Sequence
from typing import Any

import orjson
from pydantic import Field, StrictFloat, StrictInt

from circadia.agents.access import require_operator
from circadia.api.bodies import Body, own_agent
from circadia.api.context import Context, Limit, NextPage, Who, noun_router
from circadia.errors import NotFound
from circadia.ids import EventWaitId, RoutineId
from circadia.records.agent import Agent
from circadia.records.message import Delivery
from circadia.records.schedule import MAX_EVERY_SECONDS, MIN_EVERY_SECONDS, Recurrence, Routine, RoutineSpec, load_zone
from circadia.schemas.alarms import AlarmList, AlarmView, EventWaitList, EventWaitOutcome, EventWaitView, NamedEventView
from circadia.wake.named_events import GRACE_SECONDS, MAX_SINCE_SECONDS

router = noun_router("alarms")


class OwnRoutineBody(Body):
    """A routine of the agent's own; exactly one of `every_seconds` and `cron`."""

    every_seconds: StrictInt | None = Field(
        None, ge=MIN_EVERY_SECONDS, le=MAX_EVERY_SECONDS, description="Interval.", examples=[3600]
    )
    cron: str | None = Field(None, description="Cron rule, in the agent's zone.")
    instructions: str = Field("", max_length=2_000, description="Instructions for itself.", examples=["read the log"])


class EventWaitBody(Body):
    """The event to wait for."""

    name: str = Field(description="Name of the event.", examples=["batch.completed"])
    filter: dict[str, Any] = Field({}, description="What its data must contain.", examples=[{"id": "batch_7"}])
    timeout_seconds: StrictFloat | StrictInt = Field(
        30, ge=0, le=300, description="Longest wait of this call; 0 only begins the wait, or looks."
    )
    since_seconds: StrictFloat | StrictInt = Field(
        GRACE_SECONDS, ge=0, le=MAX_SINCE_SECONDS,
        description="Age of an event that still counts, if the agent has not had it: it may have come before the wait.",
    )  # fmt: skip


@router.get("/alarms")
async def list_alarms(who: Who, context: Context, limit: Limit = 100, page: NextPage = None) -> AlarmList:
    """List the alarms and routines that agents set for themselves. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        routines = await tx.routines.find_own(after=None if page is None else RoutineId(page), limit=limit)
        agents = {agent_id: await tx.agents.get(agent_id) for agent_id in {each.agent_id for each in routines}}
    shown = [_view(agent, each) for each in routines if (agent := agents[each.agent_id]) and agent.deleted_at is None]
    return AlarmList(alarms=shown, next=routines[-1].id if len(routines) == limit else None)


@router.get("/agents/{agent}/alarms")
async def list_own_alarms(agent: str, who: Who, context: Context) -> AlarmList:
    """List an agent's alarms and routines of its own, with the alarms that rang lately. Access: operator, the agent."""
    async with context.store.begin_read() as tx:
        found_agent = await own_agent(tx, who, agent)
        routines = await context.wake.own_routines.list(tx, found_agent)
    return AlarmList(alarms=[_view(found_agent, routine) for routine in routines])


@router.put("/agents/{agent}/alarms/{alarm}")
async def set_own_routine(agent: str, alarm: str, body: OwnRoutineBody, who: Who, context: Context) -> AlarmView:
    """Set a routine of the agent's own, within the limits of its policy (`own_routines`).

    It runs from its next time on. An alarm is set with `PUT …/sleeping`. Access: operator, the agent.
    """
    async with context.store.begin_write() as tx:
        found_agent = await own_agent(tx, who, agent)
        zone = found_agent.coordination.zone
        recurrence = Recurrence(every_seconds=body.every_seconds, cron=body.cron, zone=zone)
        spec = RoutineSpec(name=alarm, recurrence=recurrence, instructions=body.instructions)
        routine = await context.wake.own_routines.set_routine(tx, found_agent, spec)
    return _view(found_agent, routine)


@router.delete("/agents/{agent}/alarms/{alarm}")
async def cancel_alarm(agent: str, alarm: str, who: Who, context: Context) -> AlarmView:
    """Cancel an alarm, or delete a routine of the agent's own. Access: operator, the agent."""
    async with context.store.begin_write() as tx:
        found_agent = await own_agent(tx, who, agent)
        routine = await context.wake.own_routines.cancel(tx, found_agent, alarm)
    return _view(found_agent, routine)


@router.get("/agents/{agent}/event-waits")
async def list_event_waits(agent: str, who: Who, context: Context) -> EventWaitList:
    """List an agent's waits for named events. Access: operator, the agent."""
    async with context.store.begin_read() as tx:
        found_agent = await own_agent(tx, who, agent)
        waits = await tx.event_waits.find_by_agent(found_agent.id)
    return EventWaitList(waits=[EventWaitView.of(wait, wakes=wait.generation is not None) for wait in waits])


@router.post("/agents/{agent}/event-waits")
async def wait_for_event(agent: str, body: EventWaitBody, who: Who, context: Context) -> EventWaitOutcome:
    """Wait for a named event whose data contains the filter, and return it.

    An event of the last `since_seconds` that the agent has not had counts too. The wait is stored: a call with the same
    name and filter goes on with it, on any server, and returns what came between, up to a day after the last call.
    The event stays in the inbox, and each call returns it, until it is
    acknowledged there (`POST …/inbox/{message}/ack`). Access: operator, the agent.
    """
    async with context.store.begin_write() as tx:
        found_agent = await own_agent(tx, who, agent)
        await context.wake.named_events.wait(
            tx, found_agent, body.name, body.filter, body.timeout_seconds, since_seconds=body.since_seconds
        )

    async def find() -> Sequence[Delivery]:
        async with context.store.begin_read() as tx:
            return await context.wake.named_events.find_unread(tx, found_agent, body.name, body.filter)

    found = await context.waits.look(found_agent.id, find, body.timeout_seconds)
    if not found:
        return EventWaitOutcome(event=None, timed_out=True)
    message = found[0].message
    event = NamedEventView(message=message.id, name=body.name, data=orjson.loads(message.content), at=message.at)
    return EventWaitOutcome(event=event, timed_out=False)


@router.delete("/agents/{agent}/event-waits/{wait}", status_code=204)
async def cancel_event_wait(agent: str, wait: str, who: Who, context: Context) -> None:
    """Cancel a wait for a named event. Access: operator, the agent."""
    async with context.store.begin_write() as tx:
        found_agent = await own_agent(tx, who, agent)
        if wait not in {each.id for each in await tx.event_waits.find_by_agent(found_agent.id)}:
            raise NotFound(f"{found_agent.reference!r} has no wait {wait!r}; it may have ended with its event")
        await tx.event_waits.remove(found_agent.id, [EventWaitId(wait)])


def _view(agent: Agent, routine: Routine) -> AlarmView:
    recurrence = routine.spec.recurrence
    local = None
    if routine.next_at is not None:
        local = routine.next_at.astimezone(load_zone(agent.coordination.zone)).isoformat()
    return AlarmView(
        id=routine.id, agent=agent.reference, name=routine.name, kind="alarm" if routine.is_alarm else "routine",
        next_at=routine.next_at, local=local, last_at=routine.last_at, every_seconds=recurrence.every_seconds,
        cron=recurrence.cron, reason=routine.spec.instructions, cancel_if_woken=routine.ends_on_wake,
        created_at=routine.created_at,
    )  # fmt: skip
