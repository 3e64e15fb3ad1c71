"""The timeline: what each agent did, and sums over the fleet by the quarter of an hour (UI-15)."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import Query
from starlette.responses import Response

from circadia.agents.access import require_operator
from circadia.agents.directory import find_session, require_names
from circadia.api.bodies import Instant
from circadia.api.context import AgentFilter, ApiContext, Context, NextPage, SessionFilter, Who, noun_router
from circadia.errors import InvalidRequest
from circadia.ids import AgentId
from circadia.records.agent import Agent
from circadia.records.session import build_reference
from circadia.records.span import EPOCH, SLOT, START, Span, SpanKind, SpanPlace, SpanSum
from circadia.schemas.timeline import Timeline, TimelineLane, TimelineSpan, TimelineSum, TimelineSums
from circadia.stores.base import Tx

router = noun_router("timeline")

MAX_AGENTS: Final = 100
MAX_SPANS: Final = 5_000
"""Spans of a page; open ones come on top."""
MAX_SUMS: Final = 2_500
MAX_NAMESAKES: Final = 1_000
"""Agents of one name, deleted ones included."""
_MICROSECONDS: Final = 10**6
_MAX_DIGITS: Final = 16
"""Digits of a time in microseconds, and of a number, in a cursor."""

Since = Annotated[Instant, Query(description="Begin of the window; by default the begin of the UTC day.")]
Until = Annotated[Instant, Query(description="End of the window; by default now.")]
AgentLimit = Annotated[int, Query(ge=1, le=MAX_AGENTS, description="Maximum number of agents.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cursor:
    session: str
    agent: str
    """The last agent of the page before."""
    agent_id: AgentId
    place: SpanPlace | None = None
    """Where its spans go on; none if it is complete."""


@router.get("/timeline")
async def show_timeline(
    who: Who,
    context: Context,
    since: Since = None,
    until: Until = None,
    session: SessionFilter = None,
    agent: AgentFilter = None,
    after: NextPage = None,
    limit: AgentLimit = MAX_AGENTS,
) -> Timeline:
    """Show when agents slept, were awake, had calls held and ran, with what woke them and what was refused.

    Each span comes from a row that was written when it ended, so the answer is exact for any number of events. A page
    has at most 100 agents or 5,000 spans. With `agent`, deleted agents of this name are there, too. Held calls that
    still wait are those of this server. Operator only.
    """
    require_operator(who)
    return await _read_timeline(context, who, since, until, session, agent, after, limit)


@router.get(
    "/timeline.csv", response_class=Response, responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
)
async def export_timeline(
    who: Who,
    context: Context,
    since: Since = None,
    until: Until = None,
    session: SessionFilter = None,
    agent: AgentFilter = None,
    after: NextPage = None,
    limit: AgentLimit = MAX_AGENTS,
) -> Response:
    """Export a page of the timeline as CSV, a line for each span. The header `X-Next-Page` has its `next`.

    Operator only.
    """
    require_operator(who)
    page = await _read_timeline(context, who, since, until, session, agent, after, limit)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["session", "agent", *TimelineSpan.model_fields])
    for lane in page.lanes:
        for span in lane.spans:
            values = span.model_dump(mode="json")
            writer.writerow([lane.session, lane.agent, *(_escape(value) for value in values.values())])
    headers = {} if page.next is None else {"X-Next-Page": page.next}
    return Response(text.getvalue(), headers=headers, media_type="text/csv")


def _escape(value: object) -> object:
    """Keep a spreadsheet from reading a name as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value


@router.get("/timeline/sums")
async def sum_timeline(
    who: Who,
    context: Context,
    since: Since = None,
    until: Until = None,
    session: SessionFilter = None,
    group_by: Annotated[
        Literal["session", "fleet"], Query(description="`session`, or `fleet` for the sum over all sessions.")
    ] = "session",
) -> TimelineSums:
    """Sum up by quarter of an hour (UTC) what agents did. A page has about 2,500 rows. Operator only."""
    require_operator(who)
    starts, ends = _read_window(context, since, until)
    starts = starts - (starts - EPOCH) % SLOT
    async with context.store.begin_read() as tx:
        await require_names(tx, who, session, None)
        sums = await tx.spans.find_sums(
            starts, ends, context.clock.now(), session=session, by_session=group_by == "session", limit=MAX_SUMS
        )
    page = sums[:MAX_SUMS]
    if len(sums) > MAX_SUMS:  # all of a quarter are in the same page
        whole = [each for each in page if each.at < sums[MAX_SUMS].at]
        page = whole or [each for each in sums if each.at == sums[0].at]
    is_last = len(page) == len(sums)
    return TimelineSums(
        sums=[_sum_view(each) for each in page], next=None if is_last else sums[len(page)].at.isoformat()
    )


def _sum_view(each: SpanSum) -> TimelineSum:
    seconds = {f"{name}_seconds": getattr(each, name) / _MICROSECONDS for name in ("asleep", "awake", "held", "pulse")}
    return TimelineSum.of(each, **seconds)


