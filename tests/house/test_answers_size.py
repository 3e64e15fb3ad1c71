"""Ready answers stay small: their rules are one package, which gateway and sleep tier see through Protocols."""

import ast
from pathlib import Path

import pytest

from tests.house.tree import shown, syntax

SOURCE = Path(__file__).parents[2] / "src" / "circadia"
LAYERS = (
    "answers/*.py", "sleeptime/answers/*.py", "sleeptime/operations/precompute.py",
    "sleeptime/engine/answer_reviewer.py", "gateway/answers/*.py", "stores/sql/answer*.py", "records/answer.py",
    "settings/answers.py", "api/answers.py", "cli/answers.py",
)  # fmt: skip
SHARED = ("client/memory.py", "server/gateway_wiring.py")
"""Modules of which only the functions with `answer` in their names count."""


def lines(*patterns: str) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for each in patterns for path in SOURCE.glob(each))


def shared_lines(path: Path) -> int:
    functions = [node for node in ast.walk(syntax(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return sum((each.end_lineno or 0) - each.lineno + 1 for each in functions if "answer" in each.name)


@pytest.mark.spec("ANS-23")
def test_the_package_of_ready_answers_and_all_of_its_layers_stay_within_their_sizes() -> None:
    assert 1_000 < lines("answers/*.py") <= 1_800
    assert lines(*LAYERS) + sum(shared_lines(SOURCE / each) for each in SHARED) <= 5_080


@pytest.mark.spec("ANS-11")
def test_gateway_and_sleep_tier_see_ready_answers_through_two_protocols() -> None:
    behind = {f"circadia.answers.{module}" for module in ("lookup", "index", "freshness")}
    wrong = [
        f"{shown(path)} imports {node.module}"
        for room in ("gateway", "sleeptime")
        for path in (SOURCE / room).rglob("*.py")
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ImportFrom) and node.module in behind
    ]
    assert not wrong
    protocols = [
        node.name
        for node in syntax(SOURCE / "answers/services.py").body
        if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases)
    ]
    assert protocols == ["AnswerFinder", "AnswerValidator"]
