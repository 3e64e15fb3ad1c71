"""Asks for dreams over memory folders and banks, and moves them from status to status (DREAM-31)."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import Conflict, NotFound
from circadia.ids import DreamId, IdSource
from circadia.records.bank import Bank
from circadia.records.dream_job import (
    OPEN_DREAMS,
    DreamJob,
    DreamJobStatus,
    DreamMode,
    DreamReview,
    DreamSource,
    ReviewKind,
)
from circadia.records.event import DreamChange, DreamReviewChange, EventType
from circadia.settings.sleeptime import DreamSettings
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.suggestions import did_you_mean

DREAM_TOPIC: Final = "dream"
MAX_NAME: Final = 128
"""Longest name of a bank."""
MAX_REVIEWS: Final = 50
"""Decisions that a dream keeps."""
MAX_NAMED: Final = 100
"""Files that an event names."""


class DreamRequests:
    """The only writer of dream jobs."""

    def __init__(self, clock: Clock, ids: IdSource, events: EventLog, folders: Mapping[str, DreamSettings]) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events
        self.folders = folders

    def get_folder(self, name: str) -> DreamSettings:
        """Return the settings of a folder. Raises NotFound."""
        try:
            return self.folders[name]
        except KeyError:
            hint = did_you_mean(name, self.folders) or "; name it in section `dreams` of circadia.yaml"
            raise NotFound(f"no memory folder {name!r}{hint}") from None

    async def request_folder(
        self, tx: Tx, name: str, mode: DreamMode | None, instructions: str, *, by: str
    ) -> DreamJob:
        """Ask for a dream over a folder, in the mode of its settings by default.

        Raises:
            NotFound: no such folder. Conflict: a dream over it is open.
        """
        folder = self.get_folder(name)
        job = self._build(
            DreamSource.FOLDER, name, mode=mode or DreamMode(folder.mode), instructions=instructions, by=by
        )
        return await self._add(tx, job)

    async def request_bank(self, tx: Tx, bank: Bank, instructions: str, *, by: str) -> DreamJob:
        """Ask for a dream over a bank, into a new bank. Raises Conflict: a dream over it is open."""
        job = self._build(DreamSource.BANK, bank.name, mode="", instructions=instructions, by=by)
        ending = f"-dream-{job.id[-8:]}"
        return await self._add(tx, replace(job, output=bank.name[: MAX_NAME - len(ending)] + ending))

    async def get(self, tx: Tx, dream_id: str) -> DreamJob:
        """Return a dream. Raises NotFound."""
        job = await tx.dream_jobs.get(DreamId(dream_id))
        if job is None:
            raise NotFound(f"no dream {dream_id!r}; `GET /dreams` lists them")
        return job

    async def cancel(self, tx: Tx, job: DreamJob, *, by: str) -> DreamJob:
        """End an open dream; what it has written stays. Raises Conflict: it has ended."""
        moved = await self.move(tx, job, DreamJobStatus.CANCELED, event_by=by)
        if moved is None:
            raise Conflict(f"dream {job.id!r} has ended already")
        return moved

    async def review(
        self, tx: Tx, job: DreamJob, act: ReviewKind, files: Collection[str], *, by: str, waits: bool
    ) -> DreamJob:
        """Record what somebody decided on the changes of a dream, also at the others with the same changes."""
        done = DreamReview(act=act, by=by, at=self._clock.now(), files=tuple(sorted(files)))
        for each in await tx.dream_jobs.find_all(source=job.source, name=job.name, entry=job.pass_id):
            reviewed = replace(each, waits=waits and each.waits, reviews=(*each.reviews, done)[-MAX_REVIEWS:])
            await tx.dream_jobs.save(reviewed, origin=[each.status])
            job = reviewed if each.id == job.id else job
        data = DreamReviewChange(dream=job.id, name=job.name, act=act.value, files=list(done.files[:MAX_NAMED]), by=by)
        await self._events.record(tx, EventType.REVIEWED, data)
        return job

    async def settle(self, tx: Tx, job: DreamJob) -> None:
        """Record that nothing of a dream waits any more, though nobody has decided on it here."""
        if job.waits and await tx.dream_jobs.save(replace(job, waits=False), origin=[job.status]):
            await self._announce(tx, job, job.by)

    async def move(
        self, tx: Tx, job: DreamJob, status: DreamJobStatus, *, event_by: str = "", **changes: Any
    ) -> DreamJob | None:
        """Write a new status; return None if the dream has ended meanwhile."""
        ended_at = None if status in OPEN_DREAMS else self._clock.now()
        moved = replace(job, status=status, ended_at=ended_at, **changes)
        if not await tx.dream_jobs.save(moved, origin=OPEN_DREAMS):
            return None
        if status is not job.status:
            await self._announce(tx, moved, event_by or job.by)
        return moved

    def _build(self, source: DreamSource, name: str, *, mode: str, instructions: str, by: str) -> DreamJob:
        return DreamJob(
            id=DreamId(self._ids.new("drm")), source=source, name=name, mode=mode, instructions=instructions, by=by,
            status=DreamJobStatus.PENDING, created_at=self._clock.now(),
        )  # fmt: skip

    async def _add(self, tx: Tx, job: DreamJob) -> DreamJob:
        if not await tx.dream_jobs.add(job):
            open_jobs = await tx.dream_jobs.find_all(statuses=OPEN_DREAMS, source=job.source, name=job.name, limit=1)
            which = f"dream {open_jobs[0].id!r}" if open_jobs else "another dream"
            raise Conflict(f"{which} over {job.source.value} {job.name!r} has not ended; wait for it, or cancel it")
        await self._announce(tx, job, job.by)
        return job

    async def _announce(self, tx: Tx, job: DreamJob, by: str) -> None:
        data = DreamChange.model_validate({
            "dream": job.id, "source": job.source, "name": job.name, "status": job.status, "by": by,
            **({"detail": detail} if (detail := job.error or str(job.report.get("text", ""))) else {}),
        })  # fmt: skip
        await self._events.record(tx, EventType.DREAM, data)
        self._events.signal(tx, DREAM_TOPIC, job.id, {"status": job.status.value})
