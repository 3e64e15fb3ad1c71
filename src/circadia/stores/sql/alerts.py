"""What people have been alerted of, once for all processes."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Column, Connection, String, Table, bindparam, delete, select

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
)

_COLUMNS = [column.name for column in alerts.c]
_TOLD = Statement(select(alerts.c.subject, alerts.c.told_at).where(alerts.c.cause == bindparam("of_cause")))
_TELL = Statement(Upsert(alerts, keys=("cause", "subject"), new=("told_at",)), _COLUMNS)
_END = Statement(
    delete(alerts).where(alerts.c.cause == bindparam("of_cause"), alerts.c.subject == bindparam("of_subject"))
)


class SqlAlerts:
    """What people have been alerted of, in one transaction."""

    def __init__(self, runner: Runner) -> None:
        self._run = runner.run

    async def told(self, cause: str) -> Mapping[str, datetime]:
        """Return when each subject was last told of for this cause."""
        rows = await self._run(lambda connection: _TOLD.all(connection, {"of_cause": cause}))
        return {row.subject: row.told_at for row in rows}

    async def tell(self, cause: str, subject: str, at: datetime) -> None:
        """Note that it is told now."""
        values = {"cause": cause, "subject": subject, "told_at": at}

        def work(connection: Connection) -> None:
            _TELL.count(connection, values)

        await self._run(work)

    async def end(self, cause: str, subject: str) -> None:
        """Forget it."""
        values = {"of_cause": cause, "of_subject": subject}

        def work(connection: Connection) -> None:
            _END.count(connection, values)

        await self._run(work)
