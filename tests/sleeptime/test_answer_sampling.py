"""Some uses of ready answers are answered afresh; what was wrong goes, and what fails judges nothing (ANS-07)."""

from collections.abc import Mapping
from typing import Any

import pytest

from circadia.answers.services import are_answers_trusted
from circadia.ids import AgentId, AnswerId, BankId
from circadia.llm.chat_model import ModelAnswerError
from circadia.memory.blocks import BlockAuthor, BlockUpdate
from circadia.records.answer import Answer, AnswerScope, AnswerUse, DropReason, MatchKind
from circadia.records.bank import Trust
from circadia.settings.answers import AnswersSettings
from circadia.sleeptime.answers.answer_run import AnswerRun
from circadia.sleeptime.answers.sampling import AnswerSampler, choose_samples
from circadia.sleeptime.budget.model_calls import Limit, PassPreempted, Scope, Unit
from circadia.sleeptime.proposals.operation import PassContext
from circadia.testing.clock import START
from tests.contract.test_store_verdicts import verdict
from tests.sleeptime.answers_stand import CAT, HOME, Hall, expecting, sent, tier_mind

MOST = 5

pytestmark = pytest.mark.spec("ANS-07")

CITY = "In which city does Ann live?"


async def ready(hall: Hall) -> Answer:
    """Have one answer made, with two phrasings."""
    hall.set(sample_share=1.0)
    await hall.said("I moved last year.")
    await hall.seen()
    await hall.run(tier_mind(expecting([HOME, CITY])))
    (answer,) = await hall.ready()
    return answer


async def judged(hall: Hall) -> list[bool | None]:
    """Return what was found, the newest use first."""
    async with hall.store.begin_read() as tx:
        return [each.right for each in await tx.answer_uses.find_uses(hall.bank.id)]


async def test_the_same_answer_is_right_whatever_its_case_without_asking_the_tiers_model(both: Hall) -> None:
    answer = await ready(both)
    await both.used(answer, "where does Ann live", phrasing=HOME)
    both.up.next(text="She lives in PORTO")
    mind = tier_mind()
    outcome = await both.run(mind)
    assert (outcome.run.counts, await judged(both)) == ({"answers_judged": 1}, [True])
    assert not any("two answers" in each.rules for each in mind.asked)
    assert sent(both.up)[-1]["messages"][-1]["content"].startswith("where does Ann live"), "the question as it was"
    day = await both.day()
    assert (day.right, day.wrong) == (1, 0)
    await both.run(mind)
    assert len(both.up.requests) == 2, "once"


@pytest.mark.parametrize(
    ("use", "phrasings", "dropped"),
    [
        pytest.param({"question": "in which city does ann live", "phrasing": CITY}, [HOME], "", id="a phrasing"),
        pytest.param({"question": HOME}, [], DropReason.WRONG, id="the first phrasing"),
        pytest.param(
            {"question": "Where is Ann's home?", "phrasing": CITY, "match_kind": MatchKind.SIMILAR},
            [],
            DropReason.WRONG,
        ),
    ],
)
async def test_another_answer_takes_out_what_it_was_found_by(
    one: Hall, use: Mapping[str, Any], phrasings: list[str], dropped: str
) -> None:
    answer = await ready(one)
    await one.used(answer, **use)
    async with one.store.begin_write() as tx:
        await tx.answer_uses.save_verdicts([verdict("v1", answer)])
    one.up.next(text="In Faro.")
    mind = tier_mind(alike=False)
    await one.run(mind)
    (asked,) = [each for each in mind.asked if "two answers" in each.rules]
    assert asked.data.startswith("<data ")
    assert "| In Faro." in asked.data
    async with one.store.begin_read() as tx:
        found = await tx.answers.get(one.bank.id, answer.id)
        uses = await tx.answer_uses.find_uses(one.bank.id, agent_id=AgentId("agt_guide"), judged=True)
        assert await tx.answer_uses.find_verdicts(one.bank.id, ["v1"]) == [], "what let it in is gone"
    assert found is not None
    assert ([*found.phrasings], found.dropped, await judged(one)) == (phrasings, dropped, [False])
    settings = AnswersSettings.model_validate({"least_samples": 1})
    assert not are_answers_trusted(uses, settings)
    assert (await one.day()).wrong == 1


async def test_other_words_for_the_same_are_right(one: Hall) -> None:
    await one.used(await ready(one), HOME)
    one.up.next(text="Her home is Porto.")
    await one.run(tier_mind(alike=True))
    assert await judged(one) == [True]


@pytest.mark.parametrize(
    ("script", "alike"),
    [
        ({"status": 500, "headers": {"retry-after": "999"}}, True),
        ({"text": ""}, True),
        ({"text": "I'm sorry, but I can't help with that."}, True),
        ({"text": "In Faro."}, ModelAnswerError("prose")),
        ({"text": "In Faro."}, ModelAnswerError("no answer in time", passing=True, retry_after_seconds=999)),
    ],
)
async def test_a_sampler_that_fails_judges_nothing(one: Hall, script: Mapping[str, Any], alike: Any) -> None:
    answer = await ready(one)
    await one.used(answer, HOME)
    one.up.next(**script)
    outcome = await one.run(tier_mind(alike=alike))
    assert (outcome.run.counts, await judged(one)) == ({}, [None])
    assert [each.id for each in await one.ready()] == [answer.id]
    assert are_answers_trusted([], one.settings)


