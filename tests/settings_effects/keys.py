"""The keys of the configuration, and which of them a configuration states."""

from collections.abc import Iterator
from typing import Any, cast, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from circadia.settings import Settings

Place = tuple[type[BaseModel], str]
"""The class that defines a field, and the field's name."""


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


def _place(model: type[BaseModel], name: str) -> Place:
    return next(cls for cls in reversed(model.__mro__) if name in getattr(cls, "__annotations__", {})), name


def keys() -> dict[str, Place]:
    """Return each key's path in the file without names of the user's own, as in `upstreams.base_url`.

    A key that several sections share has the shortest path. Where an entry is one of several kinds, the kind is a part.
    """
    found: dict[Place, str] = {}
    level: list[tuple[str, type[BaseModel]]] = [("", Settings)]
    while level:
        deeper: list[tuple[str, type[BaseModel]]] = []
        for prefix, model in level:
            for name, info in model.model_fields.items():
                place = _place(model, name)
                if place not in found:
                    if prefix and (name != "kind" or info.is_required()):  # sections, and kinds that are there always
                        found[place] = prefix + name
                    deeper += [(f"{prefix}{name}.{_kind(inner)}", inner) for inner in _models(info.annotation)]
        level = deeper
    return {path: place for place, path in found.items()}


def _kind(model: type[BaseModel]) -> str:
    kind = model.model_fields.get("kind")
    return "" if kind is None else f"{get_args(kind.annotation)[0]}."


def stated(section: object) -> Iterator[Place]:
    """Yield the keys that a configuration states with another value than their default."""
    if isinstance(section, BaseModel):
        for name in section.model_fields_set:
            value, field = getattr(section, name), type(section).model_fields[name]
            if value != _default(field):
                yield _place(type(section), name)
            yield from stated(value)
    elif isinstance(section, dict):
        for each in cast("dict[Any, object]", section).values():
            yield from stated(each)
    elif isinstance(section, tuple):
        for each in cast("tuple[object, ...]", section):
            yield from stated(each)


def _default(field: FieldInfo) -> object:
    return field.get_default(call_default_factory=True)
