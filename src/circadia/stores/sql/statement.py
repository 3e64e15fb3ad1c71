"""Statements that are compiled once and sent to the driver directly.

SQLAlchemy compiles the statement for a dialect and supplies the conversions of values and columns. Its other work per
execution (cache keys, contexts, results) costs five times what SQLite takes for a row by key, so it is skipped.
Statements that are built per call, or that have lists (`IN`), go through SQLAlchemy itself.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, overload

from sqlalchemy import ColumnElement, Connection, Dialect, FromClause, Insert, func, select
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import SelectBase

R = TypeVar("R")
T = TypeVar("T")
_Convert = Callable[[Any], Any] | None
_Any = SelectBase | UpdateBase
NO_VALUES: Final[Mapping[str, object]] = {}
DRIVER_CONNECTION: Final = "direct"
"""Key of the `DriverConnection` in each connection's `info`."""
BATCH_EXECUTOR: Final = "together"
"""Key of the `BatchExecutor` there, if the driver makes network trips."""


def build_least(column: ColumnElement[T], *where: ColumnElement[bool]) -> ColumnElement[T]:
    """Build the query of a column's least value, which an index on the column gives in one step.

    Compared with a bound it tells whether a row lies below it. `EXISTS` would leave the way to the planner: PostgreSQL,
    which does not know the bound when it plans for all of them, takes rows below it for so many that it reads the table
    from its begin, and where there are none, to its end.
    """
    return select(func.min(column)).where(column.is_not(None), *where).scalar_subquery()


class DriverCursor(Protocol):
    """A driver's result; a cursor of sqlite3 is one."""

    @property
    def description(self) -> Any:
        """A sequence per column, with the type code in second place."""
        ...

    @property
    def rowcount(self) -> int:
        """Number of changed rows."""
        ...

    def fetchall(self) -> Sequence[Any]: ...

    def fetchone(self) -> Any: ...


class DriverConnection(Protocol):
    """The driver's connection; one of sqlite3 fits. It raises the driver's errors."""

    def execute(self, text: str, values: Sequence[object]) -> DriverCursor: ...

    def executemany(self, text: str, values: Sequence[Sequence[object]]) -> DriverCursor:
        """Run a statement for each sequence of values."""
        ...


@dataclass(frozen=True, slots=True)
class BoundWrite:
    """A statement in a driver's form, with the values of each of its rows."""

    text: str
    rows: Sequence[Sequence[object]]
    is_checked: bool


class BatchExecutor(Protocol):
    """Runs statements with their rows in one trip.

    A statement sees rows of an earlier insert only through its `RETURNING`.
    """

    def __call__(self, writes: Sequence[BoundWrite]) -> Sequence[int]:
        """Return the number of changed rows for each row of values of the checked statements."""
        ...


@dataclass(kw_only=True, slots=True)
class _Plan:
    """A statement compiled for one dialect."""

    text: str
    values: Sequence[tuple[str | None, Any]]
    """Name and conversion of each value in the order of the placeholders, or no name and a constant."""
    places: Sequence[tuple[int | None, Any]]
    """The same by index in `columns`; empty without them."""
    row: Callable[[Sequence[Any]], Any] | None = None
    """Builds a row of the driver's result; set at the first result, which shows the driver's types."""


