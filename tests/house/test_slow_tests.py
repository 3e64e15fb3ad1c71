"""`make test` leaves no promise to the slow tests: what they show at length, a short form shows each time (SHIP-16)."""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from tests.house.tree import python_files, syntax


class MarkedTest(NamedTuple):
    ids: frozenset[str]
    is_slow: bool


def read_marks(nodes: Iterable[ast.expr]) -> MarkedTest:
    """Return the ids that marks name, and whether one of them is `slow`."""
    texts = [ast.unparse(node) for node in nodes]
    calls = [call for node in nodes for call in ast.walk(node) if isinstance(call, ast.Call)]
    ids = {
        str(argument.value)
        for call in calls
        if ast.unparse(call.func) == "pytest.mark.spec"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    }
    return MarkedTest(frozenset(ids), any("pytest.mark.slow" in text and "pytest.param" not in text for text in texts))


def find_tests() -> Iterator[MarkedTest]:
    for path in python_files("tests"):
        module = syntax(path)
        of_module = read_marks(
            [
                node.value
                for node in module.body
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
            ]
        )
        for node in module.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                own = read_marks(node.decorator_list)
                yield MarkedTest(of_module.ids | own.ids, of_module.is_slow or own.is_slow)


@pytest.mark.spec("SHIP-16")
def test_each_promise_that_a_slow_test_shows_has_a_short_form() -> None:
    tests = list(find_tests())
    slow = {key for test in tests if test.is_slow for key in test.ids}
    short = {key for test in tests if not test.is_slow for key in test.ids}
    assert len(slow) > 20, "the marks were read"
    assert not sorted(slow - short)
