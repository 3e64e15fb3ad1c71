"""Records of which each model call has its own: frozen, and quick to make."""

from dataclasses import FrozenInstanceError, dataclass
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def per_call(record: type[T]) -> type[T]:
    """Make a keyword-only dataclass with slots that is frozen.

    A dataclass that is declared frozen sets each field by a call of `object.__setattr__`, which model calls feel. This
    one is filled as a plain one, and becomes an instance of a class that sets nothing at its end.
    """

    def freeze(self: Any) -> None:
        self.__class__ = frozen

    made = dataclass(kw_only=True, slots=True, unsafe_hash=True)(
        type(record)(record.__name__, record.__bases__, {**vars(record), "__post_init__": freeze})
    )
    frozen = type(record)(
        record.__name__,
        (made,),
        {
            "__slots__": (),
            "__module__": record.__module__,
            "__qualname__": record.__qualname__,
            "__doc__": record.__doc__,
            "__setattr__": _refuse,
            "__delattr__": _refuse,
            "__class__": property(lambda _: made),  # what `replace` calls, and `isinstance` and `==` see
        },
    )
    return made


def _refuse(_: object, name: str, *__: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")
