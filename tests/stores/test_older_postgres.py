"""Databases of older versions on PostgreSQL, which the first start of this one migrates."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection

from circadia.errors import StartError
from circadia.stores.postgres import create_postgres_engine, open_postgres
from circadia.stores.sql.memory_tables import metadata
from circadia.stores.sql.upgrade import build_config

RELEASED = "0006"
"""The schema of version 0.1.0, which has no table of members."""
BEFORE_LOOKUPS = "0021"
ODD_INDEXES = text(
    "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid"
    " WHERE relnamespace = 'public'::regnamespace AND (NOT indisvalid OR obj_description(oid, 'pg_class') IS NOT NULL)"
)


def make_tables(connection: Connection, revision: str) -> None:
    """Make the tables as they were."""
    config = build_config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


@asynccontextmanager
async def connect(url: str, name: str = "psql") -> AsyncGenerator[AsyncConnection]:
    engine = create_postgres_engine(url, name=name)
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


def differences(connection: Connection) -> list[object]:
    def is_of_the_schema(name: str | None, kind: str, _: object) -> bool:
        return kind != "table" or not (name or "").startswith("message_words")

    context = MigrationContext.configure(connection, opts={"include_name": is_of_the_schema})
    return list(compare_metadata(context, metadata))


@pytest.mark.spec("LARGE-10")
@pytest.mark.parametrize("revision", [RELEASED, BEFORE_LOOKUPS])
async def test_an_older_database_gets_the_indexes_of_the_schema_and_loses_those_that_were_replaced(
    empty_postgres_url: str, revision: str
) -> None:
    async with connect(empty_postgres_url) as connection:
        await connection.run_sync(make_tables, revision)
        await (await open_postgres(empty_postgres_url)).close()
        assert await connection.run_sync(differences) == []
        assert (await connection.execute(ODD_INDEXES)).scalars().all() == []


@pytest.mark.spec("LARGE-10")
async def test_an_index_that_somebody_has_dropped_or_broken_is_built_at_the_next_start(postgres_url: str) -> None:
    async with connect(postgres_url) as connection:
        await connection.exec_driver_sql("DROP INDEX conversations_seen")
        await connection.exec_driver_sql(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'calls_at'::regclass"
        )
        await connection.exec_driver_sql("CREATE INDEX mine ON calls (model)")
        await (await open_postgres(postgres_url)).close()
        await connection.exec_driver_sql("DROP INDEX mine")  # an operator's own index stayed
        assert await connection.run_sync(differences) == []
        assert (await connection.execute(ODD_INDEXES)).scalars().all() == []


@pytest.mark.spec("CLU-30", "LARGE-10")
async def test_a_live_server_of_the_first_release_refuses_the_migration_that_breaks_it(empty_postgres_url: str) -> None:
    """It has no row among the members, but PostgreSQL knows its connections by their name."""
    async with connect(empty_postgres_url) as connection:
        await connection.run_sync(make_tables, RELEASED)
        async with connect(empty_postgres_url, "circadia") as server:
            process = await server.scalar(text("SELECT pg_backend_pid()"))
            with pytest.raises(StartError) as refusal:
                await open_postgres(empty_postgres_url)
            for words in ("an older version", "from this machine, since 20", f"processes {process} of PostgreSQL"):
                assert words in refusal.value.message
            assert await connection.scalar(text("SELECT version_num FROM alembic_version")) == RELEASED
        await (await open_postgres(empty_postgres_url)).close()
