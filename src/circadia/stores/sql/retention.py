"""Deletes old rows, oldest first, a few at a time."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, Delete, Row, bindparam, delete, exists, func, select, tuple_

from circadia.records.call import CallStatus
from circadia.records.retention import RetentionKind
from circadia.records.wake import Decision
from circadia.stores.locks import RETENTION_KEY
from circadia.stores.sql.link import Runner
from circadia.stores.sql.message_index import remove_from_index
from circadia.stores.sql.schema import calls, conversations, deliveries, events, messages, provider_ids, pulses, wakes
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


def _delete_by_time(at: Column[Any], *keys: Column[Any], only: Sequence[ColumnElement[bool]] = ()) -> Delete:
    """Delete the oldest rows by an indexed time."""
    old = select(*keys).where(at < bindparam("before"), *only).order_by(at).limit(bindparam("most"))
    return delete(at.table).where(tuple_(*keys).in_(old))


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
_DELETE: Final[Mapping[RetentionKind, Delete]] = {
    RetentionKind.EVENTS: delete(events).where(events.c.number.in_(_OLD_EVENTS)),
    RetentionKind.WAKES: _delete_by_time(
        wakes.c.decided_at, wakes.c.id, only=[wakes.c.decision != Decision.DEFERRED.value]
    ),
    RetentionKind.PULSES: _delete_by_time(pulses.c.ended_at, pulses.c.id),
    RetentionKind.CONVERSATIONS: _delete_by_time(conversations.c.at, conversations.c.agent_id, conversations.c.id),
    RetentionKind.MESSAGES: _delete_by_time(
        messages.c.at,
        messages.c.id,
        only=[
            ~exists().where(deliveries.c.message_id == messages.c.id),
            ~exists().where(wakes.c.message_id == messages.c.id),
        ],
    ),
    RetentionKind.PROVIDER_IDS: _delete_by_time(provider_ids.c.at, provider_ids.c.upstream, provider_ids.c.provider_id),
}


class SqlRetention:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold

    async def delete_expired(self, what: RetentionKind, before: datetime, *, limit: int) -> int:
        await self._hold(RETENTION_KEY)
        values = {"before": before, "most": limit}

        def work(connection: Connection) -> int:
            if what is RetentionKind.CALLS:
                return _merge_days(connection, connection.execute(_TO_MERGE, values).all())
            if what is RetentionKind.MESSAGES:
                numbers = connection.execute(_DELETE[what].returning(messages.c.number), values).scalars().all()
                remove_from_index(connection, numbers)
                return len(numbers)
            return connection.execute(_DELETE[what], values).rowcount

        return await self._run(work)


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
