"""A call that is held again is reserved by the same id: the end of its first reservation does not end it (GATE-66)."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from circadia.gateway.accounting.budget import CallBudgetGuard
from circadia.records.call import CallStatus
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sql.pooled_writer import PooledBlock
from circadia.stores.sqlite import open_sqlite
from circadia.testing.clock import ManualClock
from tests.contract.rows import agent, call
from tests.fixtures.database_file import put_database

ADA = agent("ada")


class LateStore:
    """A store whose first block opens late."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.may_open = asyncio.Event()
        self._is_first = True

    @asynccontextmanager
    async def begin_write(self, *keys: Any) -> AsyncGenerator[Any]:
        if self._is_first:
            self._is_first = False
            await self.may_open.wait()
        async with self.store.begin_write(*keys) as tx:
            yield tx


@pytest.mark.spec("GATE-66", "WAKE-85")
async def test_a_reservation_is_made_after_the_former_one_of_its_id_has_ended(tmp_path: Path) -> None:
    store = await open_sqlite(put_database(tmp_path))
    try:
        late: Any = LateStore(store)
        clock = ManualClock()
        guard = CallBudgetGuard(clock, late, EventLog(clock, LocalSignals()))
        reserved = replace(call("c1", by=ADA, status=CallStatus.RESERVED), at=clock.now())
        guard.release(ADA, reserved.id)
        reserving = asyncio.create_task(guard.reserve(ADA, reserved))
        for _ in range(20):
            await asyncio.sleep(0)
        late.may_open.set()
        await reserving
        async with store.begin_read() as tx:
            assert await tx.calls.get(reserved.id) is not None
    finally:
        await store.close()


@pytest.mark.spec("GATE-66")
async def test_the_reservation_of_a_caller_who_leaves_during_its_commit_is_released(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_postgres(postgres_url)
    commit = PooledBlock._commit  # pyright: ignore[reportPrivateUsage]
    commits, other_commit = list[PooledBlock](), asyncio.Event()

    async def commit_late(block: PooledBlock) -> Any:
        commits.append(block)
        if len(commits) == 1:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):  # another one must wait for its end
                    await other_commit.wait()
            return await commit(block)
        failure = await commit(block)
        other_commit.set()
        return failure

    monkeypatch.setattr(PooledBlock, "_commit", commit_late)
    try:
        clock = ManualClock()
        guard = CallBudgetGuard(clock, store, EventLog(clock, LocalSignals()))
        reserved = replace(call("c1", by=ADA, status=CallStatus.RESERVED), at=clock.now())
        reserving = asyncio.create_task(guard.reserve(ADA, reserved))
        while not commits:
            await asyncio.sleep(0)
        reserving.cancel()
        await asyncio.wait((reserving,))
        guard.release(ADA, reserved.id)
        await asyncio.sleep(0)  # it waits for the agent's key
        again = replace(call("c2", by=ADA, status=CallStatus.RESERVED), at=clock.now())
        await guard.reserve(ADA, again)  # which needs the same key, and comes after it
        async with store.begin_read() as tx:
            assert await tx.calls.get(again.id) is not None
            assert await tx.calls.get(reserved.id) is None
    finally:
        await store.close()
