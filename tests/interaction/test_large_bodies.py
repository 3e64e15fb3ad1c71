"""However large and however made a request is, the server answers others meanwhile."""

import asyncio
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fixtures.server_process import CircadiaProcess
from tests.gateway.wire.peer import answering, peer

pytestmark = pytest.mark.spec("GATE-82")
MIB = 2**20
MOST_SECONDS = 0.050
"""Of the best of five: what a busy machine adds to it is not the request's."""
ANSWER = json.dumps({
    "id": "c1", "object": "chat.completion", "created": 1, "model": "m", "usage": None,
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
}).encode()  # fmt: skip


def chat(messages: object, **more: object) -> dict[str, object]:
    return {"model": "m", "messages": messages, **more}


SAID = {"role": "user", "content": "a"}
MODEL_CALLS: dict[str, tuple[str, Callable[[int], object]]] = {
    "small messages": ("/v1/chat/completions", lambda count: chat([SAID] * count)),
    "turns": ("/v1/chat/completions", lambda count: chat([SAID, {"role": "assistant", "content": "b"}] * (count // 3))),
    "parts": (
        "/v1/chat/completions",
        lambda count: chat([{**SAID, "content": [{"type": "text", "text": "a"}] * count}]),
    ),
    "tools": ("/v1/chat/completions", lambda count: chat([SAID], tools=[{"function": {"name": "f"}}] * count)),
    "results": ("/v1/chat/completions", lambda count: chat([SAID, *[{"role": "tool", "content": "a"}] * count])),
    "items": ("/v1/responses", lambda count: {"model": "m", "input": [SAID] * count}),
    "one text": ("/v1/chat/completions", lambda count: chat([{**SAID, "content": "word " * (count * 7)}])),
}
TOOL_CALLS: dict[str, dict[str, Any]] = {
    "names": {"thread": "t", "content": "a", "mentions": [f"a{number}" for number in range(90_000)]},
    "arguments": {f"a{number}": 1 for number in range(70_000)},
    "lists": {"thread": "t", "content": [[]] * 240_000},
    "nested": {"thread": "t", "content": [[[["x"] * 10] * 10] * 10] * 60},
}


class Others:
    """Somebody else, who asks the server something small again and again while a block runs."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition(":")[2])
        self.longest = 0.0

    async def ask(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            while True:
                began = time.perf_counter()
                writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                await reader.readuntil(b"\r\n\r\n")
                self.longest = max(self.longest, time.perf_counter() - began)
                await asyncio.sleep(0.001)
        finally:
            writer.close()

    async def __aenter__(self) -> "Others":
        self._asking = asyncio.create_task(self.ask())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._asking.cancel()


async def test_no_request_of_an_agent_keeps_others_waiting(tmp_path: Path) -> None:
    late: dict[str, float] = {}
    async with peer(answering(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(ANSWER), ANSWER)) as upstream:
        config = {
            "upstreams": {"openai": {"base_url": f"http://127.0.0.1:{upstream.port}", "key_env": "KEY"}},
            "memory": {"embedder": {"kind": "none"}},
        }
        env = {"KEY": "sk-of-the-provider-0123456789"}
        async with CircadiaProcess(tmp_path, config, env=env) as server, aiohttp.ClientSession() as http:
            agents = [{"name": "plain"}, {"name": "bound", "policy": {"bank": "team", "answer_mode": "serve"}}]
            tokens = await server.create_session("s", agents)

            async def metrics() -> str:
                async with http.get(f"{server.url}/metrics", headers=server.admin) as answer:
                    return await answer.text()

            async def sent(
                what: str, path: str, document: object, *, token: str, status: int = 200, more: int = 4
            ) -> None:
                data = json.dumps(document).encode()
                headers = {
                    "authorization": f"Bearer {token}", "content-type": "application/json",
                    "accept": "application/json, text/event-stream",
                }  # fmt: skip
                async with Others(server.url) as others:
                    async with http.post(server.url + path, data=data, headers=headers) as answer:
                        text = await answer.text()
                        assert answer.status == status, (what, text[:200])
                    async with asyncio.timeout(60):
                        while "\ncircadia_exchanges_waiting 0" not in await metrics():
                            await asyncio.sleep(0.01)
                late[what] = min(others.longest, late.get(what, math.inf))
                if late[what] > MOST_SECONDS and more:
                    await sent(what, path, document, token=token, status=status, more=more - 1)

            for agent, token in tokens.items():
                for what, (path, body) in MODEL_CALLS.items():
                    count = int(1.0 * MIB) // (len(json.dumps(body(999))) // 999 + 1)
                    await sent(f"{what} of {agent}", f"/llm/openai{path}", body(count), token=token)
            for what, arguments in TOOL_CALLS.items():
                call = {"name": "send_message", "arguments": arguments}
                document = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
                await sent(what, "/mcp", document, token=tokens["bound"])
            batch = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(18_000)]
            await sent("batch", "/mcp", batch, token=tokens["bound"], status=400)
    assert {what: seconds for what, seconds in late.items() if seconds > MOST_SECONDS} == {}
