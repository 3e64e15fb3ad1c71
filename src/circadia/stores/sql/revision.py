"""Reads a database's schema revision without changing it, for checks before a server starts."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from circadia.stores.sql.driver_errors import wrap_driver_errors

REVISION: Final = "SELECT * FROM alembic_version"
SECONDS: Final = 5.0


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
            with closing(sqlite3.connect(uri, uri=True, timeout=SECONDS)) as connection:
                has = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
                row = connection.execute(REVISION).fetchone() if has else None
                return SchemaRow(*(row or ()))

    return f"SQLite {sqlite3.sqlite_version}", await asyncio.to_thread(query_revision)
