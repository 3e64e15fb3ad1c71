"""A model and an embedder for other memories, in OpenAI's API: it answers after a fixed time, and keeps what it got."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from aiohttp import web

from benchmarks.peers import free_port
from circadia.memory.embedding.bundled import BundledEmbedder

ANSWER_SECONDS: Final = 0.3
"""What each answer of the model takes. Vectors are answered at once."""


@dataclass(kw_only=True, slots=True)
class Model:
    """A running model."""

    port: int
    """Where it listens, on 127.0.0.1."""
    turns: Sequence[str]
    """What may be said, in order: it finds one fact in the newest that it sees, which is its text."""
    prompts: list[str] = field(default_factory=list[str])
    """The messages' texts and the tools' JSON of each call."""
    embedded: int = 0
    """Texts."""
    embedder: BundledEmbedder = field(default_factory=BundledEmbedder)

    @property
    def base_url(self) -> str:
        """Return what OpenAI's clients take."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def complete(self, request: web.Request) -> web.Response:
        """Answer as a good model would: JSON as mem0 wants it, or a call of LangMem's tool."""
        asked: dict[str, Any] = await request.json()
        tools: list[dict[str, Any]] = asked.get("tools") or []
        texts = [str(message["content"]) for message in asked["messages"]]
        self.prompts.append("\n".join([*texts, *(json.dumps(tool["function"]) for tool in tools)]))
        seen = "\n".join(texts)
        fact = next((turn for turn in reversed(self.turns) if turn in seen), "nothing new")
        await asyncio.sleep(ANSWER_SECONDS)
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if tools:
            called = {"name": "Memory", "arguments": json.dumps({"content": fact})}
            message["tool_calls"] = [{"id": f"call_{len(self.prompts)}", "type": "function", "function": called}]
        else:
            message["content"] = json.dumps({"memory": [{"id": "0", "text": fact, "attributed_to": "user"}]})
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if tools else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        name = f"chatcmpl-{len(self.prompts)}"
        return web.json_response(
            {"id": name, "object": "chat.completion", "created": 0, "model": asked["model"], "choices": [choice],
             "usage": usage}
        )  # fmt: skip

    async def embed(self, request: web.Request) -> web.Response:
        """Answer with the vectors that Circadia itself would make, at once."""
        asked: dict[str, Any] = await request.json()
        texts: list[str] = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        self.embedded += len(texts)
        vectors = await self.embedder.embed(texts)
        packed = asked.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": at,
                "embedding": base64.b64encode(each.astype(np.float32).tobytes()).decode() if packed else each.tolist(),
            }
            for at, each in enumerate(vectors)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "model": asked["model"], "data": data, "usage": usage})


@contextlib.asynccontextmanager
async def model(turns: Sequence[str]) -> AsyncGenerator[Model]:
    """Run a model in this process."""
    running = Model(port=free_port(), turns=turns)
    await running.embedder.embed(["loads the weights"])
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", running.complete)
    app.router.add_post("/v1/embeddings", running.embed)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", running.port).start()
        yield running
    finally:
        await runner.cleanup()
