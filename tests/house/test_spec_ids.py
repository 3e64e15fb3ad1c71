"""Promises and tests meet: each promise has a test that names it, and each named promise exists."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.house.tree import DOCS, python_files, shown, syntax

ID = re.compile(r"(?:GATE|WAKE|MEM|SLEEP|ANS|DREAM|CLU|UI|SHIP|LARGE)-\d{2,3}")


@cache
def promised() -> dict[str, str]:
    """Return the ids that `docs/spec/*.md` list, each with its page."""
    found: dict[str, str] = {}
    for page in sorted((DOCS / "spec").glob("*.md")):
        for number in re.findall(rf"^\* \*\*({ID.pattern})\*\*", page.read_text("utf-8"), re.M):
            assert number not in found, f"{number} is listed twice"
            found[number] = shown(page)
    return found


@cache
def marked() -> tuple[tuple[str, str], ...]:
    """Return the ids of `spec` marks with the place of each: decorators, `pytestmark` and `pytest.param`."""
    return tuple(each for path in python_files("tests") for each in _marked(path))


def _marked(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.spec":
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"{shown(path)}:{node.lineno} computes an id"
                yield str(argument.value), f"{shown(path)}:{node.lineno}"


def test_each_promise_is_shown_by_a_test() -> None:
    assert not sorted(set(promised()) - {number for number, _ in marked()})


def test_each_id_that_a_test_names_is_a_promise() -> None:
    assert not [f"{place} names {number!r}" for number, place in marked() if number not in promised()]


def test_each_id_that_code_or_docs_mention_is_a_promise() -> None:
    found = {
        f"{shown(path)}: {number}"
        for path in python_files("src")
        for number in re.findall(r"\bGATE-\d{2}\b", path.read_text("utf-8"))
        if number not in promised()
    }
    assert not found
