"""An agent's schedule: routines, blackouts, and the occurrences in a time window (WAKE-40 … WAKE-45)."""

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
"""Default length of the window."""
LONGEST_WINDOW: Final = timedelta(days=366)
MOST_OCCURRENCES: Final = 1000
"""Maximum number of occurrences in an answer: the first ones of each routine."""
MOST_BLACKOUTS: Final = 200
"""Maximum number of blackouts per agent."""


_INSTANTS: Final = frozenset({"anchor", "at", "start", "end"})
_TIMES: Final = frozenset({"start_time", "end_time"})
_NUMBERS: Final = frozenset({
    "every_seconds", "offset_seconds", "jitter_seconds", "stagger_seconds", "timeout_seconds", "misfire_grace_seconds",
    "days_of_week",
})  # fmt: skip


class _StrictBody(Body):
    """Settings as a request body, without the spellings that only the file allows."""

    @model_validator(mode="before")
    @classmethod
    def _values_are_of_their_types(cls, given: Any) -> Any:
        """Reject values that the settings would convert to a number, an instant or a boolean."""
        if not isinstance(given, dict):
            return given
        values = cast("dict[str, Any]", given)
        for key, value in values.items():
            _require_type(key, value)
        return values


class RoutineBody(RoutineSettings, _StrictBody):
    """A routine; exactly one of `every_seconds`, `cron` and `at`.

    Instants without an offset are in the agent's time zone.
    """


class BlackoutBody(BlackoutSettings, _StrictBody):
    """A blackout: `start_time` and `end_time` each week, or `start` and `end` once."""


class ScheduleBody(Body):
    """The new schedule; missing keys stay unchanged."""

    routines: list[RoutineBody] | None = Field(None, max_length=100, description="All routines; others are deleted.")
    blackouts: list[BlackoutBody] | None = Field(
        None, max_length=MOST_BLACKOUTS, description="All blackouts; others are deleted."
    )


class RoutineView(BaseModel):
    """A routine and its state."""

    name: str = Field(description="Name.", examples=["nightly"])
    instructions: str = Field(description="Instructions for the agent; if empty, it handles its inbox.")
    every_seconds: int | None = Field(description="Interval between two occurrences.")
    anchor: datetime | None = Field(description="Instant that intervals count from.")
    offset_seconds: int = Field(description="Delay after each interval step.")
    cron: str | None = Field(description="Minute, hour, day of month, month and day of week.")
    at: list[datetime] = Field(description="Single instants.")
    zone: str = Field(description="Time zone of the schedule.", examples=["Europe/Berlin"])
    jitter_seconds: int = Field(description="Maximum random delay of each occurrence.")
    stagger_seconds: int = Field(description="Maximum random delay of the whole schedule.")
    timeout_seconds: float | None = Field(description="Longest pulse; null means the agent's limit.")
    enabled: bool = Field(description="Whether the routine runs when it is due.")
    blackout_policy: BlackoutPolicy | None = Field(
        description="How a blackout affects it; null means the value in the agent's `blackout_policies`."
    )
    misfire_grace_seconds: int | None = Field(description="Maximum delay of a run; null means no limit.")
    next_at: datetime | None = Field(description="Next check; null means never.")
    deferred_from: datetime | None = Field(description="Occurrence that waits for the end of a blackout.")
    last_at: datetime | None = Field(description="Last occurrence that ran.")
    skips: int = Field(description="Number of consecutive skipped occurrences.")
    missed: int = Field(description="Number of occurrences that were too late to run.")


class BlackoutView(BaseModel):
    """A blackout, with the keys that a change takes."""

    type: Literal["recurring", "one_off"] = Field(description="`recurring` repeats each week, `one_off` happens once.")
    label: str = Field(description="Label for people.", examples=["night"])
    start_time: str | None = Field(description="Start, as a time of day; null for `one_off`.", examples=["22:00"])
    end_time: str | None = Field(description="End, as a time of day; null for `one_off`.", examples=["06:00"])
    weekdays: list[Weekday] | None = Field(description="Days on which it starts.")
    start: datetime | None = Field(description="First instant; null for `recurring`.")
    end: datetime | None = Field(description="First instant after the blackout; null for `recurring`.")


class Occurrence(BaseModel):
    """A time at which a routine is due."""

    at: datetime = Field(description="When the routine is due.")
    routine: str = Field(description="Name of the routine.", examples=["nightly"])
    policy: BlackoutPolicy = Field(description="Whether it runs, waits for the end of a blackout, or is skipped.")
    runs_at: datetime | None = Field(description="When it runs, guardrails aside; null if it is skipped.")


