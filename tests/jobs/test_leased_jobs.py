"""A process keeps its jobs as long as it renews their leases."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import pytest

from circadia.errors import Conflict, InvalidRequest, StorageUnavailable
from circadia.ids import BankId, PassId
from circadia.jobs.leased_jobs import LeasedJobs
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.stores.base import Store, Tx
from circadia.testing.clock import ManualClock

LEASE_SECONDS = 15.0


class Rows:
    """One claimed row, which is its own store."""

    def __init__(self, clock: ManualClock) -> None:
        self.row = Pass(
            id=PassId("p1"), bank_id=BankId("b1"), trigger=Trigger.HAND, status=PassStatus.RUNNING, epoch=1,
            owner="dead", created_at=clock.now(), lease_until=clock.now(),
        )  # fmt: skip
        self.away = False
        self.requeued: list[PassId] = []

    def begin_read(self) -> AbstractAsyncContextManager[Any]:
        if self.away:
            raise StorageUnavailable("away", retry_after_seconds=1.0)
        return nullcontext(self)

    begin_write = begin_read

    async def get(self, key: PassId) -> Pass | None:
        return self.row

    async def find_claimed(self) -> list[Pass]:
        return [self.row]

    async def renew_leases(self, owner: str, until: datetime) -> None:
        self.row = replace(self.row, lease_until=until)

    async def has_startable(self, now: datetime) -> bool:
        return False

    async def claim(
        self, owner: str, *, now: datetime, until: datetime, limit: int, since: datetime | None = None
    ) -> Sequence[Pass]:
        return ()

    async def hold(self, _: Tx, run: Pass) -> None:
        pass

    async def requeue(self, _: Tx, run: Pass) -> None:
        self.requeued.append(run.id)

    async def fail(self, _: Tx, run: Pass, detail: str) -> Pass:
        self.row = replace(run, status=PassStatus.FAILED, detail=detail)
        return self.row


def jobs_of(clock: ManualClock, rows: Rows) -> LeasedJobs[Pass]:
    def kind(_: Tx) -> Rows:
        return rows

    return LeasedJobs[Pass](
        clock, cast("Store", rows), kind, rows.requeue, rows.hold, rows.fail, name="a test", owner="me", alone=False
    )


@pytest.mark.parametrize(("renewed", "requeued"), [(False, ["p1"]), (True, [])])
async def test_only_a_lease_that_is_not_renewed_for_15_seconds_is_recovered(renewed: bool, requeued: list[str]) -> None:
    rows = Rows(clock := ManualClock())
    jobs = jobs_of(clock, rows)
    await jobs.recover()
    clock.advance(LEASE_SECONDS)
    if renewed:
        await rows.renew_leases("dead", clock.now())
    await jobs.recover()
    assert rows.requeued == requeued


async def test_time_without_the_database_does_not_count() -> None:
    rows = Rows(clock := ManualClock())
    jobs = jobs_of(clock, rows)
    await jobs.recover()
    clock.advance(LEASE_SECONDS)
    rows.away = True
    assert not await jobs.run_guarded(jobs.recover)
    rows.away = False
    await jobs.recover()
    assert rows.requeued == []


async def test_the_result_of_an_older_epoch_is_refused() -> None:
    rows = Rows(clock := ManualClock())
    written: list[Pass] = []

    async def act(_: Tx, present: Pass) -> Pass:
        written.append(present)
        return present

    for epoch in (0, 1):
        await jobs_of(clock, rows).write_result(replace(rows.row, epoch=epoch), act)
    assert [each.epoch for each in written] == [1]


@pytest.mark.spec("LARGE-132")
@pytest.mark.parametrize(("error", "tries"), [(InvalidRequest("a NUL"), 1), (Conflict("a key"), 5), (KeyError(1), 5)])
async def test_a_result_that_can_never_be_written_is_given_up(
    error: Exception, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    rows = Rows(clock := ManualClock())
    failed = 0

    async def act(_: Tx, present: Pass) -> Pass:
        nonlocal failed
        failed += 1
        raise error

    writing = asyncio.create_task(jobs_of(clock, rows).write_result(rows.row, act))
    for _ in range(tries - 1):
        await clock.wait_for_sleepers(1)
        clock.advance(1)
    await writing
    assert failed == tries
    assert (rows.row.status, rows.row.detail) == (PassStatus.FAILED, "its result cannot be stored; see the log")
    assert "the result of p1 is given up; the job fails" in caplog.messages


@pytest.mark.spec("LARGE-132")
async def test_a_result_waits_for_a_database_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    rows = Rows(clock := ManualClock())
    rows.away = True

    async def act(_: Tx, present: Pass) -> Pass:
        return replace(present, status=PassStatus.SUCCEEDED)

    writing = asyncio.create_task(jobs_of(clock, rows).write_result(rows.row, act))
    for _ in range(100):
        await clock.wait_for_sleepers(1)
        clock.advance(1)
    rows.away = False
    written = await writing
    assert written is not None
    assert written.status is PassStatus.SUCCEEDED


async def test_a_job_that_begins_while_the_leases_are_read_goes_on_and_one_that_was_taken_over_stops() -> None:
    rows = Rows(clock := ManualClock())
    jobs, go_on = jobs_of(clock, rows), asyncio.Event()

    async def work() -> None:
        await go_on.wait()

    async def read_then_begin() -> list[Pass]:
        jobs.start("p2", work())  # claimed after this read
        return []

    taken_over = jobs.start("p1", work())
    rows.find_claimed = read_then_begin
    await jobs.renew_leases()
    with pytest.raises(asyncio.CancelledError):
        await taken_over
    begun = jobs.running["p2"]
    go_on.set()
    await begun
    assert list(jobs.running) == []
