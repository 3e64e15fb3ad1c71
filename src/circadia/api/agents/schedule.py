"""An agent's schedule: its routines, its blackouts, and what is due in a window of time (WAKE-40 … WAKE-45)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Final, Literal, cast

from fastapi import Query
from pydantic import BaseModel, Field, model_validator

from circadia.agents.access import require_operator
from circadia.api.bodies import Body
from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.references import Instant, named_agent, own_agent
from circadia.errors import InvalidRequest
from circadia.records.agent import Agent
from circadia.records.schedule import Blackout, BlackoutPolicy, OneOffBlackout, RecurringBlackout, Routine, Weekday
from circadia.settings.schedule import BlackoutSettings, RoutineSettings
from circadia.wake.scheduling.planning import BlackoutPeriod, blackouts_between, occurrences

router = noun_router("schedule")

WINDOW: Final = timedelta(days=7)
"""Window that is shown if none is asked for."""
LONGEST_WINDOW: Final = timedelta(days=366)
MOST_OCCURRENCES: Final = 1000
"""Occurrences in one answer, of each routine its first ones."""
MOST_BLACKOUTS: Final = 200
"""Blackouts of one agent."""


_INSTANTS: Final = frozenset({"anchor", "at", "start", "end"})
_TIMES: Final = frozenset({"start_time", "end_time"})
_NUMBERS: Final = frozenset({
    "every_seconds", "offset_seconds", "jitter_seconds", "stagger_seconds", "timeout_seconds", "misfire_grace_seconds",
    "days_of_week",
})  # fmt: skip


class _StrictBody(Body):
    """A part of a file's settings, as a body: what a file may write in several ways has one way here."""

    @model_validator(mode="before")
    @classmethod
    def _values_are_of_their_types(cls, given: Any) -> Any:
        """Refuse what the settings would read as a number, an instant or a yes."""
        if not isinstance(given, dict):
            return given
        values = cast("dict[str, Any]", given)
        for key, value in values.items():
            _require_type(key, value)
        return values


class RoutineBody(RoutineSettings, _StrictBody):
    """A routine; exactly one of `every_seconds`, `cron` and `at`.

    Instants without an offset are in its agent's zone.
    """


class BlackoutBody(BlackoutSettings, _StrictBody):
    """A blackout: `start_time` and `end_time` each week, or `start` and `end` once."""


class ScheduleBody(Body):
    """What the schedule is to be; what is left out stays as it is."""

    routines: list[RoutineBody] | None = Field(
        None, max_length=100, description="All routines: those that are not here are deleted."
    )
    blackouts: list[BlackoutBody] | None = Field(
        None, max_length=MOST_BLACKOUTS, description="All blackouts: those that are not here are deleted."
    )


class RoutineView(BaseModel):
    """A routine, and where it stands."""

    name: str = Field(description="Its name.", examples=["nightly"])
    instructions: str = Field(description="What the agent is told to do; empty means what waits in its inbox.")
    every_seconds: int | None = Field(description="Elapsed seconds between two occurrences.")
    anchor: datetime | None = Field(description="An instant that intervals count from.")
    offset_seconds: int = Field(description="Seconds after each step from the anchor.")
    cron: str | None = Field(description="Minute, hour, day of month, month and day of week.")
    at: list[datetime] = Field(description="Single instants.")
    zone: str = Field(description="The zone whose clock counts.", examples=["Europe/Berlin"])
    jitter_seconds: int = Field(description="Each occurrence is late by a draw of up to so much.")
    stagger_seconds: int = Field(description="The schedule is late by one draw of up to so much.")
    timeout_seconds: float | None = Field(description="Longest pulse; null is the agent's own limit.")
    enabled: bool = Field(description="Whether it is ever due.")
    blackout_policy: BlackoutPolicy | None = Field(
        description="What becomes of it in a blackout; null is as the agent's `blackout_policies` say."
    )
    misfire_grace_seconds: int | None = Field(description="How late it may still run; null is however late.")
    next_at: datetime | None = Field(description="When it is looked at next; null is never.")
    deferred_from: datetime | None = Field(description="The occurrence that waits for the end of a blackout.")
    last_at: datetime | None = Field(description="The occurrence that it last ran for.")
    skips: int = Field(description="Occurrences in a row that were skipped.")
    missed: int = Field(description="Occurrences that nobody was there for.")


