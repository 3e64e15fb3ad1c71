"""What is PostgreSQL's own: connections that are lost, and its settings."""

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Select, select
from sqlalchemy.dialects import postgresql

from circadia.agents.chains import ChainPosition
from circadia.errors import InvalidRequest, StartError, StorageUnavailable
from circadia.ids import AgentId, BankId, SessionId
from circadia.records.bank import Bank
from circadia.records.coordination import Coordination
from circadia.records.message import DeliveryState
from circadia.records.wake import Charge
from circadia.stores.locks import agent_key
from circadia.stores.postgres import open_postgres
from circadia.stores.sql.banks import HEADS
from circadia.stores.sql.link import do_nothing
from circadia.stores.sql.memory_tables import banks
from circadia.stores.sql.pooled_writer import PooledWriter
from circadia.stores.sql.tx import Tx
from circadia.stores.sql.write_block import WriteBlock
from circadia.stores.sql_store import SqlStore
from circadia.wake.admission.budgets import fetch_budgets
from tests.contract.rows import agent, at, message, put, sent, session, stored, tags
from tests.contract.test_store_inbox import BOB, TALK, copy_messages
from tests.contract.test_store_memory import BANK, episode
from tests.contract.wake_rows import pulse, wake
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

    async with store.writer.begin(()) as block:
        return await block.run(work)


def written(statement: Select[Any]) -> str:
    """Return it with its values written out."""
    return str(statement.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True}))


def _ignore_touch(session_id: SessionId, at: datetime) -> None:
    pass


@asynccontextmanager
async def transaction(store: SqlStore) -> AsyncGenerator[tuple[Tx, WriteBlock]]:
    """Open a write block, for statements of its nouns and for others."""
    async with store.writer.begin(()) as block:
        yield Tx(block, block.after_commit, block.after_rollback, _ignore_touch), block


@pytest.mark.spec("GATE-92")
async def test_a_block_returns_when_the_log_is_on_the_disk(store: SqlStore, postgres_server: PostgresServer) -> None:
    (name,) = (await asked(store, "SELECT current_database()"))[0]
    await postgres_server.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await postgres_server.execute(CUT)
    for tag in range(20):
        async with transaction(store) as (tx, block):
            await sent(tx, tag)
            shown = await block.run(lambda connection: connection.exec_driver_sql("SHOW synchronous_commit").scalar())
            assert shown == "on"
            written = await block.run(
                lambda connection: connection.exec_driver_sql("SELECT pg_current_wal_insert_lsn()::text").scalar()
            )
        assert await asked(store, f"SELECT pg_current_wal_flush_lsn() >= '{written}'") == [(True,)]


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
    key = agent_key(AgentId("agt_busy"))
    held, go_on, told = asyncio.Event(), asyncio.Event(), list[str]()

    async def first() -> None:
        async with store.begin_write(key) as tx:
            tx.after_commit(lambda: told.append("first"))
            await sent(tx, "first")
            held.set()
            await go_on.wait()
            await sent(tx, "first")

    async def second() -> None:
        async with store.begin_write(key) as tx:
            await sent(tx, "second")

    task = asyncio.create_task(first())
    await held.wait()
    waiting = asyncio.create_task(second())
    await postgres_server.execute(CUT)
    go_on.set()
    with pytest.raises(StorageUnavailable):
        await task
    await waiting
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


