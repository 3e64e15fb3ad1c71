"""Dreams that were asked for."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from sqlalchemy import JSON, Column, Connection, Index, Row, String, Table, Text, bindparam, select, update

from circadia.ids import DreamId
from circadia.records.dream_job import DreamJob, DreamJobStatus, DreamSource
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import Instant, metadata, only
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

dream_jobs = Table(
    "dream_jobs",
    metadata,
    Column("id", String, primary_key=True),
    Column("source", String, nullable=False),
    Column("name", String, nullable=False),
    Column("mode", String, nullable=False),
    Column("instructions", Text, nullable=False),
    Column("by", String, nullable=False),
    Column("status", String, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column("output", String, nullable=False),
    Column("pass_id", String, nullable=False),
    Column("error", Text, nullable=False),
    Column("report", JSON, nullable=False),
)
Index("dream_jobs_open", dream_jobs.c.source, dream_jobs.c.name, unique=True, **only("ended_at IS NULL"))
Index("dream_jobs_ended", dream_jobs.c.ended_at, **only("ended_at IS NOT NULL"))
Index("dream_jobs_name", dream_jobs.c.source, dream_jobs.c.name, dream_jobs.c.id)

_FIELDS: Final = tuple(field.name for field in fields(DreamJob))
_ADD = Statement(Upsert(dream_jobs), _FIELDS)
_BY_ID = Statement(select(dream_jobs).where(dream_jobs.c.id == bindparam("of")))


class DreamJobs:
    """Dreams over memory folders and banks. One over each is open at a time."""

    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold

    async def add(self, job: DreamJob) -> bool:
        """Add an open dream; return False if another one over the same folder or bank is open."""
        return await self._run(lambda connection: _ADD.execute(connection, _values(job)) == 1)

    async def save(self, now: DreamJob, *, origin: Collection[DreamJobStatus]) -> bool:
        """Write the dream if its stored status is one of `origin`; return whether it was."""
        statement = (
            update(dream_jobs)
            .where(dream_jobs.c.id == now.id, dream_jobs.c.status.in_([status.value for status in origin]))
            .values(_values(now))
        )
        return await self._run(lambda connection: connection.execute(statement).rowcount == 1)

    async def get(self, dream_id: DreamId) -> DreamJob | None:
        row = await self._run(lambda connection: _BY_ID.first(connection, {"of": dream_id}))
        return None if row is None else _job(row)

    async def find_all(
        self,
        *,
        statuses: Collection[DreamJobStatus] = (),
        source: DreamSource | None = None,
        name: str | None = None,
        before: DreamId | None = None,
        limit: int = 100,
    ) -> Sequence[DreamJob]:
        """Return dreams of these statuses (all without any), the newest first."""
        statement = select(dream_jobs).order_by(dream_jobs.c.id.desc()).limit(limit)
        if statuses:
            statement = statement.where(dream_jobs.c.status.in_([status.value for status in statuses]))
        if source is not None:
            statement = statement.where(dream_jobs.c.source == source.value)
        if name is not None:
            statement = statement.where(dream_jobs.c.name == name)
        if before is not None:
            statement = statement.where(dream_jobs.c.id < before)

        def work(connection: Connection) -> Sequence[DreamJob]:
            return [_job(row) for row in connection.execute(statement).all()]

        return await self._run(work)


def _values(job: DreamJob) -> dict[str, Any]:
    return {**asdict(job), "source": job.source.value, "status": job.status.value}


def _job(row: Row[Any]) -> DreamJob:
    values: dict[str, Any] = {name: getattr(row, name) for name in _FIELDS}
    values["source"], values["status"] = DreamSource(row.source), DreamJobStatus(row.status)
    return DreamJob(**values)
