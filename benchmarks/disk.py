"""What bare commits cost on this disk, in this run, with databases as the server uses them: disks differ tenfold."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.postgres import connect

ROW_BYTES = 400
"""About what a state change writes: the agent's row and its event."""


async def commit_milliseconds(
    where: Path | str, commits: int, *, writers: int = 1, row_bytes: int = ROW_BYTES
) -> list[float]:
    """Return the times of so many commits of each writer, of one row each, beside the database at this path or URL.

    SQLite has one writer at a time, so all commits come one after the other there.
    """
    row = b"x" * row_bytes
    if isinstance(where, str) and "://" in where:
        return await _postgres(where, row, writers, commits)
    return await asyncio.to_thread(_sqlite, Path(f"{where}.bare"), row, writers * commits)


def _sqlite(path: Path, row: bytes, commits: int) -> list[float]:
    path.unlink(missing_ok=True)
    found: list[float] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, data BLOB)")
        for _ in range(commits):
            began = time.monotonic()
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO rows (data) VALUES (?)", (row,))
            database.execute("COMMIT")
            found.append((time.monotonic() - began) * 1000)
    return found


async def _postgres(url: str, row: bytes, writers: int, commits: int) -> list[float]:
    connections: list[Any] = [await connect(url) for _ in range(writers)]
    try:
        await connections[0].execute("CREATE SCHEMA IF NOT EXISTS bare")
        await connections[0].execute("CREATE TABLE IF NOT EXISTS bare.rows (number BIGSERIAL PRIMARY KEY, data BYTEA)")
        done = await asyncio.gather(*(_commits(each, row, commits) for each in connections))
        return [ms for of_one in done for ms in of_one]
    finally:
        for connection in connections:
            await connection.close()


async def _commits(connection: Any, row: bytes, commits: int) -> list[float]:
    insert = await connection.prepare("INSERT INTO bare.rows (data) VALUES ($1)")
    found: list[float] = []
    for _ in range(commits):
        began = time.monotonic()
        async with connection.transaction():
            await insert.fetch(row)
        found.append((time.monotonic() - began) * 1000)
    return found
