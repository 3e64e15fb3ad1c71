"""Reports over the usage ledger, from the sums of whole days and from the calls of the days that a range cuts.

A report by conversation reads calls: their sums are not kept. A report by agent, end user or conversation has pages,
each of so many keys.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, Final

import orjson
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import ColumnElement, Connection, Table, func, literal, literal_column, or_, select, true, tuple_

from circadia.errors import InvalidRequest
from circadia.records.call import CallStatus, UsageGroup, UsagePage
from circadia.records.session import build_reference
from circadia.stores.sql.schema import calls
from circadia.stores.sql.usage_days import MEASURES, SCOPES, usage_days

SLEEP_TIER: Final = "(sleep tier)"
"""Agent of calls without an agent, followed by the name of the bank they were made for."""
GROUPINGS: Final = ("agent", "model", "tier", "session", "upstream", "end_user", "conversation", "day")
_PAGED: Final = ("conversation", "end_user", "agent")
"""Groupings with many keys. A report has pages of the keys of the first one in this list."""
_MAX_SUMMED_CALLS: Final = 50_000
"""Calls of a range that are read to find its conversations; of more, those of a page of conversations are read."""
_GROUPS_OF_KEY: Final = 10
"""Expected number of groups of a key, if there is a second grouping."""
_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_IS_KNOWN: Final = func.coalesce(calls.c.input_tokens, calls.c.output_tokens).is_not(None)
_OF_CALLS: Final[Mapping[str, ColumnElement[Any]]] = {
    "calls": func.count(),
    "unknown": func.count().filter(~_IS_KNOWN),
    "failed": func.count().filter(calls.c.status == CallStatus.FAILED.value),
    "unpriced": func.count().filter(calls.c.cost_nanousd.is_(None)),
    **{name: func.coalesce(func.sum(calls.c[name]), 0) for name in MEASURES[4:]},
}
SUMS: Final = [column.label(name) for name, column in _OF_CALLS.items()]
IS_ENDED: Final = calls.c.status != CallStatus.RESERVED.value
_SUMS_OF_DAYS: Final = [func.sum(usage_days.c[name]).label(name) for name in MEASURES]

_DAY_OF_CALL: Final[ColumnElement[int]] = literal_column("calls.at / 86400000000")  # whole days since 1970

_Values = tuple[Any, ...]
_Sums = Sequence[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRange:
    """The calls of a report."""

    since: datetime | None = None
    until: datetime | None = None
    session: str | None = None
    agent: str | None = None

    def select_names(self, table: Table) -> list[ColumnElement[bool]]:
        """Return the conditions on the names of session and agent."""
        conditions: list[ColumnElement[bool]] = []
        if self.session is not None:
            conditions.append(table.c.session == self.session)
        if self.agent is not None:
            conditions += [table.c.agent == self.agent, table.c.session != ""]
        return conditions


@dataclass(frozen=True, kw_only=True, slots=True)
class _Page:
    """The part of a report that has these keys of a grouping."""

    names: Sequence[str]
    """The grouping's columns."""
    place: slice
    """Where their values are in the values of a group."""
    keys: Sequence[_Values]
    """In the database's order."""
    is_first: bool

    def select(self, table: Table) -> list[ColumnElement[bool]]:
        columns = tuple_(*(table.c[name] for name in self.names))
        return [columns >= tuple_(*map(literal, self.keys[0])), columns <= tuple_(*map(literal, self.keys[-1]))]

    def cut(self, sums: Mapping[_Values, _Sums], limit: int) -> "_Page":
        """Return the first keys, at least one, that have no more groups than the limit."""
        numbers = Counter(values[self.place] for values in sums)
        counts = list(accumulate(numbers[key] for key in self.keys))
        return replace(self, keys=self.keys[: max(1, bisect_right(counts, limit))])