@pytest.mark.parametrize("text", ["", "I'm sorry, but I can't help with that."])
async def test_a_use_that_cannot_be_judged_is_paid_for_once_and_keeps_no_other_out(one: Hall, text: str) -> None:
    answer = await ready(one)
    await one.used(answer, HOME)
    one.up.next(text=text)
    await one.run(tier_mind())
    requests = len(one.up.requests)
    await one.run(tier_mind())
    assert (len(one.up.requests), await judged(one)) == (requests, [None])
    async with one.store.begin_read() as tx:
        assert await tx.answer_uses.find_uses(one.bank.id, judged=False) == [], "nobody looks at it again"
    await one.used(answer, HOME)
    await one.run(tier_mind())
    assert await judged(one) == [True, None], "the next one is looked at as ever"


async def test_while_a_provider_is_away_one_use_is_tried_in_a_pass(one: Hall) -> None:
    one.set(sample_share=1.0)
    await one.said("I moved last year.")
    await one.seen()
    await one.run(tier_mind(expecting(HOME, CAT)))
    for answer in await one.ready():
        await one.used(answer, answer.phrasings[0])
    requests = len(one.up.requests)
    one.up.next(times=9, status=500, headers={"retry-after": "999"})
    await one.run(tier_mind())
    assert len(one.up.requests) == requests + 1


@pytest.mark.spec("SLEEP-04")
async def test_it_yields_between_the_uses_that_it_looks_through(one: Hall) -> None:
    answer = await ready(one)
    for _ in range(3):
        await one.used(answer, HOME)
    steps = list[int]()

    async def go_on() -> None:
        steps.append(len(steps))
        if len(steps) == 3:
            raise PassPreempted

    run, readying = await one.begun(), one.readying()
    ground = PassContext(
        store=one.store, yield_to_calls=go_on, run=run, answer_services=readying
    )  # fmt: skip
    with pytest.raises(PassPreempted):
        await AnswerSampler(
            AnswerRun(bank=one.bank, context=ground, answer_services=readying, ask=_unasked, sleep_pass=run)
        ).judge()
    assert len(one.up.requests) == 1, "nothing was asked yet"


async def _unasked(*_: object, **__: object) -> Any:
    raise AssertionError


async def test_the_answer_that_is_judged_is_not_shown_to_who_judges_it(one: Hall) -> None:
    await one.said("Ann's house is blue, where she lives.")
    answer = await ready(one)
    await one.used(answer, HOME)
    await one.said(HOME)
    await one.said(answer.text, speaker="guide", trust=Trust.AGENT)
    await one.run(tier_mind())
    assert len(one.up.requests) == 2, "it still stands"
    shown = str(sent(one.up)[-1]["messages"])
    assert "is blue" in shown
    assert answer.text not in shown
    assert shown.count(HOME) == 1, "as the question alone"


async def test_what_changed_meanwhile_or_may_not_be_spent_is_not_judged(one: Hall) -> None:
    await one.used(await ready(one), HOME)
    one.limits = [Limit(scope=Scope.PASS, unit=Unit.CALLS, most=0)]
    await one.run(tier_mind())
    assert await judged(one) == [None]
    one.limits = []
    async with one.store.begin_write() as tx:
        edit = BlockUpdate(value="Ann lives in Faro.")
        await one.memory.blocks.write(tx, one.bank, "ann", edit, writer=BlockAuthor.PERSON, by="op")
    requests = len(one.up.requests)
    await one.run(tier_mind())
    assert (await judged(one), len(one.up.requests)) == ([None], requests)


def use(number: int, answer: int = 0) -> AnswerUse:
    return AnswerUse(
        id=f"use_{number}", bank_id=BankId("bnk_1"), answer_id=AnswerId(f"ans_{answer or number}"), question=CAT,
        scope=AnswerScope(agent_id=AgentId("agt_1"), frame="f"), phrasing=CAT, match_kind=MatchKind.EXACT,
        served=True, at=START,
    )  # fmt: skip


def test_a_share_is_drawn_by_their_ids_spread_over_answers_and_one_at_least_while_nothing_is_known() -> None:
    settings = AnswersSettings.model_validate({"sample_share": 0.1, "least_samples": 2})
    uses = [use(number) for number in range(200)]
    taken = choose_samples(uses, (), settings)
    assert len(taken) == MOST
    assert [*choose_samples(uses[::-1], (), settings)] == [*taken]
    assert 10 <= sum(bool(choose_samples([each], (use(1), use(2)), settings)) for each in uses) <= 30
    assert len(choose_samples([use(number, 7) for number in range(200)], (), settings)) == 1, "one of each answer"
    missed = next(each for each in uses if not choose_samples([each], (use(1), use(2)), settings))
    assert [*choose_samples([missed], (use(1),), settings)] == [missed]
    assert choose_samples(uses, (), settings.model_copy(update={"sample_share": 0.0})) == ()
