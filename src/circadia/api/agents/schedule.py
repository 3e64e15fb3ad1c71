"""An agent's schedule: routines, blackouts, and the occurrences in a time window (WAKE-40 … WAKE-45)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Final, cast, get_args

from fastapi import Query
from pydantic import Field, model_validator

from circadia.agents.access import require_operator
from circadia.api.bodies import Body
from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.references import Instant, named_agent, own_agent
from circadia.errors import InvalidRequest
from circadia.records.agent import Agent
from circadia.records.schedule import Blackout, BlackoutPolicy, RecurringBlackout, Routine
from circadia.schemas.schedule import BlackoutView, Occurrence, RoutineView, ScheduleView, SpanView
from circadia.settings.djinnbot import DjinnbotBlackoutSettings
from circadia.settings.schedule import RoutineSettings
from circadia.wake.scheduling.planning import BlackoutPeriod, blackouts_between, occurrences

router = noun_router("schedule")

WINDOW: Final = timedelta(days=7)
"""Default length of the window."""
LONGEST_WINDOW: Final = timedelta(days=366)
MOST_OCCURRENCES: Final = 1000
"""Maximum number of occurrences in an answer: the first ones of each routine."""
MOST_BLACKOUTS: Final = 200
"""Maximum number of blackouts per agent."""


_TEXT: Final = ((str,), "text")
_NUMBER: Final = ((int, float), "number")
_JSON_TYPES: Final[Mapping[object, tuple[tuple[type, ...], str]]] = {
    str: _TEXT, datetime: _TEXT, int: _NUMBER, float: _NUMBER, bool: ((bool,), "true or false"),
}  # fmt: skip


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
            if key in cls.model_fields:
                _require_type(cls.model_fields[key].annotation, key, value)
        return values


class RoutineBody(RoutineSettings, _StrictBody):
    """A routine; exactly one of `every_seconds`, `cron` and `at`.

    Instants without an offset are in the agent's time zone.
    """


class BlackoutBody(DjinnbotBlackoutSettings, _StrictBody):
    """A blackout: `start_time` and `end_time` each week, or `start` and `end` once."""


class ScheduleBody(Body):
    """The new schedule; missing keys stay unchanged."""

    routines: list[RoutineBody] | None = Field(None, max_length=100, description="All routines; others are deleted.")
    blackouts: list[BlackoutBody] | None = Field(
        None, max_length=MOST_BLACKOUTS, description="All blackouts; others are deleted."
    )


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
            blackouts = [blackout.record(zone).model_dump(mode="json") for blackout in body.blackouts]
            found_agent = await parts.wake.coordinations.patch(tx, found_agent, {"blackouts": blackouts}, by=who.name)
        if body.routines is not None:
            specs = [routine.spec(zone) for routine in body.routines]
            known = await tx.routines.find_by_agent(found_agent.id)
            _require_due(known, await parts.wake.routines.replace(tx, found_agent, specs, by=who.name))
        routines = await tx.routines.find_by_agent(found_agent.id)
    return _view(found_agent, routines, *_window(parts, None, None))


def _require_due(known: Sequence[Routine], changed: Sequence[Routine]) -> None:
    """Reject new and changed routines that are never due; unchanged ones may be over."""
    for routine in changed:
        if routine.spec.enabled and routine.next_at is None and routine not in known:
            last = routine.spec.recurrence.at[-1].isoformat()
            raise InvalidRequest(
                f"routine {routine.name!r} is never due: the last of its instants, {last}, is past; write one that is "
                "to come, or `enabled: false`"
            )


def _require_type(annotation: object, key: str, value: object) -> None:
    """Raise ValueError for the first value whose JSON type is not that of the annotation."""
    for part in get_args(annotation):
        _require_type(part, key, value)
    wanted, noun = _JSON_TYPES.get(annotation, ((), ""))
    for entry in cast("list[object]", value) if isinstance(value, list) else [value]:
        if wanted and entry is not None and type(entry) not in wanted:
            raise ValueError(f"{key}: {entry!r} is no {noun}")


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
        routines=[_routine(routine) for routine in routines],
        blackouts=[_blackout(blackout) for blackout in coordination.blackouts],
        since=start,
        until=end,
        occurrences=sorted(due, key=lambda occurrence: (occurrence.at, occurrence.routine)),
        spans=[SpanView.of(span, end=min(end, span.end or end)) for span in spans if span.start < end],
        complete=complete,
    )


def _due(
    agent: Agent, routine: Routine, spans: Sequence[BlackoutPeriod], start: datetime, end: datetime, most: int
) -> list[Occurrence]:
    """Return the occurrences of an enabled routine and the effect of blackouts on them."""
    if not routine.spec.enabled:
        return []
    policy = routine.spec.effective_policy(agent.coordination.blackout_policies)
    result: list[Occurrence] = []
    place = 0
    for at in islice(occurrences(routine.spec.recurrence, start, end, routine.id), most):
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
    return RoutineView.of(routine, **dict(routine.spec), **dict(routine.spec.recurrence))


def _blackout(blackout: Blackout) -> BlackoutView:
    keys = blackout.model_dump()
    if isinstance(blackout, RecurringBlackout):
        keys |= {"start_time": keys.pop("start"), "end_time": keys.pop("end")}
    return BlackoutView(type=keys.pop("kind"), **keys)
