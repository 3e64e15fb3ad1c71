"""Databases of two sizes, and what a statement costs in each: the same work in both, if it goes by an index."""

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, cast

import asyncpg

from tests.recording.statement_recorder import SentStatement

PAGE = 20
"""Rows of the largest page that is asked for: with a larger one, the smaller world would end before the page does."""
PLANNING_COST = 15.0
"""What PostgreSQL counts for planning a statement of up to five tables: 1,000 `cpu_operator_cost` for each, and one."""
MANY = 20
"""A column with more values than this names things; one with fewer has states, which a statement means as it says."""
STEPS_AT_ONCE = 100
"""SQLite's steps are counted in hundreds: a call for each would take longer than the steps."""
_ALIAS = re.compile(r'\b(?:FROM|JOIN|,|UPDATE|INTO)\s+"?(\w+)"?(?:\s+AS\s+"?(\w+)"?)?')
_PLACE = re.compile(r"\?|\$(\d+)(?:::[\w ]+)?")
_LIMIT = re.compile(r"\bLIMIT $")
_COMPARED = re.compile(r'(?:"?(\w+)"?\.)?"?(\w+)"? (=|<=|>=|<|>|IN \() ?(?:\(?(?:\?|\$\d+(?:::\w+)?), )*\(?$')


class Unusable(Exception):
    """The database does not know the statement, or refuses it with these values."""


class WorldDatabase(Protocol):
    async def measure(self, statement: SentStatement) -> int:
        """Return the work of the statement for the largest agent, bank, session and user; nothing is changed.

        Raises:
            Unusable: the statement cannot be run here.
        """
        ...


def find_compared(statement: SentStatement) -> list[tuple[str, str, str] | None]:
    """Return for each value of the statement the table, column and operator that it is compared with, or none."""
    text = statement.text
    tables = {alias or name: name for name, alias in _ALIAS.findall(text)}
    found: dict[int, tuple[str, str, str]] = {}
    for number, place in enumerate(_PLACE.finditer(text)):
        position = int(place[1]) - 1 if place[1] else number
        before = _COMPARED.search(text[: place.start()])
        if before is None or (before[3].startswith("IN") and not before[0].endswith("(")):
            continue  # of a list, one is the commonest: a planner would take copies of it for many rows
        owner, column, operator = before[1], before[2], before[3]
        candidates = [owner] if owner else list(tables)
        table = next((tables[name] for name in candidates if name in tables), None)
        if table is not None:
            found[position] = (table, column, "=" if operator.startswith("IN") else operator)
    return [found.get(position) for position in range(len(statement.values))]


def shrink_pages(statement: SentStatement) -> SentStatement:
    """Return the statement with pages of at most `PAGE` rows."""
    values = list(statement.values)
    for number, place in enumerate(_PLACE.finditer(statement.text)):
        position = int(place[1]) - 1 if place[1] else number
        if _LIMIT.search(statement.text[: place.start()]) and type(values[position]) is int:
            values[position] = min(values[position], PAGE)
    return statement._replace(values=values)


class _Values:
    """What stands in place of the recorded values: the commonest name, and bounds that leave a few rows."""

    def __init__(self) -> None:
        self._commonest: dict[tuple[str, str], Any] = {}
        self._bounds: dict[tuple[str, str], tuple[Any, Any]] = {}

    def commonest_query(self, table: str, column: str) -> str:
        return (
            f'SELECT "{column}", (SELECT count(DISTINCT "{column}") FROM {table}) FROM {table} '
            f'WHERE "{column}" IS NOT NULL GROUP BY "{column}" ORDER BY count(*) DESC, "{column}" LIMIT 1'
        )

    def bound_query(self, table: str, column: str, direction: str) -> str:
        order = f'WHERE "{column}" IS NOT NULL ORDER BY "{column}" {direction}'
        return f'SELECT "{column}" FROM {table} {order} LIMIT 1 OFFSET 5'


