"""Filters of JSON values: of the metadata of episodes (MEM-40), and of what a webhook brings (WAKE-82).

A filter is a JSON object: `{"team": "red", "tags": ["work", "home"], "score": {"gte": 3, "lt": 10}, "state": {"not":
"paused"}}`. All its conditions must hold. A key names a value, with dots that of an object in it; a list has each of
its members. A range compares numbers, or dates. `not` also holds without the key.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

import orjson

from circadia.errors import InvalidRequest

MAX_CONDITIONS: Final = 20
MAX_VALUES: Final = 100
"""Values of one condition."""
LONGEST: Final = 200
"""Characters of a key or text that is compared; longer ones are matched by no filter."""
_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le,
}  # fmt: skip
_NOTHING: Final = math.nan
"""A bound that nothing meets, and the number of what is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One test of a value; without values and bounds nothing meets it."""

    key: str = ""
    tokens: Sequence[str] = ()
    """The values, any of which is meant."""
    bounds: Sequence[tuple[str, float]] = ()
    """`gt`, `gte`, `lt` or `lte`, and the number, or seconds since 1970."""
    of_dates: bool = False
    excluded: bool = False
    """Whether the value must be another one."""


MATCHES_NOTHING: Final = (Condition(),)


def parse_filter(text: str | bytes | None) -> Sequence[Condition]:
    """Return the conditions of a filter as JSON, none without one. Raises InvalidRequest: it is no filter."""
    try:
        return () if text is None else build_filter(orjson.loads(text))
    except ValueError as error:
        raise InvalidRequest(f"the filter is not JSON: {error}") from error


def build_filter(document: object) -> Sequence[Condition]:
    """Return the conditions of a filter. Raises InvalidRequest: it is none."""
    if not isinstance(document, Mapping):
        raise InvalidRequest('a filter is an object of keys and values, such as {"tags": "work"}')
    conditions = [
        condition
        for key, asked in cast("Mapping[str, object]", document).items()
        for condition in _build_conditions(key, asked)
    ]
    if len(conditions) > MAX_CONDITIONS:
        raise InvalidRequest(f"a filter has up to {MAX_CONDITIONS} conditions, not {len(conditions)}")
    return conditions


def _build_conditions(key: str, asked: object) -> Iterator[Condition]:
    if not isinstance(asked, Mapping):
        yield Condition(key=key, tokens=_build_tokens(key, asked))
        return
    parts = cast("Mapping[str, object]", asked)
    unknown = next((name for name in parts if name not in (*_COMPARE, "not")), None)
    if unknown is not None or not parts:
        raise InvalidRequest(f"the filter of {key!r} has {unknown!r}; it takes {', '.join(_COMPARE)} and not")
    if "not" in parts:
        yield Condition(key=key, tokens=_build_tokens(key, parts["not"]), excluded=True)
    asked_bounds = {name: value for name, value in parts.items() if name != "not"}
    if asked_bounds:
        of_dates = all(isinstance(value, str) for value in asked_bounds.values())
        read = read_instant if of_dates else read_number
        bounds = [(name, read(value)) for name, value in asked_bounds.items()]
        if any(math.isnan(bound) for _, bound in bounds):
            raise InvalidRequest(f"the bounds of {key!r} must be numbers, or dates such as 2026-01-31")
        yield Condition(key=key, bounds=bounds, of_dates=of_dates)


def _build_tokens(key: str, asked: object) -> Sequence[str]:
    values: Sequence[object] = cast("Sequence[object]", asked) if isinstance(asked, list | tuple) else [asked]
    tokens = [token for value in values if (token := build_token(value))]
    if not tokens or len(tokens) < len(values) or len(values) > MAX_VALUES:
        raise InvalidRequest(
            f"the filter of {key!r} takes a text of up to {LONGEST} characters, a number, true, false, or a list of "
            f"1 to {MAX_VALUES} of them"
        )
    return tokens


def build_token(value: object) -> str:
    """Return what equal values have in common; empty for what no filter compares."""
    match value:
        case bool():
            return f"b{value:d}"
        case int():
            return f"n{value}"
        case float():
            return f"n{int(value) if value.is_integer() else value}" if math.isfinite(value) else ""
        case str():
            return f"t{value}" if len(value) <= LONGEST else ""
        case _:
            return ""


def read_number(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _NOTHING
    except OverflowError:
        return _NOTHING


def read_instant(value: object) -> float:
    """Return a date or time in ISO 8601, without a zone in UTC, as seconds since 1970; NaN if it is none."""
    if not isinstance(value, str) or not value[:4].isdigit():
        return _NOTHING
    try:
        instant = datetime.fromisoformat(value.strip())
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return _NOTHING


def find_values(document: object, key: str) -> Iterator[object]:
    """Yield the values that a dotted key names in a JSON document, those of each member of a list too."""
    if isinstance(document, list):
        for member in cast("Sequence[object]", document):
            yield from find_values(member, key)
    elif not key:
        yield document
    elif isinstance(document, Mapping):
        values = cast("Mapping[str, object]", document)
        name, _, rest = key.partition(".")
        if key in values and rest:  # a name may have dots itself
            yield from find_values(values[key], "")
        elif name in values:
            yield from find_values(values[name], rest)


def meets_all(conditions: Sequence[Condition], document: Mapping[str, Any]) -> bool:
    """Return whether a JSON document meets the conditions."""
    return all(_meets(condition, document) for condition in conditions)


def _meets(condition: Condition, document: Mapping[str, Any]) -> bool:
    found = list(find_values(document, condition.key))
    if condition.bounds:
        read = read_instant if condition.of_dates else read_number
        numbers = [read(value) for value in found]
        return any(all(_COMPARE[name](number, bound) for name, bound in condition.bounds) for number in numbers)
    tokens = set(condition.tokens)
    return any(build_token(value) in tokens for value in found) is not condition.excluded
