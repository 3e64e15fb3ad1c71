"""Alerts that people have received, shared by all processes."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import JSON, Column, Index, String, Table, bindparam, delete, null, select, update

from circadia.records.overview import PendingAlertPost, RecentAlert
from circadia.stores.locks import ALERTS_KEY
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader
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
_read_post = build_reader(PendingAlertPost, of_row={"body": lambda row: row.post})
_read_alert = build_reader(RecentAlert, of_row={"at": lambda row: row.told_at})
_SELECT_TIMES = Statement(select(alerts.c.subject, alerts.c.told_at).where(alerts.c.cause == bindparam("of_cause")))
_SAVE = Statement(Upsert(alerts, keys=("cause", "subject"), new=("told_at", "post")), _COLUMNS)
_IS_ALERT = (alerts.c.cause == bindparam("of_cause"), alerts.c.subject == bindparam("of_subject"))
_DELETE = Statement(delete(alerts).where(*_IS_ALERT))
_SELECT_UNPOSTED = Statement(
    select(alerts).where(alerts.c.post.is_not(None)).order_by(alerts.c.told_at), read=_read_post
)
_SELECT_NEWEST = Statement(
    select(alerts.c.cause, alerts.c.subject, alerts.c.told_at)
    .where(alerts.c.told_at >= bindparam("since"))
    .order_by(alerts.c.told_at.desc(), alerts.c.cause, alerts.c.subject)
    .limit(bindparam("most")),
    read=_read_alert,
)
_MARK_POSTED = Statement(update(alerts).where(*_IS_ALERT, alerts.c.told_at == bindparam("at")).values(post=null()))


class Alerts(Noun):
    """Alerts that people have received, shared by all processes."""

    async def find_alert_times(self, cause: str) -> Mapping[str, datetime]:
        """Return the time of the last alert for this cause, by subject."""
        await self._hold(ALERTS_KEY)
        rows = await self._all(_SELECT_TIMES, {"of_cause": cause})
        return {row.subject: row.told_at for row in rows}

    async def record_alert(
        self, cause: str, subject: str, at: datetime, post: Mapping[str, object] | None = None
    ) -> None:
        """Record an alert, and the body of a post that is due for it."""
        await self._hold(ALERTS_KEY)
        await self._execute(_SAVE, {"cause": cause, "subject": subject, "told_at": at, "post": post})

    async def find_unposted(self) -> Sequence[PendingAlertPost]:
        """Return due posts that are not recorded as posted."""
        return await self._all(_SELECT_UNPOSTED)

    async def find_recent(self, *, since: datetime, limit: int) -> Sequence[RecentAlert]:
        """Return the last alert for each cause and subject since then, newest first."""
        return await self._all(_SELECT_NEWEST, {"since": since, "most": limit})

    async def mark_posted(self, cause: str, subject: str, told_at: datetime) -> None:
        """Record that the alert of that time is posted."""
        await self._hold(ALERTS_KEY)
        await self._execute(_MARK_POSTED, {"of_cause": cause, "of_subject": subject, "at": told_at})

    async def clear_alert(self, cause: str, subject: str) -> None:
        await self._hold(ALERTS_KEY)
        await self._execute(_DELETE, {"of_cause": cause, "of_subject": subject})
