"""The index by which forgetting finds the demotions of a bank."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from circadia.ids import BankId
from circadia.records.episode import Demotion
from circadia.stores.postgres import open_postgres
from circadia.stores.sql.statement import DRIVER_CONNECTION
from circadia.stores.sql_store import SqlStore
from circadia.stores.sqlite import open_sqlite
from tests.contract.rows import at
from tests.contract.test_store_memory import BANK, episode
from tests.stores.test_postgres import asked
from tests.stores.test_sqlite import link_of


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[SqlStore]:
    store = await open_postgres(postgres_url)
    yield store
    await store.close()


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = await open_sqlite(tmp_path / "circadia.db")
    yield store
    await store.close()


@pytest.mark.spec("MEM-03")
async def test_postgres_finds_demotions_without_reading_the_banks_other_episodes(store: SqlStore) -> None:
    stale = (Demotion(by="pass p", reason="old", evidence="note n", at=at(1), weight=0.3),)
    async with store.begin_write() as tx:
        await tx.banks.add(BANK)
        for number in range(2_000):
            await tx.episodes.add(episode(f"e{number}"))
        await tx.episodes.add(episode("imported", stale=stale))
        await tx.episodes.demote(episode("e7").id, stale)
    await asked(store, "ANALYZE")
    demoted = {episode("e7").id: stale, episode("imported").id: stale}
    async with store.begin_write() as tx:
        assert await tx.episodes.find_demotions(BANK.id, ["note n"]) == demoted
    ((name,),) = await asked(
        store, "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT episodes.id%CAST(episodes.stale%'"
    )
    plan = "\n".join(row[0] for row in await asked(store, f"EXPLAIN EXECUTE \"{name}\" ('{BANK.id}', '%note n%')"))
    assert "episodes_stale" in plan, plan


@pytest.mark.spec("MEM-03")
async def test_sqlite_finds_demotions_without_reading_the_banks_other_episodes(sqlite_store: SqlStore) -> None:
    statements: list[str] = []
    async with sqlite_store.begin_write() as tx:
        await tx.episodes.find_demotions(BankId(""), ["not_1"])  # opens the connection
        driver = await link_of(sqlite_store).run(lambda connection: connection.info[DRIVER_CONNECTION])
        driver.set_trace_callback(statements.append)
        await tx.episodes.find_demotions(BankId("b1"), ["not_1"])
        driver.set_trace_callback(None)
        steps = [row[3] for each in statements for row in driver.execute(f"EXPLAIN QUERY PLAN {each}")]
    assert steps == ["SEARCH episodes USING INDEX episodes_stale (bank_id=?)"]
