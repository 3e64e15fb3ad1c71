"""Deletes old rows, oldest first, a few at a time."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Delete,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    select,
    tuple_,
)

from circadia.records.retention import RetentionKind
from circadia.records.wake import Decision
from circadia.stores.locks import RETENTION_KEY
from circadia.stores.sql.benefits import number_of
from circadia.stores.sql.link import Runner
from circadia.stores.sql.message_index import remove_from_index
from circadia.stores.sql.schema import calls, conversations, deliveries, events, messages, provider_ids, pulses, wakes
from circadia.stores.sql.usage_days import usage_days


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
    RetentionKind.CALLS: _delete_by_time(calls.c.at, calls.c.id),
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

_DELETE_USERS: Final = _delete_by_time(
    usage_days.c.day, *usage_days.primary_key, only=[usage_days.c.scope == literal_column("'end_user'")]
)


class SqlRetention:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold

    async def delete_expired(self, what: RetentionKind, before: datetime, *, limit: int) -> int:
        await self._hold(RETENTION_KEY)
        values = {"before": before, "most": limit}

        def work(connection: Connection) -> int:
            if what is RetentionKind.CALLS:
                return _delete_calls(connection, before, limit)
            if what is RetentionKind.MESSAGES:
                numbers = connection.execute(_DELETE[what].returning(messages.c.number), values).scalars().all()
                remove_from_index(connection, numbers)
                return len(numbers)
            return connection.execute(_DELETE[what], values).rowcount

        return await self._run(work)


def _delete_calls(connection: Connection, before: datetime, limit: int) -> int:
    """Delete the calls of whole days, then the sums of these days by end user; other sums stay."""
    midnight = before.replace(hour=0, minute=0, second=0, microsecond=0)
    deleted = connection.execute(_DELETE[RetentionKind.CALLS], {"before": midnight, "most": limit}).rowcount
    if deleted == limit:
        return deleted
    days = number_of(midnight.date())
    return deleted + connection.execute(_DELETE_USERS, {"before": days, "most": limit - deleted}).rowcount
