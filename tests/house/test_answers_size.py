"""Ready answers stay small: their rules are one package, and all layers together have a bound."""

from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "circadia"
LAYERS = (
    "answers/*.py", "sleeptime/answers/*.py", "sleeptime/proposals/question_drafts.py",
    "sleeptime/operations/precompute.py", "memory/search/later_rows.py", "gateway/answers/*.py",
    "server/answers_wiring.py", "stores/answers.py", "stores/sql/answer*.py", "records/answer.py",
    "settings/answers.py", "api/sleeptime/answer*.py", "cli/answers.py", "client/ready_answers.py",
)  # fmt: skip


def lines(*patterns: str) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for each in patterns for path in SOURCE.glob(each))


@pytest.mark.spec("ANS-11")
def test_the_package_of_ready_answers_and_all_of_its_layers_stay_within_their_sizes() -> None:
    assert 1_000 < lines("answers/*.py") <= 2_300
    assert lines(*LAYERS) <= 6_000