async def test_a_block_whose_connection_the_driver_gave_up_leaves_no_error_behind(store: SqlStore) -> None:
    """asyncpg ends a connection whose statement it cannot cancel, as when the server stalls."""
    assert isinstance(store.writer, PooledWriter)
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    link = await store.writer.pool.borrow()

    def give_up(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.terminate()

    try:
        await link.run(give_up, first=("BEGIN",), opens=True)
        link.roll_back()
        with pytest.raises(StorageUnavailable, match="rolled"):
            await link.run(do_nothing)
    finally:
        store.writer.pool.give_back(link)
    await put(store, 2)
    assert await tags(store) == [2]
    await store.close()
    gc.collect()
    assert unheard == []


async def test_a_commit_that_the_server_turns_into_a_rollback_fails_the_block(store: SqlStore) -> None:
    """A transaction that has failed answers COMMIT with ROLLBACK, and not with an error."""

    assert isinstance(store.writer, PooledWriter)
    link = await store.writer.pool.borrow()
    with pytest.raises(InvalidRequest):
        await link.run(lambda connection: connection.exec_driver_sql("SELECT 1 / 0"), first=("BEGIN",), opens=True)
    with pytest.raises(StorageUnavailable, match="rolled"):
        await link.run(do_nothing, first=("COMMIT",))
    store.writer.pool.give_back(link)
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

    await tags(store)
    assert await last() == 0
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    await postgres_server.execute("ALTER TABLE events ALTER COLUMN number TYPE integer", database=database)
    with pytest.raises(StorageUnavailable, match="cached statement"):
        await last()
    assert await last() == 0


async def test_statements_are_planned_anew_after_many_runs(store: SqlStore) -> None:
    """A plan from when the tables were small may read all of them when they have grown."""

    def named(connection: Connection) -> set[str]:
        found = connection.exec_driver_sql("SELECT name, statement FROM pg_prepared_statements").all()
        return {row.name for row in found if "max(events.number)" in row.statement}

    names: list[set[str]] = []
    async with transaction(store) as (tx, block):
        await sent(tx, 1)
        for runs in (1, 1_100):
            for _ in range(runs):
                assert await tx.events.last_number() == 0
            names.append(await block.run(named))
    assert [len(each) for each in names] == [1, 1]
    assert names[0] != names[1]


async def test_a_statement_is_not_cut_short_with_its_caller(store: SqlStore) -> None:
    began, done = asyncio.Event(), list[str]()

    def slow(connection: Connection) -> None:
        began.set()
        connection.exec_driver_sql("SELECT pg_sleep(0.2)")
        done.append("slow")

    async def block() -> None:
        async with transaction(store) as (tx, block):
            await sent(tx, 1)
            await block.run(slow)

    task = asyncio.create_task(block())
    await began.wait()
    task.cancel()
    await put(store, 2)
    assert task.cancelled()
    async with asyncio.timeout(10):
        while done != ["slow"]:
            await asyncio.sleep(0)
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
    with pytest.raises(StorageUnavailable if ":1/" in url and "[" not in url else StartError) as caught:
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


@pytest.mark.spec("CLU-34")
async def test_the_look_for_stalled_sessions_reads_none_of_the_agents_that_sleep(store: SqlStore) -> None:
    async with store.begin_write() as tx:
        await tx.sessions.add(session())
        for number in range(1_000):
            await tx.agents.add(agent(f"sleeper {number}", asleep=True))
    await asked(store, "ANALYZE")
    async with store.begin_write() as tx:
        assert [each.name for each in await tx.sessions.find_silent_since(at(1))] == ["default"]
        await tx.agents.add(agent("awake"))
        assert await tx.sessions.find_silent_since(at(1)) == []
    ((name,),) = await asked(
        store, "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT sessions%asleep%'"
    )
    plan = "\n".join(row[0] for row in await asked(store, f'EXPLAIN EXECUTE "{name}" (0)'))
    assert "agents_awake" in plan
    assert not [line for line in plan.splitlines() if "Filter" in line and "asleep" in line], plan


@pytest.mark.spec("WAKE-05")
async def test_the_budgets_of_an_answer_read_no_wakes_of_other_agents(store: SqlStore) -> None:
    """A million wakes of others in the same day do not slow an answer down."""
    reads = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'wakes'"
    ann, bob, eve = (agent(name) for name in ("ann", "bob", "eve"))
    async with transaction(store) as (tx, _):
        for number in range(200):
            await tx.wakes.add(wake(f"w{number}", eve, by=ann, seconds=1, charge=Charge.CHARGED))
    await asked(store, "ANALYZE wakes")
    async with transaction(store) as (tx, block):
        place = ChainPosition()
        await fetch_budgets(tx, replace(bob, coordination=Coordination()), at(100), sender=bob, place=place)
        assert await block.run(lambda connection: connection.exec_driver_sql(reads).scalar()) == 0


async def test_a_list_of_dead_letters_reads_none_of_10000_messages_that_are_handled(store: SqlStore) -> None:
    await stored(store, session(), BOB, TALK)
    async with store.begin_write() as tx:
        await tx.messages.add(message("m", to=TALK), [(BOB.id, False)])
    await copy_messages(store, 10_000)
    await asked(store, "ANALYZE")
    async with store.begin_write() as tx:
        assert len(await tx.deliveries.find_unhandled([DeliveryState.DEAD], limit=50)) == 10
    ((name,),) = await asked(
        store, "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT messages%!= ''handled''%'"
    )
    plan = "\n".join(row[0] for row in await asked(store, f"EXPLAIN EXECUTE \"{name}\" ('dead', {2**62}, 50)"))
    assert "deliveries_unhandled on deliveries" in plan
    assert "Seq Scan on messages" not in plan, plan
    assert "Seq Scan on deliveries" not in plan, plan
