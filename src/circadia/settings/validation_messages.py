"""Describe configuration mistakes by their path, for an unknown key with the nearest known one; find withdrawn keys."""

from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from circadia.records.withdrawn_setting import WithdrawnSettings
from circadia.suggestions import closest

Path = tuple[int | str, ...]

_NO_MAP = ("dict_type", "model_type", "model_attributes_type")
_NO_LIST = ("tuple_type", "list_type", "set_type", "frozen_set_type")
_OTHERWISE = "Input should be "
_SHOWN = 100
"""Maximum length of a value in a message; longer values are omitted."""


def describe_mistakes(error: ValidationError, given: object, model: type[BaseModel]) -> Iterator[str]:
    """Yield a sentence for each wrong place in `given`, with all the values that it may hold.

    pydantic adds the members of a union to its paths and reports errors for each; the file has no such members.
    """
    by_place: dict[Path, list[Any]] = {}
    for line in error.errors():
        by_place.setdefault(_place_of_error(line, given), []).append(line)
    for place, lines in by_place.items():
        deeper = any(len(other) > len(place) and other[: len(place)] == place for other in by_place)
        if not (deeper and isinstance(lines[0].get("input"), Mapping)):  # another member of a union fits better
            yield _describe_place(place, lines, given, model)


def find_withdrawn_settings(given: object, kind: object, place: Path = ()) -> Iterator[str]:
    """Yield the path of each key that has no effect any more."""
    if not isinstance(given, Mapping):
        return
    models = [model for model in _models_of_type(kind) if issubclass(model, WithdrawnSettings)]
    for name, value in cast("Mapping[str, object]", given).items():
        if any(name in model.withdrawn for model in models):
            yield ".".join((*map(str, place), name))
        for below in _types_below(kind, name):
            yield from find_withdrawn_settings(value, below, (*place, name))


def _place_of_error(line: Any, given: object) -> Path:
    """Return the path in `given`, without pydantic's union members."""
    place: Path = ()
    for part in line["loc"]:
        if _has_part(given, part):
            given = cast("Any", given)[part]
        elif line["type"] != "missing" or part != line["loc"][-1]:
            continue
        place += (part,)
    return place


def _has_part(given: object, part: int | str) -> bool:
    if isinstance(given, Mapping):
        return part in given
    return isinstance(given, Sequence) and isinstance(part, int) and part < len(cast("Sequence[object]", given))


def _describe_place(place: Path, lines: Sequence[Any], given: object, model: type[BaseModel]) -> str:
    path, line = ".".join(map(str, place)), lines[0]
    if line["type"] == "extra_forbidden":
        known = _known_keys(place[:-1], given, model)
        near = closest(str(place[-1]), known, count=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(known))}"
        return f"unknown key {path!r}; {hint}"
    if line["type"] == "value_error":  # our own messages show the value
        return f"{path}: {line['ctx']['error']}"
    messages = [_describe_error(line) for line in lines]
    messages = [messages[0], *(message.removeprefix(_OTHERWISE) for message in messages[1:])]
    # A whole section would only hide the wrong part, which the message already names.
    suffix = "" if isinstance(line.get("input", {}), Mapping) else f" (got {line['input']!r})"
    return f"{path}: {', or '.join(messages)}{suffix if len(suffix) <= _SHOWN else ''}"


def _describe_error(line: Any) -> str:
    if line["type"] in _NO_MAP:
        return f"{_OTHERWISE}a map of keys and values"
    if line["type"] in _NO_LIST:
        return f"{_OTHERWISE}a list"
    if line["type"] == "union_tag_not_found":
        return f"the key {line['ctx']['discriminator']} is missing"
    if line["type"] == "union_tag_invalid":
        return "{discriminator} should be one of {expected_tags} (got {tag!r})".format_map(line["ctx"])
    return line["msg"]


def _known_keys(place: Path, given: object, model: type[BaseModel]) -> list[str]:
    """Return the known keys at a path; where a discriminator decides, the value in `given` counts."""
    kinds: list[object] = [model]
    for part in place:
        given = cast("Any", given)[part]
        kinds = [below for kind in kinds for below in _types_below(kind, part)]
    models = [candidate for kind in kinds for candidate in _models_of_type(kind)]
    models = [candidate for candidate in models if _matches_discriminator(candidate, given)] or models
    return list({name: None for candidate in models for name in candidate.model_fields})


def _types_below(kind: object, part: int | str) -> Iterator[object]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType, Annotated):
        for argument in inner[:1] if origin is Annotated else inner:
            yield from _types_below(argument, part)
    elif origin is not None and inner:
        yield inner[-1] if isinstance(origin, type) and issubclass(origin, Mapping) else inner[0]
    elif isinstance(kind, type) and issubclass(kind, BaseModel) and str(part) in kind.model_fields:
        yield kind.model_fields[str(part)].annotation


def _models_of_type(kind: object) -> Iterator[type[BaseModel]]:
    if get_origin(kind) in (Union, UnionType, Annotated):
        for argument in get_args(kind):
            yield from _models_of_type(argument)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind


def _matches_discriminator(model: type[BaseModel], given: object) -> bool:
    """Return whether each single-value key of the model has that value in `given`."""
    values_given: Mapping[str, object] = cast("Mapping[str, object]", given) if isinstance(given, Mapping) else {}
    fixed = {
        name: get_args(field.annotation) for name, field in model.model_fields.items() if _is_constant(field.annotation)
    }
    return all(values_given.get(name) in values for name, values in fixed.items())


def _is_constant(kind: object) -> bool:
    return get_origin(kind) is Literal and len(get_args(kind)) == 1