class SpanView(BaseModel):
    """A time span of overlapping or adjacent blackouts."""

    start: datetime = Field(description="First instant, clipped to the window.")
    end: datetime = Field(description="First instant after it, clipped to the window.")
    labels: list[str] = Field(description="Labels of the blackouts.")


class ScheduleView(BaseModel):
    """An agent's schedule, and its occurrences in a time window."""

    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    zone: str = Field(description="Time zone of the agent.", examples=["Europe/Berlin"])
    routines: list[RoutineView] = Field(description="Sorted by name.")
    blackouts: list[BlackoutView] = Field(description="Blackouts in the order set.")
    since: datetime = Field(description="Start of the window.")
    until: datetime = Field(description="End of the window.")
    occurrences: list[Occurrence] = Field(description="Occurrences in the window, in order.")
    spans: list[SpanView] = Field(description="Blackouts in the window, in order.")
    complete: bool = Field(description="False if the window has more occurrences than shown.")


@router.get("/agents/{agent}/schedule")
async def show_schedule(
    agent: str,
    who: Who,
    parts: Parts,
    since: Annotated[Instant, Query(description="Start of the window; by default now.")] = None,
    until: Annotated[Instant, Query(description="End of the window; by default a week later.")] = None,
) -> ScheduleView:
    """Show an agent's routines and blackouts, and its occurrences in a time window. Access: operator, the agent."""
    async with parts.store.begin_read() as tx:
        found_agent = await own_agent(tx, who, agent)
        routines = await tx.routines.find_by_agent(found_agent.id)
    return _view(found_agent, routines, *_window(parts, since, until))


@router.put("/agents/{agent}/schedule")
async def set_schedule(agent: str, body: ScheduleBody, who: Who, parts: Parts) -> ScheduleView:
    """Set an agent's routines, its blackouts, or both, with immediate effect. Operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        found_agent = await named_agent(tx, who, agent)
        zone = found_agent.coordination.zone
        if body.blackouts is not None:
            blackouts = [_coordination_keys(each.record(zone)) for each in body.blackouts]
            found_agent = await parts.wake.coordinations.patch(tx, found_agent, {"blackouts": blackouts}, by=who.name)
        if body.routines is not None:
            specs = [each.spec(zone) for each in body.routines]
            known = await tx.routines.find_by_agent(found_agent.id)
            _require_due(known, await parts.wake.routines.replace(tx, found_agent, specs, by=who.name))
        routines = await tx.routines.find_by_agent(found_agent.id)
    return _view(found_agent, routines, *_window(parts, None, None))


def _require_due(known: Sequence[Routine], changed: Sequence[Routine]) -> None:
    """Reject new and changed routines that are never due; unchanged ones may be over."""
    for routine in changed:
        if routine.enabled and routine.next_at is None and routine not in known:
            last = routine.recurrence.at[-1].isoformat()
            raise InvalidRequest(
                f"routine {routine.name!r} is never due: the last of its instants, {last}, is past; write one that is "
                "to come, or `enabled: false`"
            )


def _require_type(key: str, value: object) -> None:
    """Raise ValueError for the first value of a wrong type."""
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
        beyond = start + LONGEST_WINDOW + WINDOW  # a deferral can end after the window
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
        due_here = _due(agent, routine, spans, start, end, share + 1)
        complete = complete and len(due_here) <= share
        due.extend(due_here[:share])
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
    """Return the occurrences of an enabled routine and the effect of blackouts on them."""
    if not routine.enabled:
        return []
    policy = routine.blackout_policy or agent.coordination.blackout_policies.policy_for(routine.recurrence.kind)
    result: list[Occurrence] = []
    place = 0
    for at in islice(occurrences(routine.recurrence, start, end, routine.id), most):
        while place < len(spans) and (spans[place].end or at) <= at:
            place += 1
        inside = spans[place] if place < len(spans) and spans[place].start <= at else None
        if inside is None or policy is BlackoutPolicy.RUN:
            result.append(Occurrence(at=at, routine=routine.name, policy=BlackoutPolicy.RUN, runs_at=at))
        else:
            runs_at = inside.end if policy is BlackoutPolicy.DEFER else None
            result.append(Occurrence(at=at, routine=routine.name, policy=policy, runs_at=runs_at))
    return result


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
    if isinstance(blackout, OneOffBlackout):
        return {
            "kind": blackout.kind, "label": blackout.label, "start": blackout.start.isoformat(),
            "end": blackout.end.isoformat(),
        }  # fmt: skip
    return {
        "kind": blackout.kind, "label": blackout.label, "start": blackout.start, "end": blackout.end,
        "weekdays": [day.value for day in Weekday if day in blackout.weekdays],
    }  # fmt: skip
