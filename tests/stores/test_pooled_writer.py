"""Write blocks on PostgreSQL: which of them run at the same time, and how many connections those that wait take."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from circadia.errors import StorageUnavailable
from circadia.ids import AgentId
from circadia.stores.base import Store
from circadia.stores.locks import LockKey, LockRank, agent_key
from circadia.stores.postgres import open_postgres
from circadia.stores.sql.link import OpeningStatements, Work, do_nothing
from circadia.stores.sql.link_pool import LinkPool
from circadia.stores.sql.pooled_writer import PooledWriter
from circadia.stores.sql_store import SqlStore
from tests.contract.rows import agent, event, session, stored, tags
from tests.contract.test_parallel_writers import count_deadlocks

T = TypeVar("T")
ANN, BOB = agent("ann"), agent("bob")


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    store = await open_postgres(postgres_url)
    yield store
    await store.close()


@pytest.mark.spec("CLU-01")
async def test_blocks_without_a_common_key_run_at_the_same_time(store: Store) -> None:
    await stored(store, session(), ANN, BOB)
    both = asyncio.Barrier(2)

    async def meet(key: AgentId) -> None:
        async with store.begin_write() as tx:
            found = await tx.agents.get(key)
            assert found is not None
            await both.wait()  # each waits inside its block for the other
            await tx.agents.save(replace(found, description="met"))
            await both.wait()

    async with asyncio.timeout(10):
        await asyncio.gather(meet(ANN.id), meet(BOB.id))


@pytest.mark.spec("CLU-01")
async def test_keys_that_are_taken_in_both_orders_fail_one_block_and_deadlock_none(store: Store) -> None:
    both = asyncio.Barrier(2)

    async def take(first: str, second: str) -> None:
        async with store.begin_write() as tx:
            await tx.hold(LockKey(LockRank.AGENT, first))
            await tx.events.last_number()
            await both.wait()
            await tx.hold(LockKey(LockRank.AGENT, second))

    results = await asyncio.gather(take("ann", "bob"), take("bob", "ann"), return_exceptions=True)
    assert Counter(type(result) for result in results) == {type(None): 1, StorageUnavailable: 1}
    (failed,) = [result for result in results if isinstance(result, StorageUnavailable)]
    assert failed.message == "another request is changing the same agent, thread or bank; send this one again"
    assert await count_deadlocks(store) == 0
    assert isinstance(store, SqlStore)
    assert store.writer.failure is None  # the database works


async def test_a_task_that_was_cancelled_in_a_block_may_clean_up_in_another(store: Store) -> None:
    """The first block may still be ending, since a commit is not cut short."""
    await stored(store, session(), ANN)
    has_read = asyncio.Event()

    async def work() -> None:
        try:
            async with store.begin_write() as tx:
                await tx.agents.get(ANN.id)
                has_read.set()
                await asyncio.Event().wait()
        finally:
            async with store.begin_write() as tx:
                await tx.events.add([event("cleaned")])

    task = asyncio.create_task(work())
    await has_read.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await tags(store) == ["cleaned"]


async def test_many_blocks_that_wait_for_one_key_leave_the_connections_to_others(store: Store) -> None:
    await stored(store, session(), ANN, BOB)
    may_end, has_begun = asyncio.Event(), asyncio.Event()

    async def occupy() -> None:
        async with store.begin_write(agent_key(ANN.id)) as tx:
            await tx.agents.get(ANN.id)
            has_begun.set()
            await may_end.wait()

    async def wait_for_ann() -> None:
        async with store.begin_write(agent_key(ANN.id)) as tx:
            await tx.agents.get(ANN.id)

    first = asyncio.create_task(occupy())
    await has_begun.wait()
    waiting = [asyncio.create_task(wait_for_ann()) for _ in range(100)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5), store.begin_write(agent_key(BOB.id)) as tx:
        assert await tx.agents.get(BOB.id) == BOB
    may_end.set()
    await asyncio.gather(first, *waiting)


class BrokenLink:
    """A connection whose commits fail, and which cannot even be closed."""

    async def run(
        self, work: Work[T], *, first: Sequence[str] = (), opens: bool = False, short: bool | None = None
    ) -> T:
        if "COMMIT" in first:
            raise StorageUnavailable("the database is gone")
        return None  # pyright: ignore[reportReturnType]

    def roll_back(self) -> None: ...

    async def drop(self) -> None:
        raise OSError("the connection does not close")


async def test_a_connection_that_cannot_be_closed_is_given_back_with_its_keys() -> None:
    writer = PooledWriter(LinkPool(BrokenLink, size=1), OpeningStatements(write=("BEGIN",), read=()))
    for _ in range(2):  # the second block gets the only connection and the key
        async with asyncio.timeout(5):
            with pytest.raises(OSError, match="does not close"):
                async with writer.begin([agent_key(ANN.id)]) as block:
                    await block.run(do_nothing)


@pytest.mark.spec("CLU-24")
async def test_a_process_that_stands_still_in_a_statement_holds_up_others_for_two_seconds(
    store: Store, postgres_url: str
) -> None:
    """Between preparing a statement and running it, it is not idle for PostgreSQL, which would wait forever."""
    engine = create_async_engine(
        "postgresql+asyncpg://",
        connect_args={"dsn": postgres_url, "server_settings": {"application_name": "circadia"}},
        isolation_level="AUTOCOMMIT",
    )
    async with engine.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await driver.execute(f"BEGIN; SELECT pg_advisory_xact_lock({agent_key(ANN.id).number})")
        await driver.prepare("SELECT 1")
        began = asyncio.get_running_loop().time()
        async with store.begin_write(agent_key(ANN.id)) as tx:
            await tx.events.last_number()
        assert asyncio.get_running_loop().time() - began < 5  # without help the block fails after ten
        async with asyncio.timeout(5):  # the end of the connection may arrive after its lock is free
            while not driver.is_closed():
                await asyncio.sleep(0.01)
    await engine.dispose()
