"""Databases of two sizes, and what a statement costs in each: the same work in both, if it goes by an index."""

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import asyncpg

from tests.recording.statement_recorder import SentStatement

PAGE = 20
"""Rows of the largest page that is asked for: with a larger one, the smaller world would end before the page does."""
PLANNING_COST = 2.5
"""What PostgreSQL counts for planning, for each table of a statement and once more: 1,000 `cpu_operator_cost`."""
MANY = 20
"""A column with more values than this names things; one with fewer has states."""
STEPS_AT_ONCE = 100
"""SQLite's steps are counted in hundreds: a call for each would take longer than the steps."""
_ALIAS = re.compile(r'\b(?:FROM|JOIN|,|UPDATE|INTO)\s+"?(\w+)"?(?:\s+AS\s+"?(\w+)"?)?')
_PLACE = re.compile(r"\?|\$(\d+)(?:::[\w ]+)?")
_LIMIT = re.compile(r"\bLIMIT $")
_COMPARED = re.compile(r'(?:"?(\w+)"?\.)?"?(\w+)"? (=|<=|>=|<|>|IN \() ?(?:\(?(?:\?|\$\d+(?:::\w+)?), )*\(?$')


class Compared(NamedTuple):
    """What a value of a statement is compared with."""

    table: str
    column: str
    operator: str
    place: int
    """Which value of a list it is, from 0."""


class Unusable(Exception):
    """The database does not know the statement, or refuses it with these values."""


class WorldDatabase(Protocol):
    async def measure(self, statement: SentStatement) -> int:
        """Return the work of the statement for the largest agent, bank, session and user; nothing is changed.

        Raises:
            Unusable: the statement cannot be run here.
        """
        ...


def find_compared(statement: SentStatement) -> list[Compared | None]:
    """Return for each value of the statement what it is compared with, or none."""
    text = statement.text
    tables = {alias or name: name for name, alias in _ALIAS.findall(text)}
    found: dict[int, Compared] = {}
    for number, place in enumerate(_PLACE.finditer(text)):
        position = int(place[1]) - 1 if place[1] else number
        before = _COMPARED.search(text[: place.start()])
        if before is None:
            continue
        owner, column, operator = before[1], before[2], before[3]
        candidates = [owner] if owner else list(tables)
        table = next((tables[name] for name in candidates if name in tables), None)
        if table is not None:
            listed = before[0].count(", ")
            found[position] = Compared(table, column, "=" if operator.startswith("IN") else operator, listed)
    return [found.get(position) for position in range(len(statement.values))]


def shrink_pages(statement: SentStatement) -> SentStatement:
    """Return the statement with pages of at most `PAGE` rows."""
    values = list(statement.values)
    for number, place in enumerate(_PLACE.finditer(statement.text)):
        position = int(place[1]) - 1 if place[1] else number
        if _LIMIT.search(statement.text[: place.start()]) and type(values[position]) is int:
            values[position] = min(values[position], PAGE)
    return statement._replace(values=values)


FEW, NO = 5, 0
"""Rows that a probe's bounds leave: what finds nothing, as what looks for due work mostly does, must cost as little."""
COMMONEST = 1_000
"""Values of a column that are tried: the longest list of a statement takes so many."""
ABSENT = "absent"
"""The state that nothing is in: what a filter finds last."""


def _find_query(where: Compared, left: int) -> str:
    table, column, operator, _ = where
    if operator == "=":
        return (
            f'SELECT "{column}" FROM {table} GROUP BY "{column}" ORDER BY count(*) DESC, "{column}" LIMIT {COMMONEST}'
        )
    direction = "DESC" if operator.startswith(">") else "ASC"
    order = f'WHERE "{column}" IS NOT NULL ORDER BY "{column}" {direction}'
    return f'SELECT "{column}" FROM {table} {order} LIMIT 1 OFFSET {left}'


