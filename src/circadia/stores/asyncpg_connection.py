"""Runs statements on a connection of asyncpg: prepared once, several in one trip."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, Protocol

import asyncpg
from sqlalchemy.util import await_

from circadia.caches import BoundedDict
from circadia.stores.sql.statement import BoundWrite

POSTGRES_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_FIRST_RUNS: Final = 400
"""Statements that a connection runs before it plans them again; the limit then grows fourfold each time."""
_STATEMENTS_KEPT: Final = 500
"""Prepared statements of a connection, about 10 KB each in the server; joined ones have many shapes."""
_MAX_SINGLE_ROWS: Final = 8
"""Most rows of a statement that is joined with others: each row count makes a different statement."""
_PLACE: Final = re.compile(r"\$(\d+)")


class AsyncpgDriver(Protocol):
    """The part of asyncpg's untyped connection that is used here."""

    async def execute(self, query: str) -> str: ...

    async def prepare(self, query: str) -> "_PreparedStatement": ...

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...


class _PreparedStatement(Protocol):
    """The part of asyncpg's prepared statements that is used here."""

    async def fetch(self, *args: object) -> Sequence[Any]: ...

    async def executemany(self, args: Sequence[Sequence[object]]) -> None: ...

    def get_attributes(self) -> Sequence[Any]: ...

    def get_statusmsg(self) -> str: ...


class _PreparedCursor:
    """Result of a statement, in the form of a DB-API cursor."""

    def __init__(self, prepared: _PreparedStatement, rows: Sequence[Any]) -> None:
        self._prepared = prepared
        self._rows = rows

    @property
    def description(self) -> Sequence[tuple[str, int]]:
        """Name and type of each column."""
        return [(attribute.name, attribute.type.oid) for attribute in self._prepared.get_attributes()]

    @property
    def rowcount(self) -> int:
        """Number of changed rows; known until the statement runs again."""
        return int(self._prepared.get_statusmsg().rpartition(" ")[2])

    def fetchall(self) -> Sequence[Any]:
        return self._rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None


class AsyncpgConnection:
    """Runs asyncpg's prepared statements without SQLAlchemy's cursors, which cost twice the statement."""

    def __init__(self, driver: AsyncpgDriver) -> None:
        self._driver = driver
        self._prepared: BoundedDict[str, _PreparedStatement] = BoundedDict(_STATEMENTS_KEPT)
        """By text."""
        self._joined: BoundedDict[tuple[tuple[str, int, int, bool], ...], str] = BoundedDict(_STATEMENTS_KEPT)
        """By text, number of rows, values per row, and whether it is checked."""
        self._runs = 0
        self._runs_planned = _FIRST_RUNS

    def execute(self, text: str, values: Sequence[object]) -> _PreparedCursor:
        return await_(self._run(text, values, many=False))

    def executemany(self, text: str, values: Sequence[Sequence[object]]) -> _PreparedCursor:
        """Run a statement for each sequence of values."""
        return await_(self._run(text, values, many=True))

    def execute_batch(self, writes: Sequence[BoundWrite]) -> Sequence[int]:
        """Run several statements; those with few rows are joined into one and sent in one trip.

        Return the number of changed rows for each row of values of the checked statements.
        """
        counts: list[int] = []
        for many, some in groupby(writes, lambda write: len(write.rows) > _MAX_SINGLE_ROWS):
            if not many:
                counts += self._execute_in_one(list(some))
                continue
            for write in some:
                if write.is_checked:
                    counts += [self.execute(write.text, row).rowcount for row in write.rows]
                else:
                    self.executemany(write.text, write.rows)
        return counts

    def _execute_in_one(self, few: Sequence[BoundWrite]) -> Sequence[int]:
        shape = tuple([(write.text, len(write.rows), len(write.rows[0]), write.is_checked) for write in few])
        joined = self._joined.get(shape)
        if joined is None:
            joined = self._joined[shape] = _join_statements(shape)
        cursor = self.execute(joined, [value for write in few for row in write.rows for value in row])
        return tuple(cursor.fetchone()) if any(write.is_checked for write in few) else ()

    async def _run(self, text: str, values: Sequence[Any], *, many: bool) -> _PreparedCursor:
        self._runs += 1
        if self._runs >= self._runs_planned:
            # A cached plan from when a table was small may be slow by now.
            self._runs_planned *= 4
            self._prepared.clear()
        prepared = self._prepared.get(text)
        if prepared is None:
            prepared = self._prepared[text] = await self._driver.prepare(text)
        try:
            if many:
                await prepared.executemany(values)
                return _PreparedCursor(prepared, ())
            return _PreparedCursor(prepared, await prepared.fetch(*values))
        except POSTGRES_ERRORS:
            # The tables may have changed since it was prepared; the next try prepares it again.
            self._prepared.pop(text, None)
            raise


def _join_statements(writes: Sequence[tuple[str, int, int, bool]]) -> str:
    """Join statements into one, given the rows and values per row of each, and whether it is checked.

    A CTE does not see rows of another. So one that returns its rows takes its table's name: later ones read from it.
    The last becomes the main statement, or one that counts the rows of the checked ones.
    """
    parts: list[tuple[str, str]] = []
    counts: list[str] = []
    before = 0
    for text, rows, places, is_checked in writes:
        head, values, row = text.partition(" VALUES ")
        if rows > 1 and " ON CONFLICT " in row:
            head, values, row = text, "", ""  # its rows are inserted one by one
        row, returning, returned = row.partition(" RETURNING ")
        shifted = [_shift_placeholders(row if values else text, before + at * places) for at in range(rows)]
        before += rows * places
        if values:
            shifted = [f"{head}{values}{', '.join(shifted)}{returning}{returned}"]
        name = head.split()[2] if returning else f"part_{before}"
        names = [name if values else f"{name}_{at}" for at in range(len(shifted))]
        if is_checked:
            shifted = [f"{part} RETURNING 1" for part in shifted]
            counts += [f"(SELECT count(*) FROM {each}) AS {each}" for each in names]  # noqa: S608 - own names
        parts += zip(names, shifted, strict=True)
    last = f"SELECT {', '.join(counts)}" if counts else parts.pop()[1]
    return f"WITH {', '.join(f'{name} AS ({part})' for name, part in parts)} {last}" if parts else last


def _shift_placeholders(text: str, by: int) -> str:
    return _PLACE.sub(lambda place: f"${int(place[1]) + by}", text)
