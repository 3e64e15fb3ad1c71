"""What of an expected question a model's verdict lets be kept, and for whom."""

import re

import pytest

from circadia.llm.chat_model import ModelAnswerError
from circadia.records.answer import LookupOutcome
from circadia.sleeptime.answers.prediction import QuestionVerdict, QuestionVerdicts
from circadia.testing.rule_based_model import build_question_verdicts
from tests.sleeptime.answers_stand import HOME, Hall, expecting, tier_mind


@pytest.mark.spec("ANS-01")
async def test_phrasings_that_ask_for_something_else_than_the_first_are_left_out(one: Hall) -> None:
    await one.said("The invoice of 100 euros from Ann to Tom is not the one of 200 euros.")
    await one.seen()
    first = "Is the invoice of 100 euros from Ann to Tom paid?"
    others = [
        "Is the invoice of 200 euros from Ann to Tom paid?", "Is the invoice of 100 euros from Ann to Tom not paid?",
        "Is the invoice of 100 euros from Tom to Ann paid?", "Where does Tom live?",
        "is the invoice of 100 euros from Ann to Tom paid", "Has the invoice of 100 euros from Ann to Tom been paid?",
    ]  # fmt: skip

    def verdicts(data: str) -> QuestionVerdicts:
        found = build_question_verdicts(data)
        found.questions[0].same = [int(number) for number in re.findall(r"phrasing (\d+): Has the invoice", data)]
        return found

    await one.run(tier_mind(expecting([first, *others]), verdicts=verdicts))
    (answer,) = await one.ready()
    assert [*answer.phrasings] == [first, others[-1]]


@pytest.mark.spec("ANS-01")
@pytest.mark.parametrize(
    ("answered", "alone", "kept"), [(True, True, True), (True, False, True), (False, True, False)],
)  # fmt: skip
async def test_a_verdict_says_whether_an_answer_is_one_and_who_may_find_it(
    one: Hall, answered: bool, alone: bool, kept: bool
) -> None:
    await one.said("I moved last year.", conversation="s1")
    frame = await one.seen()

    def verdicts(data: str) -> QuestionVerdicts:
        return QuestionVerdicts(questions=[QuestionVerdict(number=1, answered=answered, stands_alone=alone, same=[])])

    await one.run(tier_mind(expecting("And the second one?"), verdicts=verdicts))
    ready = await one.ready()
    assert [each.conversation for each in ready] == ([None if alone else "s1"] if kept else [])
    outcome = LookupOutcome.HIT if kept and alone else LookupOutcome.MISS
    assert (await one.found(frame, "And the second one?")).outcome is outcome, "it is asked in another conversation"


@pytest.mark.spec("ANS-01")
async def test_without_a_verdict_only_the_first_phrasing_is_kept_and_only_if_it_names_something_for_all(
    one: Hall,
) -> None:
    await one.said("I moved last year.", conversation="s1")
    await one.seen()
    failed = ModelAnswerError("prose")
    await one.run(tier_mind(expecting([HOME, "Ann lives where?"], "What is the rent?"), verdicts=lambda _: failed))
    assert [(*each.phrasings, each.conversation) for each in await one.ready()] == [
        (HOME, None), ("What is the rent?", "s1"),
    ]  # fmt: skip
