"""Spans of agents' time, and their sums by session and quarter of an hour (UI-15).

A span is read by its end. Those of more than an hour have an index of their own: of the others, none that ends more
than an hour after a window belongs to it, so that an old window costs what a new one does.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Identity,
    Index,
    Select,
    String,
    Table,
    bindparam,
    case,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    true,
    type_coerce,
    union_all,
    update,
)

from circadia.ids import AgentId
from circadia.records.span import EPOCH, MARKS, SLOT, START, SUMMED, Span, SpanKind, SpanPlace, SpanSum
from circadia.stores.locks import SPANS_KEY
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import NUMBER, Instant, agents, metadata, only, sessions
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

LONG: Final = timedelta(hours=1)
"""From this length on a span is in the index of long ones."""

spans = Table(
    "spans",
    metadata,
    Column("number", NUMBER, Identity(), primary_key=True),
    Column("agent_id", String, nullable=False),
    Column("session", String, nullable=False),
    Column("agent", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("ended_at", Instant, nullable=False),
    Column("by", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("ref", String, nullable=False),
    Column("is_long", Boolean, nullable=False),
    Column("summed", Boolean, nullable=False),
    sqlite_autoincrement=True,
)
Index("spans_short", spans.c.agent_id, spans.c.ended_at, spans.c.number, **only("NOT is_long"))
Index("spans_long", spans.c.agent_id, spans.c.ended_at, spans.c.number, **only("is_long"))
Index("spans_ended", spans.c.ended_at)
Index("spans_unsummed", spans.c.number, **only("NOT summed"))

span_sums = Table(
    "span_sums",
    metadata,
    Column("session", String, primary_key=True),
    Column("at", Instant, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in SUMMED),
)
Index("span_sums_at", span_sums.c.at)


def _is_long(span: Span) -> bool:
    assert span.ended_at is not None
    return span.ended_at - span.started_at >= LONG


_FIELDS: Final = ("agent_id", "session", "agent", "kind", "started_at", "ended_at", "by", "reason", "outcome", "ref")
_write_span = build_writer((*_FIELDS, "is_long", "summed"), is_long=_is_long, summed=lambda _: False)
_read_span = build_reader(Span)
_ADD = Statement(insert(spans).inline(), (*_FIELDS, "is_long", "summed"))


def _build_window(index: str, end: ColumnElement[Any]) -> Select[Any]:
    """Build the query of an agent's first spans of one index that meet the window."""
    rows = select(*_COLUMNS).where(
        text(index),
        spans.c.agent_id == bindparam("agent_id"),
        spans.c.started_at < bindparam("until"),
        # A mark at the begin of the window is in it, a span that ends there is not.
        spans.c.ended_at >= bindparam("since"),
        or_(spans.c.ended_at > bindparam("since"), spans.c.started_at >= bindparam("since")),
        spans.c.ended_at < end,
        spans.c.ended_at >= bindparam("last"),
        or_(spans.c.ended_at > bindparam("last"), spans.c.number > bindparam("last_number")),
    )
    return select(rows.order_by(spans.c.ended_at, spans.c.number).limit(bindparam("most")).subquery())


_COLUMNS: Final = [spans.c[name] for name in (*_FIELDS, "number")]
_WINDOW: Final = union_all(
    _build_window("NOT spans.is_long", bindparam("short_until", type_=Instant)),
    _build_window("spans.is_long", bindparam("long_until", type_=Instant)),
).subquery()
_SELECT_WINDOW = Statement(
    select(_WINDOW).order_by(_WINDOW.c.ended_at, _WINDOW.c.number).limit(bindparam("most")), read=_read_span
)
_FAR: Final = datetime(9999, 1, 1, tzinfo=UTC)

