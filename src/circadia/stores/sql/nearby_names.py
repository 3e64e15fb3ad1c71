"""Alphabetical neighbours of a name, as candidates for what the caller meant."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, bindparam

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
