"""What the classes of nouns have in common: they run statements in a transaction, and find the neighbours of a name."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, Self, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, bindparam

from circadia.stores.locks import LockKey
from circadia.stores.sql.link import Runner, Single, Tables
from circadia.stores.sql.statement import NO_VALUES, Statement

NEIGHBOURS: Final = 32
"""Names per direction: few enough to compare at once, and all names of most databases."""


class NamesNear:
    """Finds the alphabetical neighbours of a value in a column of `rows`."""

    def __init__(self, rows: Select[Any], column: ColumnElement[str]) -> None:
        names = rows.with_only_columns(column).distinct().limit(NEIGHBOURS)
        self._up = names.where(column >= bindparam("near")).order_by(column)
        self._down = names.where(column < bindparam("near")).order_by(column.desc())

    def find(self, connection: Connection, name: str, values: Mapping[str, object]) -> Sequence[str]:
        """Return the neighbours in no order."""
        bound = {**values, "near": name}
        return [*connection.execute(self._up, bound).scalars(), *connection.execute(self._down, bound).scalars()]


R = TypeVar("R")
T = TypeVar("T")


class _Query(Protocol):
    def where(self, *conditions: ColumnElement[bool]) -> Self: ...


Q = TypeVar("Q", bound=_Query)


def where_given(
    statement: Q,
    *equal: tuple[ColumnElement[Any], object],
    time: ColumnElement[Any] | None = None,
    since: object = None,
    until: object = None,
) -> Q:
    """Return the statement for the rows with these values, and of this time; none of a value means any."""
    conditions = [column == value for column, value in equal if value is not None]
    if time is not None and since is not None:
        conditions.append(time >= since)
    if time is not None and until is not None:
        conditions.append(time < until)
    return statement.where(*conditions)


class Noun:
    """The rows of a noun in one transaction."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._run = runner.run
        self._hold = runner.hold
        self._queue_write = runner.queue_write

    def _all(
        self,
        statement: Statement[R],
        values: Mapping[str, object] = NO_VALUES,
        *,
        of: Tables = None,
        short: bool | None = None,
        single: Single = None,
    ) -> Awaitable[list[R]]:
        """Run the statement; return its rows, or the records that it reads. See `Runner.run` for the rest."""
        return self._run(lambda connection: statement.all(connection, values), of=of, short=short, single=single)

    def _first(
        self,
        statement: Statement[R],
        values: Mapping[str, object] = NO_VALUES,
        *,
        of: Tables = None,
        short: bool | None = None,
        single: Single = None,
    ) -> Awaitable[R | None]:
        """Run the statement; return its first row, or the record of it."""
        return self._run(lambda connection: statement.first(connection, values), of=of, short=short, single=single)

    def _scalar(
        self, statement: Statement[Any], values: Mapping[str, object] = NO_VALUES, *, short: bool | None = None
    ) -> Awaitable[Any]:
        """Run the statement; return the first column of its first row."""
        return self._run(lambda connection: statement.scalar(connection, values), short=short)

    def _execute(self, statement: Statement[Any], values: Mapping[str, object] = NO_VALUES) -> Awaitable[int]:
        """Run the statement; return the number of changed rows."""
        return self._run(lambda connection: statement.execute(connection, values))

    def _write(self, statement: Statement[Any], row: Sequence[object]) -> Awaitable[int]:
        """Run the statement with values in the order of its columns; return the number of changed rows."""
        return self._run(lambda connection: statement.execute_row(connection, row))

    def _select(
        self,
        statement: Select[Any],
        read: Callable[[Any], R],
        values: Mapping[str, object] = NO_VALUES,
        *,
        short: bool | None = None,
    ) -> Awaitable[list[R]]:
        """Run a query that is built for this call; return what `read` makes of its rows."""
        return self._run(
            lambda connection: [read(row) for row in connection.execute(statement, values).all()], short=short
        )

    async def _fetch_held(
        self,
        work: Callable[[Connection], T | None],
        build_key: Callable[[T], LockKey],
        *,
        short: bool | None = None,
        single: Single = None,
    ) -> T | None:
        """Read a row and hold its key; read it again if the key was free for others until now."""
        row = await self._run(work, short=short, single=single)
        if row is None or not await self._hold(build_key(row)):
            return row
        again = await self._run(work, short=short)
        if again is None or build_key(again) == build_key(row):
            return again
        return await self._fetch_successor(work, build_key)

    async def _fetch_successor(
        self, work: Callable[[Connection], T | None], build_key: Callable[[T], LockKey]
    ) -> T | None:
        """Do the same where another row has taken the place of the first, such as a new agent of a deleted one's name.

        The key of the first row stays held, so this one may come out of order. It is rare enough to fail then.
        """
        return await self._fetch_held(work, build_key)
