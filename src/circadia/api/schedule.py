"""Wake settings of an agent (WAKE-16), and its schedule: routines, blackouts, occurrences (WAKE-40 … WAKE-45)."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Final, cast, get_args

from fastapi import Body as RequestBody
from fastapi import Query, Response
from pydantic import Field, model_validator

from circadia.agents.access import require_operator
from circadia.api.bodies import (
    TAGGED,
    Body,
    IfMatch,
    Instant,
    entity_tag,
    named_agent,
    own_agent,
    require_match,
    set_etag,
)
from circadia.api.context import ApiContext, Context, Who, noun_router
from circadia.errors import InvalidRequest
from circadia.records.agent import Agent
from circadia.records.coordination import KEYS, SettingSource, flatten_coordination
from circadia.records.event import EventType
from circadia.records.principal import Principal
from circadia.records.schedule import Blackout, BlackoutPolicy, RecurringBlackout, Routine, load_zone
from circadia.schemas.agents import CoordinationView, SettingView
from circadia.schemas.schedule import BlackoutView, Occurrence, RoutineRunView, RoutineView, ScheduleView, SpanView
from circadia.settings.schedule import DjinnbotBlackoutSettings, RoutineSettings
from circadia.stores.base import Tx
from circadia.wake.scheduling.blackouts import blackouts_between
from circadia.wake.scheduling.planning import BlackoutPeriod, RoutineRun, next_runs
from circadia.wake.scheduling.recurrence import occurrences

coordination_router = noun_router("coordination")


@coordination_router.get("/agents/{agent}/coordination", responses=TAGGED)
async def show_coordination(agent: str, response: Response, who: Who, context: Context) -> CoordinationView:
    """Show the wake settings of an agent with their sources. Access: operator, the agent."""
    async with context.store.begin_read() as tx:
        return _coordination_view(await own_agent(tx, who, agent), response)


@coordination_router.patch("/agents/{agent}/coordination", responses=TAGGED)
async def change_coordination(
    agent: str,
    body: Annotated[
        dict[str, Any],
        RequestBody(
            description="Settings to change, nested as in the file or by flat name; null removes a limit.",
            examples=[{"wake_guardrails": {"max_wakes_per_day": 4}}],
        ),
    ],
    response: Response,
    who: Who,
    context: Context,
    if_match: IfMatch = None,
) -> CoordinationView:
    """Change the wake settings of an agent, starting with the next decision. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_agent = await named_agent(tx, who, agent)
        await _require_settings_match(tx, if_match, found_agent)
        changed = await context.wake.coordinations.patch(tx, found_agent, body, by=who.name)
    return _coordination_view(changed, response)


@coordination_router.delete("/agents/{agent}/coordination/{key}", responses=TAGGED)
async def reset_coordination(
    agent: str, key: str, response: Response, who: Who, context: Context, if_match: IfMatch = None
) -> CoordinationView:
    """Undo a change of a setting, by its flat name: the file or the default applies again.

    Operator only. A setting that was not changed stays as it is.
    """
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_agent = await named_agent(tx, who, agent)
        await _require_settings_match(tx, if_match, found_agent)
        changed = await context.wake.coordinations.reset(tx, found_agent, key, by=who.name)
    return _coordination_view(changed, response)


async def _require_settings_match(tx: Tx, if_match: str | None, agent: Agent) -> None:
    what, changes = f"the coordination of {agent.reference!r}", (EventType.COORDINATION,)
    await require_match(tx, if_match, entity_tag(_settings(agent)), what, changes=changes, agent=agent)


def _coordination_view(agent: Agent, response: Response) -> CoordinationView:
    settings = _settings(agent)
    tag = entity_tag(settings)
    set_etag(response, tag)
    return CoordinationView(etag=tag, agent=agent.reference, settings=settings)


def _settings(agent: Agent) -> dict[str, SettingView]:
    values = flatten_coordination(agent.coordination)
    settings: dict[str, SettingView] = {}
    for name in KEYS:
        setting = agent.settings.get(name)
        settings[name] = SettingView(
            value=values[name],
            source=SettingSource.DEFAULT if setting is None else setting.source,
            at=None if setting is None else setting.at,
        )
    return settings


