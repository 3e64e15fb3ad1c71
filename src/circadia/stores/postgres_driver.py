"""asyncpg's connections, and statements that run on them without SQLAlchemy's cursors."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, Protocol, cast

import asyncpg
from sqlalchemy.util import await_

DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_BIND_AND_EXECUTE: Final = b"B\0\0\0\x0c" + bytes(8) + b"E\0\0\0\x09" + bytes(5)
"""Messages of PostgreSQL's protocol that run the statement without a name, which has no values."""
_FIRST_RUNS: Final = 400
"""Statements that a connection runs until it has them planned anew; then four times as many, and so on."""
_FEW_ROWS: Final = 8
"""Rows of a statement that may be part of another: each number of rows makes another statement."""
_PLACE: Final = re.compile(r"\$(\d+)")


class Driver(Protocol):
    """What we ask of asyncpg's connection, which has no types of its own."""

    async def execute(self, query: str) -> str: ...

    async def prepare(self, query: str) -> "_Prepared": ...

    def ahead(self, statement: str) -> None:
        """Have a statement that returns no rows run before the next `fetch`, in the same trip."""
        ...

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...


class Driving(cast("Any", asyncpg).Connection):
    """asyncpg's connection, which makes a trip of each statement, with `Driver.ahead`."""

    __slots__ = ()

    def ahead(self, statement: str) -> None:
        """Send it without asking for an answer: that comes with the next one, and to asyncpg is the beginning of it."""
        text = statement.encode()
        parse = b"P" + (len(text) + 8).to_bytes(4, "big") + b"\0" + text + bytes(3)
        self._transport.write(parse + _BIND_AND_EXECUTE)


class _Prepared(Protocol):
    """What we ask of asyncpg's prepared statements."""

    async def fetch(self, *args: object) -> Sequence[Any]: ...

    async def executemany(self, args: Sequence[Sequence[object]]) -> None: ...

    def get_attributes(self) -> Sequence[Any]: ...

    def get_statusmsg(self) -> str: ...


class _Answer:
    """What a statement answered, as `Answer` tells."""

    def __init__(self, prepared: _Prepared, rows: Sequence[Any]) -> None:
        self._prepared = prepared
        self._rows = rows

    @property
    def description(self) -> Sequence[tuple[str, int]]:
        """Name and type of each column."""
        return [(each.name, each.type.oid) for each in self._prepared.get_attributes()]

    @property
    def rowcount(self) -> int:
        """How many rows were changed; known until the statement runs again."""
        return int(self._prepared.get_statusmsg().rpartition(" ")[2])

    def fetchall(self) -> Sequence[Any]:
        """Return the rows."""
        return self._rows

    def fetchone(self) -> Any:
        """Return the first row, or none."""
        return self._rows[0] if self._rows else None


class Direct:
    """Runs statements as asyncpg prepares them, without SQLAlchemy's cursors, which cost twice the statement."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.opening: str | None = None
        """What opens the transaction, as long as it was not sent."""
        self._prepared: dict[str, _Prepared] = {}
        """By text. These are the statements of the program, so they are not too many."""
        self._joined: dict[tuple[tuple[str, int, int], ...], str] = {}
        """By the texts, and how many rows of how many values each has."""
        self._runs = 0
        self._runs_planned = _FIRST_RUNS

    def begin(self) -> None:
        """Open the transaction, unless that was done."""
        await_(self._begun())

    async def _begun(self) -> None:
        opening, self.opening = self.opening, None
        if opening is not None:
            await self._driver.execute(opening)

    def execute(self, text: str, values: Sequence[object]) -> _Answer:
        """Run a statement."""
        return await_(self._run(text, values, many=False))

    def executemany(self, text: str, values: Sequence[Sequence[object]]) -> _Answer:
        """Run a statement for each of the sequences of values."""
        return await_(self._run(text, values, many=True))

    def together(self, writes: Sequence[tuple[str, Sequence[Sequence[object]]]]) -> None:
        """Run statements, as `Together` tells: those of few rows as the parts of one statement, in one trip."""
        for many, some in groupby(writes, lambda write: len(write[1]) > _FEW_ROWS):
            if not many:
                self._at_once(list(some))
                continue
            for text, rows in some:
                self.executemany(text, rows)

    def _at_once(self, few: Sequence[tuple[str, Sequence[Sequence[object]]]]) -> None:
        shape = tuple([(text, len(rows), len(rows[0])) for text, rows in few])
        joined = self._joined.get(shape)
        if joined is None:
            joined = self._joined[shape] = _joined(shape)
        self.execute(joined, [value for _, rows in few for row in rows for value in row])

    async def _run(self, text: str, values: Sequence[Any], *, many: bool) -> _Answer:
        self._runs += 1
        if self._runs >= self._runs_planned:
            # PostgreSQL keeps a statement's plan. One from when a table was small may be bad by now.
            self._runs_planned *= 4
            self._prepared.clear()
        prepared = self._prepared.get(text)
        if self.opening is not None and prepared is not None and not many:
            self._driver.ahead(self.opening)
            self.opening = None
        await self._begun()
        if prepared is None:
            prepared = self._prepared[text] = await self._driver.prepare(text)
        try:
            if many:
                await prepared.executemany(values)
                return _Answer(prepared, ())
            return _Answer(prepared, await prepared.fetch(*values))
        except DRIVER_ERRORS:
            # Perhaps the tables have changed since it was prepared: the next try prepares it anew.
            self._prepared.pop(text, None)
            raise


def _joined(writes: Sequence[tuple[str, int, int]]) -> str:
    """Return one statement for several; each has so many rows of so many values. The last is no part but the whole.

    A part sees no row of another. So one that returns its rows has its table's name: those behind it look there.
    """
    parts: list[tuple[str, str]] = []
    before = 0
    for text, rows, places in writes:
        head, values, row = text.partition(" VALUES ")
        row, returning, returned = row.partition(" RETURNING ")
        shifted = [_shifted(row if values else text, before + at * places) for at in range(rows)]
        before += rows * places
        if values:
            shifted = [f"{head}{values}{', '.join(shifted)}{returning}{returned}"]
        name = head.split()[2] if returning else f"part_{before}"
        parts += [(name if values else f"{name}_{at}", part) for at, part in enumerate(shifted)]
    *others, (_, last) = parts
    return f"WITH {', '.join(f'{name} AS ({part})' for name, part in others)} {last}" if others else last


def _shifted(text: str, by: int) -> str:
    """Return it with the places of its values so many further on."""
    return _PLACE.sub(lambda place: f"${int(place[1]) + by}", text)
