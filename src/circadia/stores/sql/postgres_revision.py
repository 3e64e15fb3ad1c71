"""What a PostgreSQL database says of itself: its schema revision, and the way to it with a pooler between."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import asyncpg
from sqlalchemy import Connection, NullPool, exc, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from circadia.errors import InvalidRequest, StorageUnavailable
from circadia.records.member import Member
from circadia.stores.sql.driver_errors import wrap_driver_errors
from circadia.stores.sql.members import LIVE_MEMBERS, read_member
from circadia.stores.sql.revision import REVISION, SECONDS, ConnectionFacts, SchemaRow

POOLER_TOO_OLD: Final = (
    "a pooler without prepared statements is between this process and PostgreSQL; use PgBouncer 1.21 or newer with "
    "max_prepared_statements = 200, or connect directly"
)
_FACTS: Final = text(
    # A pooler gives each client a process number of its own. One that keeps prepared statements renames them.
    "SELECT pg_backend_pid() <> :pid AS is_pooled,"
    r" EXISTS (SELECT FROM pg_prepared_statements WHERE name LIKE '\_\_asyncpg\_%') AS has_own_names,"
    " current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
    " - coalesce(current_setting('reserved_connections', true), '0')::int AS most"
)
_LOST: Final = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)


def read_connection_facts(connection: Connection) -> ConnectionFacts:
    driver = connection.connection.driver_connection
    assert driver is not None
    row = connection.execute(_FACTS, {"pid": driver.get_server_pid()}).one()
    return ConnectionFacts(
        is_pooled=row.is_pooled, loses_statements=row.is_pooled and row.has_own_names, most=row.most
    )  # fmt: skip


def is_lost_statement(error: BaseException) -> bool:
    """Return whether a pooler has mixed up prepared statements."""
    return isinstance(error.driver_exception if isinstance(error, exc.DBAPIError) else error, _LOST)


@asynccontextmanager
async def _connect(url: str) -> AsyncGenerator[AsyncConnection]:
    engine = create_async_engine(
        "postgresql+asyncpg://",
        connect_args={"dsn": url, "timeout": SECONDS, "command_timeout": SECONDS},
        poolclass=NullPool,
    )
    with wrap_driver_errors("PostgreSQL", asyncpg.PostgresError, asyncpg.InterfaceError):
        async with engine.connect() as connection:
            yield connection


async def read_live_members(url: str) -> Sequence[Member]:
    """Return the members of a database with the schema of this version. Raises StorageUnavailable."""
    async with _connect(url) as connection:
        now: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
        return [read_member(row) for row in await connection.execute(LIVE_MEMBERS, {"now": now})]


async def postgres_revision(url: str) -> tuple[str, SchemaRow, datetime, ConnectionFacts]:
    """Return the server version, the database's revision, the server's clock, and facts about the connection.

    Raises:
        StorageUnavailable: the database cannot be reached, or its pooler is too old. ValueError: the URL is malformed.
    """
    try:
        async with _connect(url) as connection:
            version = await connection.scalar(text("SHOW server_version"))
            has = await connection.scalar(text("SELECT to_regclass('alembic_version')::text"))
            row = (await connection.execute(text(REVISION))).first() if has is not None else None
            now: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
            facts = await connection.run_sync(read_connection_facts)
    except DBAPIError as error:
        if not is_lost_statement(error):
            raise
        raise StorageUnavailable(POOLER_TOO_OLD) from error
    except InvalidRequest as error:
        raise ValueError("the URL is malformed") from error
    return f"PostgreSQL {version}", SchemaRow(*(row or ())), now, facts
