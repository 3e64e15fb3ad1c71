"""A check of a SQLite file for damaged pages, within a limit of time."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from circadia.stores.sql.driver_errors import wrap_driver_errors

_BUSY_SECONDS = 5.0


async def find_damage(path: Path, seconds: float) -> str | None:
    """Return the first damage that SQLite finds in the file; None if there is none, or if `seconds` are over.

    Raises:
        StorageUnavailable: the file cannot be opened, or is no SQLite database.
    """
    with wrap_driver_errors("SQLite", sqlite3.Error), closing(_connect(path)) as connection:
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


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)
