"""Spans of agents' time, and their sums by session and quarter of an hour (UI-15).

A span is read by its end. Those of more than an hour have an index of their own: of the others, none that ends more
than an hour after a window belongs to it, so that an old window costs what a new one does.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

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
from circadia.stores.sql.noun import Noun, where_given
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
_OPEN: Final[Select[Any]] = cast(
    "Select[Any]",
    select(
        agents.c.asleep,
        (_BEGIN // _SLOT).label("slot"),
        func.count().label("agents"),
        func.sum(_BEGIN % _SLOT).label("into"),  # the sum of whole times of 5,300 agents is no 64-bit number
    )
    .where(agents.c.deleted_at.is_(None), agents.c.since < bindparam("until"))
    .group_by(agents.c.asleep, text("slot")),
)


_FLEET: Final = ""
"""In place of a session, in the sums over all of them."""


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
            rows: list[SpanSum] = []
            for by_session in (True, False):
                sums = _Sums()
                sums.add_spans(taken, not_before, by_session=by_session)
                rows += sums.find_first()
            _ADD_SUM.run_many(connection, [_write_sum(each) for each in rows])
            return len(taken)

        return await self._run(work, short=False)

    async def find_sums(
        self, since: datetime, until: datetime, now: datetime, *, session: str | None = None, by_session: bool = True,
        limit: int,
    ) -> Sequence[SpanSum]:  # fmt: skip
        """Return the first sums of the quarters from `since` to `until`, by time and session.

        There are at most `limit`, and the rest of the quarter in which that is reached. What agents do `now` is in
        them, too. Without `by_session` the sums are those of all sessions, under ``.
        """
        of = session if by_session or session is not None else _FLEET

        def work(connection: Connection) -> list[SpanSum]:
            sums, last = _Sums(), until
            beyond = connection.execute(_build_sums(since, until, of).limit(1).offset(limit)).first()
            if beyond is not None:
                last = min(until, beyond.at + SLOT)
            for row in connection.execute(_build_sums(since, last, of)):
                values: Sequence[Any] = tuple(row)
                name = values[0] if by_session else _FLEET
                sums.add(name, _slot_of(values[1]), dict(zip(SUMMED, map(int, values[2:]), strict=True)))
            fresh = _SELECT_UNSUMMED.all(connection, {"most": FRESH})
            wanted = [span for span in fresh if session in (None, span.session)]
            sums.add_spans(wanted, since, last, by_session=by_session)
            ends = min(now, last)
            names = _fetch_names(connection, session) if by_session or session is not None else None
            for row in connection.execute(_build_open(names), {"since": since, "until": ends}):
                name = _FLEET if names is None or not by_session else names[row.session_id]
                sums.add_open(name, row, ends)
            return sums.find_first(limit)

        return await self._run(work, short=False)


FRESH: Final = 10_000
"""Most spans that are read before they are in the sums; others follow within seconds."""


def _build_sums(since: datetime, until: datetime, session: str | None) -> Select[Any]:
    """Build the query of the sums of a session, or of each session."""
    only = span_sums.c.session != _FLEET if session is None else span_sums.c.session == session
    return select(span_sums).where(span_sums.c.at >= since, span_sums.c.at < until, only).order_by(span_sums.c.at)


def _fetch_names(connection: Connection, session: str | None) -> Mapping[str, str]:
    """Return the names of sessions by their ids: of one, or of all."""
    rows = select(sessions.c.id, sessions.c.name)
    return {row.id: row.name for row in connection.execute(where_given(rows, (sessions.c.name, session)))}


def _build_open(names: Mapping[str, str] | None) -> Select[Any]:
    """Build the query of the present states: agents by state and the quarter in which it began, perhaps by session."""
    if names is None:
        return _OPEN
    by_session = _OPEN.add_columns(agents.c.session_id).group_by(agents.c.session_id)
    return by_session.where(agents.c.session_id == next(iter(names))) if len(names) == 1 else by_session


class _Sums:
    """Sums under way, by the number of the quarter since 1970 and session."""

    def __init__(self) -> None:
        self._sums: defaultdict[int, defaultdict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        self._steps: defaultdict[tuple[str, str], defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        """Changes of what is added to each whole quarter from one on, by session and figure: a state lasts months."""

    def add(self, session: str, slot: int, figures: Mapping[str, int]) -> None:
        self._sums[slot][session].update(figures)

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

    def add_open(self, session: str, row: Any, until: datetime) -> None:
        """Add a row of the present states."""
        name, end, slot = ("asleep" if row.asleep else "awake"), _microseconds(until), int(row.slot)
        mean, lost = divmod(int(row.into), row.agents)
        self._add_time(session, name, slot * _SLOT + mean, end, row.agents)
        if lost:  # a part of a microsecond for each
            self.add(session, slot, {name: -lost})

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

    def find_first(self, limit: int | None = None) -> list[SpanSum]:
        """Return the sums by time and session; none of a quarter that begins after `limit` of them."""
        steps: defaultdict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
        for key, of_key in self._steps.items():
            for slot, step in of_key.items():
                steps[slot][key] += step
        slots = sorted({*steps, *self._sums})
        levels: Counter[tuple[str, str]] = Counter()
        found: list[SpanSum] = []
        for slot, following in itertools.pairwise([*slots, slots[-1] + 1] if slots else []):
            levels.update(steps.get(slot, {}))
            levels = Counter({key: level for key, level in levels.items() if level})
            for each in range(slot, following if levels else slot + 1):
                if limit is not None and len(found) > limit:
                    return found
                found += self._build_quarter(each, levels)
        return found

    def _build_quarter(self, slot: int, levels: Mapping[tuple[str, str], int]) -> list[SpanSum]:
        quarter: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (session, name), level in levels.items():
            quarter[session][name] += level
        if slot in self._sums:
            for session, figures in self._sums[slot].items():
                quarter[session].update(figures)
        at = EPOCH + slot * SLOT
        return [SpanSum(session=session, at=at, **quarter[session]) for session in sorted(quarter)]


_COUNTED: Final = {SpanKind.PULSE: "pulses", SpanKind.WAKE: "wakes", SpanKind.REFUSAL: "refusals"}


def _microseconds(at: datetime) -> int:
    return (at - EPOCH) // _MICROSECOND


def _slot_of(at: datetime) -> int:
    return (at - EPOCH) // SLOT
