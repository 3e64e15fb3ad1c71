"""Alarms and routines that an agent sets for itself: routines that people did not set, within limits (WAKE-80).

An alarm is a routine with one instant. So it is durable, planned, fired and recorded as every other routine; a zone's
change does not move it, and a late start fires it. What is special is who sets it, how many there may be, and that a
wake before its time may delete it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Final

from circadia.clock import Clock
from circadia.errors import Conflict, Forbidden, InvalidRequest, NotFound
from circadia.ids import IdSource, RoutineId
from circadia.records.agent import Agent
from circadia.records.event import AlarmChange, AlarmState, EventType
from circadia.records.schedule import MAX_ROUTINES, Recurrence, Routine, RoutineSpec, load_zone, to_utc
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.wake.scheduling.planning import plan_from
from circadia.wake.scheduling.recurrence import occurrences
from circadia.wake.scheduling.wall_clock import day_bounds, first_instant

MAX_DISTANCE: Final = timedelta(days=366)
MAX_REASON_CHARACTERS: Final = 2_000
KEPT: Final = timedelta(days=2)
"""How long an alarm stays once it has rung: its wake may be deferred."""
ALARM: Final = "alarm"
"""First word of an alarm's name; its instant follows."""
_COMPARED: Final = 20
"""Occurrences between which the interval of a routine is measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewAlarm:
    until: datetime | None = None
    """Without a zone, the agent's own."""
    after_seconds: float | None = None
    reason: str = ""
    ends_on_wake: bool = False


