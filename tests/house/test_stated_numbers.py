"""A test states the number of the promise that it shows; taken from the code under test, it would hold for any."""

import ast
import importlib
from datetime import timedelta

from tests.house.tree import python_files, shown, syntax


def _is_number(module: str, name: str) -> bool:
    value = getattr(importlib.import_module(module), name, None) if name.isupper() else None
    return isinstance(value, int | float | timedelta)


def test_no_test_takes_a_number_from_the_code_that_it_tests() -> None:
    taken = [
        f"{shown(path)}:{node.lineno} {alias.name}"
        for path in python_files("tests")
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
        if node.module.startswith("circadia.") and not node.module.startswith("circadia.testing.")
        if _is_number(node.module, alias.name)
    ]
    assert not taken, "write the number into the test"
