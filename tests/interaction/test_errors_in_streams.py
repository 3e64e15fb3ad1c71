"""What a provider refuses after a hold, when its caller has a stream already: its own error, in its own event."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import CHAT, live

OPENAI = {"message": "Rate limit reached", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}
ANTHROPIC = {"type": "overloaded_error", "message": "Overloaded"}
MESSAGE = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.spec("GATE-50")
@pytest.mark.parametrize("status", [400, 429, 529])
@pytest.mark.parametrize(
    ("upstream", "path", "body", "error", "event"),
    [
        ("openai", "/v1/chat/completions", CHAT, {"error": OPENAI}, {"error": OPENAI}),
        (
            "openai", "/v1/responses", {"model": "gpt-4o-mini", "input": "hello"}, {"error": OPENAI},
            {"type": "error", "code": "rate_limit_exceeded", "message": "Rate limit reached", "param": None,
             "sequence_number": 0, "error": OPENAI},
        ),
        (
            "anthropic", "/v1/messages", MESSAGE, {"type": "error", "error": ANTHROPIC, "request_id": "req_1"},
            {"type": "error", "error": ANTHROPIC, "request_id": "req_1"},
        ),
    ],
)  # fmt: skip
async def test_a_caller_who_was_kept_alive_gets_the_providers_own_error(
    tmp_path: Path, status: int, upstream: str, path: str, body: Any, error: object, event: object
) -> None:
    async with live(tmp_path, upstream={"retries": 0}) as at:
        token = await at.agent()
        await at.sleeping(True)
        at.upstream.next(status=status, body=json.dumps(error), headers={"content-type": "application/json"})
        call = at.call(token, path, {**body, "stream": True}, upstream=upstream)
        async with asyncio.timeout(60), call as response:
            assert (await response.content.readany()).strip() == b": keep-alive"
            await at.sleeping(False)
            lines = (await response.read()).decode().splitlines()
        (data,) = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert json.loads(data) == event
        assert ("event: error" in lines) == (path != "/v1/chat/completions")
