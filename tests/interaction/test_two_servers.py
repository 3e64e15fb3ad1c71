"""Two whole servers on one PostgreSQL: what is done to an agent at one holds at the other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from circadia.clock import SystemClock
from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.testing.upstream import MockUpstream
from tests.fixtures.server_process import CircadiaProcess
from tests.interaction.live import CHAT, Live, live
from tests.interaction.test_mcp_door import ask, call

pytestmark = pytest.mark.spec("GATE-42")
KNOWN_SECONDS = 60.0
"""Far more than the ten seconds between two looks at a bank, for a machine that is busy."""


@asynccontextmanager
async def two(folder: Path, url: str, **sections: Any) -> AsyncGenerator[tuple[Live, Live]]:
    sections = {"server": {"database_url": url}, **sections}
    async with live(folder / "here", **sections) as here, live(folder / "there", **sections) as there:
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


@asynccontextmanager
async def seen(url: str) -> AsyncGenerator[Store]:
    store = await open_postgres(url)
    try:
        yield store
    finally:
        await store.close()


async def spoken(at: Live, token: str, *texts: tuple[str, bool]) -> None:
    """Say things to ann in a thread of theirs as bob, and mention her or not."""
    made = (await ask(at, token, call("create_thread", name="t", participants=["ann"])))[-1]["result"]
    thread = made["structuredContent"]["thread"]["id"]
    for text, mentioned in texts:
        await ask(at, token, call("send_message", thread=thread, content=text, mentions=["ann"] if mentioned else []))


@pytest.mark.spec("GATE-71", "CLU-12")
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


@pytest.mark.setting("server.database_url")
@pytest.mark.spec("GATE-71")
async def test_a_server_that_starts_leaves_alone_what_another_is_handing_out(tmp_path: Path, postgres_url: str) -> None:
    section = {"database_url": postgres_url}
    async with (
        live(tmp_path / "here", server=section) as here, seen(postgres_url) as store, AsyncExitStack() as stack
    ):  # fmt: skip
        await here.agent()
        await here.rest("POST", "/messages", {"to": "ann", "content": "hello"})
        (item,) = (await here.rest("GET", "/agents/ann/inbox"))[1]["messages"]
        async with store.begin_write() as tx:  # as a wait at `here` does while its answer goes out
            (agent,) = await tx.agents.find_by_past_name("default", "ann")
            now = SystemClock().now()
            assert await tx.deliveries.lease(agent.id, [item["id"]], now + timedelta(minutes=1), now=now)
        there = await stack.enter_async_context(live(tmp_path / "there", server=section))
        for at in (here, there):
            assert (await at.rest("GET", "/agents/ann/inbox"))[1]["counts"]["leased"] == 1


async def stand(at: Live) -> dict[str, Any]:
    """Return how passes over the bank stand, as that server says."""
    return (await at.rest("GET", "/banks/team/sleeptime"))[1]


async def turn(store: Store) -> None:
    """Return once the other servers can know of a turn over the bank."""
    while True:
        async with store.begin_read() as tx:
            if await tx.open_turns.find_newest_start("team", "", besides="", now=SystemClock().now()) is not None:
                return


@pytest.mark.spec("SLEEP-01", "SLEEP-04")
async def test_no_server_begins_a_pass_in_the_middle_of_a_reply_at_another(tmp_path: Path, postgres_url: str) -> None:
    manual = {"when": "manual", "model": "none"}
    async with two(tmp_path, postgres_url, sleeptime=manual) as (here, there), seen(postgres_url) as store:
        token = await here.agent(bank="team")
        await here.rest("POST", "/banks", {"name": "team"})
        await here.rest("POST", "/banks/team/episodes", {"text": "Ann lives in Porto.", "speaker": "ann"})
        here.upstream.gate.clear()
        answering = asyncio.create_task(here.answered(token))
        async with asyncio.timeout(KNOWN_SECONDS):
            await turn(store)
            await there.rest("PATCH", "/banks/team", {"policy": {"sleeptime": {"idle_seconds": 0}}})
            while (await stand(there))["gate"] != "replying":
                await asyncio.sleep(0.05)
        assert (await there.rest("GET", "/banks/team/passes"))[1]["passes"] == []
        here.upstream.gate.set()
        assert (await answering)[0] == 200
        async with asyncio.timeout(60):
            while not (await there.rest("GET", "/banks/team/passes"))[1]["passes"]:
                await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.spec("SLEEP-01", "SLEEP-10")
async def test_the_turn_of_a_server_that_is_killed_holds_passes_back_no_longer_than_its_lease(
    tmp_path: Path, postgres_url: str
) -> None:
    async with MockUpstream() as model, AsyncExitStack() as stack, seen(postgres_url) as store:
        config: dict[str, Any] = {
            "server": {"database_url": postgres_url}, "sleeptime": {"when": "manual", "model": "none"},
            "upstreams": {"openai": {"base_url": model.base_url}},
        }  # fmt: skip
        here, there = [
            await stack.enter_async_context(CircadiaProcess(tmp_path / name, config)) for name in ("here", "there")
        ]
        agent = {"name": "ann", "policy": {"bank": "team"}}
        token = (await here.call("POST", "/sessions/default/agents", agent))["token"]
        await here.call("POST", "/banks", {"name": "team"})
        await here.call("POST", "/banks/team/episodes", {"text": "Ann lives in Porto.", "speaker": "ann"})
        model.gate.clear()
        http = await stack.enter_async_context(aiohttp.ClientSession(headers={"authorization": f"Bearer {token}"}))
        answering = asyncio.create_task(http.post(f"{here.url}/llm/openai/v1/chat/completions", json=CHAT))
        await model.wait_for_requests(1)
        async with asyncio.timeout(KNOWN_SECONDS):
            await turn(store)
        await here.kill9()
        await asyncio.gather(answering, return_exceptions=True)
        await there.call("PATCH", "/banks/team", {"policy": {"sleeptime": {"idle_seconds": 0}}})
        async with asyncio.timeout(60):
            while not (found := (await there.call("GET", "/banks/team/passes"))["passes"]):
                await asyncio.sleep(0.2)
        assert found[0]["trigger"] == "idle"
