"""Describe what pydantic refuses by its path in the file: where a key belongs, and what a value may be.

No message shows a value that may be a secret.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from circadia.records.withdrawn_setting import WithdrawnSettings
from circadia.settings.section import show_value
from circadia.suggestions import MIN_SIMILARITY, closest

KeyPath = tuple[int | str, ...]

_NO_MAP: Final = ("dict_type", "model_type", "model_attributes_type")
_NO_LIST: Final = ("tuple_type", "list_type", "set_type", "frozen_set_type")
_OTHERWISE: Final = "Input should be "
_SHOWN: Final = 100
"""Maximum length of a value in a message; longer values are omitted."""
_ANY_NAME: Final = "NAME"
"""Stands for a name that the user chooses, in the path of a key."""
_DEPTH: Final = 8
_ALIKE: Final = 0.8
"""Similarity from which an unknown key is a misspelling, although another map has a key of that name."""
_MAX_PLACES: Final = 3
_MAX_LISTED: Final = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    place: KeyPath
    """Where the wrong part is; for a missing key, the map around it."""
    message: str
    explains_others: bool = True
    """Whether it may be the reason why the map around it is refused, too."""


def find_mistakes(error: ValidationError, given: object, model: type[BaseModel]) -> list[Mistake]:
    """Return a mistake for each wrong place in `given`, with all the values that it may hold.

    pydantic adds the members of a union to its paths and reports errors for each; the file has no such members. A key
    that is missing under its right name, since it is misspelled, is one mistake.
    """
    by_place: dict[KeyPath, list[Any]] = {}
    for line in error.errors():
        by_place.setdefault(_place_of_error(line, given), []).append(line)
    unknown = {place for place, lines in by_place.items() if lines[0]["type"] == "extra_forbidden"}
    misspelled = {place: near for place in unknown if (near := _find_near(place, given, model))}
    meant = {(*place[:-1], near) for place, near in misspelled.items()}
    mistakes: list[Mistake] = []
    for place, lines in by_place.items():
        deeper = any(len(other) > len(place) and other[: len(place)] == place for other in by_place)
        if deeper and isinstance(lines[0].get("input"), Mapping):
            continue  # another member of a union fits better
        if place in unknown:
            message = f"unknown key {_join(place)!r}; {_suggest_place(place, given, model, misspelled.get(place))}"
            mistakes.append(Mistake(place=place, message=message, explains_others=place in misspelled))
        elif place not in meant:
            is_missing = lines[0]["type"] == "missing"
            mistakes.append(Mistake(place=place[:-1] if is_missing else place, message=_describe_value(place, lines)))
    return mistakes


def describe_mistakes(error: ValidationError, given: object, model: type[BaseModel]) -> Iterator[str]:
    """Yield a sentence for each wrong place in `given`."""
    return (mistake.message for mistake in find_mistakes(error, given, model))


def find_withdrawn_settings(given: object, kind: object, place: KeyPath = ()) -> Iterator[str]:
    """Yield the path of each key that has no effect any more."""
    if not isinstance(given, Mapping):
        return
    models = [model for model in _models_of_type(kind) if issubclass(model, WithdrawnSettings)]
    for name, value in cast("Mapping[str, object]", given).items():
        if any(name in model.withdrawn for model in models):
            yield _join((*place, name))
        for below in _types_below(kind, name):
            yield from find_withdrawn_settings(value, below, (*place, name))


def _join(place: Iterable[int | str]) -> str:
    return ".".join(map(str, place))


def _place_of_error(line: Any, given: object) -> KeyPath:
    """Return the path in `given`, without pydantic's union members."""
    place: KeyPath = ()
    for part in line["loc"]:
        if has_part(given, part):
            given = cast("Any", given)[part]
        elif line["type"] != "missing" or part != line["loc"][-1]:
            continue
        place += (part,)
    return place


def has_part(given: object, part: int | str) -> bool:
    if isinstance(given, Mapping):
        return part in given
    return isinstance(given, list | tuple) and isinstance(part, int) and part < len(cast("Sequence[object]", given))


def _describe_value(place: KeyPath, lines: Sequence[Any]) -> str:
    path, line = _join(place), lines[0]
    if line["type"] == "value_error":  # our own messages show the value
        return f"{path}: {line['ctx']['error']}" if path else str(line["ctx"]["error"])
    messages = [_describe_error(line) for line in lines]
    messages = [messages[0], *(message.removeprefix(_OTHERWISE) for message in messages[1:])]
    # A whole section would only hide the wrong part, which the message already names; `env` holds secrets.
    given = line.get("input", {})
    suffix = "" if isinstance(given, Mapping) or "env" in place else f" (got {show_value(given)})"
    return f"{path}: {', or '.join(messages)}{suffix if len(suffix) <= _SHOWN else ''}"


