"""Capture and injection at the gateway, as an agent and its provider see them."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import openai
import pytest

from circadia.errors import StorageUnavailable
from circadia.memory.context import HEAD, STABLE_HEAD
from circadia.records.bank import BankPolicy, CaptureMode, Trust
from circadia.testing.upstream_script import encode_event
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, asking, bound, chat, rename, token_of
from tests.interaction.live import live


@pytest.mark.spec("MEM-14", "MEM-15", "MEM-13")
async def test_what_a_user_said_is_there_for_another_conversation_in_a_new_process(tmp_path: Path) -> None:
    token = "circadia-agent-of-the-tests-0123456789"
    sections: dict[str, Any] = {
        "agents": {"ann": {"token_env": "ANN", "bank": "memory"}},
        "environment": {"ANN": token},
    }
    asked = "What does my dog like to eat?"
    async with (
        live(tmp_path, **sections) as at,
        openai.AsyncOpenAI(base_url=f"{at.url}/llm/openai/v1", api_key=token) as client,
    ):
        said = "My dog is called Rex and he likes salmon."
        await client.chat.completions.create(model="mock-1", messages=[{"role": "user", "content": said}])
    async with (
        live(tmp_path, **sections) as at,
        openai.AsyncOpenAI(base_url=f"{at.url}/llm/openai/v1", api_key=token) as client,
    ):
        await client.chat.completions.create(model="mock-1", messages=[{"role": "user", "content": asked}])
        (message,) = at.upstream.requests[-1].json()["messages"]
    assert message["content"].startswith(f"{asked}\n\n<circadia-memory ")
    assert HEAD in message["content"]
    assert "user (person): My dog is called Rex and he likes salmon." in message["content"]


@pytest.mark.spec("MEM-14", "MEM-15")
async def test_each_api_streamed_or_not_gives_one_episode_for_the_turn_and_one_for_the_answer(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        expected: list[tuple[str, str]] = []
        for path in (CHAT, RESPONSES, MESSAGES):
            for stream in (False, True):
                said, told = f"I live at number {len(expected)}", f"So it is number {len(expected)} then"
                body = asking(path, said, stream=stream)
                for _ in range(2):  # the second is a client's retry
                    ann.at.upstream.next(text=told)
                    await ann.say(body, path=path)
                expected += [("user", said), ("ann", told)]
        assert await ann.texts() == expected
        kept = await ann.episodes()
    assert [each.trust for each in kept] == [Trust.PERSON, Trust.AGENT] * 6
    assert not any(each.incomplete for each in kept)
    assert all(each.importance for each in kept)
    assert len({each.conversation for each in kept}) == 6


@pytest.mark.spec("MEM-14")
async def test_calls_that_repeat_the_whole_history_add_only_what_is_new(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        history = ["I moved to Lisbon"]
        for number in range(3):
            ann.at.upstream.next(text=f"Noted as number {number}")
            await ann.say(chat(*history))
            history += [f"Noted as number {number}", f"And I have {number} cats"]
        texts = await ann.texts()
        kept = await ann.episodes()
    assert [text for _, text in texts] == history[:-1]
    assert len({each.conversation for each in kept}) == 1


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_an_answer_that_broke_off_is_kept_as_such_and_its_retry_as_whole(tmp_path: Path, path: str) -> None:
    async with bound(tmp_path, inject=False) as ann:
        body = asking(path, "Where is my bike?", stream=True)
        ann.at.upstream.next(text="It stands in the garden behind the house", die_after_chunks=7)
        await ann.say(body, path=path)
        broken = await ann.episodes()
        await ann.say(body, path=path)
        texts = await ann.texts()
    assert [(each.speaker, each.incomplete) for each in broken] == [("user", False), ("ann", True)]
    assert "It stands in the garden behind the house".startswith(broken[1].text)
    assert texts == [("user", "Where is my bike?"), ("ann", broken[1].text), ("ann", "Where is my bike?")]


def refusal(path: str, stream: bool) -> bytes:
    """Return a provider's answer that refuses."""
    if path == RESPONSES:
        part = {"type": "refusal", "refusal": "I cannot say."}
        output = [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}]
        whole = {"id": "resp_9", "object": "response", "status": "completed", "model": "m", "output": output}
        done = {"type": "response.completed", "sequence_number": 0, "response": whole}
        return encode_event(done, "response.completed") if stream else json.dumps(whole).encode()
    head = {"id": "c", "model": "m", "created": 1}
    if not stream:
        said = {"role": "assistant", "content": None, "refusal": "I cannot say."}
        return json.dumps({**head, "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}).encode()
    deltas = [{"role": "assistant", "content": None, "refusal": ""}, {"refusal": "I cannot "}, {"refusal": "say."}]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": each, "finish_reason": None} for each in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    return b"".join(encode_event({**head, "choices": [each]}) for each in choices) + b"data: [DONE]\n\n"


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_a_refusal_is_the_answer_and_the_conversation_goes_on(tmp_path: Path, path: str, stream: bool) -> None:
    async with bound(tmp_path, inject=False) as ann:
        kind = "text/event-stream" if stream else "application/json"
        ann.at.upstream.next(body=refusal(path, stream), headers={"content-type": kind})
        await ann.say(asking(path, "What is the secret of Nora?", stream=stream), path=path)
        assert await ann.texts() == [("user", "What is the secret of Nora?"), ("ann", "I cannot say.")]
        if path == CHAT:
            told = chat("What is the secret of Nora?", "", "Why not, then?")
            told["messages"][1] |= {"content": None, "refusal": "I cannot say."}
            await ann.say(told)
            assert len({each.conversation for each in await ann.episodes()}) == 1


@pytest.mark.spec("MEM-15")
async def test_off_or_with_nothing_to_say_a_call_goes_upstream_byte_for_byte(tmp_path: Path) -> None:
    off, without = token_of("ben"), token_of("cid")
    async with bound(tmp_path, others={"ben": {"bank": "memory", "inject": False}, "cid": {}}) as ann:
        raw = b'{ "model":"m", "messages" : [{"content":"caf\\u00e9 \xc3\xa9","role":"user"}], "top_p": 1.0e0 }\n'
        await ann.say(raw)  # an empty bank
        await ann.say(raw, token=without)
        assert [seen.body for seen in ann.at.upstream.requests] == [raw, raw]
        await ann.make(block="Ann likes tea.")
        await ann.say(raw, token=off)
        await ann.say(raw, token=without)
        assert ann.at.upstream.requests[-1].body == ann.at.upstream.requests[-2].body == raw
        await ann.say(raw)
        assert ann.at.upstream.requests[-1].body != raw
        empty = b'{"model":"m","messages":[ ]}'  # which its provider must refuse
        await ann.say(empty)
        assert ann.at.upstream.requests[-1].body == empty


@pytest.mark.setting("defaults.fitting_tokens")
@pytest.mark.spec("MEM-15", "MEM-13", "MEM-37")
@pytest.mark.parametrize("marked", [False, True])
async def test_over_20_turns_the_cacheable_prefix_is_the_clients_own_with_the_blocks(
    tmp_path: Path, marked: bool
) -> None:
    system = "You are a patient assistant."
    systems = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    path = MESSAGES if marked else CHAT
    async with bound(tmp_path, fitting_tokens=400) as ann:
        await ann.make(block="Ann likes tea.\nShe lives in Porto.")
        ann.at.upstream.next(text="I see.")
        await ann.say(chat("Grandma grows tea near the town of Porto"))
        ann.at.upstream.requests.clear()
        history: list[dict[str, Any]] = []
        for turn in range(20):
            text = f"Tell me about tea number {turn} and the town of Porto"
            part: dict[str, Any] = {"type": "text", "text": text}
            if marked:
                part["cache_control"] = {"type": "ephemeral"}
            history.append({"role": "user", "content": [part] if marked else text})
            messages = history if marked else [{"role": "system", "content": system}, *history]
            body = {"model": "m", "max_tokens": 9, "messages": messages, **({"system": systems} if marked else {})}
            ann.at.upstream.next(text=f"Tea number {turn} is grown near Porto")
            await ann.say(body, path=path)
            history.append({"role": "assistant", "content": f"Tea number {turn} is grown near Porto"})
        asked = [each.json() for each in ann.at.upstream.requests]
    blocks = f"{STABLE_HEAD}\n## likes\nAnn likes tea.\nShe lives in Porto."
    for before, after in pairwise(asked):
        if marked:
            assert after["system"] == [*systems, {"type": "text", "text": blocks}]
        else:
            assert after["messages"][0] == {"role": "system", "content": f"{system}\n\n{blocks}"}
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert json.dumps(after).count("Grandma") == 1


@pytest.mark.spec("MEM-15")
async def test_while_tools_are_called_for_a_turn_its_context_stays_the_same(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await ann.say(chat("My sister Olga lives in Riga"))
        asked = {"role": "user", "content": "Where does my sister Olga live?"}
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"who":"Olga"}'}}
        said = {"role": "assistant", "content": None, "tool_calls": [call]}
        answer = {"choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}]}
        ann.at.upstream.next(body=answer)
        await ann.say({"model": "m", "messages": [asked]})
        first = ann.sent["messages"]
        result = {"role": "tool", "tool_call_id": "c1", "content": "Olga moved to Riga in May"}
        await ann.say({"model": "m", "messages": [asked, said, result]})
        second = ann.sent["messages"]
        texts = await ann.texts()
    assert "My sister Olga lives in Riga" in first[-1]["content"]
    assert second[: len(first)] == first
    assert second[len(first) :] == [said, result]
    assert not [text for _, text in texts if "moved" in text or "look" in text], "tools are not kept by default"


@pytest.mark.spec("MEM-14", "MEM-18")
async def test_tools_are_kept_where_the_policy_says_so_and_as_a_tools_words(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        await ann.make(BankPolicy(capture_tools=True))
        use = {"type": "tool_use", "id": "t1", "name": "look", "input": {"who": "Olga"}}
        ann.at.upstream.next(
            body={"type": "message", "content": [{"type": "text", "text": "I look it up."}, use]}
        )  # fmt: skip
        asked = {"role": "user", "content": "Where does Olga live?"}
        await ann.say({"model": "m", "max_tokens": 9, "messages": [asked]}, path=MESSAGES)
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "in Riga since May"}
        more = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        ann.at.upstream.next(text="She lives in Riga.")
        await ann.say({"model": "m", "max_tokens": 9, "messages": [asked, *more]}, path=MESSAGES)
        kept = await ann.episodes()
    assert [(each.kind, each.trust, each.text) for each in kept] == [
        ("turn", Trust.PERSON, "Where does Olga live?"),
        ("tool", Trust.AGENT, "I look it up."),
        ("tool", Trust.AGENT, 'look({"who":"Olga"})'),
        ("tool", Trust.TOOL, "in Riga since May"),
        ("turn", Trust.AGENT, "She lives in Riga."),
    ]


@pytest.mark.spec("MEM-18", "MEM-14")
async def test_the_banks_policy_decides_what_is_kept_and_each_skip_is_counted(tmp_path: Path) -> None:
    others = {"rea": {"bank": "memory", "read_banks": ["memory"]}, "sil": {"bank": "memory", "capture": False}}
    async with bound(tmp_path, inject=False, others=others) as ann:
        ann.at.upstream.next(text="ok")
        await ann.say(chat("thanks!"))
        assert await ann.texts() == []
        await ann.make(BankPolicy(min_importance=0.9))
        await ann.say(chat("the weather is fine"))
        await ann.make(BankPolicy(capture_mode=CaptureMode.EXPLICIT))
        await ann.say(chat("My birthday is on 3 May"))
        bank = await ann.bank()
        assert bank is not None
        assert bank.skipped == {"no_content": 2, "importance": 2, "explicit": 2}
        await ann.make(BankPolicy(capture_mode=CaptureMode.ALL))
        ann.at.upstream.next(text="my key is sk-proj-abcdefghij0123456789 you know")
        await ann.say(chat("ok"))
        assert await ann.texts() == [("user", "ok"), ("ann", "my key is [redacted: key] you know")]
        await ann.say(chat("I must not be kept"), token=token_of("rea"))
        await ann.say(chat("Nor must I be kept"), token=token_of("sil"))
        assert len(await ann.texts()) == 2


@pytest.mark.spec("MEM-14", "MEM-15")
async def test_no_fault_of_memory_keeps_a_call_from_its_model_and_what_was_said_is_kept_when_it_is_over(
    tmp_path: Path,
) -> None:
    async with bound(tmp_path) as ann:
        await ann.make(block="Ann likes tea.")
        await asyncio.to_thread(rename, tmp_path, "episodes", "gone")  # who writes now does so in this event loop
        raw = json.dumps(chat("My boat is called Nora")).encode()
        async with ann.at.call(ann.token, body=raw) as response:
            assert response.status == 200
            await response.read()
        assert ann.at.upstream.requests[-1].body == raw
        with pytest.raises(StorageUnavailable):
            await ann.at.server.exchanges.flush()
        await asyncio.to_thread(rename, tmp_path, "gone", "episodes")
        await ann.say(chat("What do I like?"))
        assert "Ann likes tea." in ann.sent["messages"][0]["content"]
        assert [text for speaker, text in await ann.texts() if speaker == "user"] == [
            "My boat is called Nora", "What do I like?",
        ]  # fmt: skip


@pytest.mark.spec("MEM-15")
async def test_a_provider_that_keeps_the_conversation_is_told_each_memory_once(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await ann.say({"model": "m", "input": "My boat is called Nora"}, path=RESPONSES)
        first = json.loads(await ann.say({"model": "m", "input": "What is my boat called?"}, path=RESPONSES))
        assert "called Nora" in ann.sent["input"]
        more = {"model": "m", "input": "And my boat was called what?", "previous_response_id": first["id"]}
        await ann.say(more, path=RESPONSES)
        assert "called Nora" not in ann.sent["input"]
        await ann.say({"model": "m", "input": "Which name has my boat?"}, path=RESPONSES)
        assert "called Nora" in ann.sent["input"]


@pytest.mark.spec("MEM-15", "MEM-37")
async def test_a_branch_from_an_earlier_answer_that_the_provider_keeps_has_no_memory_of_a_later_one(
    tmp_path: Path,
) -> None:
    async with bound(tmp_path) as ann:
        await ann.say({"model": "m", "input": "My boat is called Nora"}, path=RESPONSES)

        async def ask(text: str, earlier: str | None = None) -> str:
            body = {"model": "m", "input": text, "previous_response_id": earlier}
            return json.loads(await ann.say(body, path=RESPONSES))["id"]

        first = await ask("Good morning.")
        second = await ask("What is my boat called?", first)
        assert "called Nora" in ann.sent["input"]
        await ask("And my boat was called what?", second)
        assert "called Nora" not in ann.sent["input"], "the provider has it"
        branch = await ask("How is my boat called?", first)
        assert "called Nora" in ann.sent["input"], "it is not in the answer that this goes on from"
        await ask("And my boat was called what?", branch)
        assert "called Nora" not in ann.sent["input"]


@pytest.mark.spec("MEM-14", "GATE-67")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_sends_references_to_answers_back_stays_in_one_conversation(
    stream: bool, tmp_path: Path
) -> None:
    """So do clients of stored responses that keep the history themselves, such as Vercel's AI SDK by default."""
    async with bound(tmp_path) as ann:
        history: list[object] = []
        for said in ("The crane was mended by Ingrid", "The ferry leaves at seven", "Which pier is it?"):
            history.append({"role": "user", "content": [{"type": "input_text", "text": said}]})
            body = {"model": "m", "input": history, "stream": stream}
            answer = await ann.say(body, path=RESPONSES)
            done = json.loads(answer.split(b"data: ")[-1])["response"] if stream else json.loads(answer)
            history += [{"type": "item_reference", "id": item["id"]} for item in done["output"]]
        kept = await ann.episodes()
        assert [each.text for each in kept if each.speaker == "user"] == [
            "The crane was mended by Ingrid", "The ferry leaves at seven", "Which pier is it?",
        ]  # fmt: skip
        assert len({each.conversation for each in kept}) == 1


@pytest.mark.spec("MEM-15", "GATE-66")
async def test_a_budget_of_tokens_counts_what_memory_adds_before_the_call_is_sent(tmp_path: Path) -> None:
    async with bound(tmp_path, max_tokens_per_day=400) as ann:
        small = chat("What do I like?", max_tokens=10)
        await ann.say(small)
        await ann.make(block="tea " * 400)
        async with ann.at.call(ann.token, body=small) as response:
            assert response.status == 429, await response.text()
        assert len(ann.at.upstream.requests) == 1
