"""JSON Schemas as models read them: without what pydantic adds for people, since each word costs its readers tokens."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, cast

import orjson
from pydantic import BaseModel

_CLASSES: Final = "#/$defs/"


def bare(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without the titles and the descriptions of its classes."""
    return {
        key: _parts(value) if key in ("properties", "$defs") else _within(value)
        for key, value in schema.items()
        if key != "title" and not (key == "description" and schema.get("type") == "object")
    }


def of_answer(output: type[BaseModel]) -> dict[str, Any]:
    """Return the bare schema of an answer, with each class that it names once where it is named."""
    schema = bare(output.model_json_schema())
    classes = cast("dict[str, Any]", schema.pop("$defs", {}))
    named = Counter(_named([schema, classes]))
    once = {f"{_CLASSES}{name}": each for name, each in classes.items() if named[f"{_CLASSES}{name}"] == 1}
    often = {name: each for name, each in classes.items() if f"{_CLASSES}{name}" not in once}
    return cast("dict[str, Any]", _placed({**schema, **({"$defs": often} if often else {})}, once))


@lru_cache(maxsize=100)
def written(output: type[BaseModel]) -> bytes:
    """Return the schema of an answer as compact JSON, always the same."""
    return orjson.dumps(of_answer(output), option=orjson.OPT_SORT_KEYS)


def _parts(named: dict[str, Any]) -> dict[str, Any]:
    return {name: bare(part) for name, part in named.items()}


def _within(value: object) -> object:
    if isinstance(value, dict):
        return bare(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return [_within(each) for each in cast("list[object]", value)]
    return value


def _named(value: object) -> Iterator[str]:
    """Yield the classes that a schema names, as often as it does."""
    if isinstance(value, dict):
        for key, each in cast("dict[str, object]", value).items():
            if key == "$ref" and isinstance(each, str):
                yield each
            else:
                yield from _named(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _named(each)


def _placed(value: object, classes: Mapping[str, object]) -> object:
    """Return a schema with these classes in the place of their names."""
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        name = parts.get("$ref")
        if isinstance(name, str) and name in classes:
            rest = {key: each for key, each in parts.items() if key != "$ref"}
            parts = {**cast("dict[str, Any]", classes[name]), **rest}
        return {key: _placed(each, classes) for key, each in parts.items()}
    if isinstance(value, list):
        return [_placed(each, classes) for each in cast("list[object]", value)]
    return value
