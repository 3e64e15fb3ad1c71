"""The large world: every table has a size in it, and each database holds it as the program would have written it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.postgres import connect
from benchmarks.world import COUNTS, TENTH, UNFILLED, fill_postgres, fill_sqlite
from circadia.stores.sql.memory_tables import metadata

pytestmark = pytest.mark.spec("LARGE-01")
STATED = {
    "agents": 100_000, "sessions": 1_000, "banks": 100_001, "conversations": 2_000_000, "events": 2_000_000,
    "calls": 3_000_000, "messages": 500_000, "wakes": 500_000, "pulses": 500_000, "passes": 50_000, "blocks": 20_000,
}  # fmt: skip
LARGEST = {
    "conversations": ("agent_id = 'agents_0'", 5_000), "calls": ("agent_id = 'agents_0'", 7_500),
    "episodes": ("bank_id = 'banks_0'", 1_000), "banks": ("template = 'user-{user}'", 499),
}  # fmt: skip


def test_every_table_has_a_size_in_the_world() -> None:
    assert set(metadata.tables) <= set(COUNTS) | UNFILLED, "a new table: add its size to benchmarks/world.py"
    assert {table: COUNTS[table] for table in STATED} == STATED


async def test_sqlite_holds_a_two_hundredth_of_it(tmp_path: Path) -> None:
    await fill_sqlite(tmp_path, TENTH)
    with closing(sqlite3.connect(tmp_path / "circadia.db")) as connection:
        for table, count in COUNTS.items():
            rows = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            assert rows == max(10, round(count / 200)), table
        for table, (where, least) in LARGEST.items():
            assert connection.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0] >= least, table
        indexes = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
        assert {str(index.name) for table in metadata.tables.values() for index in table.indexes} <= indexes


async def test_postgresql_holds_a_two_hundredth_of_it(empty_postgres_url: str) -> None:
    await fill_postgres(empty_postgres_url, TENTH)
    connection = await connect(empty_postgres_url)
    try:
        for table, count in COUNTS.items():
            assert await connection.fetchval(f"SELECT count(*) FROM {table}") == max(10, round(count / 200)), table
        for table, (where, least) in LARGEST.items():
            assert await connection.fetchval(f"SELECT count(*) FROM {table} WHERE {where}") >= least, table
        number = await connection.fetchval(
            "INSERT INTO events (type, at, data) VALUES ('held', 0, '{}') RETURNING number"
        )
        assert abs(number) == 10_001, "what comes next goes on after what is there"
    finally:
        await connection.close()