class OwnRoutines:
    def __init__(self, clock: Clock, ids: IdSource, events: EventLog) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events

    async def set_alarm(self, tx: Tx, agent: Agent, new: NewAlarm) -> Routine:
        """Set an alarm; one that the agent has for this second is replaced.

        Raises:
            InvalidRequest: no instant, or one that is past or too far away. Forbidden: the agent accepts no wakes.
            Conflict: the day has all the alarms that it may have.
        """
        at, now = self._find_instant(agent, new), self._clock.now()
        if not now < at <= now + MAX_DISTANCE:
            raise InvalidRequest(
                f"an alarm at {at.isoformat(timespec='seconds')} is not within the next {MAX_DISTANCE.days} days from "
                f"{now.isoformat(timespec='seconds')} on, which is now"
            )
        name = f"{ALARM} {at.isoformat(timespec='seconds').replace('+00:00', 'Z')}"
        known = [routine for routine in await self._list_present(tx, agent) if routine.name != name]
        self._require_alarm(agent, known, at)
        recurrence = Recurrence(at=(at,), zone=agent.coordination.zone)
        spec = RoutineSpec(
            name=name, instructions=_require_reason(new.reason), recurrence=recurrence, misfire_grace_seconds=None
        )
        return await self._put(tx, agent, spec, ends_on_wake=new.ends_on_wake)

    async def set_routine(self, tx: Tx, agent: Agent, spec: RoutineSpec) -> Routine:
        """Set a routine of the agent's own; one of the same name is replaced.

        Raises:
            Forbidden: its policy allows no routine, or none as frequent. Conflict: it has all that it may have, or a
                person has set one of this name.
        """
        allowed, least = agent.policy.own_routines, agent.policy.own_routine_min_seconds
        known = await self._list_present(tx, agent)
        others = [routine for routine in known if routine.own and not routine.is_alarm and routine.name != spec.name]
        if len(others) >= allowed:
            raise Forbidden(
                f"{agent.reference!r} may keep {allowed} routines of its own; the operator can allow more with "
                "`own_routines`"
            )
        if spec.recurrence.at or spec.name.startswith(f"{ALARM} "):
            raise InvalidRequest("a routine recurs: write every_seconds or cron; for a single time, set an alarm")
        if (shortest := self._measure_interval(spec)) < least:
            raise Forbidden(
                f"a routine of the agent's own recurs every {least} s at most, this one after {shortest:.0f} s; the "
                "operator can allow it with `own_routine_min_seconds`"
            )
        return await self._put(tx, agent, spec)

    async def list(self, tx: Tx, agent: Agent) -> Sequence[Routine]:
        """Return the agent's own alarms and routines by name: those to come, and the alarms that rang lately."""
        return [routine for routine in await tx.routines.find_by_agent(agent.id) if routine.own]

    async def cancel(self, tx: Tx, agent: Agent, name: str) -> Routine:
        """Delete an alarm or a routine of the agent's own. Raises NotFound."""
        routine = await tx.routines.get(agent.id, name)
        if routine is None or not routine.own:
            own = ", ".join(repr(routine.name) for routine in await self.list(tx, agent)) or "none"
            raise NotFound(f"{agent.reference!r} has no alarm or routine of its own named {name!r}; it has {own}")
        await tx.routines.remove(agent.id, name)
        await self._record(tx, agent, routine, AlarmState.CANCELLED)
        return routine

    async def _put(self, tx: Tx, agent: Agent, spec: RoutineSpec, *, ends_on_wake: bool = False) -> Routine:
        old = await tx.routines.get(agent.id, spec.name)
        if old is not None and not old.own:
            raise Conflict(f"a person has set the routine {spec.name!r}; choose another name")
        if old is not None:
            await tx.routines.remove(agent.id, spec.name)
        now = self._clock.now()
        fresh = Routine(
            id=RoutineId(self._ids.new("rtn")), agent_id=agent.id, spec=spec, created_at=now, own=True,
            ends_on_wake=ends_on_wake,
        )  # fmt: skip
        planned = plan_from(fresh, now - timedelta(microseconds=1))
        await tx.routines.add(planned)
        await self._record(tx, agent, planned, AlarmState.SET)
        return planned

    async def _list_present(self, tx: Tx, agent: Agent) -> Sequence[Routine]:
        """Return the agent's routines, without alarms that rang days ago: these are deleted."""
        oldest = self._clock.now() - KEPT
        present: list[Routine] = []
        for routine in await tx.routines.find_by_agent(agent.id):
            if routine.is_alarm and routine.next_at is None and (routine.last_at or routine.created_at) < oldest:
                await tx.routines.remove(agent.id, routine.name)
            else:
                present.append(routine)
        return present

    def _find_instant(self, agent: Agent, new: NewAlarm) -> datetime:
        """Return the instant in UTC, without a fraction of a second."""
        if (new.until is None) == (new.after_seconds is None):
            raise InvalidRequest("an alarm has either a time or a duration; state one of them")
        try:
            at = new.until or self._clock.now() + timedelta(seconds=new.after_seconds or 0)
            if at.tzinfo is None:
                at = first_instant(at, load_zone(agent.coordination.zone))
            at = to_utc("until", at)
            return at + timedelta(microseconds=-at.microsecond % 1_000_000)
        except OverflowError as error:
            raise InvalidRequest("that time is too far away for an alarm") from error

    def _require_alarm(self, agent: Agent, known: Sequence[Routine], at: datetime) -> None:
        """Raise an error unless the agent may have one more alarm at this instant."""
        if not agent.coordination.wakes_enabled:
            raise Forbidden(f"{agent.reference!r} accepts no wakes (wakes_enabled is false), so no alarm would wake it")
        begin, end = day_bounds(agent.coordination.zone, at)
        most = agent.coordination.wake_guardrails.max_alarms_per_day
        alarms = [routine for routine in known if routine.is_alarm]
        on_that_day = sum(begin <= routine.spec.recurrence.at[0] < end for routine in alarms)
        if most is not None and on_that_day >= most:
            raise Conflict(
                f"limit reached: {most:g} alarms a day (max_alarms_per_day), from {begin.isoformat()} on; set it for "
                "another day, or cancel one"
            )
        if len(known) >= MAX_ROUTINES:
            raise Conflict(f"{agent.reference!r} has {MAX_ROUTINES} alarms and routines; cancel one")

    def _measure_interval(self, spec: RoutineSpec) -> float:
        """Return the shortest time between the routine's next runs, in seconds."""
        if spec.recurrence.every_seconds is not None:
            return spec.recurrence.every_seconds
        now = self._clock.now()
        due = islice(occurrences(spec.recurrence, now, now + MAX_DISTANCE, ""), _COMPARED)
        return min(((later - earlier).total_seconds() for earlier, later in pairwise(due)), default=float("inf"))

    async def _record(self, tx: Tx, agent: Agent, routine: Routine, state: AlarmState) -> None:
        await record_alarm(tx, self._events, agent, routine, state)


async def record_alarm(tx: Tx, events: EventLog, agent: Agent, routine: Routine, state: AlarmState) -> None:
    data = AlarmChange(
        name=routine.name,
        state=state,
        at=routine.next_at,
        recurs=not routine.is_alarm,
        ends_on_wake=routine.ends_on_wake,
    )
    await events.record(tx, EventType.ALARM, data, session=agent.session, agent=agent.name)
    events.signal(tx, "routine", agent.id, {"verdict": f"alarm_{state.value}"})


def _require_reason(reason: str) -> str:
    if len(reason) > MAX_REASON_CHARACTERS:
        raise InvalidRequest(f"the reason of an alarm has at most {MAX_REASON_CHARACTERS:,} characters")
    return reason.strip()
