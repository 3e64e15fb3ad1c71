"""Alerts that people have received, shared by all processes."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import JSON, Column, Connection, Index, String, Table, bindparam, delete, null, select, update

from circadia.records.overview import PendingAlertPost, RecentAlert
from circadia.stores.locks import ALERTS_KEY
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import Instant, metadata
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

alerts = Table(
    "alerts",
    metadata,
    Column("cause", String, primary_key=True),
    Column("subject", String, primary_key=True),
    Column("told_at", Instant, nullable=False),
    Column("post", JSON(none_as_null=True)),  # the body that is due to be posted; NULL afterwards
)

Index("alerts_told", alerts.c.told_at)

_COLUMNS = [column.name for column in alerts.c]
_TOLD = Statement(select(alerts.c.subject, alerts.c.told_at).where(alerts.c.cause == bindparam("of_cause")))
_TELL = Statement(Upsert(alerts, keys=("cause", "subject"), new=("told_at", "post")), _COLUMNS)
_OF = (alerts.c.cause == bindparam("of_cause"), alerts.c.subject == bindparam("of_subject"))
_END = Statement(delete(alerts).where(*_OF))
_UNPOSTED = Statement(select(alerts).where(alerts.c.post.is_not(None)).order_by(alerts.c.told_at))
_NEWEST = Statement(
    select(alerts.c.cause, alerts.c.subject, alerts.c.told_at)
    .where(alerts.c.told_at >= bindparam("since"))
    .order_by(alerts.c.told_at.desc(), alerts.c.cause, alerts.c.subject)
    .limit(bindparam("most"))
)
_POSTED = Statement(update(alerts).where(*_OF, alerts.c.told_at == bindparam("at")).values(post=null()))


class SqlAlerts:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold

    async def find_alert_times(self, cause: str) -> Mapping[str, datetime]:
        await self._hold(ALERTS_KEY)
        rows = await self._run(lambda connection: _TOLD.all(connection, {"of_cause": cause}))
        return {row.subject: row.told_at for row in rows}

    async def record_alert(
        self, cause: str, subject: str, at: datetime, post: Mapping[str, object] | None = None
    ) -> None:
        await self._hold(ALERTS_KEY)
        values = {"cause": cause, "subject": subject, "told_at": at, "post": post}

        def work(connection: Connection) -> None:
            _TELL.execute(connection, values)

        await self._run(work)

    async def find_unposted(self) -> Sequence[PendingAlertPost]:
        rows = await self._run(_UNPOSTED.all)
        return [
            PendingAlertPost(cause=row.cause, subject=row.subject, told_at=row.told_at, body=row.post) for row in rows
        ]

    async def find_recent(self, *, since: datetime, limit: int) -> Sequence[RecentAlert]:
        rows = await self._run(lambda connection: _NEWEST.all(connection, {"since": since, "most": limit}))
        return [RecentAlert(cause=row.cause, subject=row.subject, at=row.told_at) for row in rows]

    async def mark_posted(self, cause: str, subject: str, told_at: datetime) -> None:
        await self._hold(ALERTS_KEY)
        values = {"of_cause": cause, "of_subject": subject, "at": told_at}

        def work(connection: Connection) -> None:
            _POSTED.execute(connection, values)

        await self._run(work)

    async def clear_alert(self, cause: str, subject: str) -> None:
        await self._hold(ALERTS_KEY)
        values = {"of_cause": cause, "of_subject": subject}

        def work(connection: Connection) -> None:
            _END.execute(connection, values)

        await self._run(work)
