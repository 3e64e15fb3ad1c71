"""The large world: a database as it is after years of use, filled in bulk by the schema that is there (LARGE-01).

`python -m benchmarks world DIR|postgresql://…` fills the empty database of a data folder, or of a URL, with what
`world.toml` says: half of what can belong to somebody belongs to the first agent, session, thread or bank.
"""

import asyncio
import re
import sqlite3
import time
import tomllib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from sqlalchemy import JSON, BigInteger, Boolean, Column, Double, Integer, LargeBinary, Table

from benchmarks.postgres import connect
from benchmarks.turns import Turns
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search.terms import stored_terms
from circadia.memory.search.vectors import stored_vector
from circadia.stores.postgres import open_postgres
from circadia.stores.sql.memory_tables import metadata
from circadia.stores.sql.schema import Instant
from circadia.stores.sqlite import open_sqlite

DAY: Final = 86_400 * 1_000_000
"""Microseconds."""
SPAN_DAYS: Final = 90
TEXTS: Final = 1_000
"""Different texts of episodes and notes."""
_WORD: Final = re.compile(r"<(\w+)>")


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldSize:
    """How many of each there are; a twentieth is what tests use, a tenth of that what they compare it with."""

    share: float = 1.0

    def of(self, count: int) -> int:
        """Return this world's share of a count, and ten at least."""
        return max(10, round(count * self.share))


FULL: Final = WorldSize()
FIXTURE: Final = WorldSize(share=1 / 20)
TENTH: Final = WorldSize(share=1 / 200)

