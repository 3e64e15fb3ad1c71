"""Reads records from rows and writes them, by functions that are compiled once from a record's annotations.

Such a function does what one by hand would do, and takes the same time: one expression, without a loop over fields.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

R = TypeVar("R")
_CONTAINERS: Final = {tuple: "tuple", Sequence: "tuple", frozenset: "frozenset"}
_NONE: Final[Mapping[str, Callable[[Any], object]]] = {}
_AS_STORED: Final = frozenset({str, int, float, bool, bytes, datetime, Mapping})


class _Members(dict[Any, Any]):
    """The members of an enumeration by value: five times as fast as a call of the enumeration."""

    def __init__(self, kind: type[Enum], *, may_be_null: bool) -> None:
        super().__init__({member.value: member for member in kind})
        self._kind = kind
        if may_be_null:
            self[None] = None

    def __missing__(self, value: object) -> Enum:
        return self._kind(value)  # raises ValueError, with the names


def build_reader(
    record: type[R],
    *,
    of_row: Mapping[str, Callable[[Any], object]] = _NONE,
    without: Collection[str] = (),
    **of_value: Callable[[Any], object],
) -> Callable[..., R]:
    """Return a function that builds a record of a row, which has its fields as attributes.

    Enumerations, tuples and frozen sets are converted as annotated. `of_value` are functions of the stored value for
    other fields, and `of_row` functions of the row for those that have no column. Those in `without` are keyword
    arguments of the function, or have their default.
    """
    hints = get_type_hints(record)
    names: dict[str, Any] = {"_record": record}
    values: list[str] = []
    for name in [field.name for field in fields(cast("Any", record)) if field.name not in without]:
        if name in of_row or name in of_value:
            names[f"_read_{name}"] = of_row.get(name) or of_value[name]
            values.append(f"{name}=_read_{name}({'row' if name in of_row else f'row.{name}'})")
        else:
            values.append(f"{name}={_build_conversion(name, hints[name], names)}")
    parameters, values = ("row, **more", [*values, "**more"]) if without else ("row", values)
    return _compile(f"lambda {parameters}: _record({', '.join(values)})", names)


def build_writer(columns: Collection[str], **of_record: Callable[[Any], object]) -> Callable[[Any], tuple[object, ...]]:
    """Return a function that returns the values of these columns in order: attributes, or what a function returns."""
    names: dict[str, Any] = {f"_write_{name}": write for name, write in of_record.items()}
    values = [f"_write_{name}(record)" if name in of_record else f"record.{name}" for name in columns]
    return _compile(f"lambda record: ({', '.join(values)},)", names)


def _build_conversion(name: str, hint: Any, names: dict[str, Any]) -> str:
    """Return the expression of a field's value; it may add what it needs to `names`."""
    value, kinds = f"row.{name}", get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    may_be_null = NoneType in kinds
    whole, *others = [kind for kind in kinds if kind is not NoneType]
    kind, items = _find_stored_type(whole), {_find_stored_type(item) for item in get_args(whole) if item is not ...}
    container = _CONTAINERS.get(kind)
    if not others and isinstance(kind, type) and issubclass(kind, Enum):
        names[f"_of_{name}"] = _Members(kind, may_be_null=may_be_null)
        return f"_of_{name}[{value}]"
    if not others and kind in _AS_STORED:
        return value
    if others or container is None or not items <= _AS_STORED:
        raise TypeError(f"{name!r} needs a function of the row: {hint} is not read as it is stored")
    return f"None if {value} is None else {container}({value})" if may_be_null else f"{container}({value})"


def _find_stored_type(kind: Any) -> Any:
    """Return the type behind an id, or the container without its items."""
    return getattr(kind, "__supertype__", get_origin(kind) or kind)


def _compile(text: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    return eval(text, dict(names))  # noqa: S307 # as namedtuple and dataclass do: of names in this package alone
