"""Reads a database's schema revision without changing it, for checks before a server starts."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

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

_REVISION: Final = "SELECT * FROM alembic_version"
_SECONDS: Final = 5.0


class SchemaRow(NamedTuple):
    """A database's revision, none if it has no tables yet, and the oldest one whose code works with it."""

    revision: str | None = None
    works_with: str | None = None


async def sqlite_revision(path: Path) -> tuple[str, SchemaRow]:
    """Return the SQLite version and the file's revision.

    Raises:
        StorageUnavailable: the file cannot be opened, or is no SQLite database.
    """

    def query_revision() -> SchemaRow:
        with wrap_driver_errors("SQLite", sqlite3.Error):
            uri = f"{path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=_SECONDS)) as connection:
                has = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
                row = connection.execute(_REVISION).fetchone() if has else None
                return SchemaRow(*(row or ()))

    return f"SQLite {sqlite3.sqlite_version}", await asyncio.to_thread(query_revision)


async def postgres_revision(url: str) -> tuple[str, SchemaRow, datetime, ConnectionFacts]:
    """Return the server version, the database's revision, the server's clock, and facts about the connection.

    Raises:
        StorageUnavailable: the database cannot be reached, or its pooler is too old. ValueError: the URL is malformed.
    """
    engine = create_async_engine(
        "postgresql+asyncpg://",
        connect_args={"dsn": url, "timeout": _SECONDS, "command_timeout": _SECONDS},
        poolclass=NullPool,
    )
    try:
        with wrap_driver_errors("PostgreSQL", asyncpg.PostgresError, asyncpg.InterfaceError):
            async with engine.connect() as connection:
                version = await connection.scalar(text("SHOW server_version"))
                has = await connection.scalar(text("SELECT to_regclass('alembic_version')::text"))
                row = (await connection.execute(text(_REVISION))).first() if has is not None else None
                now: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
                facts = await connection.run_sync(read_connection_facts)
    except DBAPIError as error:
        if not is_lost_statement(error):
            raise
        raise StorageUnavailable(POOLER_TOO_OLD) from error
    except InvalidRequest as error:
        raise ValueError("the URL is malformed") from error
    return f"PostgreSQL {version}", SchemaRow(*(row or ())), now, facts
