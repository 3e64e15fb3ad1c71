"""A call that its model refuses for what memory adds: it is too long, or the model takes no system prompt."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, asking, bound

REFUSALS: dict[str, dict[str, Any]] = {
    CHAT: {"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}},
    RESPONSES: {"error": {"message": "too many tokens", "code": "context_length_exceeded"}},
    MESSAGES: {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}},
}
MESSAGES_OF_OTHERS = (
    "The input token count (1050000) exceeds the maximum number of tokens allowed (1048576).",
    "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    "Input is too long for requested model.",
    "System role not supported",
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    "Developer instruction is not enabled for models/gemma-3-27b-it",
)
OTHERS = [(CHAT, {"error": {"code": 400, "message": each}}) for each in MESSAGES_OF_OTHERS]


@pytest.mark.spec("MEM-15")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "refusal"), [*REFUSALS.items(), *OTHERS])
async def test_a_call_that_is_refused_for_its_context_goes_again_without_it(
    tmp_path: Path, path: str, refusal: Any, stream: bool
) -> None:
    async with bound(tmp_path) as ann:
        await ann.make(block="Ann likes green tea.")
        whole = json.dumps([refusal] if refusal["error"].get("code") == 400 else refusal)  # Google sends a list
        ann.at.upstream.next(status=400, body=whole, headers={"content-type": "application/json"})
        ann.at.upstream.next(text="Tea, as ever")
        answer = await ann.say(asking(path, "What do I like to drink?", stream=stream), path=path)
        first, second = (json.dumps(each.json()) for each in ann.at.upstream.requests)
        assert "green tea" in first
        assert "green tea" not in second
        assert "What do I like to drink?" in second
        assert b"ever" in answer
        assert await ann.texts() == [("user", "What do I like to drink?"), ("ann", "Tea, as ever")]
        (used,) = await ann.at.usage()
        assert (used["calls"], used["failed"]) == (1, 0)


@pytest.mark.spec("MEM-15")
async def test_a_call_that_is_too_long_by_itself_is_refused_as_ever(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        for block in ("", "Ann likes green tea."):
            await ann.make(block=block)
            ann.at.upstream.requests.clear()
            ann.at.upstream.next(times=2 if block else 1, status=400, body=REFUSALS[CHAT])
            async with ann.at.call(ann.token, CHAT, asking(CHAT, "What?", stream=False)) as response:
                assert response.status == 400
                assert (await response.json())["error"]["code"] == "context_length_exceeded"
            assert len(ann.at.upstream.requests) == (2 if block else 1)
