"""Memory at the gateway while its embedder is slow, dead or wrong: no call waits for it, and nothing is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from circadia.memory.context import HEAD
from circadia.testing.upstream import MockUpstream
from tests.fixtures.ports import reserved_port
from tests.gateway.bound_agent import chat, fenced
from tests.interaction.live import Live, live

TOKEN = "circadia-agent-of-the-tests-0123456789"
ASKS = 8
DIMENSIONS = 8

Mend = Callable[[], Awaitable[None]]


async def slow(embedder: MockUpstream, stack: AsyncExitStack) -> Mend:
    """Answers nothing until it is mended."""
    embedder.gate.clear()

    async def mend() -> None:
        embedder.gate.set()

    return mend


async def dead(embedder: MockUpstream, stack: AsyncExitStack) -> Mend:
    """Nobody listens until it is mended."""
    await embedder.__aexit__()

    async def mend() -> None:
        await embedder.__aenter__()

    return mend


async def wrong(embedder: MockUpstream, stack: AsyncExitStack) -> Mend:
    """Gives vectors of too few dimensions until it is mended."""
    data = [{"object": "embedding", "index": at, "embedding": [0.5] * (DIMENSIONS - 1)} for at in range(ASKS)]
    well = MockUpstream(port=int(embedder.base_url.rpartition(":")[2]))
    embedder.next(times=1000, path="/embeddings", body={"object": "list", "data": data, "model": "m"})

    async def mend() -> None:
        await embedder.__aexit__()
        await stack.enter_async_context(well)

    return mend


async def say(at: Live, text: str) -> Any:
    """Make a call with an answer of its own, let memory be written, and return what went upstream."""
    at.upstream.next(text=f"This is the answer to {text!r} alone.")
    async with at.call(TOKEN, body=chat(text)) as response:
        assert response.status == 200, await response.text()
        await response.read()
    await at.server.exchanges.flush()
    return at.upstream.requests[-1].json()


async def episodes(at: Live) -> list[dict[str, Any]]:
    return (await at.rest("GET", "/banks/memory/episodes"))[1]["episodes"]


@pytest.mark.setting(
    "memory.embedder.endpoint.kind",
    "memory.embedder.endpoint.base_url",
    "memory.embedder.endpoint.dimensions",
    "memory.question_timeout_seconds",
)
@pytest.mark.spec("MEM-01", "MEM-08", "MEM-14", "MEM-15")
@pytest.mark.parametrize("fault", [slow, dead, wrong])
async def test_no_call_waits_for_the_embedder_nothing_is_lost_and_vectors_come_when_it_is_well(
    tmp_path: Path, fault: Callable[[MockUpstream, AsyncExitStack], Awaitable[Mend]]
) -> None:
    async with AsyncExitStack() as stack:
        embedder = await stack.enter_async_context(MockUpstream(port=stack.enter_context(reserved_port())))
        endpoint = {
            "kind": "endpoint", "base_url": f"{embedder.base_url}/v1", "model": "m", "dimensions": DIMENSIONS,
            "timeout_seconds": 0.3,
        }  # fmt: skip
        sections: dict[str, Any] = {
            "memory": {"embedder": endpoint, "question_timeout_seconds": 0.1},
            "agents": {"ann": {"token_env": "ANN", "bank": "memory"}},
            "environment": {"ANN": TOKEN},
        }
        async with live(tmp_path, **sections) as at:
            mend = await fault(embedder, stack)
            await say(at, "My boat is called Nora")
            for number in range(ASKS):
                sent = await say(at, f"What is the boat called that I have, number {number}?")
                assert HEAD in fenced(sent), "words find it"
                assert "My boat is called Nora" in fenced(sent)
            kept = await episodes(at)
            assert len(kept) == 2 * (1 + ASKS)
            assert {each["embedded_by"] for each in kept} == {None}
            await mend()
            async with asyncio.timeout(60):
                while None in {each["embedded_by"] for each in await episodes(at)}:
                    await asyncio.sleep(0.05)
