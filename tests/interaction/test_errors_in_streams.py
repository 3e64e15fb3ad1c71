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


LONG = "The model `gpt-9` does not exist. " * 20
REASONS: dict[str, tuple[int, str, str, str]] = {
    "FastAPI": (422, '{"detail":[{"loc":["body","n"],"msg":"n must be 1","type":"value_error"}]}', "n must be 1", ""),
    "FastAPI, a text": (404, '{"detail":"Model not loaded"}', "Model not loaded", ""),
    "vLLM": (
        400, '{"object":"error","message":"n is too large","type":"BadRequestError","param":null,"code":400}',
        "n is too large", "",
    ),
    "Ollama": (404, '{"error":"model \'x\' not found"}', "model 'x' not found", ""),
    "Bedrock": (429, '{"message":"Too many tokens"}', "Too many tokens", "rate_limit_error"),
    "Google": (400, '[{"error":{"code":400,"message":"No such name","status":"NOT_FOUND"}}]', "No such name", ""),
    "a page": (
        413, "<html><head><title>413 Too Large</title><style>p {}</style></head><body>nginx</body></html>",
        "413 Too Large nginx", "",
    ),
    "plain text": (401, LONG, LONG[:300].strip(), "authentication_error"),
    "nothing": (503, "", "503", "server_error"),
}  # fmt: skip
ANTHROPIC_KINDS = {404: "not_found_error", 413: "request_too_large", 503: "overloaded_error"}


@pytest.mark.spec("GATE-98")
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/messages"])
async def test_a_held_caller_reads_the_reason_of_an_error_in_any_shape(tmp_path: Path, path: str) -> None:
    asked = {**MESSAGE, "stream": True, "input": "hello", "prompt": "hello"}
    upstream = "anthropic" if path == "/v1/messages" else "openai"
    async with live(tmp_path, upstream={"retries": 0}) as at:
        token = await at.agent()
        for name, (status, said, reason, kind) in REASONS.items():
            await at.sleeping(True)
            at.upstream.next(status=status, body=said, headers={"content-type": "application/json"})
            async with asyncio.timeout(60), at.call(token, path, asked, upstream=upstream) as response:
                assert (await response.content.readany()).strip() == b": keep-alive"
                await at.sleeping(False)
                lines = (await response.read()).decode().splitlines()
            (data,) = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
            error, fits = data["error"], kind or "invalid_request_error"
            assert reason in error["message"], name
            assert str(status) in error["message"] or error.get("code") == status, name
            assert len(error["message"]) <= 300 + len(f"upstream '{upstream}' answered 401: "), name
            assert error["type"] == (ANTHROPIC_KINDS.get(status, fits) if upstream == "anthropic" else fits), name


@pytest.mark.spec("GATE-98")
async def test_the_reason_of_an_error_that_came_as_a_stream_reaches_a_held_caller(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retries": 0}) as at:
        token = await at.agent()
        await at.sleeping(True)
        said = 'event: error\ndata: {"error":{"message":"no such model"}}\n\n'
        at.upstream.next(status=404, body=said, headers={"content-type": "text/event-stream"})
        async with asyncio.timeout(60), at.call(token, body={**CHAT, "stream": True}) as response:
            await response.content.readany()
            await at.sleeping(False)
            lines = (await response.read()).decode().splitlines()
        (data,) = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        assert (data["error"]["message"], data["error"]["type"]) == ("no such model", "invalid_request_error")
