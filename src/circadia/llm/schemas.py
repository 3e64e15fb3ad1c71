"""JSON Schemas as models read them: without what pydantic adds for people, since each word costs its readers tokens."""

from functools import lru_cache
from typing import Any, cast

import orjson
from pydantic import BaseModel


def bare(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without the titles and the descriptions of its classes."""
    return {
        key: _parts(value) if key in ("properties", "$defs") else _within(value)
        for key, value in schema.items()
        if key != "title" and not (key == "description" and schema.get("type") == "object")
    }


@lru_cache(maxsize=100)
def written(output: type[BaseModel]) -> bytes:
    """Return the schema of an answer as compact JSON, always the same."""
    return orjson.dumps(bare(output.model_json_schema()), option=orjson.OPT_SORT_KEYS)


def _parts(named: dict[str, Any]) -> dict[str, Any]:
    return {name: bare(part) for name, part in named.items()}


def _within(value: object) -> object:
    if isinstance(value, dict):
        return bare(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return [_within(each) for each in cast("list[object]", value)]
    return value
