"""The revisions make the tables of the schema, once, and no older code opens what a newer one has changed."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine

from circadia.errors import StartError
from circadia.ids import AgentId, BankId
from circadia.records.call import AgentSpend
from circadia.stores.postgres import open_postgres
from circadia.stores.sql.memory_tables import metadata
from circadia.stores.sql.revisions import list_revisions, newest_revision
from circadia.stores.sql.upgrade import MIGRATIONS, build_config
from circadia.stores.sql_store import SqlStore
from circadia.stores.sqlite import open_sqlite
from tests.contract.conftest import Database
from tests.contract.rows import agent, event, tags
from tests.fixtures.postgres import PostgresServer

OPEN = """
import asyncio, sys
from circadia.stores.postgres import open_postgres
async def main():
    await (await open_postgres(sys.argv[1])).close()
asyncio.run(main())
"""
CALLED_SESSION = (
    """INSERT INTO banks (id, name, description, policy, generation, skipped, created_at)
    VALUES ('b', 'team', '', '{}', 1, '[]', 0)""",
    """INSERT INTO episodes (id, bank_id, at, text, trust, terms, speaker, kind, session, metadata, incomplete, digest,
    stored_at, stale) VALUES ('e', 'b', 0, 'tea', 'person', '', 'ann', 'turn', 'call-7', '{}', false, '', 0, '[]')""",
)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database with nothing in it."""
    place = (
        str(tmp_path / "circadia.db") if request.param == "sqlite" else request.getfixturevalue("empty_postgres_url")
    )
    return Database(dialect=request.param, place=place)


@pytest.fixture
async def store(database: Database) -> AsyncIterator[SqlStore]:
    place = database.place
    store = await (open_sqlite(Path(place)) if database.dialect == "sqlite" else open_postgres(place))
    yield store
    await store.close()


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index:sqlalchemy.exc.SAWarning")
@pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based index:UserWarning")
async def test_the_revisions_make_the_tables_of_the_schema(store: SqlStore) -> None:
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"include_name": _is_of_the_schema})
        return list(compare_metadata(context, metadata))

    async with store.writer.begin(()) as block:
        assert await block.run(differences) == []


def _is_of_the_schema(name: str | None, kind: str, _: object) -> bool:
    """Return whether the schema must name it: the index of words is of another kind in each database."""
    return kind != "table" or not (name or "").startswith("message_words")


async def test_a_database_is_opened_again_with_what_was_in_it(store: SqlStore, database: Database) -> None:
    async with store.begin_write() as tx:
        await tx.events.add([event(1)])
    await store.close()
    again = await database.open()
    assert await tags(again) == [1]
    await again.close()


@pytest.mark.parametrize(("works_with", "opens"), [("9999", False), ("{newest}", True)])
@pytest.mark.spec("CLU-30")
async def test_a_database_of_a_newer_version_opens_only_if_that_says_that_it_works_with_this_one(
    store: SqlStore, database: Database, postgres_server: PostgresServer, works_with: str, opens: bool
) -> None:
    await store.close()
    works_with = works_with.format(newest=newest_revision())
    statement = f"UPDATE alembic_version SET version_num = '9999', works_with = '{works_with}'"
    if database.dialect == "sqlite":
        with sqlite3.connect(database.place) as connection:
            connection.execute(statement)
        connection.close()
    else:
        name = database.place.removeprefix("postgresql://postgres@/").partition("?")[0]
        await postgres_server.execute(statement, database=name)
    if opens:
        await (await database.open()).close()
    else:
        with pytest.raises(StartError, match="newer version"):
            await database.open()


async def test_an_older_database_keeps_the_conversation_of_each_episode(tmp_path: Path) -> None:
    path = tmp_path / "circadia.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, "0007")
        for statement in CALLED_SESSION:
            connection.exec_driver_sql(statement)
    engine.dispose()
    store = await open_sqlite(path)
    async with store.begin_read() as tx:
        assert [episode.id for episode in await tx.episodes.find_all(BankId("b"), conversation="call-7")] == ["e"]
    await store.close()


@pytest.mark.spec("LARGE-05")
async def test_calls_of_an_older_database_and_their_old_daily_rows_are_in_the_reports(tmp_path: Path) -> None:
    path = tmp_path / "circadia.db"
    engine = create_engine(f"sqlite:///{path}")
    add = (
        "INSERT INTO calls (id, at, status, input_tokens, cost_nanousd, held_seconds, end_user, merged, agent_id,"
        " session, agent, tier, upstream, endpoint, model, streamed, reserved_tokens, reserved_nanousd, turn)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'a', 'default', 'ann', 'hot', 'o', '', 'm', false, 9, 4, false)"
    )
    day = 86_400_000_000
    rows: list[tuple[object, ...]] = [
        ("c1", 20_000 * day + 5, "done", 3, 7, 0.5, "u", None),
        ("c2", 20_000 * day + 6, "failed", None, None, 0, None, None),
        ("c3", 20_000 * day + 7, "reserved", None, None, 0, None, None),
        ("day_1", 19_000 * day, "done", 100, 50, 2, None, 40),
    ]
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, "0022")
        for row in rows:
            connection.exec_driver_sql(add, row)
    engine.dispose()
    store = await open_sqlite(path)
    async with store.begin_read() as tx:
        by_day = await tx.calls.sum_by_group("day")
        by_user = await tx.calls.sum_by_group("end_user")
        spent = await tx.calls.sum_day(replace(agent("ann"), id=AgentId("a")), datetime(2024, 10, 4, 12, tzinfo=UTC))
    await store.close()
    assert [(group.key, group.calls, group.unknown, group.failed, group.input_tokens) for group in by_day] == [
        ("2022-01-08", 40, 0, 0, 100), ("2024-10-04", 2, 1, 1, 3),
    ]  # fmt: skip
    assert [(group.key, group.calls, group.cost_nanousd) for group in by_user] == [("", 41, 50), ("u", 1, 7)]
    assert spent == AgentSpend(calls=3, tokens=3 + 9 + 9, nanousd=7 + 4 + 4)


async def test_processes_that_start_together_make_the_tables_once(empty_postgres_url: str) -> None:
    processes = [await asyncio.create_subprocess_exec(sys.executable, "-c", OPEN, empty_postgres_url) for _ in range(3)]
    assert [await process.wait() for process in processes] == [0, 0, 0]


def test_the_revisions_that_are_read_without_alembic_are_its_own() -> None:
    scripts = reversed(list(ScriptDirectory.from_config(build_config()).walk_revisions()))
    assert [(each.number, each.name, each.works_with) for each in list_revisions()] == [
        (script.revision, script.doc, getattr(script.module, "works_with", script.revision)) for script in scripts
    ]
    assert newest_revision() == list_revisions()[-1].number


def test_revisions_are_numbered_without_a_gap() -> None:
    names = sorted(path.name for path in (MIGRATIONS / "versions").glob("*.py"))
    assert [name[:5] for name in names] == [f"{number:04}_" for number in range(1, len(names) + 1)]