_TABLES: Final[Mapping[str, Mapping[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("world.toml").read_text("utf-8")
)
COUNTS: Final[Mapping[str, int]] = {table: columns["rows"] for table, columns in _TABLES.items()}
"""Rows of each table in the full world."""
UNFILLED: Final = frozenset({"members", "leads", "cursors", "write_probe", "alembic_version"})
"""Tables with a row for each process, sweep or installation: a size does not change them."""


class _Builder:
    """Writes the statements that fill the tables."""

    def __init__(self, size: WorldSize, now: int, *, is_postgres: bool) -> None:
        self._size = size
        self._is_postgres = is_postgres
        spread = "(CASE n % 2 WHEN 0 THEN 0 ELSE (n / 2) % <{}s> END)"
        owners = {name: spread.format(name) for name in ("agent", "bank", "thread")}
        session = f"(CASE {owners['agent']} % 2 WHEN 0 THEN 0 ELSE {owners['agent']} % <sessions> END)"
        self._words = {
            "session": session, **owners, **{table: str(self.count(table)) for table in COUNTS},
            "embedder": f"'{_embedder_name()}'", "now": str(now), "day": str(DAY),
            "text": "BYTEA" if is_postgres else "BLOB",
        }  # fmt: skip

    def count(self, table: str) -> int:
        return self._size.of(COUNTS[table])

    def insert(self, table: Table) -> str:
        """Return the statement that fills a table."""
        count = self.count(table.name)
        given = {"id": f"'{table.name}_' || n", **_TABLES[table.name]}
        columns = [column for column in table.columns if column.name in given or not column.nullable]
        values = [self._cast(column, given.get(column.name, _default(column))) for column in columns]
        names = ", ".join(f'"{column.name}"' for column in columns)
        source = self._numbers(count)
        if any("world_texts" in value for value in values):
            source += f" JOIN world_texts ON world_texts.k = n % {TEXTS}"
        at = f"(<now> - ({count} - n) * {SPAN_DAYS * DAY // count})"
        return self._filled(f"INSERT INTO {table.name} ({names}) SELECT {', '.join(values)} FROM {source}", at=at)

    def insert_words(self) -> str:
        """Return the statement that fills the index of words."""
        source = self._numbers(self.count("message_words"))
        if self._is_postgres:
            return f"INSERT INTO message_words SELECT n + 1, to_tsvector('simple', 'w' || (n % 997)) FROM {source}"
        return f"INSERT INTO message_words (rowid, words) SELECT n + 1, 'w' || (n % 997) FROM {source}"

    def _numbers(self, count: int) -> str:
        if self._is_postgres:
            return f"generate_series(0::bigint, {count - 1}) AS numbers(n)"
        return (
            "(WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < "
            f"{count - 1}) SELECT n FROM numbers)"
        )

    def _cast(self, column: Column[Any], value: str) -> str:
        return f"CAST({value} AS JSON)" if self._is_postgres and isinstance(column.type, JSON) else value

    def _filled(self, statement: str, **more: str) -> str:
        """Replace the words in angle brackets, whose values may have words again."""
        words = {**self._words, **more}
        while (filled := _WORD.sub(lambda word: words[word[1]], statement)) != statement:
            statement = filled
        return statement


def _embedder_name() -> str:
    """Return the name of the bundled embedder's vectors: a server makes all others again, which takes it minutes."""
    return BundledEmbedder().name


def _default(column: Column[Any]) -> str:
    kind = column.type
    if isinstance(kind, JSON):
        return "'{}'"
    if isinstance(kind, LargeBinary):
        return "CAST('' AS <text>)"
    if isinstance(kind, Boolean):
        return "false"
    if isinstance(kind, Integer | BigInteger | Double):
        return "0"
    return "<at>" if isinstance(kind, Instant) else "''"


async def fill_sqlite(folder: Path, size: WorldSize) -> None:
    """Make `circadia.db` in a folder, and fill it."""
    path = folder / "circadia.db"
    await (await open_sqlite(path)).close()
    await asyncio.to_thread(_fill_sqlite, path, size)


def _fill_sqlite(path: Path, size: WorldSize) -> None:
    builder = _Builder(size, _now(), is_postgres=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")  # a log would be written as well, and thrown away
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -200000")
        connection.execute("BEGIN")
        later = connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
        ).fetchall()
        for kind, name, _ in later:
            connection.execute(f"DROP {kind} {name}")
        connection.execute("CREATE TABLE world_texts (k INTEGER PRIMARY KEY, text TEXT, terms BLOB, vector BLOB)")
        connection.executemany("INSERT INTO world_texts VALUES (?, ?, ?, ?)", _texts())
        for table in metadata.sorted_tables:
            if table.name not in UNFILLED:
                connection.execute(builder.insert(table))
        connection.execute(builder.insert_words())
        connection.execute("DROP TABLE world_texts")
        for _, _, sql in later:
            connection.execute(sql)
        connection.execute("COMMIT")
        connection.execute("ANALYZE")
        connection.execute("PRAGMA journal_mode = WAL")


async def fill_postgres(url: str, size: WorldSize) -> None:
    """Make the tables of an empty database, and fill them. The URL's user must be a superuser."""
    await (await open_postgres(url)).close()
    builder = _Builder(size, _now(), is_postgres=True)
    connection = await connect(url)
    try:
        await connection.execute("SET synchronous_commit = off; SET session_replication_role = replica")
        later = await connection.fetch(
            "SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS sql FROM pg_index JOIN pg_class "
            "ON oid = indrelid WHERE relnamespace = current_schema()::regnamespace AND NOT EXISTS (SELECT FROM "
            "pg_constraint WHERE conindid = indexrelid)"
        )
        async with connection.transaction():
            for index in later:
                await connection.execute(f"DROP INDEX {index['name']}")
            await connection.execute(
                "CREATE TEMP TABLE world_texts (k BIGINT PRIMARY KEY, text TEXT, terms BYTEA, vector BYTEA)"
            )
            await connection.executemany("INSERT INTO world_texts VALUES ($1, $2, $3, $4)", _texts())
            for table in metadata.sorted_tables:
                if table.name not in UNFILLED:
                    await connection.execute(builder.insert(table))
                    if "number" in table.columns and table.primary_key.columns.keys() == ["number"]:
                        await _move_sequence(connection, table.name, builder.count(table.name))
            await connection.execute(builder.insert_words())
            for index in later:
                await connection.execute(index["sql"])
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


_SEQUENCE: Final = "SELECT pg_get_serial_sequence($1, 'number')"


async def _move_sequence(connection: Any, table: str, count: int) -> None:
    sequences = [await connection.fetchval(_SEQUENCE, table)]
    if table == "events":  # these count their arrivals, and get their numbers after their commit
        sequences.append("event_numbers")
    for sequence in filter(None, sequences):
        await connection.execute(f"SELECT setval('{sequence}', {count})")


def _texts() -> list[tuple[int, str, bytes, bytes]]:
    return [
        (number, turn.text, stored_terms(turn.text), stored_vector(turn.vector))
        for number, turn in enumerate(Turns(39).make(TEXTS))
    ]


def _now() -> int:
    return time.time_ns() // 1_000


def main(place: str) -> None:
    """Fill the database of a folder or URL with the full world, and say how long it took."""
    console, began = Console(), time.monotonic()
    with console.status(f"filling {place.rpartition('@')[2]} …"):
        if place.startswith(("postgresql://", "postgres://")):
            asyncio.run(fill_postgres(place, FULL))
        else:
            folder = Path(place)
            folder.mkdir(parents=True, exist_ok=True)
            asyncio.run(fill_sqlite(folder, FULL))
    console.print(f"{sum(COUNTS.values()):,} rows in {time.monotonic() - began:.0f} s")
