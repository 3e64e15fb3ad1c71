"""`INSERT … ON CONFLICT`: the same in both dialects, but separate in SQLAlchemy."""

from collections.abc import Collection, Mapping
from typing import Final

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

Insert = sqlite.Insert | postgresql.Insert

_INSERTS: Final = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class Upsert:
    """An insert for each dialect, built once, since building costs ten times what sending does."""

    def __init__(
        self, table: Table, *, keys: Collection[str] = (), new: Collection[str] = (), more: Collection[str] = ()
    ) -> None:
        """On a conflict in `keys`, overwrite the columns `new` and add to those in `more`; without keys, do nothing."""
        self._statements: Mapping[str, Insert] = {
            dialect: _build(insert(table), table, keys, new, more) for dialect, insert in _INSERTS.items()
        }

    def __call__(self, connection: Connection) -> Insert:
        """Return the statement for the connection's dialect."""
        return self._statements[connection.dialect.name]


def _build(
    statement: Insert, table: Table, keys: Collection[str], new: Collection[str], more: Collection[str]
) -> Insert:
    if not keys:
        return statement.on_conflict_do_nothing()
    values = {
        **{name: statement.excluded[name] for name in new},
        **{name: table.c[name] + statement.excluded[name] for name in more},
    }
    return statement.on_conflict_do_update(index_elements=list(keys), set_=values)
