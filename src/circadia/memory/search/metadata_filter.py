"""The index that answers filters by the metadata of episodes (MEM-40); `records/value_filter.py` has the filters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

import numpy as np

from circadia.memory.search.columns import Array, Column
from circadia.records.value_filter import LONGEST, Condition, build_token, read_instant, read_number

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
        self._numbers.extend(np.array([read_number(value) for value in new.values()], np.float64))
        self._instants.extend(np.array([read_instant(value) for value in new.values()], np.float64))
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
                    token = build_token(value)
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
