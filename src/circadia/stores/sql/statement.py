"""Statements that are compiled once and go to the driver as they are.

SQLAlchemy writes the statement for a dialect and says how each value and column is converted. What else it does for
each execution (cache keys, contexts, results) costs five times what SQLite takes for a row by its key, so it is left
out. Statements that are put together for a call, or that have lists (`IN`), go through SQLAlchemy itself.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlalchemy import ColumnElement, Connection, Dialect, FromClause, Insert
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import SelectBase

_Convert = Callable[[Any], Any] | None
_Any = SelectBase | UpdateBase
_NONE: Final[Mapping[str, object]] = {}
DRIVER_CONNECTION: Final = "direct"
"""Where the `info` of each connection has its `DriverConnection`."""
BATCH_EXECUTOR: Final = "together"
"""Where it has what runs several statements in one trip, if the driver makes trips: see `BatchExecutor`."""


class DriverCursor(Protocol):
    """What a driver answers; a cursor of sqlite3 is one."""

    @property
    def description(self) -> Any:
        """A sequence for each column, with the code of its type in the second place."""
        ...

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        ...

    def fetchall(self) -> Sequence[Any]:
        """Return the rows."""
        ...

    def fetchone(self) -> Any:
        """Return the first row, or none."""
        ...


class DriverConnection(Protocol):
    """The driver's side of a connection; a connection of sqlite3 is one. Errors come out as the driver raises them."""

    def execute(self, text: str, values: Sequence[object]) -> DriverCursor:
        """Run a statement."""
        ...

    def executemany(self, text: str, values: Sequence[Sequence[object]]) -> DriverCursor:
        """Run a statement for each of the sequences of values."""
        ...


class BatchExecutor(Protocol):
    """Runs statements, each for its rows, in one trip.

    What one sees of another's table is only what an insert before it returns of its rows (`RETURNING`).
    """

    def __call__(self, writes: Sequence[tuple[str, Sequence[Sequence[object]]]]) -> None: ...


@dataclass(kw_only=True, slots=True)
class _Plan:
    """A statement in one dialect."""

    text: str
    values: Sequence[tuple[str | None, Any]]
    """Name and conversion of each value, in the order of the places in the text; no name and a constant as well."""
    places: Sequence[tuple[int, _Convert]]
    """The same by place among the `columns`."""
    row: Callable[[Sequence[Any]], Any] | None = None
    """Makes a row of what the driver returns; known with the first answer, which tells the driver's types."""