_UNSUMMED: Final = text("NOT spans.summed")  # as the index says
HAS_UNSUMMED: Final = exists().select_from(spans).where(_UNSUMMED)
_SELECT_UNSUMMED = Statement(
    select(*_COLUMNS).where(_UNSUMMED).order_by(spans.c.number).limit(bindparam("most")), read=_read_span
)
_TAKE_UNSUMMED: Final = (
    update(spans)
    .where(
        spans.c.number.in_(
            select(spans.c.number).where(_UNSUMMED).order_by(spans.c.number).limit(bindparam("most")).scalar_subquery()
        ),
        _UNSUMMED,
    )
    .values(summed=true())
    .returning(*_COLUMNS)
)
_ADD_SUM = Statement(Upsert(span_sums, keys=("session", "at"), more=SUMMED), ("session", "at", *SUMMED))
_write_sum = build_writer(("session", "at", *SUMMED))
_MICROSECOND: Final = timedelta(microseconds=1)
_SLOT: Final = SLOT // _MICROSECOND
_BEGIN: Final = type_coerce(
    case((agents.c.since < bindparam("since"), bindparam("since", type_=Instant)), else_=agents.c.since), BigInteger
)
_OPEN: Final = (
    select(
        agents.c.asleep,
        (_BEGIN // _SLOT).label("slot"),
        func.count().label("agents"),
        func.sum(_BEGIN % _SLOT).label("into"),  # the sum of whole times of 5,300 agents is no 64-bit number
    )
    .where(agents.c.deleted_at.is_(None), agents.c.since < bindparam("until"))
    .group_by(agents.c.asleep, text("slot"))
)


class Spans(Noun):
    """Spans of agents' time that have ended, and their sums."""

    async def add(self, span: Span) -> None:
        """Write an ended span by the end of the block."""
        self._queue_write(_ADD, _write_span(span))

    async def find_window(
        self, agent_ids: Sequence[AgentId], since: datetime, until: datetime, *, after: SpanPlace = START, limit: int
    ) -> Sequence[Sequence[Span]]:
        """Return the spans of each agent that meet the window, in the order of their ends, until there are `limit`.

        Those of the first agent begin after a place. The agents behind the one that reaches the limit have no entry.
        """

        def work(connection: Connection) -> list[list[Span]]:
            lanes: list[list[Span]] = []
            left, place = limit, after
            for agent_id in agent_ids:
                values = {
                    "agent_id": agent_id, "since": since, "until": until, "short_until": until + LONG,
                    "long_until": _FAR, "last": place.ended_at, "last_number": place.number, "most": left,
                }  # fmt: skip
                lanes.append(_SELECT_WINDOW.all(connection, values))
                left, place = left - len(lanes[-1]), START
                if not left:
                    break
            return lanes

        return await self._run(work, short=False)

    async def sum_up(self, *, limit: int, not_before: datetime) -> int:
        """Add up to `limit` spans to the sums, for the time since `not_before`; return the number of spans."""
        await self._hold(SPANS_KEY)

        def work(connection: Connection) -> int:
            taken = [_read_span(row) for row in connection.execute(_TAKE_UNSUMMED, {"most": limit})]
            sums = _Sums()
            sums.add_spans(taken, not_before)
            _ADD_SUM.run_many(connection, [_write_sum(each) for each in sums.list_all()])
            return len(taken)

        return await self._run(work, short=False)

    async def find_sums(
        self, since: datetime, until: datetime, now: datetime, *, session: str | None = None, by_session: bool = True
    ) -> Sequence[SpanSum]:
        """Return the sums of the quarters from `since` to `until`, by time and session.

        What agents do `now` is in them, too. Without `by_session` the sums are those of all sessions, under ``.
        """

        def work(connection: Connection) -> list[SpanSum]:
            sums = _Sums()
            for row in connection.execute(_build_sums(since, until, session, by_session=by_session)):
                values: Sequence[Any] = tuple(row)
                sums.add(values[0], _slot_of(values[1]), dict(zip(SUMMED, map(int, values[2:]), strict=True)))
            fresh = _SELECT_UNSUMMED.all(connection, {"most": FRESH})
            wanted = [span for span in fresh if session in (None, span.session)]
            sums.add_spans(wanted, since, until, by_session=by_session)
            ends = min(now, until)
            for row in connection.execute(_build_open(session, by_session=by_session), {"since": since, "until": ends}):
                sums.add_open(row, ends)
            return sums.list_all()

        return await self._run(work, short=False)


FRESH: Final = 10_000
"""Most spans that are read before they are in the sums; others follow within seconds."""


def _of_session(column: Column[str], session: str | None, rows: Select[Any]) -> Select[Any]:
    return rows if session is None else rows.where(column == session)


def _build_sums(since: datetime, until: datetime, session: str | None, *, by_session: bool) -> Select[Any]:
    group = span_sums.c.session if by_session else literal("")
    rows = select(group, span_sums.c.at, *(func.sum(span_sums.c[name]) for name in SUMMED))
    window = rows.where(span_sums.c.at >= since, span_sums.c.at < until).group_by(group, span_sums.c.at)
    return _of_session(span_sums.c.session, session, window)


def _build_open(session: str | None, *, by_session: bool) -> Select[Any]:
    """Build the query of the present states: agents by state and the quarter in which it began."""
    if session is None and not by_session:
        return _OPEN.add_columns(literal("").label("session"))
    named = _OPEN.join(sessions).add_columns(sessions.c.name.label("session")).group_by(sessions.c.name)
    return _of_session(sessions.c.name, session, named)


class _Sums:
    """Sums under way, by session and the number of the quarter since 1970."""

    def __init__(self) -> None:
        self._sums: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        self._steps: defaultdict[tuple[str, str], defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        """Changes of what is added to each whole quarter from one on, by session and figure: a state lasts months."""

    def add(self, session: str, slot: int, figures: Mapping[str, int]) -> None:
        self._sums[slot, session].update(figures)

    def add_spans(
        self, spans: Iterable[Span], since: datetime, until: datetime = _FAR, *, by_session: bool = True
    ) -> None:
        """Add what is in the window."""
        first, last = _microseconds(since), _microseconds(until)
        for span in spans:
            assert span.ended_at is not None
            session = span.session if by_session else ""
            begin, end = max(_microseconds(span.started_at), first), _microseconds(span.ended_at)
            if span.kind not in MARKS:
                self._add_time(session, span.kind.value, begin, min(end, last), 1)
            if first <= end < last and span.kind in _COUNTED:
                self.add(session, end // _SLOT, {_COUNTED[span.kind]: 1, "failed": int(span.failed)})

    def add_open(self, row: Any, until: datetime) -> None:
        """Add a row of the present states."""
        name, end, slot = ("asleep" if row.asleep else "awake"), _microseconds(until), int(row.slot)
        mean, lost = divmod(int(row.into), row.agents)
        self._add_time(row.session, name, slot * _SLOT + mean, end, row.agents)
        if lost:  # a part of a microsecond for each
            self.add(row.session, slot, {name: -lost})

    def _add_time(self, session: str, name: str, begin: int, end: int, weight: int) -> None:
        if end <= begin:
            return
        first, last = begin // _SLOT, end // _SLOT
        if first == last:
            self.add(session, first, {name: weight * (end - begin)})
            return
        self.add(session, first, {name: weight * ((first + 1) * _SLOT - begin)})
        steps = self._steps[session, name]
        steps[first + 1] += weight * _SLOT
        steps[last] -= weight * _SLOT
        if end > last * _SLOT:
            self.add(session, last, {name: weight * (end - last * _SLOT)})

    def list_all(self) -> list[SpanSum]:
        """Return the sums by time and session."""
        for (session, name), steps in self._steps.items():
            level = 0
            for slot in range(min(steps), max(steps)):
                level += steps.get(slot, 0)
                if level:
                    self.add(session, slot, {name: level})
        self._steps.clear()
        return [
            SpanSum(session=session, at=EPOCH + slot * SLOT, **figures)
            for (slot, session), figures in sorted(self._sums.items(), key=itemgetter(0))
        ]


_COUNTED: Final = {SpanKind.PULSE: "pulses", SpanKind.WAKE: "wakes", SpanKind.REFUSAL: "refusals"}


def _microseconds(at: datetime) -> int:
    return (at - EPOCH) // _MICROSECOND


def _slot_of(at: datetime) -> int:
    return (at - EPOCH) // SLOT
