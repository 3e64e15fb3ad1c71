"""Limits that memory and ready answers promise, each shown at a whole server just below it and just above."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from circadia.records.bank import Trust
from tests.fixtures.ahead import OffsetClock
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, bound, chat
from tests.gateway.readied import ASKED, OTHER, ReadyAnswerServer, question, readied

pytestmark = pytest.mark.usefixtures("unhurried")
DRAFT = "Aunt Hedwig turns eighty on Friday, and all of Lund sings."
PASSES = {
    "sleeptime": {
        "idle_seconds": 3600,
        "frequency_turns": 0,
        "importance": 0,
        "model": {"upstream": "openai", "name": "mind-1"},
    }
}


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize(("minutes", "kept"), [(59, 1), (61, 2)])
async def test_what_begins_a_conversation_in_the_same_words_is_a_retry_for_an_hour(
    tmp_path: Path, ahead: type[OffsetClock], minutes: int, kept: int
) -> None:
    async with bound(tmp_path, inject=False) as ann:
        await ann.say(chat("What is the plan?"))
        await ann.episodes()
        ahead.by = timedelta(minutes=minutes)
        await ann.say(chat("What is the plan?"))
        assert [text for speaker, text in await ann.texts() if speaker == "user"] == ["What is the plan?"] * kept


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize(("hours", "trust"), [(23, Trust.AGENT), (25, Trust.PERSON)])
async def test_what_a_model_has_said_is_not_a_persons_word_for_a_day(
    tmp_path: Path, ahead: type[OffsetClock], hours: int, trust: Trust
) -> None:
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(text=DRAFT)
        await ann.say(chat("Write of aunt Hedwig"))
        await ann.episodes()
        ahead.by = timedelta(hours=hours)
        ann.at.upstream.next(text="How nice.")
        await ann.say(chat(f"Somebody wrote this to me: {DRAFT}"))
        (handed_on,) = [each for each in await ann.episodes() if each.text.startswith("Somebody")]
        assert handed_on.trust is trust


@pytest.mark.spec("MEM-12")
@pytest.mark.setting("defaults.multi_user")
@pytest.mark.parametrize("multi_user", [False, True])
async def test_a_team_s_bank_takes_a_turn_of_nobody_knows_whom_only_from_an_agent_of_one_user(
    tmp_path: Path, multi_user: bool
) -> None:
    async with readied(tmp_path, multi_user=multi_user, answer_mode="serve") as ann:
        await ann.put(await ann.frame(chat(OTHER), headers={"x-circadia-user": "eve"}))
        before = len(await ann.episodes())
        raw = json.dumps(chat("Which tea does Ann like?")).encode()
        got = await ann.ask(raw)
        said = await ann.episodes()
        assert got.status == 200
        assert (got.outcome, len(said) - before) == ((None, 0) if multi_user else ("miss", 2))
        assert (ann.at.upstream.requests[-1].body == raw) is multi_user
        got = await ann.ask(raw, headers={"x-circadia-user": "eve"})
        assert got.outcome == "miss"
        assert "Ann likes tea." in json.dumps(ann.sent)


@pytest.mark.spec("ANS-03")
@pytest.mark.parametrize(("characters", "outcome"), [(1_200, "hint"), (1_600, "miss")])
async def test_a_hint_takes_half_of_the_tokens_that_fit_at_most(tmp_path: Path, characters: int, outcome: str) -> None:
    """Of 1,000 tokens some 940 are left beside the fence; half of them are 470, which hold 1,410 characters."""
    async with readied(tmp_path, answer_mode="hint", fitting_tokens=1_000) as ann:
        made = await ann.put(await ann.frame(chat(OTHER)), text="tea " * (characters // 4 - 60))
        got = await ann.ask(chat(ASKED))
        assert (got.outcome, got.answer_id) == (outcome, made.id if outcome == "hint" else None)
        assert ("tea tea tea" in json.dumps(ann.sent)) is (outcome == "hint")


@pytest.mark.spec("ANS-03")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_served_answer_tells_its_caller_that_it_took_no_tokens(tmp_path: Path, path: str, stream: bool) -> None:
    async with readied(tmp_path) as ann:
        more: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream and path == CHAT else {}
        await ann.put(await ann.frame(question(OTHER, path=path, stream=stream, **more), path=path))
        got = await ann.ask(question(path=path, stream=stream, **more), path=path)
        assert got.outcome == "hit"
        told = re.findall(rb'_tokens":\s*(\d+)', got.body)
        assert len(told) >= 2
        assert set(told) == {b"0"}
        ready = {each["key"]: each for each in await ann.at.usage("tier")}["ready"]
        assert (ready["calls"], ready["input_tokens"], ready["output_tokens"]) == (1, 0, 0)


QUESTIONS = [f"What colour is the door of house number {at}?" for at in range(5)]


async def left_after_a_pass(ann: ReadyAnswerServer) -> list[str]:
    """Return the questions whose answers are ready after a pass."""
    status, run = await ann.at.rest(
        "POST", "/banks/memory/passes", {"operations": ["precompute"], "full": True, "wait_seconds": 60}
    )
    assert (status, run["ended_at"] is not None) == (202, True), run
    status, listed = await ann.at.rest("GET", "/banks/memory/answers")
    assert status == 200
    return sorted(each["phrasings"][0] for each in listed["answers"])


@pytest.mark.spec("ANS-05")
@pytest.mark.setting("answers.max_entries", "answers.max_per_agent", "answers.max_megabytes")
@pytest.mark.parametrize(
    ("setting", "left"),
    [({}, 5), ({"max_entries": 3}, 3), ({"max_per_agent": 2}, 2), ({"max_megabytes": 0.003}, 2)],
    ids=str,
)
async def test_of_more_answers_than_a_setting_allows_those_go_that_were_used_longest_ago(
    tmp_path: Path, setting: dict[str, Any], left: int
) -> None:
    sections = {**PASSES, "answers": setting}
    async with readied(tmp_path, sections=sections) as ann:
        frame = await ann.frame(chat(OTHER))
        for each in QUESTIONS:
            await ann.put(frame, each, "It is green." + " Or nearly so." * 60)
        assert (await ann.ask(chat(QUESTIONS[0]))).outcome == "hit"
        await ann.uses()
        found = await left_after_a_pass(ann)
        assert len(found) == left, found
        assert QUESTIONS[0] in found, "it was used last"
