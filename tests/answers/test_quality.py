"""Uses that were looked at tell whether answers may be served."""

import pytest

from circadia.answers.services import are_answers_trusted, judged_use_limit, precision
from circadia.ids import AgentId, AnswerId, BankId
from circadia.records.answer import AnswerScope, AnswerUse, MatchKind
from circadia.settings.answers import AnswersSettings
from tests.contract.rows import T0

LAST = 50

pytestmark = pytest.mark.spec("ANS-07")

SETTINGS = AnswersSettings.model_validate({"least_samples": 10, "least_precision": 0.9})


def uses(*right: bool | None) -> list[AnswerUse]:
    """Return uses that were found so, the newest first."""
    return [
        AnswerUse(
            id=f"use_{number}", bank_id=BankId("b"), answer_id=AnswerId("ans_1"), question="q", phrasing="q",
            scope=AnswerScope(agent_id=AgentId("agt_1"), frame="f"), match_kind=MatchKind.EXACT, served=True,
            at=T0, right=found,
        )
        for number, found in enumerate(right)
    ]  # fmt: skip


def test_answers_are_trusted_until_enough_of_them_were_looked_at() -> None:
    assert are_answers_trusted([], SETTINGS)
    assert are_answers_trusted(uses(*[False] * 9, *[None] * 90), SETTINGS)
    assert not are_answers_trusted(uses(*[False] * 10), SETTINGS)


def test_the_share_of_right_ones_decides() -> None:
    assert are_answers_trusted(uses(*[True] * 9, False), SETTINGS)
    assert not are_answers_trusted(uses(*[True] * 8, False, False), SETTINGS)


def test_only_the_newest_that_were_looked_at_count() -> None:
    assert are_answers_trusted(uses(*[True] * LAST, *[False] * 500), SETTINGS)
    assert are_answers_trusted(uses(*[None, True] * LAST, *[False] * 500), SETTINGS), (
        "what nobody looked at tells nothing"
    )
    assert not are_answers_trusted(uses(*[True] * 44, *[False] * 6, *[True] * 500), SETTINGS)


def test_as_many_count_as_are_needed_to_judge() -> None:
    many = AnswersSettings.model_validate({"least_samples": 100, "least_precision": 0.9})
    assert judged_use_limit(many) == 100
    assert judged_use_limit(SETTINGS) == LAST
    assert are_answers_trusted(uses(*[False] * 99), many)
    assert not are_answers_trusted(uses(*[False] * 100), many)


def test_precision_is_told_of_what_was_looked_at() -> None:
    assert precision(uses(True, None, False, True, True)) == 0.75
    assert precision(uses(None, None)) is None
    assert precision([]) is None