router = noun_router("schedule")

WINDOW: Final = timedelta(days=7)
"""Default length of the window."""
LONGEST_WINDOW: Final = timedelta(days=366)
MAX_OCCURRENCES: Final = 1000
"""Maximum number of occurrences in an answer: the first ones of each routine."""
MAX_BLACKOUTS: Final = 200
"""Maximum number of blackouts per agent."""
NEXT_RUNS: Final = 10
"""Maximum number of next runs in an answer."""
_CHANGES: Final = (EventType.COORDINATION, EventType.ROUTINE)


_TEXT: Final = ((str,), "text")
_NUMBER: Final = ((int, float), "number")
_JSON_TYPES: Final[Mapping[object, tuple[tuple[type, ...], str]]] = {
    str: _TEXT, datetime: _TEXT, int: _NUMBER, float: _NUMBER, bool: ((bool,), "true or false"),
}  # fmt: skip


class _StrictBody(Body):
    """Settings as a request body, without the spellings that only the file allows."""

    @model_validator(mode="before")
    @classmethod
    def _values_are_of_their_types(cls, body: Any) -> Any:
        """Reject values that the settings would convert to a number, an instant or a boolean."""
        if not isinstance(body, dict):
            return body
        values = cast("dict[str, Any]", body)
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
        None, max_length=MAX_BLACKOUTS, description="All blackouts; others are deleted."
    )


class _DryRun(Exception):
    """Rolls back the write block of a dry run, and bears what the block has read last."""

    def __init__(self, agent: Agent, routines: Sequence[Routine]) -> None:
        self.agent = agent
        self.routines = routines


@router.get("/agents/{agent}/schedule", responses=TAGGED)
async def show_schedule(
    agent: str,
    response: Response,
    who: Who,
    context: Context,
    since: Annotated[Instant, Query(description="Start of the window; by default now.")] = None,
    until: Annotated[Instant, Query(description="End of the window; by default a week later.")] = None,
) -> ScheduleView:
    """Show an agent's routines and blackouts, its occurrences in a time window, and its next runs.

    Access: operator, the agent.
    """
    async with context.store.begin_read() as tx:
        found_agent = await own_agent(tx, who, agent)
        routines = await tx.routines.find_by_agent(found_agent.id)
    return await asyncio.to_thread(_tagged_view, context, found_agent, routines, response, since, until)


@router.put("/agents/{agent}/schedule", responses=TAGGED)
async def set_schedule(
    agent: str,
    body: ScheduleBody,
    response: Response,
    who: Who,
    context: Context,
    dry_run: Annotated[
        bool, Query(description="Only check the schedule and show what it comes to; change nothing.")
    ] = False,
    if_match: IfMatch = None,
) -> ScheduleView:
    """Set an agent's routines, its blackouts, or both, with immediate effect. Operator only.

    With `dry_run` the answer is the same, but nothing is changed or recorded.
    """
    require_operator(who)
    try:
        found_agent, routines = await _write_schedule(context, who, agent, body, if_match=if_match, dry_run=dry_run)
    except _DryRun as rolled_back:
        found_agent, routines = rolled_back.agent, rolled_back.routines
    return await asyncio.to_thread(_tagged_view, context, found_agent, routines, response)


async def _write_schedule(
    context: ApiContext, who: Principal, reference: str, body: ScheduleBody, *, if_match: str | None, dry_run: bool
) -> tuple[Agent, Sequence[Routine]]:
    async with context.store.begin_write() as tx:
        agent = await named_agent(tx, who, reference)
        zone = agent.coordination.zone
        known = await tx.routines.find_by_agent(agent.id)
        what = f"the schedule of {agent.reference!r}"
        await require_match(tx, if_match, _tag(agent, known), what, agent=agent, changes=_CHANGES)
        if body.blackouts is not None:
            blackouts = [blackout.record(zone).model_dump(mode="json") for blackout in body.blackouts]
            agent = await context.wake.coordinations.patch(tx, agent, {"blackouts": blackouts}, by=who.name)
        if body.routines is not None:
            specs = [routine.spec(zone) for routine in body.routines]
            _require_due(known, await context.wake.routines.replace(tx, agent, specs, by=who.name))
        routines = await tx.routines.find_by_agent(agent.id)
        if dry_run:
            raise _DryRun(agent, routines)
    return agent, routines


