"""What is PostgreSQL's own: connections that are lost, and its settings."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, Select, select
from sqlalchemy.dialects import postgresql

from circadia.errors import InvalidRequest, StartError, StorageUnavailable
from circadia.ids import AgentId, BankId
from circadia.records.bank import Bank
from circadia.stores.postgres import open_postgres
from circadia.stores.sql.database import SqlStore
from circadia.stores.sql.index_delta import HEADS
from circadia.stores.sql.link import do_nothing
from circadia.stores.sql.memory_tables import banks
from tests.contract.rows import agent, put, sent, tags
from tests.contract.test_store_memory import BANK, episode
from tests.contract.wake_rows import pulse
from tests.fixtures.postgres import PostgresServer

CUT = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'circadia'"


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[SqlStore]:
    store = await open_postgres(postgres_url)
    yield store
    await store.close()


async def asked(store: SqlStore, question: str) -> Sequence[Any]:
    """Return the rows of the answer."""

    def work(connection: Connection) -> Sequence[Any]:
        found = connection.exec_driver_sql(question)
        return found.all() if found.returns_rows else ()

    try:
        return await store.writer.link.run(work, first=("BEGIN",), opens=True)
    finally:
        await store.writer.link.run(do_nothing, first=("COMMIT",))


def written(statement: Select[Any]) -> str:
    """Return it with its values written out."""
    return str(statement.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True}))


@pytest.mark.spec("GATE-92")
async def test_a_block_returns_when_the_log_is_on_the_disk_and_commits_do_not_wait(store: SqlStore) -> None:
    def asked(question: str) -> Callable[[Connection], object]:
        return lambda connection: connection.exec_driver_sql(question).scalar()

    async def answer(question: str) -> object:
        try:
            return await store.writer.link.run(asked(question), first=("BEGIN",), opens=True)
        finally:
            store.writer.link.roll_back()

    for tag in range(20):
        async with store.begin_write() as tx:
            await sent(tx, tag)
            assert await store.writer.link.run(asked("SHOW synchronous_commit")) == "off"
            written = await store.writer.link.run(asked("SELECT pg_current_wal_insert_lsn()::text"))
        assert await answer(f"SELECT pg_current_wal_flush_lsn() >= '{written}'") is True


async def test_what_was_committed_by_a_server_that_died_is_not_acknowledged_by_the_next(
    store: SqlStore, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync of the new server tells nothing of what the old one had not yet written."""
    await put(store, 1)
    link, sync, may_sync, asked = store.writer.link, store.writer.link.sync, asyncio.Event(), asyncio.Event()

    async def late() -> None:
        asked.set()
        await may_sync.wait()
        await sync()

    monkeypatch.setattr(link, "sync", late)
    unsure = asyncio.create_task(put(store, 2))
    await asked.wait()
    await postgres_server.execute(CUT)
    later = asyncio.create_task(put(store, 3))  # on new connections
    async with asyncio.timeout(60):
        while await tags(store) != [1, 2, 3]:
            await asyncio.sleep(0)
    may_sync.set()
    found = await asyncio.gather(unsure, later, return_exceptions=True)
    assert isinstance(found[0], StorageUnavailable)
    await put(store, 4)


async def test_a_server_that_was_restarted_is_used_again(store: SqlStore, postgres_server: PostgresServer) -> None:
    await put(store, 1)
    await tags(store)
    postgres_server.stop()
    try:
        for failing in (put(store, 2), tags(store), store.ping()):
            with pytest.raises(StorageUnavailable, match="PostgreSQL"):
                await failing
    finally:
        postgres_server.start()
    await store.ping()
    await put(store, 3)
    assert await tags(store) == [1, 3]


async def test_a_restart_that_nobody_noticed_costs_nothing(store: SqlStore, postgres_server: PostgresServer) -> None:
    await put(store, 1)
    await tags(store)
    postgres_server.stop()
    postgres_server.start()
    await put(store, 2)
    assert await tags(store) == [1, 2]


async def test_nor_does_it_cost_a_glance_anything(store: SqlStore, postgres_server: PostgresServer) -> None:
    async def bank() -> Bank | None:
        async with store.begin_single_read() as tx:
            return await tx.banks.get_by_name(BANK.name)

    async with store.begin_write() as tx:
        await tx.banks.add(BANK)
    assert await bank() == BANK
    postgres_server.stop()
    postgres_server.start()
    assert await bank() == BANK
    postgres_server.stop()
    try:
        with pytest.raises(StorageUnavailable, match="PostgreSQL"):
            await bank()
    finally:
        postgres_server.start()
    assert await bank() == BANK


async def test_a_connection_cut_under_a_block_fails_it_and_not_the_next(
    store: SqlStore, postgres_server: PostgresServer
) -> None:
    held, go_on, told = asyncio.Event(), asyncio.Event(), list[str]()

    async def first() -> None:
        async with store.begin_write() as tx:
            tx.after_commit(lambda: told.append("first"))
            await sent(tx, "first")
            held.set()
            await go_on.wait()
            await sent(tx, "first")

    task = asyncio.create_task(first())
    await held.wait()
    second = asyncio.create_task(put(store, "second"))
    await postgres_server.execute(CUT)
    go_on.set()
    with pytest.raises(StorageUnavailable):
        await task
    await second
    assert told == []
    assert await tags(store) == ["second"]


async def test_a_connection_cut_before_the_commit_fails_the_block(
    store: SqlStore, postgres_server: PostgresServer
) -> None:
    async def block() -> None:
        async with store.begin_write() as tx:
            await sent(tx, 1)
            await postgres_server.execute(CUT)

    with pytest.raises(StorageUnavailable):
        await block()
    assert await tags(store) == []
    await put(store, 2)
    assert await tags(store) == [2]