class BlackoutView(BaseModel):
    """A blackout, with the keys that a change takes."""

    type: Literal["recurring", "one_off"] = Field(description="Each week, or once.")
    label: str = Field(description="What a person calls it.", examples=["night"])
    start_time: str | None = Field(description="First time of day; null for one that is once.", examples=["22:00"])
    end_time: str | None = Field(description="Time of day at which it is over.", examples=["06:00"])
    weekdays: list[Weekday] | None = Field(description="Days on which it starts.")
    start: datetime | None = Field(description="First instant; null for one of each week.")
    end: datetime | None = Field(description="First instant after it.")


class Occurrence(BaseModel):
    """A time at which a routine is due."""

    at: datetime = Field(description="When it is due.")
    routine: str = Field(description="The routine.", examples=["nightly"])
    policy: BlackoutPolicy = Field(
        description="What becomes of it: it runs, waits for the end of a blackout, or does not take place."
    )
    runs_at: datetime | None = Field(description="When it runs, guardrails aside; null where it does not.")


class SpanView(BaseModel):
    """A stretch of blackouts that overlap or touch."""

    start: datetime = Field(description="Its first instant, not before the window.")
    end: datetime = Field(description="The first instant after it, not after the window.")
    labels: list[str] = Field(description="What people call them.")


class ScheduleView(BaseModel):
    """An agent's schedule, and what it comes to in a window of time."""

    agent: str = Field(description="Reference of the agent.", examples=["writer"])
    zone: str = Field(description="Its time zone.", examples=["Europe/Berlin"])
    routines: list[RoutineView] = Field(description="By name.")
    blackouts: list[BlackoutView] = Field(description="As they were set.")
    since: datetime = Field(description="Start of the window.")
    until: datetime = Field(description="End of the window.")
    occurrences: list[Occurrence] = Field(description="What is due in the window, in order.")
    spans: list[SpanView] = Field(description="When it is left alone in the window, in order.")
    complete: bool = Field(description="False where the window holds more occurrences than are shown.")


@router.get("/agents/{a}/schedule")
async def show_schedule(
    a: str,
    who: Who,
    parts: Parts,
    since: Annotated[Instant, Query(description="Start of the window; now, if left out.")] = None,
    until: Annotated[Instant, Query(description="End of the window; a week later, if left out.")] = None,
) -> ScheduleView:
    """Show an agent's routines and blackouts, and what is due in a window. The operator, and the agent itself."""
    async with parts.store.begin_read() as tx:
        agent = await own_agent(tx, who, a)
        routines = await tx.routines.find_by_agent(agent.id)
    return _view(agent, routines, *_window(parts, since, until))


