"""What the gateway added to a turn stays behind it, so that a provider reads nothing of a conversation again."""

import asyncio
import contextlib
import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from circadia.memory.context import estimate_tokens
from circadia.testing.clock import ManualClock
from circadia.testing.upstream import MockUpstream
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, BoundAgentServer, bound, chat, token_of
from tests.gateway.tool_loops import FACTS, QUESTIONS, STEPS, Conversation, assert_prefixes, breaks, learn, sent
from tests.interaction.live import KEY, live

pytestmark = [pytest.mark.spec("MEM-37"), pytest.mark.usefixtures("unhurried")]


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_each_call_begins_as_the_one_before_over_tool_loops_and_turns(tmp_path: Path, path: str) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, path)
        for question in QUESTIONS:
            await conversation.turn(question)
        calls = sent(ann)
    assert len(calls) == len(QUESTIONS) * (STEPS + 1)
    assert_prefixes(calls)
    for fact in FACTS:
        assert str(calls[-1]).count(fact) == 1, "each turn gets what no earlier one has"


async def test_a_client_that_marks_its_newest_message_for_the_cache_sends_the_same_prefix(tmp_path: Path) -> None:
    def plain(call: list[Any]) -> list[Any]:
        """Return what a provider reads: a string is a text, and a mark is not part of it."""
        contents = [
            [{"type": "text", "text": item["content"]}] if isinstance(item["content"], str) else item["content"]
            for item in call[2:]
        ]
        return [[{**part, "cache_control": None} for part in content] for content in contents]

    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, MESSAGES)
        conversation.marks = True
        for question in QUESTIONS:
            await conversation.turn(question, 2)
        assert_prefixes(list(map(plain, sent(ann))))
        assert all(str(sent(ann)[-1]).count(fact) == 1 for fact in FACTS)


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_client_that_trims_answers_and_leaves_thoughts_out_of_them_sends_the_same_prefix(
    tmp_path: Path, path: str
) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, path)
        for question in QUESTIONS:
            conversation.ask(question)
            await conversation.end(f"<think>\nA question.\n</think>\n\nThat is {question} \n")
            answer = conversation.items[-1]
            answer["content"] = f"That is {question}"
            answer.pop("id", None)
        calls = sent(ann)
        assert await breaks(ann) == {}
    assert_prefixes(calls)
    assert all(str(calls[-1]).count(fact) == 1 for fact in FACTS)


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_each_call_begins_as_the_one_before_after_a_restart_too(tmp_path: Path, path: str) -> None:
    calls: list[list[Any]] = []
    items: list[dict[str, Any]] = []
    async with MockUpstream(key=KEY) as provider:
        for place, question in enumerate(QUESTIONS):
            async with bound(tmp_path, sections={"provider": provider}) as ann:
                if not place:
                    await learn(ann)
                conversation = Conversation(ann, path)
                conversation.items = items
                conversation.number = 10 * place
                if place:  # within the loop of the turn before
                    await conversation.end("It was nothing.")
                conversation.ask(question)
                await conversation.work("nothing")
                await conversation.work("nothing")
                calls = sent(ann)
    assert len(calls) == 8
    assert_prefixes(calls)
    for fact in FACTS:
        assert str(calls[-1]).count(fact) == 1


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_new_version_of_a_block_enters_with_the_next_user_turn(tmp_path: Path, path: str) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, path)
        conversation.ask(QUESTIONS[0])
        await conversation.work("nothing")
        status, _ = await ann.at.rest("PUT", "/banks/memory/blocks/likes", {"value": "Ann likes coffee."})
        assert status == 200
        await conversation.work("nothing")
        await conversation.end("nothing")
        assert_prefixes(sent(ann))
        assert "coffee" not in str(sent(ann))
        assert await breaks(ann) == {}
        conversation.ask(QUESTIONS[1])
        await conversation.work("nothing")
        last = sent(ann)[-1]
        assert "coffee" in str(last[:3])
        assert "likes tea" not in str(last[:3])
        counts = await breaks(ann)
        await conversation.work("nothing")
        assert_prefixes(sent(ann)[-2:])
    assert counts.keys() == {"blocks"}
    assert counts["blocks"][0] == 1
    assert 0 < counts["blocks"][1] <= len(ann.at.upstream.requests[-2].body)