def _choose(found: Sequence[Any], where: Compared, left: int) -> Any:
    """Return the value to compare with, of what `_find_query` has found; none for the recorded one.

    It does not hang on what a test happened to send: what names a thing is the commonest (the next of them for the next
    of a list), a bound leaves `left` rows, and no row has a state.
    """
    found = [value for value in found if value is not None]
    if not found:
        return None
    if where.operator == "=":
        if len(found) > MANY or where.column.endswith("id"):
            return found[where.place % len(found)]
        return ABSENT if left == NO and type(found[0]) is str else None
    if not isinstance(found[0], int):
        return found[0] if type(found[0]) is str else None
    return found[0] if left else found[0] + (1 if where.operator.startswith(">") else -1)


class SqliteWorld:
    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "circadia.db", isolation_level=None)
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._found: dict[str, Sequence[Any]] = {}
        self._steps = 0
        # Every statement counts from the same state: none may find pages in a cache that another has filled.
        self._connection.execute("PRAGMA cache_size = -100000")

    def close(self) -> None:
        self._connection.close()

    async def measure(self, statement: SentStatement) -> int:
        return max(self._measure(statement, left) for left in (FEW, NO))

    def _measure(self, statement: SentStatement, left: int) -> int:
        places = zip(find_compared(statement), statement.values, strict=True)
        values = [self._value(where, value, left) for where, value in places]
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

    def _value(self, where: Compared | None, recorded: Any, left: int) -> Any:
        if where is None or recorded is None:
            return recorded
        query = _find_query(where, left)
        if query not in self._found:
            self._found[query] = self._find(query)
        chosen = _choose(self._found[query], where, left)
        return recorded if chosen is None else chosen

    def _find(self, query: str) -> Sequence[Any]:
        try:
            return [row[0] for row in self._connection.execute(query)]
        except sqlite3.Error:
            return ()


class _Plan(NamedTuple):
    work: int
    """What the statement reads: rows and pages."""
    cost: float
    """What the planner thinks that it costs."""
    tables: int


class PostgresWorld:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._found: dict[str, Sequence[Any]] = {}

    async def measure(self, statement: SentStatement) -> int:
        return max([await self._measure(statement, left) for left in (FEW, NO)])

    async def _measure(self, statement: SentStatement, left: int) -> int:
        values: list[Any] = []
        for where, value in zip(find_compared(statement), statement.values, strict=True):
            values.append(await self._value(where, value, left))
        given = ", ".join(map(_literal, values))
        try:
            await self._connection.execute(f"PREPARE probe AS {statement.text}")
        except asyncpg.PostgresError as error:
            raise Unusable(str(error)) from error
        try:
            custom, generic = [await self._explain(given, f"force_{kind}_plan") for kind in ("custom", "generic")]
            # PostgreSQL takes the plan for all values from the sixth time on, unless it seems dearer than a new one.
            planning = PLANNING_COST * (custom.tables + 1)
            return max(custom.work, generic.work) if generic.cost <= custom.cost + planning else custom.work
        finally:
            await self._connection.execute("DEALLOCATE probe")

    async def _explain(self, given: str, mode: str) -> _Plan:
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
        work = _rows(root) + root["Shared Hit Blocks"] + root["Shared Read Blocks"]
        return _Plan(work, root["Total Cost"], _count_tables(root))

    async def _value(self, where: Compared | None, recorded: object, left: int) -> object:
        if where is None or recorded is None:
            return recorded
        query = _find_query(where, left)
        if query not in self._found:
            self._found[query] = await self._find(query)
        chosen = _choose(self._found[query], where, left)
        return recorded if chosen is None or not isinstance(recorded, str | int) else chosen

    async def _find(self, query: str) -> Sequence[Any]:
        try:
            return [row[0] for row in await self._connection.fetch(query)]
        except asyncpg.PostgresError:
            return ()


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


def _count_tables(node: Mapping[str, Any]) -> int:
    parts: Sequence[Mapping[str, Any]] = node.get("Plans", ())
    return ("Relation Name" in node) + sum(map(_count_tables, parts))
