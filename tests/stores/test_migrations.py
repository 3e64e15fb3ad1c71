"""The revisions make the tables of the schema, once, and no older code opens what a newer one has changed."""

import asyncio
import importlib
import sqlite3
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, text

from circadia.errors import StartError
from circadia.records.change import ChangeKind
from circadia.stores.postgres import open_postgres
from circadia.stores.sql.database import SqlStore
from circadia.stores.sql.memory_tables import metadata
from circadia.stores.sql.migrate import MIGRATIONS
from circadia.stores.sqlite import open_sqlite
from tests.contract.conftest import Database
from tests.contract.rows import agent, event, message, session, stored, tags, thread
from tests.fixtures.postgres import PostgresServer
from tests.sleeptime.stand import Stand

OPEN = """
import asyncio, sys
from circadia.stores.postgres import open_postgres
async def main():
    await (await open_postgres(sys.argv[1])).close()
asyncio.run(main())
"""


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


async def test_the_revisions_make_the_tables_of_the_schema(store: SqlStore) -> None:
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"include_name": _is_of_the_schema})
        return list(compare_metadata(context, metadata))

    assert await store.writer.link.run(differences, first=("BEGIN",), opens=True) == []
    store.writer.link.finish()


def _is_of_the_schema(name: str | None, kind: str, _: object) -> bool:
    """Return whether the schema must name it: the index of words is of another kind in each database."""
    return kind != "table" or not (name or "").startswith("message_words")


async def test_a_database_is_opened_again_with_what_was_in_it(store: SqlStore, database: Database) -> None:
    async with store.write() as tx:
        await tx.events.add([event(1)])
    await store.close()
    again = await database.open()
    assert await tags(again) == [1]
    await again.close()


async def test_a_database_that_a_newer_version_has_changed_is_refused(
    store: SqlStore, database: Database, postgres_server: PostgresServer
) -> None:
    await store.close()
    statement = "UPDATE alembic_version SET version_num = '9999'"
    if database.dialect == "sqlite":
        with sqlite3.connect(database.place) as connection:
            connection.execute(statement)
        connection.close()
    else:
        name = database.place.removeprefix("postgresql://postgres@/").partition("?")[0]
        await postgres_server.execute(statement, database=name)
    with pytest.raises(StartError, match="newer version"):
        await database.open()


async def test_processes_that_start_together_make_the_tables_once(empty_postgres_url: str) -> None:
    processes = [await asyncio.create_subprocess_exec(sys.executable, "-c", OPEN, empty_postgres_url) for _ in range(3)]
    assert [await process.wait() for process in processes] == [0, 0, 0]


def test_revisions_are_numbered_without_a_gap() -> None:
    names = sorted(path.name for path in (MIGRATIONS / "versions").glob("*.py"))
    assert [name[:5] for name in names] == [f"{number:04}_" for number in range(1, len(names) + 1)]


@pytest.mark.spec("SLEEP-42")
async def test_who_made_notes_and_blocks_is_taken_over_from_the_records_of_passes(tmp_path: Path) -> None:
    stand = await Stand.made(await open_sqlite(tmp_path / "circadia.db"))
    said = await stand.said("one thing", "two things")
    written = stand.change(ChangeKind.WRITE_BLOCK, "tasks", after={"value": "one, two"})
    made = [replace(stand.note("n1", said), operation="reflect"), replace(written, operation="own_tasks")]
    await stand.publish(await stand.begun(), *made)
    await stand.write("human", "by hand")
    await stand.store.close()
    makers = importlib.import_module("circadia.stores.sql.migrations.versions.0013_makers")
    engine = create_engine(f"sqlite:///{tmp_path / 'circadia.db'}")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        for table in ("notes", "blocks"):
            connection.execute(text(f"ALTER TABLE {table} DROP COLUMN operation"))
        makers.upgrade()
    engine.dispose()
    store = await open_sqlite(tmp_path / "circadia.db")
    async with store.read() as tx:
        assert [each.operation for each in await tx.notes.every(stand.bank.id)] == ["reflect"]
        assert [each.operation for each in await tx.blocks.every(stand.bank.id)] == [None, "own_tasks"]
    await store.close()


@pytest.mark.spec("SLEEP-20", "MEM-18")
async def test_notes_from_before_uses_were_counted_are_as_if_found_when_they_were_made(tmp_path: Path) -> None:
    stand = await Stand.made(await open_sqlite(tmp_path / "circadia.db"))
    said = await stand.said("one thing", "two things")
    await stand.publish(await stand.begun(), stand.note("n1", said))
    await stand.store.close()
    uses = importlib.import_module("circadia.stores.sql.migrations.versions.0018_uses")
    engine = create_engine(f"sqlite:///{tmp_path / 'circadia.db'}")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        for table in ("notes", "episodes"):
            connection.execute(text(f"ALTER TABLE {table} DROP COLUMN used_at"))
        uses.upgrade()
    engine.dispose()
    store = await open_sqlite(tmp_path / "circadia.db")
    async with store.read() as tx:
        (note,) = await tx.notes.every(stand.bank.id)
        assert note.used_at == note.created_at
        later = stand.clock.now() + timedelta(seconds=1)
        assert (await tx.episodes.found_below(stand.bank.id, (), before=later))[1] == 0
    await store.close()


@pytest.mark.spec("WAKE-33")
async def test_words_that_were_indexed_in_another_spelling_are_found_after_the_upgrade(store: SqlStore) -> None:
    ann, bob, talk = agent("ann"), agent("bob"), thread()
    await stored(store, session(), ann, bob, talk)
    async with store.write() as tx:
        for number in range(60):
            content = "fianc\u00e9e" if number >= 55 else "no"  # behind what a search reads one by one
            await tx.messages.add(message(f"m{number}", to=talk, sender=ann, content=content), [(bob.id, False)])
        await tx.messages.index(limit=100)

    def spoil(connection: Connection) -> None:
        connection.execute(text("UPDATE message_words SET words = ''"))

    def upgrade(connection: Connection) -> None:
        with Operations.context(MigrationContext.configure(connection)):
            importlib.import_module("circadia.stores.sql.migrations.versions.0016_words").upgrade()

    async def found() -> int:
        async with store.read() as tx:
            return len(await tx.deliveries.inbox(bob.id, words="FIANCEE"))

    for work, again, wanted in ((spoil, 0, 0), (upgrade, 60, 5)):
        async with store.write() as tx:
            await tx.events.last_number()  # the transaction is open
            await store.writer.link.run(work)
            assert await tx.messages.index(limit=100) == again
        assert await found() == wanted
