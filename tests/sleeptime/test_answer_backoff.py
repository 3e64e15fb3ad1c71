"""How many questions are answered ahead falls with the share of answers that were used, and recovers (ANS-08)."""

from datetime import timedelta

import pytest

from circadia.ids import BankId
from circadia.records.answer import AnswerDay
from circadia.records.sleep_pass import Trigger
from circadia.settings.answers import AnswersSettings
from circadia.sleeptime.operations.precompute import count_affordable_questions
from circadia.testing.clock import START
from tests.sleeptime.answers_stand import CAT, HOME, JOB, Hall, expecting, predictions, tier_mind

pytestmark = pytest.mark.spec("ANS-08")


def day(used: int, wasted: int) -> AnswerDay:
    return AnswerDay(bank_id=BankId("bnk_1"), day=START.date(), used=used, wasted=wasted)


@pytest.mark.parametrize(
    ("used", "wasted", "questions"),
    [(0, 0, 10), (0, 9, 10), (0, 10, 1), (1, 99, 1), (1, 19, 2), (2, 18, 5), (3, 17, 7), (4, 16, 10), (20, 0, 10)],
)
def test_it_is_as_many_as_ever_down_to_one(used: int, wasted: int, questions: int) -> None:
    settings = AnswersSettings.model_validate({"questions": 10, "useful_share": 0.2})
    assert count_affordable_questions(settings, [day(used, 0), day(0, wasted)]) == questions
    assert count_affordable_questions(settings.model_copy(update={"useful_share": 0.0}), [day(used, wasted)]) == 10


async def test_it_falls_while_nobody_asks_what_was_expected_and_recovers_once_somebody_does(one: Hall) -> None:
    one.set(questions=3)
    await one.said("I moved last year.")
    made: list[int] = []

    async def a_day(uses: int) -> None:
        await one.seen()
        await one.run(tier_mind(expecting(HOME, CAT, JOB)))
        ready = await one.ready()
        made.append(len(ready))
        for each in ready[:uses]:
            await one.used(each, each.phrasings[0])
        one.clock.advance(timedelta(days=1).total_seconds())

    for _ in range(6):
        await a_day(0)
    assert made == [3, 3, 3, 3, 1, 1], "from ten on it is known that nobody wants them"
    for _ in range(9):
        await a_day(3)
    assert made[6:] == sorted(made[6:])
    assert made[-1] == 3
    assert (await one.day()).wasted_tokens >= 0


@pytest.mark.spec("SLEEP-86")
async def test_nothing_is_answered_ahead_for_whom_no_answer_was_used_for_two_weeks_until_asked_or_used(
    one: Hall,
) -> None:
    await one.said("I moved last year.")

    async def asked(trigger: Trigger = Trigger.IDLE) -> bool:
        """Run a pass a day later; return whether it has foreseen questions."""
        one.clock.advance(timedelta(days=1).total_seconds())
        await one.seen()
        mind = tier_mind(expecting(HOME))
        await one.run(mind, trigger=trigger)
        return bool(predictions(mind))

    assert [await asked() for _ in range(16)] == [True] * 14 + [False] * 2
    assert await asked(Trigger.HAND)
    assert not await asked()
    assert await asked(Trigger.HAND)
    (answer,) = await one.ready()
    await one.used(answer, HOME)
    assert [await asked() for _ in range(15)] == [True] * 13 + [False] * 2
    await one.seen(user="eve")
    mind = tier_mind(expecting(HOME))
    await one.run(mind)
    assert predictions(mind), "it says nothing of another end user"
