"""Real processes killed, stopped and started: what was acknowledged is there, what was held was not executed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from circadia.testing.upstream import MockUpstream
from tests.fixtures.server_process import CircadiaProcess

CHAT = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}
HELD = 100
TIMINGS = {"hold_grace_seconds": 0.1, "hold_silent_seconds": 60}


def config(upstream: MockUpstream) -> dict[str, Any]:
    return {"upstreams": {"openai": {"base_url": upstream.base_url}}, "defaults": TIMINGS}


async def call(http: aiohttp.ClientSession, url: str, token: str, *, stream: bool = False) -> tuple[int, str]:
    headers = {"authorization": f"Bearer {token}"}
    body = {**CHAT, "stream": stream}
    async with http.post(f"{url}/llm/openai/v1/chat/completions", json=body, headers=headers) as response:
        return response.status, await response.text()


async def held(server: CircadiaProcess, count: int) -> None:
    async with asyncio.timeout(60):
        while len((await server.call("GET", "/holds"))["holds"]) != count:
            await asyncio.sleep(0.05)


@pytest.mark.spec("GATE-91", "GATE-05")
async def test_after_a_kill_the_agent_sleeps_on_nothing_was_executed_and_a_retry_is_held_again(tmp_path: Path) -> None:
    async with (
        MockUpstream() as upstream,
        CircadiaProcess(tmp_path, config(upstream)) as server,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
    ):
        agents = [{"name": "ann", "sleep_events": ["agent_started"], "wake_events": ["mentioned"]}, {"name": "bob"}]
        tokens = await server.create_session("team", agents)
        thread = await server.call("POST", "/sessions/team/threads", {"name": "t", "participants": ["ann", "bob"]})
        said: dict[str, Any] = {"from": "bob", "content": "no mention", "mentions": []}
        await server.call("POST", f"/sessions/team/threads/{thread['id']}/messages", said)
        calls = [asyncio.create_task(call(http, server.url, tokens["ann"])) for _ in range(HELD)]
        await held(server, HELD)
        await server.restart(kill=True)
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, aiohttp.ClientError)
        assert upstream.requests == []
        state = await server.call("GET", "/sessions/team/agents/ann/sleeping")
        assert (state["sleeping"], state["held"]) == (True, 0)
        messages = await server.call("GET", f"/sessions/team/threads/{thread['id']}/messages")
        assert [message["content"] for message in messages["messages"]] == ["no mention"]
        retry = asyncio.create_task(call(http, server.url, tokens["ann"]))
        await held(server, 1)
        said = {"from": "bob", "content": "now", "mentions": ["ann"]}
        await server.call("POST", f"/sessions/team/threads/{thread['id']}/messages", said)
        status, _ = await retry
        assert status == 200
        assert len(upstream.requests) == 1


@pytest.mark.spec("GATE-92")
async def test_a_wake_that_was_answered_just_before_a_kill_is_in_force_after_it(tmp_path: Path) -> None:
    async with (
        MockUpstream() as upstream,
        CircadiaProcess(tmp_path, config(upstream)) as server,
        aiohttp.ClientSession() as http,
    ):
        tokens = await server.create_session("team", [{"name": "ann", "sleep_events": ["agent_started"]}])
        for asleep in (False, True, False):
            await server.call("PUT", "/sessions/team/agents/ann/sleeping", {"sleeping": asleep})
            await server.restart(kill=True)
            state = await server.call("GET", "/sessions/team/agents/ann/sleeping")
            assert state["sleeping"] is asleep
        status, _ = await call(http, server.url, tokens["ann"])
        assert status == 200


@pytest.mark.spec("GATE-49")
async def test_sigterm_ends_a_hundred_held_calls_with_a_clear_error(tmp_path: Path) -> None:
    async with (
        MockUpstream() as upstream,
        CircadiaProcess(tmp_path, config(upstream)) as server,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
    ):
        tokens = await server.create_session("team", [{"name": "ann", "sleep_events": ["agent_started"]}])
        silent = [asyncio.create_task(call(http, server.url, tokens["ann"])) for _ in range(HELD // 2)]
        opened = [asyncio.create_task(call(http, server.url, tokens["ann"], stream=True)) for _ in range(HELD // 2)]
        await held(server, HELD)
        async with asyncio.timeout(60):
            while sum(h["phase"] == "opened" for h in (await server.call("GET", "/holds"))["holds"]) < HELD // 2:
                await asyncio.sleep(0.05)
        async with asyncio.timeout(15):
            await server.terminate()
            for status, text in await asyncio.gather(*silent):
                assert (status, json.loads(text)["error"]["code"]) == (503, "ended")
            for status, text in await asyncio.gather(*opened):
                assert status == 200
                assert "the server is stopping" in text
        assert upstream.requests == []
        await server.start()


@pytest.mark.spec("GATE-11", "GATE-21")
async def test_first_times_are_remembered_over_a_restart(tmp_path: Path) -> None:
    async with MockUpstream() as upstream, CircadiaProcess(tmp_path, config(upstream)) as server:
        agents = [
            {"name": "ever", "sleep_events": ["agent_started"], "wake_events": ["added_to_thread_first_time"]},
            {"name": "each", "sleep_events": ["agent_started"], "wake_events": ["first_time_in_thread"]},
        ]
        await server.create_session("team", agents)

        async def add(thread: str, name: str) -> bool:
            """Add the agent and return whether that woke it; put it to sleep again."""
            await server.call("POST", f"/sessions/team/threads/{thread}/participants", {"agent": name})
            state = await server.call("GET", f"/sessions/team/agents/{name}/sleeping")
            await server.call("PUT", f"/sessions/team/agents/{name}/sleeping", {"sleeping": True})
            await server.call("DELETE", f"/sessions/team/threads/{thread}/participants/{name}")
            await server.call("PUT", f"/sessions/team/agents/{name}/sleeping", {"sleeping": True})
            return not state["sleeping"]

        one = (await server.call("POST", "/sessions/team/threads", {"name": "one"}))["id"]
        two = (await server.call("POST", "/sessions/team/threads", {"name": "two"}))["id"]
        assert await add(one, "ever")
        assert await add(one, "each")
        await server.restart(kill=True)
        assert not await add(one, "ever")
        assert not await add(two, "ever")
        assert not await add(one, "each")
        assert await add(two, "each")


@pytest.mark.spec("GATE-62")
async def test_no_secret_is_in_the_log_whatever_fails(tmp_path: Path) -> None:
    key = "sk-provider-key-0123456789abcdef"
    async with MockUpstream(key=key) as upstream:
        given = {"upstreams": {"openai": {"base_url": upstream.base_url, "key_env": "KEY", "retries": 0}}}
        async with CircadiaProcess(tmp_path, given, env={"KEY": key}) as server, aiohttp.ClientSession() as http:
            tokens = await server.create_session("team", [{"name": "ann"}])
            upstream.next(reset=True)
            upstream.next(status=401, body={"error": {"message": f"wrong key {key}"}})
            for token in (tokens["ann"], tokens["ann"], "circadia-agent-guessed-by-somebody"):
                _, text = await call(http, server.url, token)
                assert key not in text
            await server.terminate()
            for secret in (key, tokens["ann"], "guessed-by-somebody", server.admin["Authorization"][7:]):
                assert secret not in server.log
            await server.start()


@pytest.mark.spec("WAKE-30")
async def test_a_short_snooze_is_as_long_over_a_restart(tmp_path: Path) -> None:
    async with CircadiaProcess(tmp_path) as server:
        await server.create_session("team", [{"name": "ann"}])
        body = {"to": "team:ann", "content": "later"}
        message = (await server.call("POST", "/messages", body))["message"]
        snoozed = await server.call("POST", f"/agents/team:ann/inbox/{message}/snooze", {"seconds": 60})
        await server.restart(kill=True)
        found = await server.call("GET", "/agents/team:ann/inbox?state=leased&state=unread")
        assert [(each["state"], each["until"]) for each in found["messages"]] == [("leased", snoozed["until"])]


@pytest.mark.spec("GATE-66")
async def test_a_kill_between_question_and_answer_gives_no_budget_back(tmp_path: Path) -> None:
    async with (
        MockUpstream() as upstream,
        CircadiaProcess(tmp_path, config(upstream)) as server,
        aiohttp.ClientSession() as http,
    ):
        agents = [
            {"name": "calls", "policy": {"max_calls_per_day": 1}},
            {"name": "tokens", "policy": {"max_tokens_per_day": 6_000}},
            {"name": "money", "policy": {"max_usd_per_day": 0.004}},
        ]
        tokens = await server.create_session("team", agents)
        upstream.gate.clear()
        lost = [asyncio.create_task(call(http, server.url, token)) for token in tokens.values()]
        await upstream.wait_for_requests(3)
        await server.restart(kill=True)
        upstream.gate.set()
        for result in await asyncio.gather(*lost, return_exceptions=True):
            assert isinstance(result, aiohttp.ClientError)
        assert [(await call(http, server.url, token))[0] for token in tokens.values()] == [429, 429, 429]
