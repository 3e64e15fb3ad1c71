"""Records of which each model call has its own."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def per_call(record: type[T]) -> type[T]:
    """Make a keyword-only dataclass that is frozen for the type checker, and not at run time.

    There a frozen one sets each field by a call of `object.__setattr__`, which model calls feel.
    """
    return dataclass(kw_only=True, slots=True, unsafe_hash=True)(record)
