"""Deletes old rows, oldest first, a few at a time."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, func, select

from circadia.ids import BankId
from circadia.records.retention import RetentionKind, RetentionPage
from circadia.stores.locks import RETENTION_KEY, bank_key
from circadia.stores.sql.expiring_rows import EXPIRING, ExpiringRows
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.schema import Instant, events

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


class Retention(Noun):
    """Deletes old rows."""

    async def delete_page(
        self, what: RetentionKind, before: datetime, *, limit: int, after: datetime | None = None
    ) -> RetentionPage:
        """Look at up to `limit` rows that ended before `before`, oldest first from `after` on, and delete what is free.

        Open rows, the newest event, and what another row needs are kept. Calls leave daily sums by session, agent,
        tier, upstream and model.
        """
        await self._hold(RETENTION_KEY)
        if what is RetentionKind.EVENTS:
            return await self._run(lambda connection: _delete_events(connection, before, limit), short=False)
        rows, most = EXPIRING[what], min(limit, EXPIRING[what].largest_page)
        if rows.in_banks:
            found = await self._run(lambda connection: _find(connection, rows, before, after, most), short=False)
            await self._hold(*{bank_key(BankId(row.bank_id)) for row in found})
        return await self._run(lambda connection: _delete_page(connection, rows, before, after, most), short=False)


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
            _delete_by_key(connection, rows, free)
    if not page:
        return RetentionPage(deleted=0)
    first, last, is_full = _read(page[0].due_at), _read(page[-1].due_at), len(page) == most
    is_stuck = is_full and not free and first == last  # the next page would be the same
    return RetentionPage(deleted=len(free), last=last + _STEP if is_stuck else last, is_full=is_full)


def _delete_by_key(connection: Connection, rows: ExpiringRows, page: Sequence[Row[Any]]) -> None:
    if len(rows.keys) == 1:
        key = rows.keys[0]
        connection.execute(delete(rows.table).where(key.in_([getattr(row, key.name) for row in page])))
        return
    # One by one: SQLite scans the table for a list of tuples.
    is_row = (key == bindparam(f"key_{key.name}") for key in rows.keys)
    values = [{f"key_{key.name}": getattr(row, key.name) for key in rows.keys} for row in page]
    connection.execute(delete(rows.table).where(*is_row), values)


def _stored(rows: ExpiringRows, at: datetime) -> datetime | int:
    """Return a time as the column has it: some count days since 1970."""
    if not isinstance(rows.at.type, Instant):
        return (at - _EPOCH) // _DAY
    return at.replace(hour=0, minute=0, second=0, microsecond=0) if rows.whole_days else at


def _read(stored: datetime | int) -> datetime:
    return stored if isinstance(stored, datetime) else _EPOCH + stored * _DAY


def _delete_events(connection: Connection, before: datetime, most: int) -> RetentionPage:
    deleted = connection.execute(_DELETE_EVENTS, {"before": before, "most": most}).rowcount
    return RetentionPage(deleted=deleted, is_full=deleted == most)
