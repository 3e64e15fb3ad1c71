"""Held calls that an operator drops: they end for good, whatever their caller has seen, and their agent sleeps on."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.interaction.live import CHAT, Live, live
from tests.interaction.test_mcp_door import ask, call

pytestmark = pytest.mark.spec("GATE-49")

SILENT = {"hold_grace_seconds": 60, "hold_silent_seconds": 60}


async def drop(at: Live, hold: str) -> tuple[int, Any]:
    return await at.rest("POST", f"/holds/{hold}/drop")


async def drop_only_call(at: Live) -> dict[str, Any]:
    (hold,) = await at.held(1)
    status, dropped = await drop(at, hold["id"])
    assert status == 200, dropped
    assert (dropped["id"], dropped["reference"]) == (hold["id"], "ann")
    return dropped


async def test_a_dropped_call_is_not_repeated_and_its_agent_sleeps_on(tmp_path: Path) -> None:
    async with live(tmp_path, defaults=SILENT) as at:
        token = await at.agent()
        await at.sleeping(True)
        _, person = await at.rest("POST", "/tokens", {"name": "pat", "role": "operator"})

        async def wait() -> tuple[int, Any, Any]:
            async with at.call(token) as response:
                return response.status, response.headers.copy(), await response.json()

        pending = [asyncio.create_task(wait()) for _ in range(2)]
        (first, second) = await at.held(2)
        assert (await at.rest("POST", f"/holds/{first['id']}/drop", token=person["token"]))[0] == 200
        done, (other,) = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        status, headers, body = done.pop().result()
        assert (status, headers["x-should-retry"], headers["x-circadia-error"]) == (410, "false", "dropped")
        assert "retry-after" not in headers
        assert body["error"]["code"] == "dropped"
        assert "operator/pat has dropped this call" in body["error"]["message"]
        assert [each["id"] for each in await at.held(1)] == [second["id"]], "the other call of the agent is held"
        (event,) = await at.events("dropped")
        assert (event["agent"], event["data"]["hold"]) == ("ann", first["id"])
        assert (event["data"]["by"], event["data"]["reason"]) == ("operator/pat", "dropped")
        assert (await at.rest("GET", "/sessions/default/agents/ann/sleeping"))[1]["sleeping"] is True
        await at.sleeping(False)
        assert (await other)[0] == 200
        assert len(at.upstream.requests) == 1


async def test_a_call_that_is_not_held_here_is_not_found_and_nothing_happens(tmp_path: Path) -> None:
    async with live(tmp_path, defaults=SILENT) as at:
        token = await at.agent()
        await at.sleeping(True)
        pending = asyncio.create_task(at.answered(token))
        (hold,) = await at.held(1)
        await at.sleeping(False)
        assert (await pending)[0] == 200
        for name in (hold["id"], "hold_of_nobody"):
            status, problem = await drop(at, name)
            assert (status, problem["code"]) == (404, "not_found")
            assert "list the held calls again" in problem["detail"]


async def test_an_opened_stream_ends_with_the_error_of_its_provider(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        for upstream, path in (("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")):
            async with at.call(token, path, {**CHAT, "stream": True, "max_tokens": 9}, upstream=upstream) as response:
                assert response.status == 200
                await drop_only_call(at)
                text = await response.text()
            assert "has dropped this call" in json.loads(text[text.index("data: ") + 6 :])["error"]["message"]


async def test_an_opened_buffered_answer_ends_with_the_error_and_not_with_a_broken_connection(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        async with at.call(token) as response:
            assert response.status == 200
            await drop_only_call(at)
            assert json.loads(await response.read())["error"]["code"] == "dropped"


@pytest.mark.parametrize("grace", [60, 0.1])
async def test_a_tool_call_ends_with_a_json_rpc_error_that_is_not_retryable(tmp_path: Path, grace: float) -> None:
    async with live(tmp_path, defaults={"hold_grace_seconds": grace}) as at:
        token = await at.agent()
        await at.sleeping(True)
        for tool in ("list_agents", "wait_for_message"):
            pending = asyncio.create_task(ask(at, token, call(tool, 5)))
            assert (await drop_only_call(at))["what"] == f"tools/call {tool}"
            answer = (await pending)[-1]
            assert (answer["id"], answer["error"]["code"]) == (5, -32010)
            assert answer["error"]["data"] == {"code": "dropped", "retryable": False, "sleeping": False}


async def _openai_call(at: Live, token: str, stream: bool) -> object:
    async with openai.AsyncOpenAI(base_url=f"{at.url}/llm/openai/v1", api_key=token) as client:
        answer: Any = await client.chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": "hello"}], stream=stream
        )
        return [part async for part in answer] if stream else answer


async def _anthropic_call(at: Live, token: str, stream: bool) -> object:
    async with anthropic.AsyncAnthropic(base_url=f"{at.url}/llm/anthropic", api_key=token) as client:
        answer: Any = await client.messages.create(
            model="claude", max_tokens=9, messages=[{"role": "user", "content": "hello"}], stream=stream
        )
        return [part async for part in answer] if stream else answer


@pytest.mark.parametrize("stream", [False, True], ids=["buffered", "streamed"])
@pytest.mark.parametrize("timings", [SILENT, {}], ids=["silent", "opened"])
@pytest.mark.parametrize(
    ("make_call", "errors"), [(_openai_call, openai.APIError), (_anthropic_call, anthropic.APIError)]
)
async def test_the_sdks_of_the_providers_do_not_send_a_dropped_call_again(
    tmp_path: Path,
    make_call: Callable[[Live, str, bool], Awaitable[object]],
    errors: type[Exception],
    timings: dict[str, Any],
    stream: bool,
) -> None:
    async with live(tmp_path, defaults=timings) as at:
        token = await at.agent()
        await at.sleeping(True)
        pending = asyncio.ensure_future(make_call(at, token, stream))
        async with asyncio.timeout(60):
            while not timings and (await at.held(1))[0]["phase"] != "opened":
                await asyncio.sleep(0.01)
        await drop_only_call(at)
        if timings or stream:
            with pytest.raises(errors, match="has dropped this call"):
                await pending
        else:
            assert "has dropped this call" in str(await pending), "the error is all that the answer has"
        assert len(await at.events("held")) == 1
