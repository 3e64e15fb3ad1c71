"""What a provider could cache of a conversation: how much of each request is the beginning of the next."""

import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from aiohttp import ClientSession, web

from benchmarks.requests import TEXT

PATH: Final = "/v1/chat/completions"
RECORDER: Final = "recorder"
"""The upstream's name."""
SYSTEM: Final = {"role": "system", "content": "You are one of a team. Answer in one line."}


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefixes:
    """Bytes of each request that the next one begins with, as they came upstream, and bytes of the requests."""

    without: Sequence[int]
    requests_without: Sequence[int]
    with_: Sequence[int]
    requests_with: Sequence[int]
    blocks: int
    """Bytes of the blocks' part."""

    @property
    def lacking(self) -> int:
        """By how much the worst prefix is shorter than without Circadia plus the blocks."""
        return max(a + self.blocks - b for a, b in zip(self.without, self.with_, strict=True))


@contextlib.asynccontextmanager
async def recorder() -> AsyncGenerator[tuple[int, list[bytes]]]:
    """Run an upstream that keeps what comes; yield its port and the bodies."""
    heard: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append(await request.read())
        said = {"role": "assistant", "content": f"{TEXT}({len(heard)})"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choices = [{"index": 0, "message": said, "finish_reason": "stop"}]
        return web.json_response({
            "id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage
        })  # fmt: skip

    application = web.Application()
    application.router.add_post(PATH, answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1], heard
    finally:
        await runner.cleanup()


async def prefixes(port: int, tokens: tuple[str, str], questions: Sequence[str], heard: list[bytes]) -> Prefixes:
    """Hold the same conversation as an agent without and as one with memory, the whole of it in each request."""
    took: list[list[bytes]] = []
    for token in tokens:
        heard.clear()
        await _converse(port, token, questions)
        took.append(list(heard))
    without, with_ = took
    empty = json.loads(with_[0])["messages"][0]["content"]
    return Prefixes(
        without=_shared(without),
        requests_without=[len(each) for each in without],
        with_=_shared(with_),
        requests_with=[len(each) for each in with_],
        blocks=len(json.dumps(empty)) - len(json.dumps(SYSTEM["content"])),
    )


async def _converse(port: int, token: str, questions: Sequence[str]) -> None:
    said: list[dict[str, str]] = [SYSTEM]
    async with ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        for question in questions:
            said.append({"role": "user", "content": question})
            request = {"model": "gpt-4o-mini", "messages": said}
            async with http.post(f"http://127.0.0.1:{port}/llm/{RECORDER}{PATH}", json=request) as answer:
                said.append((await answer.json())["choices"][0]["message"])


def _shared(bodies: Sequence[bytes]) -> list[int]:
    """Return how many bytes each body but the last has in common with the beginning of the next."""
    return [
        next((at for at, (a, b) in enumerate(zip(*pair, strict=False)) if a != b), min(map(len, pair)))
        for pair in pairwise(bodies)
    ]
