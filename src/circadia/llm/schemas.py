"""JSON Schemas for models, without what pydantic adds for people: each word costs tokens."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, cast

import orjson
from pydantic import BaseModel

_CLASSES: Final = "#/$defs/"


def strip_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without titles and class descriptions."""
    return {
        key: {name: strip_schema(part) for name, part in value.items()}
        if key in ("properties", "$defs")
        else _strip_value(value)
        for key, value in schema.items()
        if key != "title" and not (key == "description" and schema.get("type") == "object")
    }


def answer_schema(output: type[BaseModel]) -> dict[str, Any]:
    """Return the bare schema of an answer, with each class that is used once in line."""
    schema = strip_schema(output.model_json_schema())
    classes = cast("dict[str, Any]", schema.pop("$defs", {}))
    uses = Counter(_iter_class_references([schema, classes]))
    once = {f"{_CLASSES}{name}": part for name, part in classes.items() if uses[f"{_CLASSES}{name}"] == 1}
    often = {name: part for name, part in classes.items() if f"{_CLASSES}{name}" not in once}
    return cast("dict[str, Any]", _inline_classes({**schema, **({"$defs": often} if often else {})}, once))


@lru_cache(maxsize=100)
def answer_schema_json(output: type[BaseModel]) -> bytes:
    """Return the schema of an answer as compact JSON with sorted keys."""
    return orjson.dumps(answer_schema(output), option=orjson.OPT_SORT_KEYS)


def _strip_value(value: object) -> object:
    if isinstance(value, dict):
        return strip_schema(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return [_strip_value(item) for item in cast("list[object]", value)]
    return value


def _iter_class_references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in cast("dict[str, object]", value).items():
            if key == "$ref" and isinstance(child, str):
                yield child
            else:
                yield from _iter_class_references(child)
    elif isinstance(value, list):
        for child in cast("list[object]", value):
            yield from _iter_class_references(child)


def _inline_classes(value: object, classes: Mapping[str, object]) -> object:
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        name = parts.get("$ref")
        if isinstance(name, str) and name in classes:
            rest = {key: part for key, part in parts.items() if key != "$ref"}
            parts = {**cast("dict[str, Any]", classes[name]), **rest}
        return {key: _inline_classes(part, classes) for key, part in parts.items()}
    if isinstance(value, list):
        return [_inline_classes(item, classes) for item in cast("list[object]", value)]
    return value