async def test_a_commit_that_the_server_turns_into_a_rollback_fails_the_block(store: SqlStore) -> None:
    """A transaction that has failed answers COMMIT with ROLLBACK, and not with an error."""

    async def block() -> None:
        async with store.begin_write() as tx:
            await sent(tx, 1)
            with pytest.raises(InvalidRequest):
                await store.writer.link.run(lambda connection: connection.exec_driver_sql("SELECT 1 / 0"))

    with pytest.raises(StorageUnavailable, match="rolled"):
        await block()
    await put(store, 2)
    assert await tags(store) == [2]


async def test_a_connection_cut_under_a_read_is_replaced(store: SqlStore, postgres_server: PostgresServer) -> None:
    await put(store, 1)
    async with store.begin_read() as tx:
        await tx.events.last_number()
        await postgres_server.execute(CUT)
        with pytest.raises(StorageUnavailable):
            await tx.events.last_number()
    assert await tags(store) == [1]


async def test_a_table_that_changed_under_a_prepared_statement_costs_one_try(
    store: SqlStore, postgres_server: PostgresServer, postgres_url: str
) -> None:
    async def last() -> int:
        async with store.begin_read() as tx:
            return await tx.events.last_number()

    await put(store, 1)
    assert await last() == 1
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    await postgres_server.execute("ALTER TABLE events ALTER COLUMN number TYPE integer", database=database)
    with pytest.raises(StorageUnavailable, match="cached statement"):
        await last()
    assert await last() == 1


async def test_statements_are_planned_anew_after_many_runs(store: SqlStore) -> None:
    """A plan from when the tables were small may read all of them when they have grown."""

    def named(connection: Connection) -> set[str]:
        found = connection.exec_driver_sql("SELECT name, statement FROM pg_prepared_statements").all()
        return {row.name for row in found if "max(events.number)" in row.statement}

    names: list[set[str]] = []
    async with store.begin_write() as tx:
        await sent(tx, 1)
        for runs in (1, 1_100):
            for _ in range(runs):
                assert await tx.events.last_number() == 1
            names.append(await store.writer.link.run(named))
    assert [len(each) for each in names] == [1, 1]
    assert names[0] != names[1]


async def test_a_statement_is_not_cut_short_with_its_caller(store: SqlStore) -> None:
    began, done = asyncio.Event(), list[str]()

    def slow(connection: Connection) -> None:
        began.set()
        connection.exec_driver_sql("SELECT pg_sleep(0.2)")
        done.append("slow")

    async def block() -> None:
        async with store.begin_write() as tx:
            await sent(tx, 1)
            await store.writer.link.run(slow)

    task = asyncio.create_task(block())
    await began.wait()
    task.cancel()
    await put(store, 2)
    assert task.cancelled()
    assert done == ["slow"]
    assert await tags(store) == [2]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:secret@127.0.0.1:1/none",
        "postgresql://someone:secret@[::1/none",
        "postgresql://someone:secret@127.0.0.1:port/none",
        "mysql://someone:secret@127.0.0.1/none",
    ],
)
async def test_a_server_that_cannot_be_reached_is_told_without_the_password(url: str) -> None:
    with pytest.raises(StartError) as caught:
        await open_postgres(url)
    assert "secret" not in caught.value.message
    assert caught.value.__cause__ is None


@pytest.mark.spec("MEM-07")
async def test_the_last_row_of_a_bank_is_found_by_its_index_where_statistics_are_old(store: SqlStore) -> None:
    async with store.begin_write() as tx:
        for at in range(20):
            await tx.banks.add(replace(BANK, id=BankId(f"b{at}"), name=f"bank {at}"))
        for number in range(2_000):
            await tx.episodes.add(episode(f"first {number}", bank=BankId("b0")))
    await asked(store, "ANALYZE")
    async with store.begin_write() as tx:
        for at in range(1, 20):
            for number in range(100):
                await tx.episodes.add(episode(f"of {at} {number}", bank=BankId(f"b{at}")))
    heads = select(*HEADS).select_from(banks).where(banks.c.name == "bank 3")
    text = written(heads)
    assert (await asked(store, text))[0].episodes == 2_000 + 300
    plan = "\n".join(row[0] for row in await asked(store, f"EXPLAIN {text}"))
    assert "using episodes_bank on episodes" in plan
    assert "episodes_pkey" not in plan


@pytest.mark.parametrize("number", [0, 200, 3_000])
async def test_a_pulse_is_found_among_all_that_are_open_before_anything_was_counted(
    store: SqlStore, number: int
) -> None:
    async with store.begin_write() as tx:
        for at in range(number):
            one = pulse(f"pulse {at}", agent("ada"), token_hash=f"hash {at}")
            await tx.pulses.add(replace(one, agent_id=AgentId(f"agent {at}")))
    async with store.begin_write() as tx:
        assert len(await tx.pulses.find_open(AgentId("agent 7"))) == min(number, 1)
        assert (await tx.pulses.get_by_token("hash 7") is None) == (number == 0)
    for column, value in {"agent_id": "agent 7", "token_hash": "hash 7"}.items():
        ((name,),) = await asked(
            store, f"SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT pulses%pulses.{column} = $1%'"
        )
        plan = "\n".join(row[0] for row in await asked(store, f"EXPLAIN EXECUTE \"{name}\" ('{value}')"))
        found = [line.strip().partition(":")[0] for line in plan.splitlines() if f"'{value}'" in line]
        assert set(found) <= {"Index Cond", "Recheck Cond"}, plan
        assert "Index Cond" in found, plan
        assert plan.count("Index Scan") == 1, plan
