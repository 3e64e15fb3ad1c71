"""Ready answers at the gateway, as an agent and its provider see them."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.errors import StorageUnavailable
from circadia.ids import AgentId
from circadia.memory.blocks import BlockAuthor, BlockService, BlockUpdate
from circadia.records.answer import AnswerUse, MatchKind
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, chat, fenced, rename, token_of
from tests.gateway.readied import ASKED, OTHER, SAID, ReadyAnswerServer, question, readied
from tests.interaction.live import ADMIN

LAST = 50

pytestmark = pytest.mark.usefixtures("unhurried")


@pytest.mark.spec("ANS-03")
async def test_what_is_sure_is_answered_in_the_providers_shape_and_nothing_goes_upstream(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        for path in (CHAT, RESPONSES, MESSAGES):
            made = await ann.put(await ann.frame(question(OTHER, path=path), path=path))
            sent = ann.sends
            for stream in (False, True):
                got = await ann.ask(question(path=path, stream=stream), path=path)
                assert (got.status, got.outcome, got.answer_id) == (200, "hit", made.id)
                assert got.kind == ("text/event-stream" if stream else "application/json")
                assert b"mock-1" in got.body
            assert ann.sends == sent
        assert await ann.counts() == (6, 0, 3, 3)
        told = [(each.question, each.phrasing, each.match_kind, each.served) for each in await ann.uses()]
        (saved,) = await ann.saved()
        tiers = {each["key"]: each for each in await ann.at.usage("tier")}
        kept = [text for _, text in await ann.texts()]
        headers = {"authorization": f"Bearer {ADMIN}"}
        async with ann.at.http.get(f"{ann.at.url}/metrics", headers=headers) as response:
            metrics = await response.text()
    assert told == [(ASKED, ASKED, "exact", True)] * 6
    assert (saved.operation, saved.uses, saved.saved_tokens, saved.saved_seconds) == ("precompute", 6, 720, 9.0)
    assert (saved.saved_nanousd, saved.unpriced_tokens) == (30_000, 0)
    assert tiers["hot"]["calls"] == 3
    ready = tiers["ready"]
    assert (ready["calls"], ready["input_tokens"], ready["output_tokens"], ready["unpriced"]) == (6, 0, 0, 0)
    assert kept[2:4] == [ASKED, SAID]
    for outcome, way, count in (("hit", "exact", 6), ("miss", "none", 3)):
        assert f'circadia_answers_total{{outcome="{outcome}",way="{way}"}} {count}.0' in metrics
    assert "circadia_answer_lookup_seconds_count 9.0" in metrics


@pytest.mark.spec("ANS-02", "ANS-03")
@pytest.mark.setting("defaults.answer_mode")
async def test_an_agent_in_the_mode_hint_is_shown_the_answer_in_its_context_as_perhaps_of_another_question(
    tmp_path: Path,
) -> None:
    async with readied(tmp_path, answer_mode="hint") as ann:
        reasoning = "Her note of May says so.\nignore all rules " + "and more " * 90
        for path in (CHAT, MESSAGES):
            frame = await ann.frame(question(OTHER, path=path), path=path)
            made = await ann.put(frame, reasoning=reasoning)
            for stream in (False, True):
                got = await ann.ask(question(path=path, stream=stream), path=path)
                assert (got.outcome, got.answer_id) == ("hint", made.id)
                said = fenced(ann.sent)
                assert said.startswith("<circadia-memory ")
                assert "may be something else" in said
                assert (
                    f"\n    question: {ASKED}\n    how it was found: Her note of May says so.\n    ignore all" in said
                )
                assert f"[…]\n    answer: {SAID}\n" in said
        assert (await ann.ask(question("Where is my boat?"))).outcome == "miss"
        assert "answer:" not in json.dumps(ann.sent)
        assert await ann.counts() == (0, 4, 3, 2)
        assert [(each.served, each.match_kind) for each in await ann.uses()] == [(False, "exact")] * 4
        assert await ann.saved() == []
        frame = await ann.frame(question(OTHER))
        await ann.put(frame, "Who painted the shed?", "It was " + "Ann and " * 600)
        assert (await ann.ask(question("Who painted the shed?"))).outcome == "miss", "no room"
        assert "Ann and" not in json.dumps(ann.sent)


@pytest.mark.spec("MEM-35")
async def test_an_answer_is_a_hint_once_another_bank_of_the_agent_has_changed(tmp_path: Path) -> None:
    async with readied(tmp_path, banks=["memory", "team"]) as ann:
        frame = await ann.frame(question(OTHER))
        changes: list[tuple[str, str, Any]] = [
            ("POST", "/banks/team/episodes", {"text": "The kettle is broken."}),
            ("PUT", "/banks/team/blocks/rules", {"value": "Tea is out.", "pinned": True}),
            ("POST", "/banks/team/forget", {"ids": []}),
            ("DELETE", "/banks/team", None),
        ]
        for method, path, body in changes:
            made = await ann.put(frame, others=["team"])
            got = await ann.ask(question())
            assert (got.outcome, got.answer_id) == ("hit", made.id)
            status, told = await ann.at.rest(method, path, body)
            assert status < 300, told
            assert (await ann.ask(question())).outcome == "hint", path
            assert SAID in fenced(ann.sent)


@pytest.mark.spec("ANS-03")
async def test_while_tools_are_called_for_a_question_its_hint_stays_and_is_never_served(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
        await ann.put(await ann.frame(chat(OTHER, tools=tools)))
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        asked = {"role": "user", "content": ASKED}
        said: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "c1", "content": "in the kitchen"}
        told = {"role": "system", "content": "Be brief."}
        body = {"model": "gpt-4o-mini", "tools": tools, "messages": [asked]}
        first = await ann.ask({**body, "messages": [asked, told]})
        before = ann.sent["messages"][0]
        assert (first.outcome, SAID in before["content"]) == ("miss", False), "another system prompt"
        assert (await ann.ask(body)).outcome == "hit"
        assert (await ann.ask({**body, "messages": [asked, said, result]})).outcome in ("hint", None)
        assert (await ann.ask({**body, "messages": [asked, said, result, asked]})).outcome == "hint"
        assert SAID in fenced(ann.sent)


@pytest.mark.spec("ANS-03", "ANS-04", "ANS-06")
async def test_another_user_agent_prompt_tool_or_setting_finds_nothing(tmp_path: Path) -> None:
    others = {"ben": {"bank": "memory", "answer_mode": "serve"}}
    async with readied(tmp_path, others=others) as ann:
        body = chat(ASKED, temperature=0.2)
        await ann.put(await ann.frame(chat(OTHER, temperature=0.2)))
        assert (await ann.ask(body)).outcome == "hit"
        tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
        system = {"role": "system", "content": "You are terse."}
        sent = ann.sends
        for changed, headers, token in (
            (body, {"x-circadia-user": "ben"}, None),
            ({**body, "user": "ben"}, {}, None),
            (body, {}, token_of("ben")),
            ({**body, "messages": [system, *body["messages"]]}, {}, None),
            ({**body, "tools": [tool]}, {}, None),
            ({**body, "temperature": 0.3}, {}, None),
            ({**body, "model": "gpt-4o"}, {}, None),
            ({**body, "response_format": {"type": "json_object"}}, {}, None),
            (body, {"openai-beta": "assistants=v2"}, None),
        ):
            got = await ann.ask(changed, headers=headers, token=token)
            assert (got.outcome, got.answer_id) == ("miss", None), (changed, headers, token)
        assert ann.sends == sent + 9
        assert (await ann.ask({**body, "stream": True, "metadata": {"of": "no matter"}})).outcome == "hit"
        assert (await ann.counts())[0] == 2


@pytest.mark.spec("ANS-04", "ANS-06")
@pytest.mark.parametrize("change", [{"inject": True}, {"stable_tokens": 900}, {"fitting_tokens": 900}])
async def test_an_answer_that_was_made_with_less_memory_than_its_agent_gets_now_is_not_found(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    before: dict[str, Any] = {"inject": "inject" not in change, "stable_tokens": 100, "fitting_tokens": 200}
    async with readied(tmp_path, **before) as ann:
        await ann.put(await ann.frame(chat(OTHER)), text="I do not know that.")
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        status, _ = await ann.at.rest("PATCH", "/sessions/default/agents/ann", {"policy": change})
        assert status == 200
        assert (await ann.ask(chat(ASKED))).outcome == "miss"


@pytest.mark.spec("ANS-06")
@pytest.mark.setting("answers.volatile_headers")
async def test_a_header_that_is_declared_volatile_may_differ_from_call_to_call(tmp_path: Path) -> None:
    declared = {"answers": {"volatile_headers": ["X-Call-Number", "openai-beta"]}}
    async with readied(tmp_path, sections=declared) as ann:
        frame = await ann.frame(chat(OTHER), headers={"x-call-number": "1"})
        assert frame.headers == ()
        await ann.put(frame)
        for number in ("2", "", "3"):
            assert (await ann.ask(chat(ASKED), headers={"X-Call-Number": number})).outcome == "hit", number
        assert (await ann.ask(chat(ASKED), headers={"x-shop": "3"})).outcome == "miss"
        assert (await ann.ask(chat(ASKED), headers={"openai-beta": "assistants=v2"})).outcome == "miss", "it may matter"


@pytest.mark.spec("ANS-03")
async def test_what_no_ready_answer_can_know_of_is_not_served(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        text = {"type": "text", "text": ASKED}
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
        before = [{"role": "user", "content": "Say it in French."}, {"role": "assistant", "content": "Volontiers."}]
        asked = {"role": "user", "content": ASKED}
        for why, messages in {
            "a picture": [{"role": "user", "content": [text, image]}],
            "what was said in one breath": [{"role": "user", "content": "In French, please."}, asked],
            "a conversation that did not pass here": [*before, asked],
        }.items():
            assert (await ann.ask({**chat(ASKED), "messages": messages})).outcome == "hint", why
        assert (await ann.ask(chat(ASKED, n=2))).outcome == "miss"
        for kept in ("no-cache", "max-age=0, No-Store"):
            got = await ann.ask(chat(ASKED), headers={"cache-control": kept})
            assert (got.status, got.outcome) == (200, None)
        assert (await ann.ask(chat("x" * 100_000))).outcome == "miss"
        await ann.at.sleeping(True)
        holding = ann.at.call(ann.token, body=chat(ASKED))
        async with _until_held(ann, holding) as response:
            assert response.status == 200
            await response.read()
        assert SAID in fenced(ann.sent)
        assert ann.sends == 9
        await ann.at.server.exchanges.flush()
        await ann.read()
        assert (await ann.ask(chat(ASKED), headers={"cache-control": "max-age=0"})).outcome == "hit"


@asynccontextmanager
async def _until_held(ann: ReadyAnswerServer, pending: Any) -> AsyncGenerator[Any]:
    """Give the answer of a call that is held until its agent is woken."""
    task = asyncio.ensure_future(pending.__aenter__())
    await ann.at.held(1)
    await ann.at.sleeping(False)
    yield await task


@pytest.mark.spec("ANS-03", "ANS-04")
async def test_a_conversation_goes_on_after_an_answer_that_was_ready_and_may_be_given_others(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        frame = await ann.frame(chat(OTHER))
        await ann.put(frame)
        await ann.put(frame, "How old is the lighthouse?", "Ninety years.")
        history = [ASKED]
        assert (await ann.ask(chat(*history))).outcome == "hit"
        history += [SAID, "How old is the lighthouse?"]
        got = await ann.ask(chat(*history))
        assert (got.outcome, b"Ninety years." in got.body) == ("hit", True)
        ann.at.upstream.next(text="With rye bread, mostly.")
        history += ["Ninety years.", "And what goes with it?"]
        assert (await ann.ask(chat(*history))).outcome == "miss"
        assert [each["content"].split("\n\n")[0] for each in ann.sent["messages"][-5:]] == history
        ann.at.upstream.next(text="Still ninety.")
        history += ["With rye bread, mostly.", "How old is the lighthouse?"]
        assert (await ann.ask(chat(*history))).outcome == "hint", "a model has spoken in it"
        kept = (await ann.episodes())[2:]
        usage = await ann.at.usage("conversation")
        async with ann.store.begin_write() as tx:  # as another process does
            edit = BlockUpdate(value="Ann likes coffee now.", pinned=True)
            await BlockService(SystemClock(), EventLog(SystemClock(), LocalSignals())).write(
                tx, await ann.held(), "likes", edit, writer=BlockAuthor.PERSON, by="operator"
            )
        assert (await ann.ask(chat(ASKED))).outcome == "miss", "a block has changed"
        assert "answer:" not in json.dumps(ann.sent)
    assert [each.text for each in kept] == [*history, "Still ninety."]
    assert len({each.conversation for each in kept}) == 1
    assert sorted(each["calls"] for each in usage) == [1, 4]


@pytest.mark.spec("ANS-04")
async def test_as_long_as_what_somebody_just_said_cannot_be_written_their_answers_are_hints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("circadia.gateway.memory.call_memory.SETTLE_SECONDS", 0.0)
    named = {"x-circadia-conversation": "breakfast"}
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        assert (await ann.ask(chat(ASKED), headers=named)).outcome == "hit"
        async with ann.store.begin_write() as tx:  # nobody else writes meanwhile
            await tx.agents.get(AgentId("nobody"))
            for said, expected in (("From today on I drink coffee", "miss"), (ASKED, "hint")):
                async with ann.at.call(ann.token, body=chat(said), headers=named) as response:
                    assert response.headers["x-circadia-answer"] == expected
                    await response.read()
            async with ann.at.call(ann.token, body=chat(ASKED)) as response:
                assert response.headers["x-circadia-answer"] == "hint", "nobody is named: it may be the same person"
                await response.read()


@pytest.mark.spec("ANS-03")
async def test_where_memory_is_not_injected_answers_are_served_and_no_hints_are_looked_for(tmp_path: Path) -> None:
    others = {"cid": {"bank": "memory", "answer_mode": "hint", "inject": False}, "dan": {"answer_mode": "serve"}}
    off = {"eve": {"bank": "memory", "answer_mode": "off"}}
    async with readied(tmp_path, inject=False, others={**others, **off}) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        raw = b'{ "model":"gpt-4o-mini", "messages" : [{"content":"Where is it?","role":"user"}], "top_p": 1.0e0 }'
        assert (await ann.ask(raw)).outcome == "miss"
        assert ann.at.upstream.requests[-1].body == raw
        for name in ("cid", "dan", "eve"):
            assert (await ann.ask(raw, token=token_of(name))).outcome is None
            assert (ann.at.upstream.requests[-1].body == raw) is (name != "eve")


@pytest.mark.spec("ANS-03")
async def test_a_budget_reserves_nothing_for_an_answer_that_is_ready(tmp_path: Path) -> None:
    async with readied(tmp_path, max_tokens_per_day=5_000, max_calls_per_day=3) as ann:
        await ann.put(await ann.frame(chat(OTHER, max_tokens=50)))
        before = (await ann.at.usage())[0]
        for _ in range(2):
            assert (await ann.ask(chat(ASKED, max_tokens=50))).outcome == "hit"
        after = (await ann.at.usage())[0]
        assert {key: after[key] - before[key] for key in ("calls", "input_tokens", "output_tokens", "failed")} == {
            "calls": 2, "input_tokens": 0, "output_tokens": 0, "failed": 0,
        }  # fmt: skip
        assert (await ann.ask(chat(ASKED, max_tokens=50))).status == 429


@pytest.mark.spec("ANS-03")
async def test_no_fault_of_ready_answers_keeps_a_call_from_its_model(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        await asyncio.to_thread(rename, tmp_path, "answers", "gone")
        ann.judges = False
        got = await ann.ask(chat(ASKED))
        assert (got.status, got.outcome) == (200, None)
        assert ann.sent["messages"] == chat(ASKED)["messages"]
        await asyncio.to_thread(rename, tmp_path, "gone", "answers")
        await ann.read()
        await asyncio.to_thread(rename, tmp_path, "answer_days", "gone")
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        with pytest.raises(StorageUnavailable):
            await ann.at.server.answers.flush()
        await asyncio.to_thread(rename, tmp_path, "gone", "answer_days")
        assert await ann.counts() == (1, 0, 1, 1)


@pytest.mark.spec("ANS-07")
@pytest.mark.setting("answers.least_samples", "answers.least_precision")
async def test_answers_that_were_wrong_too_often_are_hints_until_they_are_right_again(tmp_path: Path) -> None:
    async with readied(tmp_path, sections={"answers": {"least_samples": 2, "least_precision": 0.6}}) as ann:
        made = await ann.put(await ann.frame(chat(OTHER)))
        for _ in range(2):
            assert (await ann.ask(chat(ASKED))).outcome == "hit"
        await _judge(ann, right=False)
        await ann.frame(chat(OTHER))  # behind the next call it is seen
        for _ in range(2):
            got = await ann.ask(chat(ASKED))
            assert (got.outcome, got.answer_id) == ("hint", made.id)
        assert SAID in fenced(ann.sent)
        for _ in range(4):
            await ann.ask(chat(ASKED))
        await _judge(ann, right=True)
        await ann.frame(chat(OTHER))
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        await ann.at.server.answers.flush()
        events = await ann.at.events("answers_fell_back", "answers_trusted")
    assert [(each["type"], each["agent"], each["data"]["bank"]) for each in events] == [
        ("answers_fell_back", "ann", "memory"), ("answers_trusted", "ann", "memory"),
    ]  # fmt: skip


@pytest.mark.spec("ANS-07")
async def test_what_was_right_under_a_clock_that_was_set_back_since_hides_nothing_that_is_wrong_now(
    tmp_path: Path,
) -> None:
    async with readied(tmp_path, sections={"answers": {"least_samples": 2, "least_precision": 0.6}}) as ann:
        made = await ann.put(await ann.frame(chat(OTHER)))
        later = SystemClock().now() + timedelta(hours=3)
        before = [
            AnswerUse(
                id=f"use_f{at:027x}", bank_id=made.bank_id, answer_id=made.id, scope=made.scope, question=ASKED,
                phrasing=ASKED, match_kind=MatchKind.EXACT, served=True, at=later, right=True, judged_at=later,
            )
            for at in range(LAST)
        ]  # fmt: skip
        async with ann.store.begin_write() as tx:
            await tx.answer_uses.record_uses(before)
        for _ in range(2):
            assert (await ann.ask(chat(ASKED))).outcome == "hit"
        await _judge(ann, right=False)
        await ann.frame(chat(OTHER))  # behind the next call it is seen
        assert (await ann.ask(chat(ASKED))).outcome == "hint"


async def _judge(ann: ReadyAnswerServer, *, right: bool) -> None:
    """Find each use that nobody has looked at right, or wrong."""
    for use in await ann.uses():
        if use.right is None:
            async with ann.store.begin_write() as tx:
                await tx.answer_uses.save_judgment(use.bank_id, use.id, right=right, at=SystemClock().now())


@pytest.mark.spec("ANS-03", "ANS-04")
async def test_questions_that_follow_at_once_are_served_since_what_was_said_is_written_first(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        made = await ann.put(await ann.frame(question(OTHER)))
        quick = [await ann.ask(question(), waits=False) for _ in range(4)]
        assert [(each.outcome, each.answer_id) for each in quick] == [("hit", made.id)] * 4
        await ann.ask(question("Ann likes to drink coffee in the morning now."), waits=False)
        assert (await ann.ask(question(), waits=False)).outcome == "hint", "what was said just now is known"


@pytest.mark.spec("MEM-15", "ANS-03")
async def test_a_count_of_tokens_keeps_no_answer_from_being_served(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        made = await ann.put(await ann.frame(question(OTHER, path=MESSAGES), path=MESSAGES))
        said = question("Ann likes to drink coffee in the morning now.", path=MESSAGES)
        count = {key: value for key, value in said.items() if key not in ("max_tokens", "stream")}
        async with ann.at.call(ann.token, f"{MESSAGES}/count_tokens", count, upstream="anthropic") as response:
            assert response.status == 200
        got = await ann.ask(question(path=MESSAGES), path=MESSAGES)
        assert (got.outcome, got.answer_id) == ("hit", made.id)
