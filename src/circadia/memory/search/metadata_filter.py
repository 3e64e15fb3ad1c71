"""Filters of a search by the metadata of episodes, and the index that answers them (MEM-40).

A filter is a JSON object: `{"team": "red", "tags": ["work", "home"], "score": {"gte": 3, "lt": 10}, "state": {"not":
"paused"}}`. All its conditions must hold. A key names a value, with dots that of an object in it; a list has each of
its members. A range compares numbers, or dates. `not` also holds for an episode without the key.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, cast

import numpy as np
import orjson

from circadia.errors import InvalidRequest
from circadia.memory.search.columns import Array, Column

MAX_CONDITIONS: Final = 20
MAX_VALUES: Final = 100
"""Values of one condition."""
LONGEST: Final = 200
"""Characters of a key or text that is compared; longer ones of episodes are matched by no filter."""
DEEPEST: Final = 4
"""Objects within objects whose values have keys."""
MAX_KEYS: Final = 1_000
"""Keys of a bank that filters compare: the first."""
MAX_PAIRS: Final = 100
"""Values of an episode that filters compare: the first."""
KEY_BYTES: Final = 700
"""Size of a key without its columns and values."""
VALUE_BYTES: Final = 180
"""Size of a distinct value without its characters."""
_COMPARE: Final[Mapping[str, Callable[[Array, float], Array]]] = {
    "gt": np.greater, "gte": np.greater_equal, "lt": np.less, "lte": np.less_equal,
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
        read = _read_instant if of_dates else _read_number
        bounds = [(name, read(value)) for name, value in asked_bounds.items()]
        if any(math.isnan(bound) for _, bound in bounds):
            raise InvalidRequest(f"the bounds of {key!r} must be numbers, or dates such as 2026-01-31")
        yield Condition(key=key, bounds=bounds, of_dates=of_dates)


def _build_tokens(key: str, asked: object) -> Sequence[str]:
    values: Sequence[object] = cast("Sequence[object]", asked) if isinstance(asked, list | tuple) else [asked]
    tokens = [token for value in values if (token := _token(value))]
    if not tokens or len(tokens) < len(values) or len(values) > MAX_VALUES:
        raise InvalidRequest(
            f"the filter of {key!r} takes a text of up to {LONGEST} characters, a number, true, false, or a list of "
            f"1 to {MAX_VALUES} of them"
        )
    return tokens


def _token(value: object) -> str:
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


def _read_number(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _NOTHING
    except OverflowError:
        return _NOTHING


def _read_instant(value: object) -> float:
    """Return a date or time in ISO 8601, without a zone in UTC, as seconds since 1970; NaN if it is none."""
    if not isinstance(value, str) or not value[:4].isdigit():
        return _NOTHING
    try:
        instant = datetime.fromisoformat(value.strip())
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return _NOTHING


def _list_pairs(metadata: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield keys and single values of metadata, those of lists and objects too."""
    for name, value in metadata.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            if depth < DEEPEST:
                yield from _list_pairs(cast("Mapping[str, Any]", value), f"{key}.", depth + 1)
        elif isinstance(value, list):
            yield from ((key, member) for member in cast("Sequence[object]", value))
        else:
            yield key, value


class _ValueIndex:
    """The values that rows have of one key."""

    __slots__ = ("_codes", "_instants", "_numbers", "_row_codes", "_rows", "_text_bytes")

    def __init__(self) -> None:
        self._codes: Final[dict[str, int]] = {}
        self._numbers: Final = Column(np.float64)
        """Number of each code; NaN if the value is none."""
        self._instants: Final = Column(np.float64)
        """Seconds since 1970 of each code; NaN if the value is no time."""
        self._rows: Final = Column(np.int32)
        self._row_codes: Final = Column(np.int32)
        self._text_bytes = 0

    @property
    def nbytes(self) -> int:
        columns = (self._numbers, self._instants, self._rows, self._row_codes)
        return KEY_BYTES + sum(column.nbytes for column in columns) + VALUE_BYTES * len(self._codes) + self._text_bytes

    def extend(self, rows: Sequence[int], values: Sequence[tuple[str, object]]) -> None:
        """Add what rows have: tokens and their values."""
        new = {token: value for token, value in values if token not in self._codes}
        for token in new:
            self._codes[token] = len(self._codes)
            self._text_bytes += len(token)
        self._numbers.extend(np.array([_read_number(value) for value in new.values()], np.float64))
        self._instants.extend(np.array([_read_instant(value) for value in new.values()], np.float64))
        self._rows.extend(np.array(rows, np.int32))
        self._row_codes.extend(np.array([self._codes[token] for token, _ in values], np.int32))

    def remove(self, rows: Array) -> None:
        places = np.flatnonzero(np.isin(self._rows.values, rows))
        if len(places):
            self._rows.remove(places)
            self._row_codes.remove(places)

    def rows_meeting(self, condition: Condition) -> Array:
        """Return the rows that have one of the values, or one within the bounds."""
        chosen = np.zeros(len(self._codes), np.bool_)
        codes = (self._codes.get(token) for token in condition.tokens)
        chosen[[code for code in codes if code is not None]] = True
        if condition.bounds:
            values = (self._instants if condition.of_dates else self._numbers).values
            chosen = np.logical_and.reduce([_COMPARE[name](values, bound) for name, bound in condition.bounds])
        return self._rows.values[chosen[self._row_codes.values]]


class MetadataIndex:
    """The metadata of the episodes of an index, by key."""

    def __init__(self) -> None:
        self.last = 0
        """Greatest number of an episode whose metadata are here."""
        self._keys: Final[dict[str, _ValueIndex]] = {}

    @property
    def nbytes(self) -> int:
        return sum(len(key) + values.nbytes for key, values in self._keys.items())

    def add(self, metadata: Sequence[tuple[int, Mapping[str, Any]]], numbers: Array, rows: Array) -> None:
        """Add the metadata of episodes by ascending number; `rows` are those of the `numbers` that the index has."""
        at: list[int] = numbers.searchsorted([number for number, _ in metadata]).tolist()
        added: dict[str, tuple[list[int], list[tuple[str, object]]]] = {}
        for place, (number, item) in zip(at, metadata, strict=True):
            if place < len(numbers) and numbers[place] == number:
                row = int(rows[place])
                for key, value in islice(_list_pairs(item), MAX_PAIRS):
                    token = _token(value)
                    if token and len(key) <= LONGEST:
                        of_key = added.setdefault(key, ([], []))
                        of_key[0].append(row)
                        of_key[1].append((token, value))
        for key, (places, values) in added.items():
            if key in self._keys or len(self._keys) < MAX_KEYS:
                self._keys.setdefault(key, _ValueIndex()).extend(places, values)
        self.last = metadata[-1][0]

    def remove(self, rows: Array) -> None:
        for values in self._keys.values():
            values.remove(rows)

    def match_all(self, conditions: Sequence[Condition], count: int) -> Array:
        """Return for each of `count` rows whether it meets the conditions."""
        matches = np.ones(count, np.bool_)
        for condition in conditions:
            values = self._keys.get(condition.key)
            met = np.full(count, condition.excluded)
            if values is not None:
                met[values.rows_meeting(condition)] = not condition.excluded
            matches &= met
        return matches