class Statement:
    """One statement; its values are a mapping by name, its rows have the columns as attributes."""

    def __init__(self, statement: _Any | Callable[[Connection], _Any], columns: Sequence[str] | None = None) -> None:
        """`statement` may be a function that gives it in a connection's dialect.

        `columns` are those of an insert, or else the names of the values in the rows of `many`.
        """
        self._statement: Final = statement
        self._columns: Final = None if columns is None else list(columns)
        self._plans: dict[str, _Plan] = {}

    @property
    def table(self) -> FromClause | None:
        """The table that it writes to, if it is one statement in all dialects."""
        return self._statement.table if isinstance(self._statement, UpdateBase) else None

    def all(self, connection: Connection, values: Mapping[str, object] = _NONE) -> list[Any]:
        """Run it and return the rows."""
        row, cursor = self._query(connection, values)
        return [row(found) for found in cursor.fetchall()]

    def first(self, connection: Connection, values: Mapping[str, object] = _NONE) -> Any | None:
        """Run it and return the first row, or none."""
        row, cursor = self._query(connection, values)
        found = cursor.fetchone()
        return None if found is None else row(found)

    def scalar(self, connection: Connection, values: Mapping[str, object] = _NONE) -> Any:
        """Run it and return the first column of the first row; none if there is no row."""
        found = self.first(connection, values)
        return None if found is None else found[0]

    def execute(self, connection: Connection, values: Mapping[str, object] = _NONE) -> int:
        """Run it and return how many rows it changed."""
        return self._execute_plan(connection, self._plan(connection), values).rowcount

    def run_many(self, connection: Connection, rows: Sequence[Sequence[object]]) -> None:
        """Run it for each of the rows, which have their values in the order of the `columns`."""
        text, values = self._bind_rows(connection, rows)
        if len(values) == 1:
            _execute(connection, text, values[0])
        elif values:
            _execute(connection, text, values, many=True)

    @staticmethod
    def run_batch(connection: Connection, writes: Mapping["Statement", Sequence[Sequence[object]]]) -> None:
        """Run each of the statements for its rows, as `many` does; in one trip, where a trip costs."""
        together: BatchExecutor | None = connection.info.get(BATCH_EXECUTOR)
        if together is not None and len(writes) > 1:
            together([statement._bind_rows(connection, rows) for statement, rows in writes.items()])
            return
        for statement, rows in writes.items():
            statement.run_many(connection, rows)

    def _bind_rows(
        self, connection: Connection, rows: Sequence[Sequence[object]]
    ) -> tuple[str, Sequence[Sequence[object]]]:
        plan = self._plan(connection)
        places = plan.places
        return plan.text, [
            tuple([row[at] if convert is None else convert(row[at]) for at, convert in places]) for row in rows
        ]

    def _query(
        self, connection: Connection, values: Mapping[str, object]
    ) -> tuple[Callable[[Sequence[Any]], Any], DriverCursor]:
        plan = self._plan(connection)
        cursor = self._execute_plan(connection, plan, values)
        if plan.row is None:
            plan.row = _build_row_factory(self._in_dialect(connection), connection.dialect, cursor)
        return plan.row, cursor

    def _execute_plan(self, connection: Connection, plan: _Plan, values: Mapping[str, object]) -> DriverCursor:
        given = tuple([
            (values[name] if convert is None else convert(values[name])) if name is not None else convert
            for name, convert in plan.values
        ])  # fmt: skip
        return _execute(connection, plan.text, given)

    def _plan(self, connection: Connection) -> _Plan:
        plan = self._plans.get(connection.dialect.name)
        if plan is None:
            plan = self._plans[connection.dialect.name] = self._compile(connection)
        return plan

    def _compile(self, connection: Connection) -> _Plan:
        dialect = connection.dialect
        statement = self._in_dialect(connection)
        keys = self._columns if isinstance(statement, Insert) else None
        compiled = statement.compile(dialect=dialect, column_keys=keys)
        asked = {name: None for name, each in compiled.binds.items() if each.required}
        state = compiled.construct_expanded_state(asked)  # with constant lists (`IN`) written out
        values = [_resolve_value(compiled, name, state.parameters, dialect) for name in state.positiontup or ()]
        order = self._columns or []
        return _Plan(
            text=state.statement,
            values=values,
            places=[(order.index(name), convert) for name, convert in values if name is not None and name in order],
        )

    def _in_dialect(self, connection: Connection) -> _Any:
        return self._statement(connection) if callable(self._statement) else self._statement


def _execute(connection: Connection, text: str, values: Any, *, many: bool = False) -> DriverCursor:
    direct: DriverConnection = connection.info[DRIVER_CONNECTION]
    return direct.executemany(text, values) if many else direct.execute(text, values)


def _build_row_factory(statement: _Any, dialect: Dialect, cursor: DriverCursor) -> Callable[[Sequence[Any]], Any]:
    """Return what makes rows of the answer: a named tuple, with the columns converted that need it."""
    columns: Sequence[ColumnElement[Any]] = list(statement.exported_columns)
    names = [str(column.key) for column in columns]
    made: Any = namedtuple("Row", names, rename=True)  # pyright: ignore[reportUntypedNamedTuple] # known here only
    codes = [described[1] for described in cursor.description or ()]
    found = [
        (at, column.type.dialect_impl(dialect).result_processor(dialect, code))
        for at, (column, code) in enumerate(zip(columns, codes, strict=True))
    ]
    converted = [(at, convert) for at, convert in found if convert is not None]
    if not converted:
        return made._make

    def row(values: Sequence[Any]) -> Any:
        changed = list(values)
        for at, convert in converted:
            changed[at] = convert(changed[at])
        return made._make(changed)

    return row


def _resolve_value(
    compiled: SQLCompiler, name: str, constants: Mapping[str, Any], dialect: Dialect
) -> tuple[str | None, Any]:
    """Return a value's name and conversion, or none and the constant that the statement has there."""
    bind = compiled.binds.get(name)  # none for one of a constant list
    convert = None if bind is None else bind.type.dialect_impl(dialect).bind_processor(dialect)
    if bind is not None and bind.required:
        return name, convert
    return None, constants[name] if convert is None else convert(constants[name])
