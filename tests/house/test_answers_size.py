"""Ready answers stay small: their rules are one package, which gateway and sleep tier see through Protocols."""

import ast
from pathlib import Path

import pytest

from tests.house.tree import shown, syntax

SOURCE = Path(__file__).parents[2] / "src" / "circadia"
LAYERS = (
    "answers/*.py", "sleeptime/answers/*.py", "sleeptime/operations/precompute.py", "memory/search/later_rows.py",
    "gateway/answers/*.py", "server/gateway_wiring.py", "stores/sql/answer*.py",
    "records/answer.py", "settings/answers.py", "api/answers.py", "cli/answers.py",
    "client/memory.py",
)  # fmt: skip


def lines(*patterns: str) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for each in patterns for path in SOURCE.glob(each))


@pytest.mark.spec("ANS-11")
def test_the_package_of_ready_answers_and_all_of_its_layers_stay_within_their_sizes() -> None:
    assert 1_000 < lines("answers/*.py") <= 2_300
    assert lines(*LAYERS) <= 6_000


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