def _describe_error(line: Any) -> str:
    if line["type"] in _NO_MAP:
        return f"{_OTHERWISE}a map of keys and values"
    if line["type"] in _NO_LIST:
        return f"{_OTHERWISE}a list"
    if line["type"] == "union_tag_not_found":
        return f"the key {line['ctx']['discriminator']} is missing"
    if line["type"] == "union_tag_invalid":
        shown = {**line["ctx"], "tag": show_value(line["ctx"]["tag"])}
        return "{discriminator} should be one of {expected_tags} (got {tag})".format_map(shown)
    return line["msg"]


def _find_near(place: KeyPath, given: object, model: type[BaseModel]) -> str | None:
    """Return the known key of the same map that is meant by an unknown one, unless another map has that very key."""
    key, known = str(place[-1]), _keys_of(_models_at(place[:-1], given, model))
    least = _ALIKE if _find_containers(place, given, model) else MIN_SIMILARITY
    return next(iter(closest(key, known, count=1, likeness=least)), None)


def _suggest_place(place: KeyPath, given: object, model: type[BaseModel], near: str | None) -> str:
    """Say where an unknown key belongs: it has a similar name there, or is a key of a map below or elsewhere."""
    if near is not None:
        return f"did you mean {near!r}?"
    if containers := _find_containers(place, given, model):
        named = [f"`{_join(path)}`" if path else "the top of the file" for path in containers[:_MAX_PLACES]]
        return f"move it {'under ' if containers[0] else 'to '}{' or '.join(named)}"
    known = sorted(_keys_of(_models_at(place[:-1], given, model)))
    more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
    return f"known keys: {', '.join(known[:_MAX_LISTED])}{more}"


def _find_containers(place: KeyPath, given: object, model: type[BaseModel]) -> list[KeyPath]:
    """Return the maps that have a key which is unknown at its place: those below it, else those around it."""
    around, key = place[:-1], str(place[-1])
    for length in range(len(around), -1, -1):
        paths = _find_nearest(key, _models_at(around[:length], given, model))
        if length < len(around):
            paths = [(*around[:length], *path) for path in paths]
        if containers := [path for path in paths if not _is_same_place(path, around)]:
            return containers
    return []


def _is_same_place(path: KeyPath, place: KeyPath) -> bool:
    """Return whether a key at `path` would only belong to another kind of the map that it is in."""
    pairs = zip(path, place, strict=False)
    return len(path) == len(place) and all(part in (other, _ANY_NAME) for part, other in pairs)


def _find_nearest(key: str, models: Iterable[object]) -> list[KeyPath]:
    """Return the paths of the nearest maps that have the key, below models or in them."""
    level: list[tuple[KeyPath, object]] = [((), model) for model in models]
    for _ in range(_DEPTH):
        found = {path: None for path, kind in level for model in _models_of_type(kind) if key in model.model_fields}
        if found:
            return list(found)
        level = [((*path, *step), below) for path, kind in level for step, below in _list_below(kind)]
    return []


def _list_below(kind: object) -> Iterator[tuple[KeyPath, object]]:
    """Yield each key of a map, with the type of its value; a list has none that could be named."""
    if get_origin(kind) in (Union, UnionType, Annotated):
        for argument in get_args(kind):
            yield from _list_below(argument)
    elif (origin := get_origin(kind)) is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        yield (_ANY_NAME,), get_args(kind)[-1]
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from (((name,), field.annotation) for name, field in kind.model_fields.items())


def _models_at(place: KeyPath, given: object, model: type[BaseModel]) -> list[type[BaseModel]]:
    """Return the models of the map at a path; where a discriminator decides, the value in `given` counts."""
    kinds: list[object] = [model]
    for part in place:
        given = cast("Any", given)[part]
        kinds = [below for kind in kinds for below in _types_below(kind, part)]
    models = [candidate for kind in kinds for candidate in _models_of_type(kind)]
    return [candidate for candidate in models if _matches_discriminator(candidate, given)] or models


def _keys_of(models: Iterable[type[BaseModel]]) -> list[str]:
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