class SqliteWorld:
    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "circadia.db", isolation_level=None)
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._values: dict[tuple[str, str, str], Any] = {}
        self._steps = 0
        # Every statement counts from the same state: none may find pages in a cache that another has filled.
        self._connection.execute("PRAGMA cache_size = -100000")

    def close(self) -> None:
        self._connection.close()

    async def measure(self, statement: SentStatement) -> int:
        values = [
            self._value(where, value) for where, value in zip(find_compared(statement), statement.values, strict=True)
        ]
        self._steps = 0
        self._connection.execute("BEGIN")
        self._connection.set_progress_handler(self._count, STEPS_AT_ONCE)
        try:
            with closing(self._connection.execute(statement.text, values)) as cursor:
                cursor.fetchall()
        except sqlite3.IntegrityError:
            pass  # it is checked after the work
        except sqlite3.Error as error:
            raise Unusable(str(error)) from error
        finally:
            self._connection.set_progress_handler(None, STEPS_AT_ONCE)
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        return self._steps

    def _count(self) -> int:
        self._steps += STEPS_AT_ONCE
        return 0

    def _value(self, where: tuple[str, str, str] | None, recorded: Any) -> Any:
        if where is None or recorded is None:
            return recorded
        if where not in self._values:
            self._values[where] = self._find(*where)
        found = self._values[where]
        return recorded if found is None else found

    def _find(self, table: str, column: str, operator: str) -> Any:
        queries = _Values()
        try:
            if operator == "=":
                row = self._connection.execute(queries.commonest_query(table, column)).fetchone()
                return row[0] if row and row[1] > MANY else None
            query = queries.bound_query(table, column, "DESC" if operator.startswith(">") else "ASC")
            row = self._connection.execute(query).fetchone()
            return row[0] if row and isinstance(row[0], int) else None
        except sqlite3.Error:
            return None


class PostgresWorld:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._values: dict[tuple[str, str, str], Any] = {}

    async def measure(self, statement: SentStatement) -> int:
        values: list[Any] = []
        for where, value in zip(find_compared(statement), statement.values, strict=True):
            values.append(await self._value(where, value))
        given = ", ".join(map(_literal, values))
        try:
            await self._connection.execute(f"PREPARE probe AS {statement.text}")
        except asyncpg.PostgresError as error:
            raise Unusable(str(error)) from error
        try:
            work, cost = await self._explain(given, "force_custom_plan")
            generic_work, generic_cost = await self._explain(given, "force_generic_plan")
            # PostgreSQL takes the plan for all values from the sixth time on, unless it seems dearer than a new one.
            return max(work, generic_work) if generic_cost <= cost + PLANNING_COST else work
        finally:
            await self._connection.execute("DEALLOCATE probe")

    async def _explain(self, given: str, mode: str) -> tuple[int, float]:
        """Return what the statement reads, and what the planner thinks that it costs."""
        transaction = self._connection.transaction()
        await transaction.start()
        try:
            # Children that are left behind are no fault here: all is rolled back.
            await self._connection.execute(
                f"SET LOCAL jit = off; SET LOCAL session_replication_role = replica; SET LOCAL plan_cache_mode = {mode}"
            )
            execution = f"EXECUTE probe ({given})" if given else "EXECUTE probe"
            plan = await self._connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {execution}")
        except asyncpg.PostgresError as error:
            raise Unusable(str(error)) from error
        finally:
            await transaction.rollback()
        root: Mapping[str, Any] = json.loads(plan)[0]["Plan"]
        return _rows(root) + root["Shared Hit Blocks"] + root["Shared Read Blocks"], root["Total Cost"]

    async def _value(self, where: tuple[str, str, str] | None, recorded: object) -> object:
        if where is None or recorded is None:
            return recorded
        if where not in self._values:
            self._values[where] = await self._find(*where)
        found = self._values[where]
        return recorded if found is None or not isinstance(recorded, str | int) else found

    async def _find(self, table: str, column: str, operator: str) -> Any:
        queries = _Values()
        try:
            if operator == "=":
                row = await self._connection.fetchrow(queries.commonest_query(table, column))
                return row[0] if row and row[1] > MANY else None
            query = queries.bound_query(table, column, "DESC" if operator.startswith(">") else "ASC")
            row = await self._connection.fetchrow(query)
            return row[0] if row and isinstance(row[0], int) else None
        except asyncpg.PostgresError:
            return None


def _literal(value: object) -> str:
    """Return a value as SQL; without a type, it takes that of its place in the statement."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, list | tuple):
        elements = cast("Sequence[object]", value)
        return f"ARRAY[{', '.join(map(_literal, elements))}]" if elements else "'{}'"
    return "'" + str(value).replace("'", "''") + "'"


def _rows(node: Mapping[str, Any]) -> int:
    """Return the rows that a plan's nodes read, those that they dropped included."""
    removed = sum(int(node.get(f"Rows Removed by {what}", 0)) for what in ("Filter", "Join Filter", "Index Recheck"))
    own = (int(node["Actual Rows"]) + removed) * int(node["Actual Loops"])
    parts: Sequence[Mapping[str, Any]] = node.get("Plans", ())
    return own + sum(map(_rows, parts))
