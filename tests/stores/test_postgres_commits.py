"""When blocks on PostgreSQL give their keys back, seen while no commit reaches a disk."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, suppress

import pytest

from circadia.errors import StorageUnavailable
from circadia.stores.postgres import open_postgres
from circadia.stores.sql_store import SqlStore
from tests.contract.rows import agent, session, stored
from tests.contract.test_store_memory import BANK, episode
from tests.fixtures.postgres import PostgresServer

DATABASE = "circadia"
WRITERS = 8


@pytest.fixture
def server() -> Generator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
async def store(server: PostgresServer) -> AsyncIterator[SqlStore]:
    await server.execute(f"CREATE DATABASE {DATABASE}")
    store = await open_postgres(server.url(DATABASE), writers=WRITERS)
    async with store.begin_write() as tx:
        await tx.banks.add(BANK)
    yield store
    await store.close()


@asynccontextmanager
async def hanging_commits(server: PostgresServer) -> AsyncGenerator[None]:
    """Have each commit wait for a standby that does not exist."""
    await server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    await server.execute("SELECT pg_reload_conf()")
    while await server.execute("SHOW synchronous_standby_names") != "nobody":
        await asyncio.sleep(0)
    try:
        yield
    finally:
        await server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        await server.execute("SELECT pg_reload_conf()")


async def read_episodes(store: SqlStore) -> list[str]:
    async with store.begin_read() as tx:
        return [found.id for found in await tx.episodes.find_all(BANK.id)]


@pytest.mark.spec("CLU-108")
async def test_writers_into_one_bank_wait_for_the_disk_together(server: PostgresServer, store: SqlStore) -> None:
    async def append(name: str) -> None:
        async with store.begin_write() as tx:
            await tx.episodes.add(episode(name))
            await tx.banks.touch(BANK.id, BANK.created_at)

    names = [f"e{number}" for number in range(WRITERS)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        async with hanging_commits(server):
            writers = [tasks.create_task(append(name)) for name in names]
            while sorted(await read_episodes(store)) != names:
                await asyncio.sleep(0.01)
            assert not any(writer.done() for writer in writers)  # none is acknowledged before it is on the disk


@pytest.mark.spec("CLU-108")
async def test_who_reads_an_episode_before_it_is_on_the_disk_is_answered_afterwards(
    server: PostgresServer, store: SqlStore
) -> None:
    async def append() -> None:
        async with store.begin_write() as tx:
            if await tx.episodes.get(BANK.id, episode("said").id) is None:
                await tx.episodes.add(episode("said"))

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        async with hanging_commits(server):
            writers = [tasks.create_task(append())]
            while not await read_episodes(store):
                await asyncio.sleep(0.01)
            writers.append(tasks.create_task(append()))
            await wait_for_commits(server, 2)
            assert not any(writer.done() for writer in writers)
    assert await read_episodes(store) == ["said"]


@pytest.mark.spec("CLU-108")
async def test_an_agent_is_held_until_its_change_is_on_the_disk(server: PostgresServer, store: SqlStore) -> None:
    """A call may be let through for it, which nothing takes back."""
    await stored(store, session(), agent("ann"))

    async def touch() -> None:
        async with store.begin_write() as tx:
            await tx.agents.get(agent("ann").id)
            await tx.episodes.add(episode("said"))

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        async with hanging_commits(server):
            tasks.create_task(touch())
            await wait_for_commits(server, 1)
            assert await read_episodes(store) == []


async def wait_for_commits(server: PostgresServer, number: int) -> None:
    """Return once so many commits wait for the standby."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    while await server.execute(waiting) < number:
        await asyncio.sleep(0.01)


@pytest.mark.spec("CLU-21")
async def test_a_crash_of_one_of_the_databases_processes_counts_as_its_restart(
    server: PostgresServer, store: SqlStore
) -> None:
    """All of them start over, and what was not on the disk yet is lost: numbers may be used again."""

    async def read_start() -> object:
        async with store.begin_single_read() as tx:
            return (await tx.due_work.find(BANK.created_at, fleet_rule="fleet")).server_start

    before = await read_start()
    assert await read_start() == before
    process = await server.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
    os.kill(process, signal.SIGKILL)
    async with asyncio.timeout(60):
        after = before
        while after == before:
            with suppress(StorageUnavailable):
                after = await read_start()
