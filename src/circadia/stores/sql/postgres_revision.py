"""Reads a PostgreSQL database's schema revision without changing it."""

from datetime import datetime

import asyncpg
from sqlalchemy import NullPool, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from circadia.errors import InvalidRequest, StorageUnavailable
from circadia.stores.sql.connection_facts import (
    POOLER_TOO_OLD,
    ConnectionFacts,
    is_lost_statement,
    read_connection_facts,
)
from circadia.stores.sql.driver_errors import wrap_driver_errors
from circadia.stores.sql.revision import REVISION, SECONDS, SchemaRow


async def postgres_revision(url: str) -> tuple[str, SchemaRow, datetime, ConnectionFacts]:
    """Return the server version, the database's revision, the server's clock, and facts about the connection.

    Raises:
        StorageUnavailable: the database cannot be reached, or its pooler is too old. ValueError: the URL is malformed.
    """
    engine = create_async_engine(
        "postgresql+asyncpg://",
        connect_args={"dsn": url, "timeout": SECONDS, "command_timeout": SECONDS},
        poolclass=NullPool,
    )
    try:
        with wrap_driver_errors("PostgreSQL", asyncpg.PostgresError, asyncpg.InterfaceError):
            async with engine.connect() as connection:
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
