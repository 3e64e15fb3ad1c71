"""What is in doubt is settled by the tier's model: one question for many answers, each paid for once."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.records.answer import AnswerFrame, DropReason, LookupOutcome
from circadia.sleeptime.answers import doubts
from circadia.sleeptime.answers.doubts import AnswerVerdict, AnswerVerdicts
from circadia.sleeptime.proposals.prompts import prompt_version
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.answers_stand import CAT, HOME, JOB, Hall, expecting, tier_mind

pytestmark = pytest.mark.spec("ANS-04")

NEWS = "Ann likes strawberries."


def judge(verdict: Callable[[str], bool | None] = lambda _: True, *, broken: bool = False) -> ScriptedChatModel:
    """Return a tier's model that judges answers by their part of the question, and expects nothing."""

    def script(prompt: Prompt, output: type[BaseModel]) -> BaseModel | ModelAnswerError:
        if output is not AnswerVerdicts:
            return expecting()
        if broken:
            return ModelAnswerError("it makes no sense")
        parts = [each.partition(",") for each in prompt.data.split("## Answer ")[1:]]
        told = [(key, verdict(text)) for key, _, text in parts]
        return AnswerVerdicts(verdicts=[AnswerVerdict(id=key, right=right) for key, right in told if right is not None])

    return ScriptedChatModel(script)


async def doubtful(one: Hall) -> AnswerFrame:
    """Have an answer that is in doubt."""
    await one.said("I moved last year.")
    frame = await one.seen()
    await one.run(tier_mind(expecting(HOME)))
    assert (await one.found(frame, HOME)).outcome is LookupOutcome.HIT
    await one.said(NEWS)
    assert (await one.found(frame, HOME)).outcome is LookupOutcome.HINT
    return frame


async def test_what_a_judge_finds_right_is_served_again_and_he_is_not_asked_twice(both: Hall) -> None:
    frame, mind = await doubtful(both), judge()
    assert (await both.run(mind)).run.counts == {"answers_settled": 1}
    assert (await both.found(frame, HOME)).outcome is LookupOutcome.HIT
    asked = [each for each in mind.asked if "## Answer a1" in each.data]
    assert len(asked) == 1
    assert all(text in asked[0].data for text in (NEWS, HOME, "## Said since", "beside e1"))
    await both.run(mind)
    assert len([each for each in mind.asked if "## Answer a1" in each.data]) == 1


async def test_what_a_judge_finds_wrong_is_void_and_what_he_leaves_out_stays_in_doubt(one: Hall) -> None:
    frame = await doubtful(one)
    assert (await one.run(judge(lambda _: None))).run.counts == {}
    assert (await one.run(judge(broken=True))).run.counts == {}
    assert (await one.found(frame, HOME)).outcome is LookupOutcome.HINT
    (answer,) = await one.ready()
    await one.said("Ann likes cherries.")
    assert (await one.run(judge(lambda _: False))).run.counts == {"answers_dropped": 1}
    assert (await one.found(frame, HOME)).outcome is LookupOutcome.MISS
    async with one.store.begin_read() as tx:
        gone = await tx.answers.get(one.bank.id, answer.id)
    assert gone is not None
    assert gone.dropped == DropReason.VOID


async def test_a_pass_that_is_run_again_pays_for_no_verdict_twice(one: Hall) -> None:
    await doubtful(one)
    run, mind = await one.begun(), judge(lambda _: None)
    await one.work(run, mind)
    asked = len(mind.asked)
    await one.work(run, mind)
    assert len(mind.asked) == asked


async def test_an_old_answer_that_nobody_has_used_is_not_asked_about(one: Hall) -> None:
    await doubtful(one)
    (answer,) = await one.ready()
    one.clock.advance(timedelta(hours=2).total_seconds())
    mind = judge()
    await one.run(mind)
    assert not [each for each in mind.asked if "## Answer" in each.data]
    await one.used(answer, HOME)
    await one.run(mind)
    assert [each for each in mind.asked if "## Answer" in each.data]


async def test_many_answers_are_asked_about_together(one: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubts, "TOGETHER", 2)
    await one.said("I moved last year.")
    await one.seen()
    await one.run(tier_mind(expecting(HOME, CAT, JOB)))
    await one.said(NEWS, "Ann had a long day.")
    mind = judge()
    run = (await one.run(mind)).run
    asked = [each.data.count("## Answer") for each in mind.asked if "## Answer" in each.data]
    assert (asked, run.counts["answers_settled"]) == ([2, 1], 3)


def test_the_rules_are_a_file_with_a_version() -> None:
    assert prompt_version("still_right") == 2
