"""Frozen records that are fast to create, for types with an instance per model call."""

from dataclasses import FrozenInstanceError, dataclass
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def fast_record(record: type[T]) -> type[T]:
    """Make a frozen, keyword-only dataclass with slots.

    A frozen dataclass sets each field through `object.__setattr__`, which slows model calls measurably. This one is
    filled like a plain dataclass; afterwards its class is replaced by one that refuses assignment.
    """

    def freeze(self: Any) -> None:
        self.__class__ = frozen

    plain = dataclass(kw_only=True, slots=True, unsafe_hash=True)(
        type(record)(record.__name__, record.__bases__, {**vars(record), "__post_init__": freeze})
    )
    frozen = type(record)(
        record.__name__,
        (plain,),
        {
            "__slots__": (),
            "__module__": record.__module__,
            "__qualname__": record.__qualname__,
            "__doc__": record.__doc__,
            "__setattr__": _refuse,
            "__delattr__": _refuse,
            "__class__": property(lambda _: plain),  # what `replace` calls, and what `isinstance` and `==` see
        },
    )
    return plain


def _refuse(_: object, name: str, *__: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")