@pytest.mark.spec("MEM-15")
async def test_a_count_of_tokens_is_no_break_and_the_call_that_it_was_made_for_is_one(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, MESSAGES)
        await conversation.turn(QUESTIONS[0], 1)
        assert (await ann.at.rest("PUT", "/banks/memory/blocks/likes", {"value": "Ann likes coffee."}))[0] == 200
        conversation.ask(QUESTIONS[1])
        count = {key: value for key, value in conversation.body.items() if key != "max_tokens"}
        async with ann.at.call(ann.token, f"{MESSAGES}/count_tokens", count, upstream="anthropic") as response:
            assert response.status == 200
        assert "coffee" in str(ann.sent["system"])
        assert await breaks(ann) == {}
        await conversation.work("nothing")
        counts = await breaks(ann)
    assert (counts.keys(), counts["blocks"][0]) == ({"blocks"}, 1)


async def test_what_is_forgotten_goes_at_once_and_what_else_was_added_stays(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, CHAT)
        conversation.ask("Tell me of my boat Nora in Riga, and who grows tea near Porto")
        await conversation.work("nothing")
        assert all(fact in str(sent(ann)[-1]) for fact in FACTS[:2])
        (boat,) = (each for each in await ann.episodes() if each.text == FACTS[1])
        status, gone = await ann.at.rest("POST", "/banks/memory/forget", {"ids": [boat.id]})
        assert (status, gone["episodes"]) == (200, 1)
        await conversation.work("nothing")
        await conversation.work("nothing")
        calls, counts = sent(ann), await breaks(ann)
    assert FACTS[1] not in str(calls[-2:])
    assert FACTS[0] in str(calls[-1])
    assert_prefixes(calls[-2:])
    assert counts.keys() == {"forgotten"}
    assert counts["forgotten"][0] == 1
    assert counts["forgotten"][1] > 0


async def test_what_was_superseded_stays_and_is_corrected_in_the_newest_turn(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, CHAT)
        conversation.ask(QUESTIONS[1])
        await conversation.work("nothing")
        (boat,) = (each for each in await ann.episodes() if each.text == FACTS[1])
        stale = {"reason": "the boat was sold", "evidence": "a letter"}
        status, _ = await ann.at.rest("POST", f"/banks/memory/episodes/{boat.id}/stale", stale)
        assert status == 200
        await conversation.end("nothing")
        await conversation.turn(QUESTIONS[2], 1)
        await conversation.turn("And what else?", 1)
        calls, counts = sent(ann), await breaks(ann)
    assert_prefixes(calls)
    assert counts == {}
    assert str(calls[1]).count(FACTS[1]) == 1, "not within the turn"
    told = calls[0][-1]["content"].partition("\n- ")[2].partition("\n")[0]
    assert FACTS[1] in told
    assert f"- No longer valid: {told}" in calls[2][-1]["content"]
    assert str(calls[-1]).count("No longer valid") == 1


async def test_a_bank_that_is_out_of_rights_goes_at_once(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, CHAT)
        conversation.ask(QUESTIONS[0])
        await conversation.work("nothing")
        status, _ = await ann.at.rest("POST", "/banks", {"name": "other"})
        assert status == 201
        status, agent = await ann.at.rest("PATCH", "/sessions/default/agents/ann", {"policy": {"bank": "other"}})
        assert status == 200, agent
        await conversation.work("nothing")
        calls, counts = sent(ann), await breaks(ann)
    assert FACTS[0] in str(calls[0])
    assert FACTS[0] not in str(calls[-1])
    assert counts.keys() == {"rights"}


async def test_all_additions_stay_within_four_times_one_and_then_the_oldest_half_goes_in_one_step(
    tmp_path: Path,
) -> None:
    fitting = 150
    async with bound(tmp_path, fitting_tokens=fitting) as ann:
        await ann.make()
        for number in range(24):
            ann.at.upstream.next(text="I see.")
            await ann.say(
                chat(f"The house number {number} of the lane {'abcdefghijklmnopqrstuvwx'[number] * 5} is red")
            )
        ann.at.upstream.requests.clear()
        conversation = Conversation(ann, CHAT)
        for number in range(24):
            await conversation.turn(f"Which house is in the lane {'abcdefghijklmnopqrstuvwx'[number] * 5}?", 1)
        calls, counts = sent(ann), await breaks(ann)
    added = [[str(item.get("content")) for item in call if item and "<circadia-memory" in str(item)] for call in calls]
    sizes = [sum(estimate_tokens(text[text.index("<circadia-memory") :]) for text in texts) for texts in added]
    assert max(sizes) <= 4 * fitting
    broken = [at for at, (before, after) in enumerate(pairwise(calls)) if after[: len(before)] != before]
    assert counts["budget"][0] == len(broken) > 0
    assert counts.keys() == {"budget"}
    assert all(sizes[at + 1] <= 3 * fitting for at in broken)
    assert len(broken) <= 24 / 2


