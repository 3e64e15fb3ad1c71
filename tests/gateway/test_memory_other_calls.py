"""Memory and the calls that generate nothing: tokens that are counted, answers from the background that are fetched."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.bound_agent import MESSAGES, RESPONSES, BoundAgentServer, bound, chat

COUNT = "/v1/messages/count_tokens"


async def fetch(
    ann: BoundAgentServer, answer: dict[str, Any], *, query: str = "", headers: dict[str, str] | None = None
) -> bytes:
    """Fetch a response that has come so far, and let memory be written."""
    path = f"{RESPONSES}/{answer['id']}"
    sse = f"event: response.completed\ndata: {json.dumps({'type': 'response.completed', 'response': answer})}\n\n"
    if query:
        ann.at.upstream.next(body=sse, headers={"content-type": "text/event-stream"})
    else:
        ann.at.upstream.next(body=answer)
    async with ann.at.call(ann.token, path + query, None, method="GET", headers=headers) as response:
        assert response.status == 200
        return await response.read()


async def begun(ann: BoundAgentServer, text: str, **more: Any) -> dict[str, Any]:
    """Begin a response in the background, and return what it will be."""
    raw = await ann.say({"model": "m", "input": text, "background": True}, path=RESPONSES, **more)
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"So: {text}"}]}
    return {**json.loads(raw), "background": True, "status": "completed", "output": [message]}


@pytest.mark.spec("MEM-15", "MEM-13", "GATE-41")
async def test_tokens_are_counted_of_what_would_be_sent_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await ann.make(block="Ann likes tea.")
        await ann.say(chat("My boat is called Nora"))
        kept = await ann.texts()
        asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "What is my boat called?"}]}
        count = {name: value for name, value in asked.items() if name != "max_tokens"}
        await ann.at.sleeping(True)
        async with ann.at.call(ann.token, COUNT, count, upstream="anthropic") as response:
            assert response.status == 200
        counted = ann.sent
        assert await ann.texts() == kept
        await ann.at.sleeping(False)
        await ann.say(asked, path=MESSAGES)
        sent = {name: value for name, value in ann.sent.items() if name != "max_tokens"}
    assert counted == sent
    assert "Nora" in json.dumps(counted["messages"])
    assert "tea" in json.dumps(counted["system"])


@pytest.mark.spec("MEM-15")
async def test_without_injection_a_count_goes_up_byte_for_byte(tmp_path: Path) -> None:
    raw = b'{ "model":"m", "messages" : [{"content":"tea?","role":"user"}] }\n'
    async with bound(tmp_path, inject=False) as ann:
        await ann.make(block="Ann likes tea.")
        async with ann.at.call(ann.token, COUNT, raw, upstream="anthropic") as response:
            assert response.status == 200
        assert ann.at.upstream.requests[-1].body == raw


@pytest.mark.spec("MEM-15")
async def test_what_is_only_counted_does_not_change_the_context_of_the_turn_that_goes_on(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await ann.say(chat("My sister Olga lives in Riga"))
        use: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "found"}]}
        messages: list[Any] = [{"role": "user", "content": "Where does Olga live?"}]
        ann.at.upstream.next(body={"type": "message", "content": [use]})
        await ann.say({"model": "m", "max_tokens": 9, "messages": messages}, path=MESSAGES)
        first = ann.sent["messages"]
        messages += [{"role": "assistant", "content": [use]}, result]
        other = [*messages, {"role": "assistant", "content": "Riga"}, {"role": "user", "content": "And my brother?"}]
        for counted in (messages, other):
            async with ann.at.call(ann.token, COUNT, {"model": "m", "messages": counted}, upstream="anthropic") as told:
                assert told.status == 200
        await ann.say({"model": "m", "max_tokens": 9, "messages": messages}, path=MESSAGES)
        assert ann.sent["messages"][:1] == first


@pytest.mark.spec("MEM-14")
async def test_an_answer_from_the_background_is_kept_once_when_it_is_fetched_whole(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        answer = await begun(ann, "I live in Porto")
        assert await ann.texts() == [("user", "I live in Porto")]
        await fetch(ann, {**answer, "status": "in_progress", "output": []})
        assert len(await ann.texts()) == 1
        for query in ("", "", "?stream=true"):
            raw = await fetch(ann, answer, query=query)
            assert b"So: I live in Porto" in raw
            assert await ann.texts() == [("user", "I live in Porto"), ("ann", "So: I live in Porto")]
        kept = await ann.episodes()
        assert kept[0].conversation == kept[1].conversation
        # One that was answered at once is known; fetching it again says nothing new.
        done = json.loads(await ann.say({"model": "m", "input": "I have a dog"}, path=RESPONSES))
        await fetch(ann, done)
        assert [text for _, text in (await ann.texts())[2:]] == ["I have a dog"] * 2


@pytest.mark.spec("MEM-14")
async def test_a_streamed_answer_from_the_background_is_the_same_one_when_it_is_fetched(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        answer = await begun(ann, "I live in Porto")
        sse = f"event: response.completed\ndata: {json.dumps({'type': 'response.completed', 'response': answer})}\n\n"
        ann.at.upstream.next(body=sse, headers={"content-type": "text/event-stream"})
        await ann.say({"model": "m", "input": "I live in Porto", "background": True, "stream": True}, path=RESPONSES)
        await fetch(ann, answer)
        assert [text for _, text in await ann.texts()] == ["I live in Porto", "So: I live in Porto"]


@pytest.mark.spec("MEM-12", "MEM-14")
async def test_an_answer_from_the_background_is_kept_for_the_one_who_asked_whoever_fetches_it(tmp_path: Path) -> None:
    async with bound(tmp_path, bank="support-{user}", multi_user=True, inject=False) as ann:
        answer = await begun(ann, "My code is 4711", headers={"x-circadia-user": "eve"})
        # A stranger who repeats her words is none of hers, whatever the conversation looks like.
        strange = await begun(ann, "My code is 4711")
        await fetch(ann, strange)
        await fetch(ann, answer, headers={"x-circadia-user": "bob"})
        assert await ann.texts("support-eve") == [("eve", "My code is 4711"), ("ann", "So: My code is 4711")]
        assert await ann.bank("support-bob") is None
