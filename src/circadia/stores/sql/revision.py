"""What a database says of itself, unchanged: its schema revision, its version, the way to it, and damaged pages.

`postgres_revision` asks PostgreSQL: a server on SQLite does not load that module.
"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from circadia.stores.sql.driver_errors import wrap_driver_errors

REVISION: Final = "SELECT * FROM alembic_version"
SECONDS: Final = 5.0


class ConnectionFacts(NamedTuple):
    """The way to PostgreSQL."""

    is_pooled: bool
    """Whether a pooler such as PgBouncer is between."""
    loses_statements: bool
    """Whether the pooler may run a prepared statement on a connection that does not know it."""
    most: int
    """Maximum number of connections of users without special rights."""


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
            with closing(_open_file(path)) as connection:
                has = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
                row = connection.execute(REVISION).fetchone() if has else None
                return SchemaRow(*(row or ()))

    return f"SQLite {sqlite3.sqlite_version}", await asyncio.to_thread(query_revision)


async def find_damage(path: Path, seconds: float) -> str | None:
    """Return the first damage that SQLite finds in the file; None if there is none, or if `seconds` are over.

    Raises:
        StorageUnavailable: the file cannot be opened, or is no SQLite database.
    """
    with wrap_driver_errors("SQLite", sqlite3.Error), closing(_open_file(path)) as connection:
        limit = asyncio.get_running_loop().call_later(seconds, connection.interrupt)
        try:
            (finding,) = await asyncio.to_thread(lambda: connection.execute("PRAGMA quick_check(1)").fetchone())
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return None
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            return str(error)
        finally:
            limit.cancel()
    return None if finding == "ok" else str(finding).strip()


def _open_file(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=SECONDS, check_same_thread=False)
