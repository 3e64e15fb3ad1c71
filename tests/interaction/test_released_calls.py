"""A crowd of held calls that is woken: sent in the order in which it came, and only while its agent is awake."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.interaction.live import CHAT, Live, live
from tests.interaction.test_mcp_door import call, messages


def body(number: int, *, streamed: bool = False) -> dict[str, Any]:
    return {**CHAT, "messages": [{"role": "user", "content": f"call {number}"}], "stream": streamed}


def numbers(at: Live) -> list[int]:
    """Return which calls the provider got, in the order in which it got them."""
    bodies = [json.loads(each.body) for each in at.upstream.requests]
    return [int(each["messages"][0]["content"].split()[1]) for each in bodies]


@asynccontextmanager
async def crowd(at: Live, token: str, count: int, *, streamed: bool = False) -> AsyncGenerator[list[asyncio.Task[int]]]:
    """Have `count` calls held, each of which came before the next; yield what ends with their statuses."""

    async def one(number: int) -> int:
        headers = {"authorization": f"Bearer {token}"}
        url = f"{at.url}/llm/openai/v1/chat/completions"
        async with http.post(url, json=body(number, streamed=streamed), headers=headers) as response:
            await response.read()
            return response.status

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        tasks: list[asyncio.Task[int]] = []
        for number in range(count):
            tasks.append(asyncio.create_task(one(number)))
            await until_held(at, len(tasks))
        yield tasks
        await asyncio.gather(*tasks)


async def until_held(at: Live, count: int) -> None:
    async with asyncio.timeout(60):
        while at.server.waiting() < 2 * count:  # each is held, and gets signs of life
            await asyncio.sleep(0)


@pytest.mark.spec("GATE-42")
@pytest.mark.parametrize("streamed", [False, True])
async def test_calls_that_are_held_are_sent_in_the_order_in_which_they_came(tmp_path: Path, streamed: bool) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        async with crowd(at, token, 200, streamed=streamed) as calls:
            await at.sleeping(False)
            assert set(await asyncio.gather(*calls)) == {200}
        assert numbers(at) == list(range(200))


@pytest.mark.spec("GATE-42", "GATE-45")
@pytest.mark.parametrize("count", [10, 100, 500])
async def test_an_agent_that_sleeps_again_keeps_the_calls_that_are_not_sent_yet(tmp_path: Path, count: int) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        async with crowd(at, token, count) as calls:
            for turns in (1, 3, 9, 27, 81, 243):
                await at.sleeping(False)
                for _ in range(turns):
                    await asyncio.sleep(0)
                await at.sleeping(True)
                held = (await at.rest("GET", "/holds"))[1]["holds"]
                # What is not held any more has been written to the provider by now, and nothing else comes there.
                async with asyncio.timeout(60):
                    while len(at.upstream.requests) < count - len(held):
                        await asyncio.sleep(0)
                await at.held(len(held))
                assert len(at.upstream.requests) == count - len(held)
            await at.sleeping(False)
            assert set(await asyncio.gather(*calls)) == {200}
        got = numbers(at)
        assert sorted(got) == list(range(count)), "each once, whatever happened on the way"
        # They are written in order, each to its own connection; a provider may read those of one instant otherwise.
        assert all(abs(number - place) <= 16 for place, number in enumerate(got))
        if count > 100:
            return  # more events than one page has
        kinds = [each["type"] for each in await at.events("held", "admitted", "dropped")]
        assert (kinds.count("held"), kinds.count("admitted"), kinds.count("dropped")) == (count, count, 0)


@pytest.mark.spec("GATE-42", "GATE-43")
async def test_tool_calls_that_are_held_take_effect_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob")
        _, thread = await at.rest(
            "POST", "/sessions/default/threads", {"name": "t", "participants": ["bob"]}, token=ann
        )
        await at.sleeping(True)
        said = [call("send_message", n, thread=thread["id"], content=f"message {n}") for n in range(40)]
        results = await released(at, ann, said)
        assert [each["result"].get("isError", False) for each in results] == [False] * 40
        _, seen = await at.rest("GET", f"/sessions/default/threads/{thread['id']}/messages", token=bob)
        assert [each["content"] for each in seen["messages"]] == [f"message {n}" for n in range(40)]


@pytest.mark.spec("GATE-42", "GATE-74")
async def test_calls_of_a_proxied_server_reach_it_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    got: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        number = (await request.json())["id"]
        got.append(number)
        return web.json_response({"jsonrpc": "2.0", "id": number, "result": {"content": []}})

    app = web.Application()
    app.router.add_post("/mcp", answer)
    async with TestServer(app) as far, live(tmp_path, mcp_servers={"tools": {"url": str(far.make_url("/mcp"))}}) as at:
        token = await at.agent(mcp_servers=["tools"])
        await at.sleeping(True)
        await released(at, token, [call("echo", n) for n in range(40)], server="/tools")
        assert got == list(range(40))


async def released(at: Live, token: str, calls: Sequence[object], *, server: str = "") -> list[dict[str, Any]]:
    """Have MCP calls held one after the other, wake the agent and return their answers."""

    async def one(message: object) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
        async with http.post(f"{at.url}/mcp{server}", json=message, headers=headers) as response:
            return messages(await response.text())[-1]

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        tasks: list[asyncio.Task[dict[str, Any]]] = []
        for message in calls:
            tasks.append(asyncio.create_task(one(message)))
            await until_held(at, len(tasks))
        await at.sleeping(False)
        async with asyncio.timeout(60):
            return await asyncio.gather(*tasks)


@pytest.mark.spec("GATE-80", "GATE-42")
async def test_who_is_admitted_is_written_between_the_wake_and_the_next_sleep(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        async with crowd(at, token, 100) as calls:
            for turns in (1, 4, 16, 64):
                await at.sleeping(False)
                for _ in range(turns):
                    await asyncio.sleep(0)
                await at.sleeping(True)
            await at.sleeping(False)
            assert set(await asyncio.gather(*calls)) == {200}
        await at.server.journal.flush()
        told = (await at.rest("GET", "/events?after=0&limit=1000"))[1]["events"]
        assert [each["type"] for each in told].count("admitted") == 100
        generation, asleep = 0, False
        for each in told:
            if each["type"] in ("sleep_start", "sleep_stop"):
                generation, asleep = each["data"]["generation"], each["type"] == "sleep_start"
            elif each["type"] == "admitted":
                assert (asleep, each["data"]["generation"]) == (False, generation)


@pytest.mark.spec("GATE-94", "GATE-64")
@pytest.mark.parametrize("was_held", [False, True])
async def test_a_call_whose_agent_sleeps_in_a_pause_before_a_repeat_is_held_as_the_same_call(
    tmp_path: Path, was_held: bool
) -> None:
    async with live(tmp_path, upstream={"retries": 2, "retry_max_seconds": 5}) as at:
        token = await at.agent(max_calls_per_day=10)
        at.upstream.next(status=503, headers={"retry-after": "1"})
        if was_held:
            await at.sleeping(True)
        first = asyncio.create_task(at.called(token, body(0)))
        known = [hold["id"] for hold in await at.held(1)] if was_held else []
        await at.sleeping(False)
        await at.upstream.wait_for_requests(1)
        await at.sleeping(True)
        second = asyncio.create_task(at.called(token, body(1)))
        held = await at.held(2)
        assert not known or known[0] in [hold["id"] for hold in held]
        await at.sleeping(False)
        assert b"call 0" in await first
        assert b"call 1" in await second
        assert numbers(at) == [0, 0, 1], "it has kept its place"
        assert {each["key"]: each["calls"] for each in await at.usage()} == {"ann": 2}, "one line for a call"


@pytest.mark.spec("GATE-94")
async def test_a_crowd_shares_one_connection_in_order_and_without_pauses(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"max_connections": 1}) as at:
        token = await at.agent()
        await at.sleeping(True)
        async with crowd(at, token, 200) as calls:
            began = asyncio.get_running_loop().time()
            await at.sleeping(False)
            assert set(await asyncio.gather(*calls)) == {200}
            seconds = asyncio.get_running_loop().time() - began
        assert numbers(at) == list(range(200))
        assert seconds < 10, "none waits for its turn while another has the only connection"


@pytest.mark.spec("GATE-94", "GATE-74")
async def test_a_long_tool_of_a_proxied_server_holds_up_no_other_call(tmp_path: Path) -> None:
    got: list[int] = []
    all_there = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        number = (await request.json())["id"]
        got.append(number)
        if len(got) == 3:
            all_there.set()
        await all_there.wait()
        return web.json_response({"jsonrpc": "2.0", "id": number, "result": {"content": []}})

    app = web.Application()
    app.router.add_post("/mcp", answer)
    async with TestServer(app) as far, live(tmp_path, mcp_servers={"tools": {"url": str(far.make_url("/mcp"))}}) as at:
        token = await at.agent(mcp_servers=["tools"])
        await at.sleeping(True)
        began = asyncio.get_running_loop().time()
        await released(at, token, [call("long", n) for n in range(3)], server="/tools")
        assert asyncio.get_running_loop().time() - began < 2
        assert got == [0, 1, 2]
