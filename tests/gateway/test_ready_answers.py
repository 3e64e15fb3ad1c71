"""Ready answers at the gateway, as an agent and its provider see them."""

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from circadia.memory.blocks import Blocks, Edit, Writer
from circadia.clock import SystemClock
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, chat, fenced, token_of
from tests.gateway.readied import ASKED, OTHER, SAID, Readied, question, readied


@pytest.mark.spec("ANS-03")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_what_is_sure_is_answered_in_the_providers_shape_and_nothing_goes_upstream(
    tmp_path: Path, path: str
) -> None:
    async with readied(tmp_path) as ann:
        frame = await ann.frame(question(OTHER, path=path), path=path)
        made = await ann.put(frame)
        sent = ann.sends
        got = [await ann.ask(question(path=path, stream=stream), path=path) for stream in (False, True)]
        said = [await _by_sdk(ann, path, stream=stream) for stream in (False, True)]
        assert ann.sends == sent
        assert [(each.status, each.outcome, each.answer_id) for each in got] == [(200, "hit", made.id)] * 2
        assert [each.kind for each in got] == ["application/json", "text/event-stream"]
        assert said == [SAID, SAID]
        assert await ann.counts() == (4, 0, 1, 1)
        uses = await ann.uses()
        (saved,) = await ann.saved()
        tiers = {each["key"]: each for each in await ann.at.usage("tier")}
        texts = [text for _, text in (await ann.texts())[2:]]
    assert [(each.question, each.phrasing, each.way, each.served) for each in uses] == [(ASKED, ASKED, "exact", True)] * 4
    assert (saved.operation, saved.uses, saved.saved_tokens, saved.saved_seconds) == ("precompute", 4, 480, 6.0)
    assert (saved.saved_nanousd, saved.unpriced_tokens) == (20_000, 0)
    assert tiers["hot"]["calls"] == 1
    ready = tiers["ready"]
    assert (ready["calls"], ready["input_tokens"], ready["output_tokens"], ready["unpriced"]) == (4, 0, 0, 0)
    assert texts[:2] == [ASKED, SAID]


async def _by_sdk(ann: Readied, path: str, *, stream: bool) -> str:
    """Return what the provider's own client makes of the answer."""
    if path == MESSAGES:
        url = f"{ann.at.url}/llm/anthropic"
        async with anthropic.AsyncAnthropic(base_url=url, api_key=ann.token, max_retries=0) as client:
            asked: Any = {"model": "mock-1", "max_tokens": 50, "messages": [{"role": "user", "content": ASKED}]}
            if stream:
                async with client.messages.stream(**asked) as events:
                    return await events.get_final_text()
            message = await client.messages.create(**asked)
            return "".join(part.text for part in message.content if part.type == "text")
    url = f"{ann.at.url}/llm/openai/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key=ann.token, max_retries=0) as client:
        if path == RESPONSES:
            if stream:
                async with client.responses.stream(model="mock-1", input=ASKED, store=False) as events:
                    return (await events.get_final_response()).output_text
            return (await client.responses.create(model="mock-1", input=ASKED, store=False)).output_text
        said: Any = [{"role": "user", "content": ASKED}]
        more: Any = {"model": "mock-1", "max_tokens": 50, "messages": said}
        if stream:
            chunks = [chunk async for chunk in await client.chat.completions.create(stream=True, **more)]
            return "".join(each.delta.content or "" for chunk in chunks for each in chunk.choices)
        return (await client.chat.completions.create(**more)).choices[0].message.content or ""
