"""The history of alerts, and who has acknowledged them."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Final

from sqlalchemy import JSON, Column, Index, String, Table, bindparam, func, select, update

from circadia.ids import AlertId
from circadia.records.alert import AlertRecord
from circadia.stores.sql.noun import Noun, where_given
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant, metadata, only
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

alert_history = Table(
    "alert_history",
    metadata,
    Column("id", String, primary_key=True),
    Column("cause", String, nullable=False),
    Column("session", String),
    Column("agent", String),
    Column("at", Instant, nullable=False),
    Column("detail", JSON, nullable=False),
    Column("acknowledged_at", Instant),
    Column("acknowledged_by", String),
)
Index("alert_history_at", alert_history.c.at)
Index("alert_history_cause", alert_history.c.cause, alert_history.c.id)
Index("alert_history_open", alert_history.c.id, **only("acknowledged_at IS NULL"))

_FIELDS: Final = tuple(field.name for field in fields(AlertRecord))
_read_alert = build_reader(AlertRecord)
_write_alert = build_writer(_FIELDS)
_ADD: Final = Statement(Upsert(alert_history), _FIELDS)
_SELECT: Final = Statement(select(alert_history).where(alert_history.c.id == bindparam("of")), read=_read_alert)
_ACKNOWLEDGE: Final = Statement(
    update(alert_history)
    .where(alert_history.c.id == bindparam("of"), alert_history.c.acknowledged_at.is_(None))
    .values(acknowledged_at=bindparam("now"), acknowledged_by=bindparam("who"))
)


class AlertHistory(Noun):
    """Raised alerts, the newest last by id."""

    async def add(self, alert: AlertRecord) -> None:
        await self._write(_ADD, _write_alert(alert))

    async def get(self, alert_id: AlertId) -> AlertRecord | None:
        return await self._first(_SELECT, {"of": alert_id})

    async def find_all(
        self, *, cause: str | None = None, is_open: bool = False, before: AlertId | None = None, limit: int = 100
    ) -> Sequence[AlertRecord]:
        """Return alerts, the newest first: of a cause, or that nobody has acknowledged."""
        statement = select(alert_history).order_by(alert_history.c.id.desc()).limit(limit)
        statement = where_given(statement, (alert_history.c.cause, cause))
        if is_open:
            statement = statement.where(alert_history.c.acknowledged_at.is_(None))
        if before is not None:
            statement = statement.where(alert_history.c.id < before)
        return await self._select(statement, _read_alert)

    async def count_open(self, *, limit: int) -> int:
        """Return how many alerts nobody has acknowledged, up to `limit`."""
        some = select(alert_history.c.id).where(alert_history.c.acknowledged_at.is_(None)).limit(limit).subquery()
        return int(
            await self._run(lambda connection: connection.execute(select(func.count()).select_from(some)).scalar_one())
        )

    async def acknowledge(self, alert_id: AlertId, at: datetime, by: str) -> bool:
        """Return False if somebody has acknowledged it already."""
        return await self._execute(_ACKNOWLEDGE, {"of": alert_id, "now": at, "who": by}) == 1