class Statement(Generic[R]):
    """One statement: values are passed by name, and rows have the columns as attributes, or are read as records."""

    @overload
    def __init__(
        self: "Statement[Any]",
        statement: _Any | Callable[[Connection], _Any],
        columns: Sequence[str] | None = None,
        *,
        is_checked: bool = False,
    ) -> None: ...

    @overload
    def __init__(self, statement: _Any | Callable[[Connection], _Any], *, read: Callable[[Any], R]) -> None: ...

    def __init__(
        self,
        statement: _Any | Callable[[Connection], _Any],
        columns: Sequence[str] | None = None,
        *,
        is_checked: bool = False,
        read: Callable[[Any], R] | None = None,
    ) -> None:
        """`statement` may be a function that returns it for a connection's dialect.

        `columns` are the columns of an insert, or the names of the values in the rows of `run_many`. If `is_checked`,
        a queued write of it must change a row. `read` makes a record of a row.
        """
        self.is_checked: Final = is_checked
        self._statement: Final = statement
        self._read: Final = read
        self._columns: Final = None if columns is None else list(columns)
        self._plans: dict[str, _Plan] = {}

    @property
    def table(self) -> FromClause | None:
        """The table that it writes to, if all dialects share the statement."""
        return self._statement.table if isinstance(self._statement, UpdateBase) else None

    def all(self, connection: Connection, values: Mapping[str, object] = NO_VALUES) -> list[R]:
        """Run the statement and return the rows."""
        row, cursor = self._query(connection, values)
        return [row(record) for record in cursor.fetchall()]

    def first(self, connection: Connection, values: Mapping[str, object] = NO_VALUES) -> R | None:
        """Run the statement and return the first row."""
        row, cursor = self._query(connection, values)
        record = cursor.fetchone()
        return None if record is None else row(record)

    def scalar(self, connection: Connection, values: Mapping[str, object] = NO_VALUES) -> Any:
        """Run the statement and return the first column of the first row."""
        record: Any = self.first(connection, values)
        return None if record is None else record[0]

    def execute(self, connection: Connection, values: Mapping[str, object] = NO_VALUES) -> int:
        """Run the statement and return the number of changed rows."""
        return self._execute_plan(connection, self._plan(connection), values).rowcount

    def execute_row(self, connection: Connection, row: Sequence[object]) -> int:
        """Run the statement with values in the order of `columns`; return the number of changed rows."""
        write = self._bind_rows(connection, (row,))
        return _execute(connection, write.text, write.rows[0]).rowcount

    def run_many(self, connection: Connection, rows: Sequence[Sequence[object]]) -> None:
        """Run the statement for each row, with values in the order of `columns`."""
        _execute_bound(connection, self._bind_rows(connection, rows))

    @staticmethod
    def run_batch(
        connection: Connection, writes: Mapping["Statement[Any]", Sequence[Sequence[object]]]
    ) -> Sequence[int]:
        """Run each statement for its rows like `run_many`, in one trip if the driver makes network trips.

        Return the number of changed rows for each row of values of the checked statements.
        """
        bound = [statement._bind_rows(connection, rows) for statement, rows in writes.items()]
        together: BatchExecutor | None = connection.info.get(BATCH_EXECUTOR)
        if together is not None:
            return together(bound)
        counts: list[int] = []
        for write in bound:
            if write.is_checked:
                counts += [_execute(connection, write.text, row).rowcount for row in write.rows]
            else:
                _execute_bound(connection, write)
        return counts

    def _bind_rows(self, connection: Connection, rows: Sequence[Sequence[object]]) -> BoundWrite:
        plan = self._plan(connection)
        places = plan.places
        bound = [
            tuple([
                convert if at is None else row[at] if convert is None else convert(row[at]) for at, convert in places
            ])
            for row in rows
        ]  # fmt: skip
        return BoundWrite(plan.text, bound, self.is_checked)

    def _query(
        self, connection: Connection, values: Mapping[str, object]
    ) -> tuple[Callable[[Sequence[Any]], Any], DriverCursor]:
        plan = self._plan(connection)
        cursor = self._execute_plan(connection, plan, values)
        if plan.row is None:
            plan.row = _build_row_factory(self._in_dialect(connection), connection.dialect, cursor, self._read)
        return plan.row, cursor

    def _execute_plan(self, connection: Connection, plan: _Plan, values: Mapping[str, object]) -> DriverCursor:
        arguments = tuple([
            (values[name] if convert is None else convert(values[name])) if name is not None else convert
            for name, convert in plan.values
        ])  # fmt: skip
        return _execute(connection, plan.text, arguments)

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
        required = {name: None for name, bind in compiled.binds.items() if bind.required}
        state = compiled.construct_expanded_state(required)  # expands constant lists (`IN`)
        values = [_resolve_value(compiled, name, state.parameters, dialect) for name in state.positiontup or ()]
        order = self._columns or []
        places = [(None if name is None else order.index(name), convert) for name, convert in values] if order else []
        return _Plan(text=state.statement, values=values, places=places)

    def _in_dialect(self, connection: Connection) -> _Any:
        return self._statement(connection) if callable(self._statement) else self._statement


def _execute_bound(connection: Connection, write: BoundWrite) -> None:
    if len(write.rows) == 1 or " RETURNING " in write.text:
        # Since Python 3.12 sqlite3's `executemany` fails at the second row if the first returned one.
        for row in write.rows:
            _execute(connection, write.text, row)
    elif write.rows:
        _execute(connection, write.text, write.rows, many=True)


def _execute(connection: Connection, text: str, values: Any, *, many: bool = False) -> DriverCursor:
    direct: DriverConnection = connection.info[DRIVER_CONNECTION]
    return direct.executemany(text, values) if many else direct.execute(text, values)


def _build_row_factory(
    statement: _Any, dialect: Dialect, cursor: DriverCursor, read: Callable[[Any], object] | None
) -> Callable[[Sequence[Any]], Any]:
    """Return a function that builds named tuples, or records of them, from driver rows, converting where needed."""
    columns: Sequence[ColumnElement[Any]] = list(statement.exported_columns)
    names = [str(column.key) for column in columns]
    row_type: Any = namedtuple("Row", names, rename=True)  # pyright: ignore[reportUntypedNamedTuple] # known here only
    codes = [described[1] for described in cursor.description or ()]
    processors = [
        (at, column.type.dialect_impl(dialect).result_processor(dialect, code))
        for at, (column, code) in enumerate(zip(columns, codes, strict=True))
    ]
    converted = [(at, convert) for at, convert in processors if convert is not None]
    make: Callable[[Sequence[Any]], Any] = row_type._make

    def make_converted(values: Sequence[Any]) -> Any:
        changed = list(values)
        for at, convert in converted:
            changed[at] = convert(changed[at])
        return make(changed)

    row = make_converted if converted else make
    return row if read is None else lambda values: read(row(values))


def _resolve_value(
    compiled: SQLCompiler, name: str, constants: Mapping[str, Any], dialect: Dialect
) -> tuple[str | None, Any]:
    """Return a value's name and conversion, or none and the statement's constant."""
    bind = compiled.binds.get(name)  # none for an item of a constant list
    convert = None if bind is None else bind.type.dialect_impl(dialect).bind_processor(dialect)
    if bind is not None and bind.required:
        return name, convert
    return None, constants[name] if convert is None else convert(constants[name])
