"""Deletes old rows, oldest first, a few at a time."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, Row, bindparam, delete, func, select, tuple_

from circadia.ids import BankId
from circadia.records.call import CallStatus
from circadia.records.retention import RetentionKind, RetentionPage
from circadia.stores.locks import RETENTION_KEY, bank_key
from circadia.stores.sql.expiring_rows import EXPIRING, ExpiringRows
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import Instant, calls, events
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_SUMMED: Final = (
    "merged", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_nanousd", "held_seconds",
)  # fmt: skip
_SAME: Final = ("session", "agent_id", "agent", "tier", "upstream", "model", "status")
"""Common columns of calls that are merged into a daily row, besides whether usage and price are known."""
_TO_MERGE: Final = (
    select(calls)
    .where(calls.c.at < bindparam("before"), calls.c.merged.is_(None))
    .order_by(calls.c.at)
    .limit(bindparam("most"))
)
_MERGE: Final = Statement(
    Upsert(calls, keys=("id",), more=_SUMMED),
    ("id", "at", *_SAME, "endpoint", "streamed", "turn", "reserved_tokens", "reserved_nanousd", *_SUMMED),
)


_NEWEST_EVENT: Final = select(func.max(events.c.number)).scalar_subquery()
_FIRST_EVENTS: Final = (
    select(events.c.number, events.c.at)
    .where(events.c.number > 0)
    .order_by(events.c.number)
    .limit(bindparam("most"))
    .subquery()
)
_OLD_EVENTS: Final = select(_FIRST_EVENTS.c.number).where(
    _FIRST_EVENTS.c.at < bindparam("before"), _FIRST_EVENTS.c.number < _NEWEST_EVENT
)
_DELETE_EVENTS: Final = delete(events).where(events.c.number.in_(_OLD_EVENTS))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_STEP: Final = timedelta(microseconds=1)


class SqlRetention:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold

    async def delete_page(
        self, what: RetentionKind, before: datetime, *, limit: int, after: datetime | None = None
    ) -> RetentionPage:
        await self._hold(RETENTION_KEY)
        if what in (RetentionKind.EVENTS, RetentionKind.CALLS):
            work = _delete_events if what is RetentionKind.EVENTS else _merge_calls
            deleted = await self._run(lambda connection: work(connection, {"before": before, "most": limit}))
            return RetentionPage(deleted=deleted, is_full=deleted == limit)
        rows, most = EXPIRING[what], min(limit, EXPIRING[what].largest_page)
        if rows.in_banks:
            found = await self._run(lambda connection: _find(connection, rows, before, after, most))
            await self._hold(*{bank_key(BankId(row.bank_id)) for row in found})
        return await self._run(lambda connection: _delete_page(connection, rows, before, after, most))


def _find(
    connection: Connection, rows: ExpiringRows, before: datetime, after: datetime | None, most: int
) -> Sequence[Row[Any]]:
    """Return the oldest rows, with whether each is free."""
    statement = (
        select(*rows.keys, *rows.more, rows.at.label("due_at"), rows.is_free.label("free"))
        .select_from(rows.table if rows.source is None else rows.source)
        .where(rows.at < bindparam("before"), *rows.only)
        .order_by(rows.at)
        .limit(most)
    )
    if after is not None:
        statement = statement.where(rows.at >= _stored(rows, after))
    return connection.execute(statement, {"before": _stored(rows, before)}).all()


def _delete_page(
    connection: Connection, rows: ExpiringRows, before: datetime, after: datetime | None, most: int
) -> RetentionPage:
    page = _find(connection, rows, before, after, most)
    free = [row for row in page if row.free]
    if free:
        if rows.clear is not None:
            rows.clear(connection, free)
        if rows.remove is not None:
            rows.remove(connection, free)
        else:
            keys = [tuple(getattr(row, key.name) for key in rows.keys) for row in free]
            connection.execute(delete(rows.table).where(_are_in(rows.keys, keys)))
    if not page:
        return RetentionPage(deleted=0)
    first, last, is_full = _read(page[0].due_at), _read(page[-1].due_at), len(page) == most
    is_stuck = is_full and not free and first == last  # the next page would be the same
    return RetentionPage(deleted=len(free), last=last + _STEP if is_stuck else last, is_full=is_full)


def _are_in(keys: Sequence[Column[Any]], rows: Sequence[tuple[Any, ...]]) -> ColumnElement[bool]:
    return keys[0].in_([row[0] for row in rows]) if len(keys) == 1 else tuple_(*keys).in_(rows)


def _stored(rows: ExpiringRows, at: datetime) -> datetime | int:
    """Return a time as the column has it: some count days since 1970."""
    return at if isinstance(rows.at.type, Instant) else (at - _EPOCH) // _DAY


def _read(stored: datetime | int) -> datetime:
    return stored if isinstance(stored, datetime) else _EPOCH + stored * _DAY


def _delete_events(connection: Connection, values: Mapping[str, Any]) -> int:
    return connection.execute(_DELETE_EVENTS, values).rowcount


def _merge_calls(connection: Connection, values: Mapping[str, Any]) -> int:
    return _merge_days(connection, connection.execute(_TO_MERGE, values).all())


def _merge_days(connection: Connection, rows: Sequence[Row[Any]]) -> int:
    """Merge the calls of a day with equal keys into one row."""
    merged: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.status == CallStatus.RESERVED.value:
            continue  # it never went up, or a crash lost its usage
        known = row.input_tokens is not None or row.output_tokens is not None
        priced = row.cost_nanousd is not None
        day = row.at.replace(hour=0, minute=0, second=0, microsecond=0)
        parts = (day.isoformat(), *(str(getattr(row, name)) for name in _SAME), str(known), str(priced))
        key = "day_" + hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:28]
        into = merged.setdefault(
            key,
            {
                "id": key, "at": day, **{name: getattr(row, name) for name in _SAME}, "endpoint": "",
                "streamed": False, "turn": False, "reserved_tokens": 0, "reserved_nanousd": 0, "merged": 0,
                **dict.fromkeys(_SUMMED[1:5], 0 if known else None), "cost_nanousd": 0 if priced else None,
                "held_seconds": 0.0,
            },
        )  # fmt: skip
        into["merged"] += 1
        for name in _SUMMED[1:]:
            if into[name] is not None:
                into[name] += getattr(row, name) or 0
    if merged:
        _MERGE.run_many(connection, [tuple(row.values()) for row in merged.values()])
    if rows:
        connection.execute(delete(calls).where(calls.c.id.in_([row.id for row in rows])))
    return len(rows)