@pytest.mark.spec("GATE-65")
@pytest.mark.parametrize("bank", ["memory", None])
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_wake_notice_stands_at_the_end_of_its_prompt_and_stays_there(
    tmp_path: Path, path: str, bank: str | None
) -> None:
    async with bound(tmp_path, bank=bank) as ann:
        if bank is not None:
            await learn(ann)
        conversation = Conversation(ann, path)
        conversation.ask(QUESTIONS[0])
        await conversation.work("nothing")
        await ann.at.sleeping(True)
        held = asyncio.create_task(conversation.work("nothing more"))
        await ann.at.held(1)
        await ann.at.sleeping(False)
        await held
        body = ann.at.upstream.requests[-1].body.decode()
        assert body.index("<circadia-notice>You slept") > body.index("nothing")
        await conversation.work("nothing")
        await conversation.end("nothing")
        await conversation.turn(QUESTIONS[1], 1)
        calls = sent(ann)
    assert_prefixes(calls)
    assert str(calls[-1]).count("<circadia-notice>You slept") == 1


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_call_for_a_summary_of_the_conversation_begins_as_the_one_before_and_is_told_nothing_new(
    tmp_path: Path, path: str
) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, path)
        await conversation.turn(QUESTIONS[0], 2)
        conversation.ask(f"Your task is to create a detailed summary of the conversation so far. {FACTS[1]}?")
        await conversation.end("It was about tea.")
        calls, counts = sent(ann), await breaks(ann)
    assert_prefixes(calls)
    assert calls[-1][-1] == conversation.items[-2]
    assert counts == {}


@pytest.mark.spec("GATE-96", "GATE-97")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_programs_own_call_behind_an_answer_leaves_the_conversation_to_the_persons_next(
    tmp_path: Path, path: str
) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, path)
        await conversation.turn(QUESTIONS[0], 2)
        conversation.ask("[SUGGESTION MODE: Suggest what the user might naturally type next into the program.]")
        await conversation.work("nothing")
        await conversation.end("Sell the tea.")
        del conversation.items[-4:]
        before = len(sent(ann))
        await conversation.turn(QUESTIONS[1], 2)
        calls, counts = sent(ann), await breaks(ann)
        lines = await ann.at.usage("conversation")
    assert_prefixes(calls[: before - 1])
    assert_prefixes([calls[before - 3], *calls[before:]])
    assert all(str(calls[-1]).count(fact) == 1 for fact in FACTS[:2])
    assert counts == {}
    assert max(line["calls"] for line in lines) == 3 + 2 + 3


async def test_a_call_that_its_caller_has_cut_off_keeps_what_was_added_to_it(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, CHAT)
        await conversation.turn(QUESTIONS[0], 1)
        conversation.ask(QUESTIONS[1])
        ann.at.upstream.next(text="a long answer " * 20, die_after_chunks=3)
        async with ann.at.call(ann.token, body={**conversation.body, "stream": True}) as response:
            with contextlib.suppress(aiohttp.ClientError):
                await response.read()
        conversation.items.append({"role": "assistant", "content": "a long"})
        conversation.ask(QUESTIONS[2])
        await conversation.work("nothing")
        calls = sent(ann)
    assert FACTS[1] in str(calls[-2])
    assert_prefixes(calls)


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_each_call_begins_as_the_one_before_whichever_server_takes_it(
    tmp_path: Path, path: str, postgres_url: str
) -> None:
    sections: dict[str, Any] = {
        "server": {"database_url": postgres_url},
        "agents": {"ann": {"token_env": "ANN", "bank": "memory"}},
        "environment": {"ANN": token_of("ann")},
    }
    async with (
        MockUpstream(key=KEY) as provider,
        live(tmp_path / "a", provider=provider, **sections) as first,
        live(tmp_path / "b", provider=provider, **sections) as second,
    ):
        servers = [BoundAgentServer(at, token_of("ann"), cast("Any", None)) for at in (first, second)]
        for fact in FACTS:
            provider.next(text="I see.")
            await servers[0].say(chat(fact))
        provider.requests.clear()
        conversation = Conversation(servers[0], path)
        for question in QUESTIONS:
            conversation.ask(question)
            for _ in range(3):
                await conversation.work("nothing")
                await conversation.ann.at.server.journal.flush()
                servers.reverse()
                conversation.ann = servers[0]
            await conversation.end("nothing")
            await conversation.ann.at.server.journal.flush()
        calls = sent(servers[0])
        counts = [await breaks(each) for each in servers]
    assert_prefixes(calls)
    assert all(str(calls[-1]).count(fact) == 1 for fact in FACTS)
    assert counts == [{}, {}]


