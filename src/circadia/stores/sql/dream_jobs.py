"""Dreams that were asked for."""

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Final

from sqlalchemy import JSON, Boolean, Column, Index, String, Table, Text, bindparam, false, func, select, text, update

from circadia.ids import DreamId
from circadia.records.dream_job import DreamJob, DreamJobStatus, DreamReview, DreamSource, ReviewKind
from circadia.stores.sql.noun import Noun, where_given
from circadia.stores.sql.row_mapping import build_reader, build_writer
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
    Column("waits", Boolean, nullable=False, server_default=false()),
    Column("reviews", JSON, nullable=False, server_default=text("'[]'")),
)
Index("dream_jobs_open", dream_jobs.c.source, dream_jobs.c.name, unique=True, **only("ended_at IS NULL"))
Index("dream_jobs_ended", dream_jobs.c.ended_at, **only("ended_at IS NOT NULL"))
Index("dream_jobs_waits", dream_jobs.c.id, **only("waits"))
Index("dream_jobs_entry", dream_jobs.c.pass_id)
Index("dream_jobs_name", dream_jobs.c.source, dream_jobs.c.name, dream_jobs.c.id)

_FIELDS: Final = tuple(field.name for field in fields(DreamJob))
_read_job = build_reader(
    DreamJob,
    reviews=lambda reviews: tuple(
        DreamReview(
            act=ReviewKind(each["act"]), by=each["by"], at=datetime.fromisoformat(each["at"]),
            files=tuple(each["files"]),
        )
        for each in reviews
    ),
)  # fmt: skip
_write_job = build_writer(
    _FIELDS,
    reviews=lambda job: [
        {"act": each.act.value, "by": each.by, "at": each.at.isoformat(), "files": list(each.files)}
        for each in job.reviews
    ],
)  # fmt: skip
_ADD = Statement(Upsert(dream_jobs), _FIELDS)
_SELECT = Statement(select(dream_jobs).where(dream_jobs.c.id == bindparam("of")), read=_read_job)

_IS_WAITING = text("dream_jobs.waits")
"""In the form of the index: SQLite uses a partial index only if the statement shows that its condition holds."""


class DreamJobs(Noun):
    """Dreams over memory folders and banks. One over each is open at a time."""

    async def add(self, job: DreamJob) -> bool:
        """Add an open dream; return False if another one over the same folder or bank is open."""
        return await self._write(_ADD, _write_job(job)) == 1

    async def save(self, now: DreamJob, *, origin: Collection[DreamJobStatus]) -> bool:
        """Write the dream if its stored status is one of `origin`; return whether it was."""
        statement = (
            update(dream_jobs)
            .where(dream_jobs.c.id == now.id, dream_jobs.c.status.in_([status.value for status in origin]))
            .values(dict(zip(_FIELDS, _write_job(now), strict=True)))
        )
        return await self._run(lambda connection: connection.execute(statement).rowcount == 1)

    async def get(self, dream_id: DreamId) -> DreamJob | None:
        return await self._first(_SELECT, {"of": dream_id})

    async def find_all(
        self,
        *,
        statuses: Collection[DreamJobStatus] = (),
        source: DreamSource | None = None,
        name: str | None = None,
        entry: str | None = None,
        waits: bool = False,
        before: DreamId | None = None,
        limit: int = 100,
    ) -> Sequence[DreamJob]:
        """Return dreams of these statuses (all without any), the newest first.

        `entry` is their pass or changeset; with `waits`, only dreams whose changes wait for a person.
        """
        statement = select(dream_jobs).order_by(dream_jobs.c.id.desc()).limit(limit)
        if statuses:
            statement = statement.where(dream_jobs.c.status.in_([status.value for status in statuses]))
        statement = where_given(statement, (dream_jobs.c.source, source), (dream_jobs.c.name, name))
        statement = where_given(statement, (dream_jobs.c.pass_id, entry))
        if waits:
            statement = statement.where(_IS_WAITING)
        if before is not None:
            statement = statement.where(dream_jobs.c.id < before)
        return await self._select(statement, _read_job)

    async def count_waiting(self) -> int:
        """Return how many dreams wait for a person."""
        statement = select(func.count()).select_from(dream_jobs).where(_IS_WAITING)
        return int(await self._run(lambda connection: connection.execute(statement).scalar_one()))
