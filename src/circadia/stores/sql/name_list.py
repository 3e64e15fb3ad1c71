"""A list of names as one parameter: statements that are compiled once cannot have an `IN` of any length."""

from collections.abc import Collection
from typing import Any

import orjson
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Dialect,
    String,
    TableValuedAlias,
    TypeDecorator,
    bindparam,
    cast,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeEngine


class NameList(TypeDecorator[Collection[str]]):
    """An array in PostgreSQL, a JSON list in SQLite."""

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(ARRAY(String()) if dialect.name == "postgresql" else String())

    def process_bind_param(self, value: Collection[str] | None, dialect: Dialect) -> Any:
        names = list(value or ())
        return names if dialect.name == "postgresql" else orjson.dumps(names).decode()


def list_texts(connection: Connection, parameter: str) -> TableValuedAlias:
    """Return the texts of a JSON list, given as the parameter, as rows with a column `value`."""
    text = bindparam(parameter, type_=String)
    if connection.dialect.name == "postgresql":
        return func.json_array_elements_text(cast(text, JSON)).table_valued("value", name=parameter)
    return func.json_each(text).table_valued("value", name=parameter)


def is_among(connection: Connection, column: ColumnElement[str], parameter: str) -> ColumnElement[bool]:
    """Return the condition that the column has one of the names in the parameter."""
    names = bindparam(parameter, type_=NameList)
    if connection.dialect.name == "postgresql":
        return column == func.any(names)
    return column.in_(select(func.json_each(names).table_valued("value").c.value))
