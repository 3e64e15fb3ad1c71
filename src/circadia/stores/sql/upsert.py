"""`INSERT … ON CONFLICT`: the same in both dialects, but separate in SQLAlchemy."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.expression import ColumnCollection

Insert = sqlite.Insert | postgresql.Insert
Columns = ColumnCollection[str, Any]
Merge = Callable[[Columns, Columns], ColumnElement[Any]]
"""Returns a column's value for the columns of the row that is there, and of the one to insert."""
_NONE: Final[Mapping[str, Merge]] = {}

_INSERTS: Final = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class Upsert:
    """An insert for each dialect, built once, since building costs ten times what sending does."""

    def __init__(
        self, table: Table, *, keys: Collection[str] = (), new: Collection[str] = (), more: Collection[str] = (),
        merged: Mapping[str, Merge] = _NONE, only_if: Merge | None = None,
    ) -> None:  # fmt: skip
        """On a conflict in `keys`, overwrite the columns `new`, add to those in `more`, and compute those in `merged`.

        With `only_if`, change nothing where that condition does not hold.

        Without keys, do nothing.
        """
        self._statements: Mapping[str, Insert] = {
            dialect: _build(insert(table), table, keys, new, more, merged, only_if)
            for dialect, insert in _INSERTS.items()
        }

    def __call__(self, connection: Connection) -> Insert:
        """Return the statement for the connection's dialect."""
        return self._statements[connection.dialect.name]


def _build(
    statement: Insert, table: Table, keys: Collection[str], new: Collection[str], more: Collection[str],
    merged: Mapping[str, Merge], only_if: Merge | None,
) -> Insert:  # fmt: skip
    if not keys:
        return statement.on_conflict_do_nothing()
    values = {
        **{name: statement.excluded[name] for name in new},
        **{name: table.c[name] + statement.excluded[name] for name in more},
        **{name: merge(table.c, statement.excluded) for name, merge in merged.items()},
    }
    where = None if only_if is None else only_if(table.c, statement.excluded)
    return statement.on_conflict_do_update(index_elements=list(keys), set_=values, where=where)