def _tag(agent: Agent, routines: Sequence[Routine]) -> str:
    """Return the tag of what people set; the state of the routines is not part of it."""
    coordination = agent.coordination
    return entity_tag(coordination.zone, coordination.blackouts, [routine.spec for routine in routines])


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


def _window(now: datetime, since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    start = since or now
    try:
        end = until or start + WINDOW
        beyond = start + LONGEST_WINDOW + WINDOW  # a deferral can end after the window
        if not start < end <= beyond - WINDOW:
            raise InvalidRequest("`until` must be after `since`, and at most 366 days after it")
    except OverflowError as error:
        raise InvalidRequest(f"`since` {start.isoformat()!r} is too far away") from error
    return start, end


def _tagged_view(
    context: ApiContext,
    agent: Agent,
    routines: Sequence[Routine],
    response: Response,
    since: datetime | None = None,
    until: datetime | None = None,
) -> ScheduleView:
    tag = _tag(agent, routines)
    set_etag(response, tag)
    now = context.clock.now()
    start, end = _window(now, since, until)
    coordination = agent.coordination
    spans = blackouts_between(coordination.blackouts, coordination.zone, start, end + WINDOW)
    due: list[Occurrence] = []
    complete = True
    runs = _next_runs(agent, routines, now)
    share = max(1, MAX_OCCURRENCES // max(1, len(routines)))
    for routine in routines:
        due_here = _due(agent, routine, spans, start, end, share + 1)
        complete = complete and len(due_here) <= share
        due.extend(due_here[:share])
    return ScheduleView(
        etag=tag,
        agent=agent.reference,
        zone=coordination.zone,
        routines=[
            RoutineView.of(routine, **dict(routine.spec), **dict(routine.spec.recurrence)) for routine in routines
        ],
        blackouts=[_blackout(blackout) for blackout in coordination.blackouts],
        since=start,
        until=end,
        occurrences=sorted(due, key=lambda occurrence: (occurrence.at, occurrence.routine)),
        spans=[SpanView.of(span, end=min(end, span.end or end)) for span in spans if span.start < end],
        complete=complete,
        next_runs=runs,
        never_run=_find_skipped(agent, routines, now, {run.routine for run in runs}),
    )


def _next_runs(agent: Agent, routines: Sequence[Routine], now: datetime) -> list[RoutineRunView]:
    zone = load_zone(agent.coordination.zone)
    runs = islice(_search_runs(agent, routines, now), NEXT_RUNS)
    return [RoutineRunView.of(run, local=run.at.astimezone(zone).isoformat()) for run in runs]


def _find_skipped(agent: Agent, routines: Sequence[Routine], now: datetime, seen: Set[str]) -> list[str]:
    """Return the enabled routines without a run that is found; those `seen` have one."""
    left = [each for each in routines if each.spec.enabled and each.next_at is not None and each.name not in seen]
    return [each.name for each in left if next(_search_runs(agent, [each], now, share=len(left)), None) is None]


def _search_runs(agent: Agent, routines: Sequence[Routine], now: datetime, *, share: int = 1) -> Iterator[RoutineRun]:
    coordination = agent.coordination
    return next_runs(
        routines, coordination.blackouts, now, zone=coordination.zone, policies=coordination.blackout_policies,
        share=share,
    )  # fmt: skip


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


def _blackout(blackout: Blackout) -> BlackoutView:
    keys = blackout.model_dump()
    if isinstance(blackout, RecurringBlackout):
        keys |= {"start_time": keys.pop("start"), "end_time": keys.pop("end")}
    return BlackoutView(type=keys.pop("kind"), **keys)