class UsageReader:
    """Reads one report."""

    def __init__(self, connection: Connection, by: Sequence[str], of: UsageRange) -> None:
        """Raises InvalidRequest: a grouping does not exist."""
        for grouping in by:
            if grouping not in GROUPINGS:
                raise InvalidRequest(f"usage cannot be grouped by {grouping!r}; choose one of {', '.join(GROUPINGS)}")
        self._connection = connection
        self._by = by
        self._of = of
        first = connection.execute(select(func.min(calls.c.at))).scalar()
        self._kept_from = None if first is None else (first - _EPOCH).days
        """The first day whose calls are still there; none if no calls are."""
        self._first_day, self._end_day, self._cut = self._split_range()

    def fetch_groups(self) -> Sequence[UsageGroup]:
        """Return all groups, ordered by their keys."""
        return _build_groups(self._by, self._collect(self._by))

    def fetch_page(self, limit: int, after: str | None) -> UsagePage:
        """Return about `limit` groups after the last cursor, ordered by their keys, and the total of all.

        Raises:
            InvalidRequest: `after` is no cursor of such a report.
        """
        cursor = None if after is None else _read_cursor(after)
        paged = [grouping for grouping in _PAGED if grouping in self._by]
        last: Sequence[str] | None = None
        if paged:
            groups, last = self._fetch_keys_page(paged, limit, cursor)
        else:
            groups = [group for group in self.fetch_groups() if cursor is None or group.keys > tuple(cursor)]
            if len(groups) > limit:
                groups = groups[:limit]
                last = groups[-1].keys
        total = _build_groups((), self._collect(())) or [_build_group((), (), [0] * len(MEASURES))]
        return UsagePage(groups=groups, total=total[0], next=None if last is None else orjson.dumps(last).decode())

    def _fetch_keys_page(
        self, paged: Sequence[str], limit: int, cursor: Sequence[str] | None
    ) -> tuple[Sequence[UsageGroup], Sequence[str] | None]:
        names = _names(paged[0])
        start = len(_all_names(self._by[: self._by.index(paged[0])]))
        most = limit if len(self._by) == 1 else limit // _GROUPS_OF_KEY + 1
        keys = self._find_keys(paged[0], names, most + 1, cursor)
        place = slice(start, start + len(names))
        page = _Page(names=names, place=place, keys=keys[:most], is_first=cursor is None and len(paged) == 1)
        sums = self._collect(self._by, page=page)
        if page.keys:
            page = page.cut(sums, limit)
            dropped = {*keys} - {*page.keys}
            sums = {values: row for values, row in sums.items() if values[place] not in dropped}
        last = list(page.keys[-1]) if len(page.keys) < len(keys) else None
        return _build_groups(self._by, sums), last

    def _find_keys(
        self, paged: str, names: Sequence[str], limit: int, cursor: Sequence[str] | None
    ) -> Sequence[_Values]:
        """Return the next keys of a grouping."""
        table = calls if paged == "conversation" else usage_days
        columns: list[ColumnElement[Any]] = [table.c[name] for name in names]
        conditions = self._of.select_names(table)
        if paged != "conversation":
            conditions += _in_scope(paged)
        elif self._is_short():
            columns = [func.coalesce(calls.c.conversation, "")]  # so that the index of times is used
            conditions += [IS_ENDED, calls.c.conversation.is_not(None), *_in_range(self._of.since, self._of.until)]
        else:
            conditions += [IS_ENDED, calls.c.conversation.is_not(None)]
        if cursor is not None:
            if len(cursor) != len(columns):
                raise _bad_cursor()
            conditions.append(tuple_(*columns) > tuple_(*map(literal, cursor)))
        rows = select(*columns).where(*conditions).distinct().order_by(*columns).limit(limit)
        return [tuple(row) for row in self._connection.execute(rows).all()]

    def _is_short(self) -> bool:
        """Return whether the range has so few calls that its conversations are found by time."""
        if self._of.since is None:
            return False
        some = select(calls.c.at).where(*_in_range(self._of.since, self._of.until)).limit(_MAX_SUMMED_CALLS).subquery()
        return int(self._connection.execute(select(func.count()).select_from(some)).scalar_one()) < _MAX_SUMMED_CALLS

    def _collect(
        self, by: Sequence[str], *, lacking: Sequence[str] = (), page: _Page | None = None
    ) -> dict[_Values, _Sums]:
        """Return sums by the values of the groupings' columns.

        Calls without a conversation or an end user have the key ``. `lacking` are those of both that the calls must not
        have.
        """
        sums: dict[_Values, _Sums] = {}
        named = next((grouping for grouping in ("conversation", "end_user") if grouping in by), None)
        wanted = None if page is None else {*page.keys}
        for row in self._read(by, named, lacking, page) if wanted is None or wanted else ():
            values = tuple(row[: -len(MEASURES)])
            if page is None or wanted is None or values[page.place] in wanted:
                _add(sums, values, row[-len(MEASURES) :])
        if named is not None and (page is None or page.is_first):
            at = by.index(named)
            place = len(_all_names(by[:at]))
            for values, row in self._collect([*by[:at], *by[at + 1 :]], lacking=[*lacking, named]).items():
                _add(sums, (*values[:place], "", *values[place:]), row)
        return sums

    def _read(
        self, by: Sequence[str], named: str | None, lacking: Sequence[str], page: _Page | None
    ) -> Iterator[Sequence[Any]]:
        """Yield rows of sums: of calls that have a value of the grouping `named`, if there is one."""
        only = [calls.c[name].is_(None) for name in lacking]
        if named is not None:
            only.append(calls.c[named].is_not(None))
        if named == "conversation":
            of_page = [] if page is None else page.select(calls)
            yield from self._sum_calls(by, [*only, *of_page, *_in_range(self._of.since, self._of.until)])
            return
        yield from self._sum_days(by, named, lacking, [] if page is None else page.select(usage_days))
        for since, until in self._cut:
            yield from self._sum_calls(by, [*only, *_in_range(since, until)])

    def _sum_calls(self, by: Sequence[str], only: Sequence[ColumnElement[bool]]) -> Sequence[Sequence[Any]]:
        columns = [_DAY_OF_CALL if name == "day" else calls.c[name] for name in _all_names(by)]
        rows = select(*columns, *SUMS).where(IS_ENDED, *self._of.select_names(calls), *only)
        return self._connection.execute(rows.group_by(*columns).having(func.count() > 0)).all()

    def _sum_days(
        self, by: Sequence[str], named: str | None, lacking: Sequence[str], only: Sequence[ColumnElement[bool]]
    ) -> Sequence[Sequence[Any]]:
        days = usage_days.c
        is_by = {"agent": "agent" in by or self._of.agent is not None}
        is_by["session"] = "session" in by or self._of.session is not None
        scope = named or next((name for name, is_needed in is_by.items() if is_needed), "fleet")
        conditions = [*_in_scope(scope), *self._of.select_names(usage_days), *only]
        if self._first_day is not None:
            conditions.append(days.day >= self._first_day)
        if self._end_day is not None:
            conditions.append(days.day < self._end_day)
        for name, has_one in (("end_user", days.has_user), ("conversation", days.has_conversation)):
            if name in lacking:  # with the calls, the names are deleted
                is_deleted = true() if self._kept_from is None else days.day < self._kept_from
                conditions.append(or_(has_one.is_(False), is_deleted))
        columns = [days[name] for name in _all_names(by)]
        rows = select(*columns, *_SUMS_OF_DAYS).where(*conditions).group_by(*columns)
        return self._connection.execute(rows.having(func.sum(days.calls) > 0)).all()

    def _split_range(self) -> tuple[int | None, int | None, Sequence[tuple[datetime, datetime]]]:
        """Return the first whole day, the day after the last, and the times of calls of days that the range cuts.

        A day whose calls are deleted counts whole, as if all were made when it began.
        """
        since, until = self._of.since, self._of.until
        first = None if since is None else -((_EPOCH - since) // _DAY)
        end = None if until is None else (until - _EPOCH) // _DAY
        if since is not None and until is not None and first is not None and end is not None and first > end:
            return first, first, [(since, until)]
        cut: list[tuple[datetime, datetime]] = []
        if since is not None and first is not None and since < _start(first):
            cut.append((since, _start(first)))
        if until is not None and end is not None and _start(end) < until:
            if self._kept_from is None or end < self._kept_from:
                end += 1
            else:
                cut.append((_start(end), until))
        return first, end, cut


def _in_scope(scope: str) -> list[ColumnElement[bool]]:
    # Partial indexes need a constant in the text of the statement.
    lacks = [usage_days.c[name] == "" for name in ("end_user", "session", "agent") if name not in SCOPES[scope]]
    return [usage_days.c.scope == literal_column(f"'{scope}'"), *lacks]


def _in_range(since: datetime | None, until: datetime | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [] if since is None else [calls.c.at >= since]
    return conditions if until is None else [*conditions, calls.c.at < until]


def _names(grouping: str) -> Sequence[str]:
    """Return the columns of a grouping."""
    return ("session", "agent") if grouping == "agent" else (grouping,)


def _all_names(by: Sequence[str]) -> Sequence[str]:
    return [name for grouping in by for name in _names(grouping)]


def _add(sums: dict[_Values, _Sums], values: _Values, row: Sequence[Any]) -> None:
    known = sums.get(values)
    sums[values] = list(row) if known is None else [one + other for one, other in zip(known, row, strict=True)]


def _build_groups(by: Sequence[str], sums: Mapping[_Values, _Sums]) -> list[UsageGroup]:
    return sorted((_build_group(by, values, row) for values, row in sums.items()), key=lambda group: group.keys)


def _build_group(by: Sequence[str], values: _Values, row: Sequence[Any]) -> UsageGroup:
    rest = iter(values)
    keys = tuple([_key(grouping, *(next(rest) for _ in _names(grouping))) for grouping in by])
    return build_group(keys, row)


def build_group(keys: tuple[str, ...], row: Sequence[Any]) -> UsageGroup:
    """Return a group with these measures."""
    sums: dict[str, Any] = {name: int(amount) for name, amount in zip(MEASURES[:-1], row[:-1], strict=True)}
    return UsageGroup(keys=keys, held_seconds=float(row[-1]), **sums)


def _key(grouping: str, value: Any, name: str = "") -> str:
    """Return the key for the values of a grouping's columns; an agent has its session and its `name`."""
    if grouping == "agent":
        return build_reference(value, name) if value else f"{SLEEP_TIER} {name}".rstrip()
    if grouping == "day":
        return _start(int(value)).date().isoformat()
    return value or ""


def _start(day: int) -> datetime:
    return _EPOCH + day * _DAY


def _read_cursor(after: str) -> Sequence[str]:
    try:
        return TypeAdapter(list[str]).validate_json(after)
    except ValidationError as error:
        raise _bad_cursor() from error


def _bad_cursor() -> InvalidRequest:
    return InvalidRequest("`after` must be the `next` of the page before, with the same groupings")
