"""What every store promises of write blocks that run at the same time, in one process and in several."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from circadia.ids import AgentId, BankId
from circadia.records.pulse import PulseStatus
from circadia.stores.base import Store
from circadia.stores.locks import agent_key, bank_key
from circadia.stores.sql.database import SqlStore
from circadia.stores.sql.pooled_writer import PooledWriter
from tests.contract.conftest import Database, Opener
from tests.contract.rows import agent, at, event, number_events, put, session, stored, tags
from tests.contract.test_store_wakes import kept
from tests.contract.wake_rows import pulse

ANN, BOB = agent("ann"), agent("bob")
WORKERS = 50


@pytest.mark.spec("CLU-01")
async def test_blocks_with_a_common_key_run_one_after_the_other_and_see_each_other(open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]
    await stored(stores[0], session(), ANN)

    async def add_mark(number: int) -> None:
        async with stores[number % 2].begin_write() as tx:
            found = await tx.agents.get(ANN.id)
            assert found is not None
            await asyncio.sleep(0)  # whoever could come between does
            await tx.agents.save(replace(found, description=f"{found.description}x"))

    await asyncio.gather(*(add_mark(number) for number in range(40)))
    async with stores[0].begin_read() as tx:
        found = await tx.agents.get(ANN.id)
    assert found is not None
    assert found.description == "x" * 40


@pytest.mark.spec("CLU-01")
async def test_a_name_is_read_again_once_its_agent_is_held(database: Database, open_store: Opener) -> None:
    """A block that had to wait for an agent sees what the other has made of it."""
    store, elsewhere = await open_store(), await open_store()
    await stored(store, session(), ANN)
    may_end, has_begun = asyncio.Event(), asyncio.Event()

    async def describe() -> None:
        async with store.begin_write() as tx:
            found = await tx.agents.get(ANN.id)
            assert found is not None
            await tx.agents.save(replace(found, description="new"))
            has_begun.set()
            await may_end.wait()

    async def disable() -> None:
        async with elsewhere.begin_write() as tx:
            found = await tx.agents.get_by_name(ANN.session_id, "ann")
            assert found is not None
            await tx.agents.save(replace(found, enabled=False))

    first = asyncio.create_task(describe())
    await has_begun.wait()
    second = asyncio.create_task(disable())
    while database.dialect == "postgres" and not await count(
        store, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    ):
        await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(first, second)
    async with store.begin_read() as tx:
        found = await tx.agents.get(ANN.id)
    assert found is not None
    assert (found.description, found.enabled) == ("new", False)


@pytest.mark.spec("CLU-01")
async def test_keys_named_together_are_taken_in_one_order(database: Database, open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]
    keys = [agent_key(AgentId(f"agt_{number}")) for number in range(6)] + [bank_key(BankId("bnk"))]

    async def block(number: int) -> None:
        turned = keys[number % 7 :] + keys[: number % 7]
        if number % 2:
            async with stores[0].begin_write(*turned) as tx:
                await tx.events.add([event(number)])
        else:
            async with stores[1].begin_write() as tx:
                await tx.hold(*turned)
                await tx.events.add([event(number)])

    async with asyncio.timeout(30):
        await asyncio.gather(*(block(number) for number in range(60)))
    assert sorted(map(str, await tags(stores[0]))) == sorted(map(str, range(60)))
    for store in stores:
        assert await count_deadlocks(store) == 0


@pytest.mark.spec("CLU-03")
async def test_an_event_written_first_and_committed_last_is_missed_by_nobody(open_store: Opener) -> None:
    """The reader has seen what was written later; then the earlier block commits."""
    store = await open_store()
    is_sequential = store.commits_in_order
    may_end, has_written = asyncio.Event(), asyncio.Event()

    async def late() -> None:
        async with store.begin_write() as tx:
            await tx.events.add([event("late")])
            await tx.events.last_number()  # sends it
            has_written.set()
            await may_end.wait()

    slow = asyncio.create_task(late())
    await has_written.wait()
    quick = asyncio.create_task(put(store, "quick"))
    if not is_sequential:
        await quick
    await number_events(store) if not is_sequential else None
    async with store.begin_read() as tx:
        seen = await tx.events.find_after(0)
    may_end.set()
    await asyncio.gather(slow, quick)
    await number_events(store)
    async with store.begin_read() as tx:
        rest = await tx.events.find_after(seen[-1].number if seen else 0)
    order = ["late", "quick"] if is_sequential else ["quick", "late"]
    assert [found.data["tag"] for found in (*seen, *rest)] == order


@pytest.mark.spec("CLU-03")
async def test_events_of_a_process_that_died_before_it_numbered_them_are_numbered_by_another(
    open_store: Opener,
) -> None:
    first = await open_store()
    await put(first, 1)
    await first.close()
    second = await open_store()
    async with second.begin_read() as tx:
        assert await tx.events.has_unnumbered() is not second.commits_in_order
    await put(second, 2)
    assert await tags(second) == [1, 2]
    async with second.begin_read() as tx:
        assert not await tx.events.has_unnumbered()


@pytest.mark.spec("CLU-05")
async def test_fifty_workers_claim_each_job_once_and_leave_none(open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]
    jobs = 200
    await kept(stores[0], *(pulse(f"p{number:03}", ANN, seconds=number) for number in range(jobs)))
    claimed: Counter[str] = Counter()
    empty = 0

    async def work(worker: int) -> None:
        nonlocal empty
        while claimed.total() < jobs:
            async with stores[worker % 2].begin_write() as tx:
                new = await tx.pulses.claim(f"w{worker}", now=at(999), until=at(1_020), limit=4)
            claimed.update(job.id for job in new)
            empty += not new
            assert all((job.status, job.epoch, job.owner) == (PulseStatus.PENDING, 1, f"w{worker}") for job in new)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(worker) for worker in range(WORKERS)))
    assert sorted(claimed.elements()) == [f"p{number:03}" for number in range(jobs)]
    assert empty <= 2 * jobs
    async with stores[0].begin_write() as tx:  # a claim lapses with its lease
        assert await tx.pulses.claim("w", now=at(1_019), until=at(1_100), limit=9) == []
        again = await tx.pulses.claim("w", now=at(1_020), until=at(1_020) + timedelta(seconds=15), limit=1)
    assert [(job.id, job.epoch) for job in again] == [("p000", 2)]


async def count_deadlocks(store: Store) -> int:
    """Return the number of deadlocks that the database has found."""
    assert isinstance(store, SqlStore)
    if not isinstance(store.writer, PooledWriter):
        return 0
    return await count(store, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")


async def count(store: Store, question: str) -> int:
    """Return the number that the database answers."""
    assert isinstance(store, SqlStore)
    async with store.writer.begin(()) as block:
        return await block.run(lambda connection: connection.exec_driver_sql(question).scalar_one())
