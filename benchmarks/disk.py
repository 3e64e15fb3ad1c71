"""What a bare commit costs on this disk, in this run: disks differ tenfold."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

ROW_BYTES = 400
"""About what a state change writes: the agent's row and its event."""


def commit_milliseconds(folder: Path, commits: int) -> list[float]:
    """Return the times of commits of one small row each, with SQLite as the server uses it."""
    path = folder / "bare.db"
    path.unlink(missing_ok=True)
    found: list[float] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE changes (number INTEGER PRIMARY KEY, data BLOB)")
        for _ in range(commits):
            began = time.monotonic()
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO changes (data) VALUES (?)", (b"x" * ROW_BYTES,))
            database.execute("COMMIT")
            found.append((time.monotonic() - began) * 1000)
    return found