@router.put("/agents/{a}/schedule")
async def set_schedule(a: str, body: ScheduleBody, who: Who, parts: Parts) -> ScheduleView:
    """Set an agent's routines, its blackouts, or both; it holds at once. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        agent = await named_agent(tx, who, a)
        zone = agent.coordination.zone
        if body.blackouts is not None:
            blackouts = [_coordination_keys(each.record(zone)) for each in body.blackouts]
            agent = await parts.wake.coordinations.patch(tx, agent, {"blackouts": blackouts}, by=who.name)
        if body.routines is not None:
            specs = [each.spec(zone) for each in body.routines]
            known = await tx.routines.find_by_agent(agent.id)
            _require_due(known, await parts.wake.routines.replace(tx, agent, specs, by=who.name))
        routines = await tx.routines.find_by_agent(agent.id)
    return _view(agent, routines, *_window(parts, None, None))


def _require_due(known: Sequence[Routine], changed: Sequence[Routine]) -> None:
    """Refuse what is new or changed and will never be due; what has had its day may stay as it is."""
    for routine in changed:
        if routine.enabled and routine.next_at is None and routine not in known:
            last = routine.recurrence.at[-1].isoformat()
            raise InvalidRequest(
                f"routine {routine.name!r} is never due: the last of its instants, {last}, is past; write one that is "
                "to come, or `enabled: false`"
            )


def _require_type(key: str, value: object) -> None:
    """Raise ValueError for a value that only looks like what it should be; of lists, the first one that does."""
    wanted = str if key in _INSTANTS or key in _TIMES else bool if key == "enabled" else None
    for each in cast("list[object]", value) if isinstance(value, list) else [value]:
        if each is None:
            continue
        if wanted is not None and not isinstance(each, wanted):
            raise ValueError(f"{key}: {each!r} is no {'true or false' if wanted is bool else 'text'}")
        if key in _NUMBERS and (isinstance(each, str | bool)):
            raise ValueError(f"{key}: {each!r} is no number")


def _window(parts: ApiParts, since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    start = since or parts.clock.now()
    try:
        end = until or start + WINDOW
        beyond = start + LONGEST_WINDOW + WINDOW  # what defers to the end of a blackout is looked up past the window
        if not start < end <= beyond - WINDOW:
            raise InvalidRequest("`until` must be after `since`, and at most 366 days after it")
    except OverflowError as error:
        raise InvalidRequest(f"`since` {start.isoformat()!r} is too far away") from error
    return start, end


def _view(agent: Agent, routines: Sequence[Routine], start: datetime, end: datetime) -> ScheduleView:
    coordination = agent.coordination
    spans = blackouts_between(coordination.blackouts, coordination.zone, start, end + WINDOW)
    due: list[Occurrence] = []
    complete = True
    share = max(1, MOST_OCCURRENCES // max(1, len(routines)))
    for routine in routines:
        found = _due(agent, routine, spans, start, end, share + 1)
        complete = complete and len(found) <= share
        due.extend(found[:share])
    return ScheduleView(
        agent=agent.reference,
        zone=coordination.zone,
        routines=[_routine(each) for each in routines],
        blackouts=[_blackout(each) for each in coordination.blackouts],
        since=start,
        until=end,
        occurrences=sorted(due, key=lambda each: (each.at, each.routine)),
        spans=[
            SpanView(start=span.start, end=min(end, span.end or end), labels=list(span.labels))
            for span in spans
            if span.start < end
        ],
        complete=complete,
    )


def _due(
    agent: Agent, routine: Routine, spans: Sequence[BlackoutPeriod], start: datetime, end: datetime, most: int
) -> list[Occurrence]:
    """Return the occurrences of an enabled routine, each with what its blackout makes of it."""
    if not routine.enabled:
        return []
    policy = routine.blackout_policy or agent.coordination.blackout_policies.policy_for(routine.recurrence.kind)
    found: list[Occurrence] = []
    place = 0
    for at in islice(occurrences(routine.recurrence, start, end, routine.id), most):
        while place < len(spans) and (spans[place].end or at) <= at:
            place += 1
        inside = spans[place] if place < len(spans) and spans[place].start <= at else None
        if inside is None or policy is BlackoutPolicy.RUN:
            found.append(Occurrence(at=at, routine=routine.name, policy=BlackoutPolicy.RUN, runs_at=at))
        else:
            runs_at = inside.end if policy is BlackoutPolicy.DEFER else None
            found.append(Occurrence(at=at, routine=routine.name, policy=policy, runs_at=runs_at))
    return found


def _routine(routine: Routine) -> RoutineView:
    recurrence = routine.recurrence
    return RoutineView(
        name=routine.name,
        instructions=routine.instructions,
        every_seconds=recurrence.every_seconds,
        anchor=recurrence.anchor,
        offset_seconds=recurrence.offset_seconds,
        cron=recurrence.cron,
        at=list(recurrence.at),
        zone=recurrence.zone,
        jitter_seconds=recurrence.jitter_seconds,
        stagger_seconds=recurrence.stagger_seconds,
        timeout_seconds=routine.timeout_seconds,
        enabled=routine.enabled,
        blackout_policy=routine.blackout_policy,
        misfire_grace_seconds=routine.misfire_grace_seconds,
        next_at=routine.next_at,
        deferred_from=routine.deferred_from,
        last_at=routine.last_at,
        skips=routine.skips,
        missed=routine.missed,
    )


def _blackout(blackout: Blackout) -> BlackoutView:
    once = isinstance(blackout, OneOffBlackout)
    return BlackoutView(
        type="one_off" if once else "recurring",
        label=blackout.label,
        start_time=None if isinstance(blackout, OneOffBlackout) else blackout.start,
        end_time=None if isinstance(blackout, OneOffBlackout) else blackout.end,
        weekdays=[day for day in Weekday if day in blackout.weekdays]
        if isinstance(blackout, RecurringBlackout)
        else None,
        start=blackout.start if isinstance(blackout, OneOffBlackout) else None,
        end=blackout.end if isinstance(blackout, OneOffBlackout) else None,
    )


def _coordination_keys(blackout: Blackout) -> dict[str, object]:
    """Return the blackout as coordination takes it."""
    if isinstance(blackout, OneOffBlackout):
        return {
            "kind": blackout.kind, "label": blackout.label, "start": blackout.start.isoformat(),
            "end": blackout.end.isoformat(),
        }  # fmt: skip
    return {
        "kind": blackout.kind, "label": blackout.label, "start": blackout.start, "end": blackout.end,
        "weekdays": [day.value for day in Weekday if day in blackout.weekdays],
    }  # fmt: skip
