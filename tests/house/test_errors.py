"""The exception tree and its three tables."""

import inspect
import re
from collections.abc import Iterator, Mapping

import pytest

from circadia import errors
from circadia.errors import EXIT_STATUS, HTTP_STATUS, JSON_RPC_CODE, CircadiaError

TABLES: dict[str, Mapping[type[CircadiaError], int]] = {
    "HTTP_STATUS": HTTP_STATUS,
    "JSON_RPC_CODE": JSON_RPC_CODE,
    "EXIT_STATUS": EXIT_STATUS,
}


def tree(top: type[CircadiaError] = CircadiaError) -> Iterator[type[CircadiaError]]:
    """Yield the classes of `errors.py` below `top`, itself included; subclasses that tests define do not count."""
    yield top
    for child in top.__subclasses__():
        if child.__module__.startswith("circadia."):
            yield from tree(child)


def leaves() -> set[type[CircadiaError]]:
    return {cls for cls in tree() if not any(child in cls.__subclasses__() for child in tree())}


@pytest.mark.parametrize("name", TABLES)
def test_each_leaf_of_the_tree_is_in_the_table(name: str) -> None:
    assert leaves() <= set(TABLES[name])


@pytest.mark.parametrize("name", TABLES)
def test_the_table_names_nothing_outside_the_tree(name: str) -> None:
    assert set(TABLES[name]) <= set(tree())


def test_the_tables_name_the_same_classes() -> None:
    assert set(HTTP_STATUS) == set(JSON_RPC_CODE) == set(EXIT_STATUS)


def test_each_error_is_defined_in_the_one_module() -> None:
    assert {cls.__module__ for cls in tree()} == {"circadia.errors"}


def test_each_raised_class_has_a_code_of_its_own() -> None:
    codes = [cls.code for cls in HTTP_STATUS]
    assert sorted(codes) == sorted(set(codes))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


def test_a_client_can_raise_each_error_that_a_server_answers() -> None:
    raised = [cls("no", retry_after_seconds=2.0) for cls in HTTP_STATUS]
    assert [(error.message, error.retry_after_seconds) for error in raised] == [("no", 2.0)] * len(raised)


def test_statuses_are_in_range() -> None:
    assert all(400 <= status <= 599 for status in HTTP_STATUS.values())
    assert all(2 <= status <= 63 for status in EXIT_STATUS.values()), "0 is success, 1 is what nobody foresaw"


def test_the_drawing_at_the_top_of_the_module_shows_each_class_below_its_parent() -> None:
    drawn: list[tuple[int, str]] = []
    for line in (inspect.getdoc(errors) or "").splitlines():
        match = re.match(r"([│├└─ ]*)([A-Z]\w+)(?:  .*)?$", line)
        if match and (match[1] or match[2] == "CircadiaError"):
            drawn.append((len(match[1]) // 4, match[2]))
    stack: list[str] = []
    shown: dict[str, str | None] = {}
    for depth, name in drawn:
        del stack[depth:]
        shown[name] = stack[-1] if stack else None
        stack.append(name)
    real = {cls.__name__: None if cls is CircadiaError else cls.__mro__[1].__name__ for cls in tree()}
    assert shown == real