async def test_a_conversation_of_which_nothing_is_known_is_a_break_that_is_counted(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await learn(ann)
        conversation = Conversation(ann, CHAT)
        conversation.items = [*chat(QUESTIONS[0], "Your grandma.", QUESTIONS[1])["messages"]]
        await conversation.work("nothing")
        counts = await breaks(ann)
        await conversation.work("nothing")
        assert_prefixes(sent(ann))
        assert await breaks(ann) == counts
    assert counts.keys() == {"lookup"}
    assert counts["lookup"][1] > 0


@pytest.mark.spec("MEM-32")
async def test_a_context_says_what_day_it_is_for_the_agent_once_a_day(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 11, 29, 23, 30, tzinfo=UTC))
    async with bound(tmp_path, sections={"clock": clock}) as ann:
        assert (await ann.at.rest("PATCH", "/agents/ann/coordination", {"zone": "Europe/Berlin"}))[0] == 200
        await ann.say(chat("Heron flies in Rotterdam."))
        assert "Today is" not in str(ann.sent), "nothing fits"
        said = ["Where does Heron fly?"]
        ann.at.upstream.next(text="Over the town.")
        await ann.say(chat(*said))
        assert str(ann.sent).count("Today is Monday, 2026-11-30.") == 1
        await ann.say(chat("Heron has a red beak."))
        said += ["Over the town.", "What is red of Heron?"]
        ann.at.upstream.next(text="Its mouth.")
        await ann.say(chat(*said))
        assert "red beak" in str(ann.sent)
        assert str(ann.sent).count("Today is") == 1
        clock.advance(86_400)
        await ann.say(chat("Heron eats frogs."))
        await ann.say(chat(*said, "Its mouth.", "What does Heron eat?"))
        assert re.findall(r"Today is \w+, ([\d-]+)\.", str(ann.sent)) == ["2026-11-30", "2026-12-01"]


@pytest.mark.spec("MEM-32")
async def test_in_an_evening_in_america_what_was_said_has_the_day_of_the_agent_s_clock(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 11, 30, 3, 30, tzinfo=UTC))
    said, items = "Heron flies in Rotterdam.", list[dict[str, Any]]()
    async with MockUpstream(key=KEY) as provider:
        for question in ("Where does Heron fly?", "And where did it fly yesterday?"):
            async with bound(tmp_path, sections={"clock": clock, "provider": provider}) as ann:
                zone = {"zone": "America/Los_Angeles"}
                assert (await ann.at.rest("PATCH", "/agents/ann/coordination", zone))[0] == 200
                if not items:
                    await ann.say(chat(said))
                    provider.requests.clear()
                clock.advance(3_600)
                conversation = Conversation(ann, CHAT)
                conversation.items = items
                await conversation.turn(question)
                shown = (await ann.at.rest("GET", "/banks/memory/context?q=Heron", token=ann.token))[1]["fitting"]
                recall: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
                day = {"since": "2026-11-29", "until": "2026-11-30"}
                recall["params"] = {"name": "recall", "arguments": {"query": "Heron", **day}}
                async with ann.at.tool(ann.token, recall) as answer:
                    assert "2026-11-29T19:30:00-08:00" in await answer.text()
                for text in (str(ann.sent), shown):
                    assert f"- 2026-11-29 user (person): {said}" in text
                    assert "Today is Sunday, 2026-11-29." in text
                    assert "2026-11-30" not in text
        assert_prefixes(sent(ann))


@pytest.mark.spec("MEM-33")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_question_that_leaves_something_unsaid_finds_what_it_follows(tmp_path: Path, path: str) -> None:
    """Without the exchange before it, its only word finds thirty other brothers."""
    async with bound(tmp_path, fitting_tokens=300) as ann:
        for at in range(30):
            await ann.say(chat(f"Brother number {at} of the monastery is in the garden with his bees again."))
        await ann.say(chat("Odile has a brother in Ghent who mends clocks."))
        conversation = Conversation(ann, path)
        await conversation.turn("What does Odile do?", 1)
        await conversation.turn("And her brother?", 1)
        assert "mends clocks" in str(sent(ann)[-1])
