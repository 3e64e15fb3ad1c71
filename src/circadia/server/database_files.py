"""The whole database as one file: its backup, its restore, and its move to another database. A part of `wiring`.

The file is a SQLite database of Circadia's schema, whatever database it comes from: a backup of SQLite is an export.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from circadia.errors import InvalidRequest, StartError, StorageUnavailable
from circadia.server.folder import DATABASE_FILE, lock_folder
from circadia.stores.asyncpg_connection import POSTGRES_ERRORS
from circadia.stores.postgres import create_postgres_engine
from circadia.stores.sql.driver_errors import wrap_driver_errors
from circadia.stores.sql.migrate import migrate
from circadia.stores.sql.online_migration import BEGIN_MIGRATION
from circadia.stores.sql.postgres_revision import postgres_revision
from circadia.stores.sql.revision import sqlite_revision
from circadia.stores.sql.revisions import newest_revision
from circadia.stores.sql.table_copy import copy_tables, count_rows, require_empty
from circadia.stores.sqlite import create_sqlite_engine
from circadia.stores.sqlite_snapshot import OnProgress, create_file, replace_database, write_snapshot

_NAME_BACKUP: Final = "name a file that `circadia backup` or `circadia export` wrote"
_READ: Final = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL statement_timeout = 0",
)
_WRITE: Final = (*BEGIN_MIGRATION, *_READ[1:])
"""Servers that start meanwhile wait, as they do for a migration."""


def back_up_sqlite(data: Path, file: Path, on_progress: OnProgress) -> None:
    """Copy the database of a data folder into a new file; a server may use it.

    Raises:
        InvalidRequest: the folder has no database, or the file cannot be created. Conflict: the file exists.
        StorageUnavailable: the database cannot be read, or is damaged.
    """
    if not (data / DATABASE_FILE).exists():
        raise InvalidRequest(f"the data folder {str(data)!r} has no database; name another with --data")
    write_snapshot(data / DATABASE_FILE, file, on_progress)


async def restore_sqlite(data: Path, file: Path, now: datetime, on_progress: OnProgress) -> Path | None:
    """Put a copy of the file in the place of a data folder's database; return where the replaced one is.

    Raises:
        InvalidRequest: the file is no backup of Circadia.
        StartError: a server uses the folder, or a newer version wrote the file.
        StorageUnavailable: the file is damaged.
    """
    await _read_file_revision(file)
    with lock_folder(data):
        path, new = data / DATABASE_FILE, data / f"{DATABASE_FILE}.new"
        aside = data / f"{DATABASE_FILE}.replaced-{now:%Y%m%dT%H%M%SZ}" if path.exists() else None
        new.unlink(missing_ok=True)  # of a restore that was killed
        write_snapshot(file, new, on_progress)
        try:
            with _open_sqlite(new) as connection:
                migrate(connection)
            replace_database(path, new, aside)
        finally:
            new.unlink(missing_ok=True)
    return aside


async def export_postgres(url: str, file: Path, on_progress: OnProgress) -> None:
    """Write all rows, as they are now, into a new SQLite file; servers may use the database.

    Raises:
        Conflict: the file exists. InvalidRequest: it cannot be created.
        StartError: the database has the schema of another version, or its URL is malformed.
        StorageUnavailable: the database does not answer.
    """

    def fill_file(source: Connection) -> None:
        with _open_sqlite(file) as target:
            migrate(target)
            copy_tables(source, target, _count_progress(source, on_progress))

    with create_file(file):
        async with _open_postgres(url, *_READ) as connection:
            _, (revision, _), *_ = await postgres_revision(url)
            if revision != newest_revision():
                raise StartError(f"the database has revision {revision!r}; start this version's server on it first")
            await connection.run_sync(fill_file)


async def import_to_postgres(url: str, file: Path, on_progress: OnProgress) -> None:
    """Read a file into an empty database, in one transaction.

    Raises:
        InvalidRequest: the file is no backup of Circadia. Conflict: the database has rows.
        StartError: another version wrote the file, or the URL is malformed.
        StorageUnavailable: the database does not answer.
    """
    revision, newest = await _read_file_revision(file), newest_revision()
    if revision != newest:
        raise StartError(
            f"{str(file)!r} has revision {revision!r}, this version writes {newest!r}; restore it into a new data "
            "folder with `circadia restore --data`, which upgrades it, and back that folder up"
        )

    def fill_database(target: Connection) -> None:
        migrate(target)
        require_empty(target)
        with _open_sqlite(file) as source:
            copy_tables(source, target, _count_progress(source, on_progress))

    async with _open_postgres(url, *_WRITE) as connection:
        await connection.run_sync(fill_database)


async def _read_file_revision(file: Path) -> str:
    if not await asyncio.to_thread(file.is_file):
        raise InvalidRequest(f"there is no file {str(file)!r}; {_NAME_BACKUP}")
    try:
        _, (revision, _) = await sqlite_revision(file)
    except StorageUnavailable as error:
        raise InvalidRequest(f"cannot read {str(file)!r} ({error.message}); {_NAME_BACKUP}") from error
    if revision is None:
        raise InvalidRequest(f"{str(file)!r} is no backup of Circadia, or was never finished; {_NAME_BACKUP}")
    return revision


def _count_progress(source: Connection, on_progress: OnProgress) -> Callable[[int], None]:
    done, total = 0, count_rows(source)

    def add(rows: int) -> None:
        nonlocal done
        done += rows
        on_progress(done, total)

    return add


@contextmanager
def _open_sqlite(file: Path) -> Generator[Connection]:
    """Open a file for one transaction."""
    with create_sqlite_engine(file).connect() as connection:
        connection.exec_driver_sql("BEGIN")
        yield connection
        connection.exec_driver_sql("COMMIT")


@asynccontextmanager
async def _open_postgres(url: str, *opening: str) -> AsyncGenerator[AsyncConnection]:
    """Connect for one transaction."""
    engine = create_postgres_engine(url, command_seconds=None)
    try:
        with wrap_driver_errors("PostgreSQL", *POSTGRES_ERRORS):
            async with engine.connect() as connection:
                for statement in opening:
                    await connection.exec_driver_sql(statement)
                yield connection
                await connection.exec_driver_sql("COMMIT")
    except ValueError as error:
        raise StartError("cannot open the PostgreSQL database: its URL is malformed") from error
