"""Named events that are kept for a while, for agents that begin to wait after them (WAKE-81)."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Final

from sqlalchemy import Column, Index, Integer, String, Table, Text, and_, bindparam, delete, insert, or_, select

from circadia.records.named_event import RecentEvent
from circadia.stores.locks import event_key
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant, metadata
from circadia.stores.sql.statement import Statement

named_events = Table(
    "named_events",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("content", Text, nullable=False),
    Column("key", String),
    Column("sender_id", String),
    Column("root_id", String),
    Column("parent_id", String),
    Column("depth", Integer, nullable=False),
    Column("at", Instant, nullable=False),
)
Index("named_events_name", named_events.c.name, named_events.c.at, named_events.c.id)
Index("named_events_at", named_events.c.at)

_FIELDS: Final = tuple(field.name for field in fields(RecentEvent))
_read_event = build_reader(RecentEvent)
_ADD: Final = Statement(insert(named_events).inline(), _FIELDS)
_write_event = build_writer(_FIELDS)
_SELECT_PAGE: Final = Statement(
    select(named_events)
    .where(
        named_events.c.name == bindparam("name"),
        named_events.c.at >= bindparam("after_at"),
        or_(
            named_events.c.at > bindparam("after_at"),
            and_(named_events.c.at == bindparam("after_at"), named_events.c.id > bindparam("after_id")),
        ),
    )
    .order_by(named_events.c.at, named_events.c.id)
    .limit(bindparam("most")),
    read=_read_event,
)
_EXPIRED: Final = (
    select(named_events.c.id)
    .where(named_events.c.at <= bindparam("before"))
    .order_by(named_events.c.at)
    .limit(bindparam("most"))
)
_DELETE_EXPIRED: Final = Statement(delete(named_events).where(named_events.c.id.in_(_EXPIRED)))


class RecentEvents(Noun):
    """Named events of the last hour. Whoever adds one, or waits for one, holds the key of its name."""

    async def keep(self, event: RecentEvent) -> None:
        await self._hold(event_key(event.name))
        await self._write(_ADD, _write_event(event))

    async def find_since(
        self, name: str, since: datetime, *, after: RecentEvent | None = None, limit: int
    ) -> Sequence[RecentEvent]:
        """Return events of this name that came at or after an instant, oldest first, behind `after`."""
        await self._hold(event_key(name))
        at, last_id = (since, "") if after is None else (after.at, after.id)
        values = {"name": name, "after_at": at, "after_id": last_id, "most": limit}
        return await self._all(_SELECT_PAGE, values, short=False)

    async def delete_before(self, before: datetime, *, limit: int) -> int:
        """Delete up to `limit` events that came until then, and return their number."""
        return await self._execute(_DELETE_EXPIRED, {"before": before, "most": limit})
