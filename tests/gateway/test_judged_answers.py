"""Ready answers of similar questions, which a judge decides about, through a whole server."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.bound_agent import chat, token_of
from tests.gateway.readied import ASKED, OTHER, readied

pytestmark = pytest.mark.usefixtures("unhurried")

SIMILAR = "What does Ann like drinking in the morning?"
REWORDED = "Which morning drink is Ann's favourite?"
YES, NO = '{"same": [1]}', '{"same": []}'


@pytest.mark.spec("ANS-02", "ANS-13")
async def test_a_similar_question_is_served_only_if_the_tiers_model_says_yes_and_it_is_asked_once(
    tmp_path: Path,
) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        sent = ann.sends
        assert (await ann.ask(chat(f"  {ASKED.rstrip('?')} ？"))).outcome == "hit"
        assert ann.sends == sent, "the same text needs no judge"
        for question, said, outcome, calls in (
            (SIMILAR, NO, "hint", 2), (SIMILAR, "", "miss", 1), (REWORDED, YES, "hit", 1), (REWORDED, "", "hit", 0),
            ("What is Ann's usual morning drink?", "no idea", "hint", 2),
        ):  # fmt: skip
            sent = ann.sends
            if said:
                ann.at.upstream.next(text=said)
            got = await ann.ask(chat(question))
            assert (got.outcome, ann.sends - sent) == (outcome, calls), (question, said)
        uses = await ann.uses()
    assert [(each.match_kind, each.served) for each in uses] == [("exact", True), ("similar", True), ("similar", True)]


@pytest.mark.spec("ANS-02")
@pytest.mark.parametrize(
    "other", ["What does Ann drink at 10 in the morning and at 11?", "What does Bob like to drink in the morning?"]
)
async def test_a_question_about_another_name_is_never_shown_to_a_judge(tmp_path: Path, other: str) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)), "What does Ann like to drink at 9 in the morning?")
        sent = ann.sends
        assert (await ann.ask(chat(other))).outcome == "miss"
        assert ann.sends == sent + 1, "it goes to its model, and to nobody else"


@pytest.mark.spec("ANS-02", "ANS-03", "ANS-22")
@pytest.mark.parametrize("off", [{"answers": {"check": "off"}}, {"sleeptime": {"model": "none"}}])
async def test_without_a_judge_a_similar_question_is_a_hint(tmp_path: Path, off: dict[str, object]) -> None:
    async with readied(tmp_path) as ann:
        frame = await ann.frame(chat(OTHER))
    async with readied(tmp_path, block="", sections=off) as ann:
        await ann.put(frame)
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        assert (await ann.ask(chat(SIMILAR))).outcome == "hint"
        assert not [each for each in await ann.at.usage("tier") if each["key"] == "sleep"]


@pytest.mark.spec("ANS-03")
async def test_where_nothing_is_captured_only_the_same_text_is_served(tmp_path: Path) -> None:
    async with readied(tmp_path, capture=False) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        sent = ann.sends
        assert (await ann.ask(chat(REWORDED))).outcome == "miss"
        assert ann.sends == sent + 1
        assert (await ann.ask(chat(ASKED))).outcome == "hit"


@pytest.mark.spec("ANS-03")
async def test_a_yes_from_before_serves_nothing_where_nothing_is_captured_any_more(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        ann.at.upstream.next(text=YES)
        assert (await ann.ask(chat(REWORDED))).outcome == "hit"
        status, _ = await ann.at.rest("PATCH", "/sessions/default/agents/ann", {"policy": {"capture": False}})
        assert status == 200
        assert (await ann.ask(chat(REWORDED))).outcome == "miss"
        assert (await ann.ask(chat(ASKED))).outcome == "hit"


@pytest.mark.spec("ANS-13", "ANS-20")
async def test_what_is_said_while_a_judge_thinks_counts_before_it_is_answered(tmp_path: Path) -> None:
    async with readied(tmp_path, others={"ben": {"bank": "memory"}}) as ann:
        ann.judges = False
        await ann.put(await ann.frame(chat(OTHER)))
        judge, model = asyncio.Event(), asyncio.Event()
        sent = ann.sends
        ann.at.upstream.next(text=YES, delay=judge)
        asked = asyncio.create_task(ann.ask(chat(REWORDED), waits=False))
        await ann.at.upstream.wait_for_requests(sent + 1)
        ann.at.upstream.next(text="Noted.", delay=model)
        said = chat("Ann has changed to coffee.")
        told = asyncio.create_task(ann.ask(said, token=token_of("ben"), waits=False))
        await ann.at.upstream.wait_for_requests(sent + 2)
        judge.set()
        assert (await asked).outcome == "miss", "the bank does not have it yet"
        model.set()
        await told
        await ann.at.server.exchanges.flush()
        await ann.read()
        assert (await ann.ask(chat(REWORDED))).outcome == "hit", "the yes is kept"


@pytest.mark.spec("ANS-02", "ANS-04")
async def test_an_answer_that_became_void_while_the_judge_thought_is_not_served(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        ann.at.upstream.next(text=YES)
        bank = await ann.held()
        assert (await ann.ask(chat(REWORDED))).outcome == "hit"
        await ann.at.rest("PUT", f"/banks/{bank.name}/blocks/facts", {"value": "Ann drinks juice."})
        assert (await ann.ask(chat(REWORDED))).outcome == "miss", "the yes is kept, and the answer is void"


@pytest.mark.spec("ANS-13")
@pytest.mark.setting("answers.check_calls_per_hour")
async def test_beyond_its_budget_of_an_hour_no_judge_is_asked(tmp_path: Path) -> None:
    async with readied(tmp_path, sections={"answers": {"check_calls_per_hour": 1}}) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        ann.at.upstream.next(text=YES)
        assert (await ann.ask(chat(REWORDED))).outcome == "hit"
        sent = ann.sends
        assert (await ann.ask(chat("What is Ann's usual morning drink?"))).outcome == "hint"
        assert ann.sends == sent + 1
        tiers = {each["key"]: each["calls"] for each in await ann.at.usage("tier")}
    assert tiers["sleep"] == 1
