"""Two whole servers on one PostgreSQL: what is done to an agent at one holds at the other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from circadia.clock import SystemClock
from circadia.stores.postgres import open_postgres
from tests.interaction.live import Live, live
from tests.interaction.test_mcp_door import ask, call

pytestmark = pytest.mark.spec("GATE-42")
KNOWN_SECONDS = 10.0
"""Far more than the second between two looks, for a machine that is busy."""


@asynccontextmanager
async def two(folder: Path, url: str) -> AsyncGenerator[tuple[Live, Live]]:
    section = {"database_url": url}
    async with live(folder / "here", server=section) as here, live(folder / "there", server=section) as there:
        yield here, there


async def status(at: Live, token: str) -> int:
    async with at.call(token, "/v1/models", None, method="GET") as response:
        return response.status


async def refused(at: Live, token: str) -> None:
    """Return once the token opens nothing there."""
    async with asyncio.timeout(KNOWN_SECONDS):
        while await status(at, token) not in (401, 403):
            await asyncio.sleep(0.05)


async def released(at: Live, token: str) -> None:
    """Make a call, and return once it has ended without an answer of the model."""
    with suppress(aiohttp.ClientPayloadError):  # broken off, which is what is left once whitespace has gone out
        async with at.call(token) as response:
            text = await response.text()
            assert response.status != 200 or "error" in text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("DELETE", "", None), ("PATCH", "", {"enabled": False}), ("POST", "/token", None)],
    ids=["deleted", "disabled", "a new token"],
)
async def test_a_token_that_ends_at_one_server_ends_at_the_other_and_so_do_its_held_calls(
    tmp_path: Path, postgres_url: str, method: str, path: str, body: object
) -> None:
    async with two(tmp_path, postgres_url) as (here, there):
        token = await here.agent()
        assert await status(there, token) == 200
        await here.sleeping(True)
        held = asyncio.create_task(released(there, token))
        await there.held(1)
        assert (await here.rest(method, f"/sessions/default/agents/ann{path}", body))[0] < 300
        await refused(there, token)
        if path:  # a held call is looked at again when it would be admitted
            await here.sleeping(False)
        async with asyncio.timeout(KNOWN_SECONDS):
            await held
        await there.held(0)
        assert [each.path for each in there.upstream.requests if each.path.endswith("completions")] == []


async def waiting(at: Live) -> None:
    """Return once somebody waits there."""
    async with asyncio.timeout(60):
        while not at.server.waiting():
            await asyncio.sleep(0.01)


async def spoken(at: Live, token: str, *texts: tuple[str, bool]) -> None:
    """Say things to ann in a thread of theirs as bob, and mention her or not."""
    made = (await ask(at, token, call("create_thread", name="t", participants=["ann"])))[-1]["result"]
    thread = made["structuredContent"]["thread"]["id"]
    for text, mentioned in texts:
        await ask(at, token, call("send_message", thread=thread, content=text, mentions=["ann"] if mentioned else []))


@pytest.mark.spec("GATE-71")
async def test_a_wait_at_one_server_hears_what_is_said_at_the_other(tmp_path: Path, postgres_url: str) -> None:
    async with two(tmp_path, postgres_url) as (here, there):
        ann, bob = await here.agent(), await here.agent("bob")
        hearing = asyncio.create_task(ask(there, ann, call("wait_for_mention", timeout_seconds=3000)))
        async with asyncio.timeout(60):
            while not there.server.waiting():
                await asyncio.sleep(0.01)
        await spoken(here, bob, ("for all", False), ("for ann", True))
        async with asyncio.timeout(KNOWN_SECONDS):
            (answer,) = await hearing
        assert [each["content"] for each in answer["result"]["structuredContent"]["messages"]] == ["for ann"]


@pytest.mark.spec("GATE-71")
async def test_a_server_that_starts_leaves_alone_what_another_is_handing_out(tmp_path: Path, postgres_url: str) -> None:
    section = {"database_url": postgres_url}
    async with live(tmp_path / "here", server=section) as here, AsyncExitStack() as stack:
        await here.agent()
        await here.rest("POST", "/messages", {"to": "ann", "content": "hello"})
        (item,) = (await here.rest("GET", "/agents/ann/inbox"))[1]["messages"]
        store = await open_postgres(postgres_url)
        stack.push_async_callback(store.close)
        async with store.write() as tx:  # as a wait at `here` does while its answer goes out
            (agent,) = await tx.agents.ever_named("default", "ann")
            now = SystemClock().now()
            assert await tx.deliveries.lease(agent.id, [item["id"]], now + timedelta(minutes=1), now=now)
        there = await stack.enter_async_context(live(tmp_path / "there", server=section))
        for at in (here, there):
            assert (await at.rest("GET", "/agents/ann/inbox"))[1]["counts"]["leased"] == 1
