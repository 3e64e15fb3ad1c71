"""Ready answers over REST and by the client: what is ready, what a question would get, and what is dropped."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from circadia.answers.freshness import fetch_bank_state
from circadia.client.calls import Client
from circadia.errors import InvalidRequest, NotFound
from circadia.gateway.answers.judging import JudgeLimits
from circadia.ids import AnswerId
from circadia.records.agent import Agent
from circadia.records.answer import (
    Answer,
    AnswerBasis,
    AnswerDay,
    AnswerFrame,
    AnswerScope,
    AnswerUse,
    MatchKind,
    SameQuestionVerdict,
)
from circadia.records.bank import Bank
from circadia.schemas.answers import JudgeUsageView
from tests.api.service import ADMIN, Service

QUESTION = "When does the bakery in Porto open?"


async def agent_of(service: Service, name: str) -> Agent:
    async with service.parts.store.begin_read() as tx:
        session = await tx.sessions.get_by_name("default")
        assert session is not None
        found = await tx.agents.get_by_name(session.id, name)
        assert found is not None
        return found


async def ready(service: Service, name: str = "helper", **more: Any) -> Answer:
    """Make a bank with a block, an agent, its frame and a ready answer that rests on the block."""
    async with service.parts.store.begin_read() as tx:
        there = await tx.banks.get_by_name("support")
    if there is None:
        await service.ok("POST", "/banks", {"name": "support"})
        await service.ok("PUT", "/banks/support/blocks/hours", {"value": "The bakery opens at 9."})
    await service.agent(name, bank="support", answer_mode="serve")
    agent, now = await agent_of(service, name), service.clock.now()
    async with service.parts.store.begin_write() as tx:
        bank = await tx.banks.get_by_name("support")
        assert bank is not None
        scope = AnswerScope(agent_id=agent.id, frame="f1", end_user=str(more.pop("end_user", "")))
        await tx.answer_frames.save_frames([frame_of(bank, scope, now)])
        blocks = {each.label: each.version for each in await tx.blocks.find_all(bank.id)}
        basis = AnswerBasis(
            blocks=blocks, shown=("hours",), heads=(await fetch_bank_state(tx, bank)).heads, generation=bank.generation
        )  # fmt: skip
        made = Answer(
            id=AnswerId(f"ans_{name}"), bank_id=bank.id, scope=scope, phrasings=(QUESTION,), confidence=0.9,
            text="At 9.", basis=basis, made_at=now,
            read_upto=basis.heads.episodes, expires_at=now + timedelta(hours=24), tokens=120, seconds=1.5,
            nanousd=2_000,
        )  # fmt: skip
        made = replace(made, **more)
        await tx.answers.put([made])
    return made


def frame_of(bank: Bank, scope: AnswerScope, now: Any) -> AnswerFrame:
    return AnswerFrame(
        bank_id=bank.id, scope=scope, upstream="openai", target="/v1/chat/completions", dialect="chat", model="m",
        body="{}", at=now,
    )  # fmt: skip


@pytest.mark.spec("ANS-01", "ANS-04")
async def test_a_ready_answer_is_listed_with_what_it_rests_on_until_that_changes(
    service: Service, client: Client
) -> None:
    made = await ready(service)
    page = await client.list_answers("support", agent="helper")
    (shown,) = page.answers
    assert (shown.id, shown.agent, shown.question, shown.text) == (made.id, "helper", QUESTION, "At 9.")
    assert (shown.stands, shown.why_not, shown.blocks, shown.usd) == (True, "", {"hours": 1}, 2e-6)
    assert page.after is None
    assert await client.show_answer("support", made.id) == shown
    await client.write_block("support", "hours", "The bakery opens at 8.")
    changed = await client.show_answer("support", made.id)
    assert not changed.stands
    assert "hours" in changed.why_not


@pytest.mark.spec("ANS-02")
async def test_a_question_is_tried_and_each_step_says_why(service: Service, client: Client) -> None:
    made = await ready(service)
    hit = await client.try_answers("support", "helper", f" {QUESTION.rstrip('?')} ？")
    assert (hit.outcome, hit.mode, hit.trusted, hit.frames) == ("hit", "serve", True, 1)
    assert hit.answer is not None
    assert hit.answer.id == made.id
    assert hit.steps == [f"same text: {QUESTION!r}", "so it is a hit"]
    near = await client.try_answers("support", "helper", "When does the bakery in Faro open?")
    assert (near.outcome, near.steps[1:]) == (
        "miss", [f"similar: {QUESTION!r}, but they differ: faro against porto", "so it is a miss"],
    )  # fmt: skip
    hint = await client.try_answers("support", "helper", "When exactly does the bakery in Porto open?")
    assert (hint.outcome, hint.steps[-2:]) == (
        "hint", ["judge: there is none (`answers.check`, `sleeptime.model`)", "so it is a hint"],
    )  # fmt: skip
    other = await client.try_answers("support", "helper", QUESTION, end_user="ben")
    assert (other.outcome, other.answer, other.frames) == ("miss", None, 0)
    await client.write_block("support", "hours", "The bakery opens at 8.")
    void = await client.try_answers("support", "helper", QUESTION)
    assert (void.outcome, void.answer) == ("miss", None)
    assert "block 'hours'" in void.steps[0]


class _Judge:
    """Keeps what it was asked."""

    name = "one"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def judge(self, agent: Agent, bank: Bank, asked: str, candidates: Sequence[str]) -> Sequence[bool] | None:
        """Decide nothing."""
        self.asked.append(asked)


@pytest.mark.spec("ANS-02")
async def test_a_question_that_is_tried_asks_no_judge_and_says_where_a_call_would(service: Service) -> None:
    made, judge = await ready(service), _Judge()
    object.__setattr__(service.parts, "judge", JudgeLimits(service.clock, judge, list[SameQuestionVerdict]().append))
    async with Client(service.url, ADMIN) as client:
        found = await client.try_answers("support", "helper", "When exactly does the bakery in Porto open?")
        same = await client.try_answers("support", "helper", QUESTION)
        other = await client.try_answers("support", "helper", "When does the bakery in Faro open?")
        stats = await client.answer_stats("support")
    line = "judge: a model, which is asked once a call comes"
    assert (found.outcome, found.steps[2:]) == ("hint", [line, "so it is a hint"])
    assert found.answer is not None
    assert found.answer.id == made.id
    assert [(each.outcome, line in each.steps) for each in (same, other)] == [("hit", False), ("miss", False)]
    assert judge.asked == []
    assert stats.judge == [
        JudgeUsageView(agent="helper", lookups=0, waits=0, bar=0.0, breaker_open=False)
    ], "to try a question counts as no lookup"  # fmt: skip


@pytest.mark.spec("ANS-07")
async def test_an_agent_whose_sampled_answers_were_wrong_is_shown_as_not_trusted(
    service: Service, client: Client
) -> None:
    made = await ready(service)
    async with service.parts.store.begin_write() as tx:
        uses = [
            AnswerUse(
                id=f"use_{number:02}", bank_id=made.bank_id, answer_id=made.id, scope=made.scope, question=QUESTION,
                phrasing=QUESTION, match_kind=MatchKind.EXACT, served=True, at=service.clock.now(),
            )
            for number in range(10)
        ]  # fmt: skip
        await tx.answer_uses.record_uses(uses)
        for each in uses:
            await tx.answer_uses.save_judgment(made.bank_id, each.id, right=False, at=service.clock.now())
    assert not (await client.try_answers("support", "helper", QUESTION)).trusted


@pytest.mark.spec("ANS-08")
async def test_the_stats_tell_hits_waste_and_precision(service: Service, client: Client) -> None:
    made, day = await ready(service), service.clock.now().date()
    none = await client.answer_stats("support")
    assert (none.live, none.hit_rate, none.precision, none.used_share) == (1, None, None, None)
    async with service.parts.store.begin_write() as tx:
        await tx.answer_uses.add_counts([
            AnswerDay(
                bank_id=made.bank_id, day=day, served=3, hints=1, misses=4, made=4, used=1, wasted=2, wasted_tokens=240,
                right=3, wrong=1,
            ),
            AnswerDay(bank_id=made.bank_id, day=day - timedelta(days=20), served=100),
        ])  # fmt: skip
    found = await client.answer_stats("support")
    assert (found.hit_rate, found.hint_rate, found.precision, found.used_share) == (0.375, 0.125, 0.75, 0.25)
    assert found.samples == 4
    assert (found.wasted_tokens, [each.day for each in found.days]) == (240, [day.isoformat()])
    assert len((await client.answer_stats("support", days=30)).days) == 2


@pytest.mark.spec("ANS-05")
@pytest.mark.parametrize("hours", [-1, 24, 100])
async def test_an_answer_that_is_over_or_from_the_future_is_shown_as_none(
    service: Service, client: Client, hours: float
) -> None:
    made_at = service.clock.now() - timedelta(hours=hours)
    made = await ready(service, made_at=made_at, expires_at=made_at + timedelta(hours=24))
    (listed,) = (await client.list_answers("support")).answers
    for shown in (listed, await client.show_answer("support", made.id)):
        assert (shown.stands, "it holds from" in shown.why_not) == (False, True)
    assert (await client.answer_stats("support")).live == 0


@pytest.mark.spec("ANS-08")
async def test_what_a_person_drops_and_nobody_ever_used_is_waste(service: Service, client: Client) -> None:
    one, two, used = await ready(service), await ready(service, "other"), await ready(service, "third")
    async with service.parts.store.begin_write() as tx:
        use = AnswerUse(
            id="use_1", bank_id=used.bank_id, answer_id=used.id, scope=used.scope, question=QUESTION,
            phrasing=QUESTION, match_kind=MatchKind.EXACT, served=True, at=service.clock.now(),
        )  # fmt: skip
        await tx.answer_uses.record_uses([use])
    await client.drop_answer("support", one.id)
    assert (await client.answer_stats("support")).wasted_tokens == one.tokens
    assert (await client.drop_answers("support")).dropped == 2
    (day,) = (await client.answer_stats("support")).days
    assert (day.wasted, day.wasted_tokens) == (2, one.tokens + two.tokens)


@pytest.mark.spec("ANS-06")
async def test_what_is_dropped_is_gone_and_only_that(service: Service, client: Client) -> None:
    one = await ready(service)
    await ready(service, "other")
    await client.drop_answer("support", one.id)
    with pytest.raises(NotFound, match="no ready answer"):
        await client.show_answer("support", one.id)
    with pytest.raises(NotFound, match="no ready answer"):
        await client.drop_answer("support", one.id)
    assert (await client.try_answers("support", "other", QUESTION)).outcome == "hit"
    assert (await client.drop_answers("support", agent="helper")).dropped == 0
    assert (await client.drop_answers("support")).dropped == 1
    assert (await client.list_answers("support")).answers == []
    assert (await client.try_answers("support", "other", QUESTION)).outcome == "miss"


async def test_pages_of_answers_follow_one_another(service: Service, client: Client) -> None:
    for number in range(3):
        await ready(service, f"agent{number}")
    first = await client.list_answers("support", limit=2)
    assert first.after == first.answers[-1].id
    rest = await client.list_answers("support", limit=2, after=first.after)
    assert ([each.agent for each in rest.answers], rest.after) == (["agent2"], None)


async def test_bad_questions_and_names_are_told(service: Service, client: Client) -> None:
    await ready(service)
    for question in ("", " ", "👍", "x" * 100_000):
        assert (await client.try_answers("support", "helper", question)).outcome == "miss"
    with pytest.raises(InvalidRequest):
        await client.try_answers("support", "helper", "x" * 100_001)
    with pytest.raises(NotFound, match="helper"):
        await client.try_answers("support", "helpr", QUESTION)
    with pytest.raises(NotFound, match="nobank"):
        await client.list_answers("nobank")
