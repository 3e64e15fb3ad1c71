"""Inserts whose rows go to the driver as they are, for the lines of the record: a busy server has thousands a second.

SQLAlchemy writes the statement and tells how to convert each column; whatever else it does for each row is left out.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from sqlalchemy import Connection, Dialect, Table
from sqlalchemy.sql import Insert

_Convert = Callable[[Any], Any] | None


class Bulk:
    """An insert, compiled once for each dialect."""

    def __init__(self, table: Table, columns: Sequence[str], statement: Callable[[Connection], Insert]) -> None:
        """Rows have their values in the order of `columns`; `statement` gives the insert in a connection's dialect."""
        self._table: Final = table
        self._columns: Final = tuple(columns)
        self._statement: Final = statement
        self._plans: dict[str, tuple[str, tuple[tuple[int, _Convert], ...]]] = {}

    def __call__(self, connection: Connection, rows: Sequence[Sequence[object]]) -> None:
        """Insert the rows, of which there must be one at least."""
        plan = self._plans.get(connection.dialect.name)
        if plan is None:
            plan = self._plans[connection.dialect.name] = self._plan(connection)
        text, places = plan
        values = [tuple([row[at] if convert is None else convert(row[at]) for at, convert in places]) for row in rows]
        connection.exec_driver_sql(text, values if len(values) > 1 else values[0])

    def _plan(self, connection: Connection) -> tuple[str, tuple[tuple[int, _Convert], ...]]:
        dialect = connection.dialect
        compiled = self._statement(connection).compile(dialect=dialect, column_keys=list(self._columns))
        names = cast("list[str]", compiled.positiontup)
        return str(compiled), tuple((self._columns.index(name), self._convert(name, dialect)) for name in names)

    def _convert(self, name: str, dialect: Dialect) -> _Convert:
        return self._table.c[name].type.dialect_impl(dialect).bind_processor(dialect)
