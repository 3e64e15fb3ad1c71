"""What every store promises of dreams that were asked for."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from circadia.ids import DreamId
from circadia.records.dream_job import OPEN_DREAMS, DreamJob, DreamJobStatus, DreamSource
from circadia.records.retention import RetentionKind
from circadia.stores.base import Store
from tests.contract.rows import expire

pytestmark = pytest.mark.spec("DREAM-31")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(number: int, name: str = "app", source: DreamSource = DreamSource.FOLDER) -> DreamJob:
    return DreamJob(
        id=DreamId(f"drm_{number}"), source=source, name=name, mode="propose", instructions="ports, é and 漢",
        by="operator", status=DreamJobStatus.PENDING, created_at=NOW + timedelta(seconds=number),
    )  # fmt: skip


async def test_one_dream_over_each_folder_and_bank_is_open_at_a_time(store: Store) -> None:
    async with store.begin_write() as tx:
        assert await tx.dream_jobs.add(job(1))
        assert not await tx.dream_jobs.add(job(2))
        assert await tx.dream_jobs.add(job(3, source=DreamSource.BANK))
        assert await tx.dream_jobs.add(job(4, name="other"))
        done = replace(job(1), status=DreamJobStatus.COMPLETED, ended_at=NOW)
        assert await tx.dream_jobs.save(done, origin=OPEN_DREAMS)
        assert await tx.dream_jobs.add(job(5))


async def test_a_dream_that_has_ended_is_not_written_again(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.dream_jobs.add(job(1))
    running = replace(job(1), status=DreamJobStatus.RUNNING, pass_id="pas_1")
    ended = replace(
        running, status=DreamJobStatus.FAILED, ended_at=NOW, error="why", output="x", report={"files": ["a.md"], "n": 1}
    )
    async with store.begin_write() as tx:
        assert await tx.dream_jobs.save(running, origin=[DreamJobStatus.PENDING])
        assert not await tx.dream_jobs.save(running, origin=[DreamJobStatus.PENDING])
        assert await tx.dream_jobs.save(ended, origin=OPEN_DREAMS)
        assert not await tx.dream_jobs.save(running, origin=OPEN_DREAMS)
        assert not await tx.dream_jobs.save(job(9), origin=OPEN_DREAMS)
    async with store.begin_read() as tx:
        assert await tx.dream_jobs.get(DreamId("drm_1")) == ended
        assert await tx.dream_jobs.get(DreamId("drm_9")) is None


async def test_dreams_are_listed_newest_first_by_status_and_place_and_purged_when_old(store: Store) -> None:
    async with store.begin_write() as tx:
        for number in range(1, 4):
            added = job(number)
            await tx.dream_jobs.add(added)
            if number < 3:
                ended = replace(added, status=DreamJobStatus.COMPLETED, ended_at=added.created_at)
                await tx.dream_jobs.save(ended, origin=OPEN_DREAMS)
        await tx.dream_jobs.add(job(4, name="other"))
    async with store.begin_read() as tx:

        async def ids(**asked: object) -> list[str]:
            return [found.id[-1] for found in await tx.dream_jobs.find_all(**asked)]  # pyright: ignore[reportArgumentType]

        assert await ids() == ["4", "3", "2", "1"]
        assert await ids(statuses=OPEN_DREAMS) == ["4", "3"]
        assert await ids(source=DreamSource.FOLDER, name="app", limit=2) == ["3", "2"]
        assert await ids(before=DreamId("drm_3")) == ["2", "1"]
        assert await ids(source=DreamSource.BANK) == []
    async with store.begin_write() as tx:
        assert await expire(tx, NOW + timedelta(seconds=2), RetentionKind.DREAM_JOBS) == 1
        assert await tx.dream_jobs.get(DreamId("drm_1")) is None
        assert len(await tx.dream_jobs.find_all()) == 3
