"""Names that stand beside one in the order of the alphabet: candidates for what somebody meant."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, bindparam

NEIGHBOURS: Final = 32
"""Names in each direction; few enough to compare at once, and all there are in most databases."""


class NamesNear:
    """The names in a column of `rows` that are nearest in the alphabet to a value, in both directions."""

    def __init__(self, rows: Select[Any], column: ColumnElement[str]) -> None:
        names = rows.with_only_columns(column).distinct().limit(NEIGHBOURS)
        self._up = names.where(column >= bindparam("near")).order_by(column)
        self._down = names.where(column < bindparam("near")).order_by(column.desc())

    def find(self, connection: Connection, name: str, values: Mapping[str, object]) -> Sequence[str]:
        """Return them, in no order."""
        given = {**values, "near": name}
        return [*connection.execute(self._up, given).scalars(), *connection.execute(self._down, given).scalars()]