def _read_window(context: ApiContext, since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    now = context.clock.now()
    starts = since or now.replace(hour=0, minute=0, second=0, microsecond=0)
    ends = until or now
    if ends < starts:
        raise InvalidRequest(f"`until` ({ends.isoformat()}) is before `since` ({starts.isoformat()})")
    return starts, ends


async def _read_timeline(
    context: ApiContext, who: Who, since: datetime | None, until: datetime | None, session: str | None,
    agent: str | None, after: str | None, limit: int,
) -> Timeline:  # fmt: skip
    starts, ends = _read_window(context, since, until)
    cursor = None if after is None else _parse_cursor(after)
    async with context.store.begin_read() as tx:
        await require_names(tx, who, session, agent)
        agents = await _find_agents(tx, who, session, agent, cursor, limit + 1)
        shown = agents[:limit]
        place = START if cursor is None or cursor.place is None else cursor.place
        ids = [each.id for each in shown]
        found = await tx.spans.find_window(ids, starts, ends, after=place, limit=MAX_SPANS)
        open_pulses = await _find_open_pulses(tx, ids)
    is_cut = sum(map(len, found)) == MAX_SPANS
    shown = shown[: len(found)]
    holds, _ = context.holds.list_holds(session=session, agent=agent, limit=MAX_SPANS)
    open_spans = {each.id: [*_open_state(each), *open_pulses.get(each.id, ())] for each in shown}
    for hold in holds:
        if hold.agent_id in open_spans:
            span = Span(
                agent_id=hold.agent_id, session=hold.session, agent=hold.agent, kind=SpanKind.HELD,
                started_at=hold.since, ended_at=None, reason=hold.what, ref=hold.id,
            )  # fmt: skip
            open_spans[hold.agent_id].append(span)
    lanes: list[TimelineLane] = []
    for number, (each, spans) in enumerate(zip(shown, found, strict=True), 1):
        is_continued = is_cut and number == len(shown)
        last = [] if is_continued else [span for span in open_spans[each.id] if span.started_at < ends]
        lanes.append(_lane(each, [*spans, *last], is_continued=is_continued))
    following = None
    if is_cut:
        following = _build_cursor(shown[-1], found[-1][-1])
    elif len(agents) > limit:
        following = _build_cursor(shown[-1], None)
    return Timeline(since=starts, until=ends, lanes=lanes, next=following)


async def _find_agents(
    tx: Tx, who: Who, session: str | None, agent: str | None, cursor: _Cursor | None, limit: int
) -> Sequence[Agent]:
    """Return the next agents; the first is that of the page before if that ended within its spans."""
    home = None if session is None else await find_session(tx, who, session)
    is_cut = cursor is not None and cursor.place is not None
    if agent is not None:
        named = await tx.agents.find_by_past_name(home and home.name, agent, limit=MAX_NAMESAKES)
        ids = [each.id for each in named]
        begin = 0 if cursor is None or cursor.agent_id not in ids else ids.index(cursor.agent_id) + (not is_cut)
        return named[begin : begin + limit]
    same = None if cursor is None or not is_cut else await tx.agents.get(cursor.agent_id)
    again = [] if same is None else [same]
    if home is None:
        last = None if cursor is None else (cursor.session, cursor.agent)
        return [*again, *await tx.agents.find_in_open_sessions(after=last, limit=limit - len(again))]
    after = None if cursor is None else cursor.agent
    return [*again, *await tx.agents.find_page(home.id, after=after, limit=limit - len(again))]


async def _find_open_pulses(tx: Tx, ids: Sequence[AgentId]) -> Mapping[AgentId, Sequence[Span]]:
    open_spans: dict[AgentId, list[Span]] = {}
    for pulse in await tx.pulses.find_running(ids):
        session, _, name = pulse.agent.rpartition(":")
        span = Span(
            agent_id=pulse.agent_id, session=session or "default", agent=name, kind=SpanKind.PULSE,
            started_at=pulse.started_at or pulse.created_at,
            ended_at=None, by=pulse.by, reason=pulse.reason, ref=pulse.id,
        )  # fmt: skip
        open_spans.setdefault(pulse.agent_id, []).append(span)
    return open_spans


def _open_state(agent: Agent) -> Iterator[Span]:
    if agent.deleted_at is None:
        yield Span(
            agent_id=agent.id, session=agent.session, agent=agent.name,
            kind=SpanKind.ASLEEP if agent.asleep else SpanKind.AWAKE,
            started_at=agent.since, ended_at=None, by=agent.actor, reason=agent.cause.value,
        )  # fmt: skip


def _lane(agent: Agent, spans: Sequence[Span], *, is_continued: bool) -> TimelineLane:
    return TimelineLane(
        agent=agent.name,
        session=agent.session,
        reference=build_reference(agent.session, agent.name),
        asleep=agent.asleep,
        since=agent.since,
        by=agent.actor,
        is_deleted=agent.deleted_at is not None,
        is_continued=is_continued,
        spans=[TimelineSpan.of(span) for span in spans],
    )


def _build_cursor(agent: Agent, last: Span | None) -> str:
    cursor = f"{agent.session}:{agent.name}:{agent.id}"
    if last is None or last.ended_at is None:
        return cursor
    return f"{cursor}:{(last.ended_at - EPOCH) // timedelta(microseconds=1)}:{last.number}"


def _parse_cursor(after: str) -> _Cursor:
    parts = after.split(":")
    digits = parts[3:]
    if len(parts) not in (3, 5) or not all(digit.isdecimal() and len(digit) <= _MAX_DIGITS for digit in digits):
        raise InvalidRequest(f"`after` is the `next` of the page before, got {after[:80]!r}")
    end, number = map(int, digits or (0, 0))
    place = SpanPlace(EPOCH + timedelta(microseconds=end), number) if digits else None
    return _Cursor(session=parts[0], agent=parts[1], agent_id=AgentId(parts[2]), place=place)
