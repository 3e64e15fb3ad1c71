"""Reads a PostgreSQL database's schema revision without changing it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import asyncpg
from sqlalchemy import NullPool, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from circadia.errors import InvalidRequest, StorageUnavailable
from circadia.records.member import Member
from circadia.stores.sql.connection_facts import (
    POOLER_TOO_OLD,
    ConnectionFacts,
    is_lost_statement,
    read_connection_facts,
)
from circadia.stores.sql.driver_errors import wrap_driver_errors
from circadia.stores.sql.members import LIVE_MEMBERS, build_member
from circadia.stores.sql.revision import REVISION, SECONDS, SchemaRow


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
        return [build_member(row) for row in await connection.execute(LIVE_MEMBERS, {"now": now})]


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
