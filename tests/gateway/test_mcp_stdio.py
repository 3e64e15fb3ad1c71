"""Stdio servers behind the gateway: both eras, one child or one per agent, and children that go wrong."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from starlette.types import Receive, Scope, Send

from circadia.clock import Clock, SystemClock
from circadia.errors import ConfigError
from circadia.gateway.mcp.stdio import StdioServers
from circadia.ids import AgentId, SessionId
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.settings import McpServerSettings
from tests.fixtures.leap import Leap
from tests.fixtures.listening import listening
from tests.gateway.stdio_server import ODD_TOOLS, TOOLS
from tests.mcp_server.manual_clock import ManualClock
from tests.mcp_server.stand import ERAS

SERVER = [sys.executable, str(Path(__file__).with_name("stdio_server.py"))]
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "KEY": "key-of-the-child-1", "OTHER": "other-secret"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def principal(name: str) -> Principal:
    agent = Agent(
        id=AgentId(f"agt_{name}"), session_id=SessionId("ses_1"), session="default", name=name, token_hash=name,
        since=NOW, created_at=NOW,
    )  # fmt: skip
    return Principal(agent=agent)


@dataclass
class StdioServerPort:
    """A stdio server on a port, behind a stand-in door that takes the token for the agent's name."""

    url: str
    calls: set[asyncio.Task[None]]

    @asynccontextmanager
    async def client(self, era: str = "legacy", name: str = "ann") -> AsyncGenerator[Client]:
        headers = {"authorization": name}
        async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False, verify=False) as http:
            async with Client(streamable_http_client(self.url, http_client=http), mode=era) as client:
                yield client

    async def post(self, method: str, *, version: str = "2025-11-25", **params: object) -> dict[str, Any]:
        """Send one request by itself and return the JSON-RPC answer."""
        headers = {"authorization": "ann", "accept": "application/json", "mcp-protocol-version": version}
        if version == "2026-07-28":
            headers |= {"mcp-method": method, "mcp-name": str(params.get("name", ""))}
            spoken = {"protocolVersion": version, "clientInfo": {"name": "t", "version": "1"}, "clientCapabilities": {}}
            params["_meta"] = {f"io.modelcontextprotocol/{key}": value for key, value in spoken.items()}
        body: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with httpx2.AsyncClient(timeout=60, trust_env=False, verify=False) as http:
            return (await http.post(self.url, json=body, headers=headers)).json()


@asynccontextmanager
async def at(
    *flags: str, environment: Mapping[str, str] = ENVIRONMENT, clock: Clock | None = None, **settings: Any
) -> AsyncGenerator[StdioServerPort]:
    given = McpServerSettings.model_validate({"command": [*SERVER, *flags], **settings})
    servers = StdioServers({"small": given}, environment, clock or SystemClock())
    app = servers.servers["small"]
    calls: set[asyncio.Task[None]] = set()

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        calls.add(task)
        name = dict(scope["headers"])[b"authorization"].decode()
        try:
            await app({**scope, "circadia.principal": principal(name), "circadia.sent": []}, receive, send)
        finally:
            calls.discard(task)

    async with servers.run(), listening(door) as url:
        yield StdioServerPort(f"{url}/mcp/small", calls)


def text(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


async def pid(client: Client) -> int:
    return json.loads(text(await client.call_tool("pid")))["pid"]


async def hung(client: Client, folder: Path, tool: str = "hang") -> asyncio.Task[CallToolResult]:
    """Return a call that has reached the child and is never answered."""
    asking = asyncio.create_task(client.call_tool(tool, {"mark": str(folder / "mark")}))
    await appeared(folder / "mark")
    return asking


async def appeared(path: Path) -> None:
    """Return once the file is there."""
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.01)


async def ended(*pids: int) -> None:
    """Return once none of the processes runs."""
    async with asyncio.timeout(60):
        while any(map(alive, pids)):
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Return whether the process runs; one that nobody has waited for yet is dead."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.spec("GATE-74")
async def test_a_child_serves_clients_of_both_eras_with_what_it_offers(era: str) -> None:
    async with at() as here, here.client(era) as client:
        if era != "2026-07-28":  # which is adopted without asking
            assert client.server_capabilities.tools is not None
            assert client.server_capabilities.resources is not None
            assert client.server_capabilities.prompts is None
            assert client.server_capabilities.logging is None
            assert client.instructions == "be small"
        assert "echo" in [tool.name for tool in (await client.list_tools()).tools]
        assert text(await client.call_tool("echo", {"text": "hello"})) == "hello"
        assert (await client.call_tool("fail")).is_error is True
        assert [each.uri for each in (await client.list_resources()).resources] == ["small://one"]
        contents = (await client.read_resource("small://one")).contents
        assert [getattr(each, "text", "") for each in contents] == ["the one"]


@pytest.mark.spec("GATE-74")
async def test_what_a_child_does_not_have_is_not_offered_and_its_errors_come_as_it_tells_them() -> None:
    async with at("--no-resources") as here, here.client("legacy") as client:
        assert client.server_capabilities.resources is None
        with pytest.raises(MCPError, match="small does not know resources/list") as told:
            await client.list_resources()
        assert told.value.code == -32601


@pytest.mark.spec("GATE-74")
async def test_a_child_made_with_the_official_sdk_is_served_whole() -> None:
    command = [sys.executable, "-m", "circadia.testing.mcp_upstream", "--stdio"]
    async with at(command=command) as here:
        for era in ERAS:
            async with here.client(era) as client:
                assert text(await client.call_tool("echo", {"text": "hello"})) == "hello"
                assert (await client.list_prompts()).prompts[0].name == "greet"
                prompt = await client.get_prompt("greet", {"name": "ann"})
                assert "ann" in str(prompt.messages)


@pytest.mark.spec("GATE-75")
async def test_one_child_is_shared_by_all_agents() -> None:
    async with at() as here, here.client(name="ann") as ann, here.client(name="bob") as bob:
        assert await pid(ann) == await pid(bob)


@pytest.mark.spec("GATE-75")
async def test_a_server_that_is_configured_so_has_a_child_per_agent() -> None:
    async with at(per_agent=True) as here, here.client(name="ann") as ann, here.client(name="bob") as bob:
        first, other = await pid(ann), await pid(bob)
        assert first != other
        with pytest.raises(MCPError):
            await bob.call_tool("crash")
        assert await pid(ann) == first
        async with here.client(name="ann") as again:
            assert await pid(again) == first


@pytest.mark.spec("GATE-74")
async def test_a_child_gets_path_home_and_what_it_was_given_and_nothing_else_of_the_environment() -> None:
    os.environ["CIRCADIA_TEST_SECRET"] = "not for children"
    try:
        async with at(env={"LEVEL": "3"}, env_from=["KEY"]) as here, here.client() as client:
            seen = json.loads(text(await client.call_tool("env")))
    finally:
        del os.environ["CIRCADIA_TEST_SECRET"]
    added = {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"}  # by the interpreter itself
    assert {key: value for key, value in seen.items() if key not in added} == {
        "PATH": ENVIRONMENT["PATH"], "HOME": "/nowhere", "LEVEL": "3", "KEY": "key-of-the-child-1",
    }  # fmt: skip


def test_a_variable_that_is_not_set_is_an_error_of_the_configuration() -> None:
    settings = McpServerSettings.model_validate({"command": SERVER, "env_from": ["MISSING"]})
    with pytest.raises(ConfigError, match=r"mcp_servers\.small\.env_from: .*'MISSING'"):
        StdioServers({"small": settings}, ENVIRONMENT, SystemClock())


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.spec("GATE-74")
async def test_a_crash_is_an_error_for_all_calls_in_flight_and_the_next_call_finds_a_new_child(
    tmp_path: Path, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with at(env_from=["KEY"]) as here, here.client(era) as client, here.client(era) as other:
        first = await pid(client)
        hanging = await hung(other, tmp_path)
        for call in (client.call_tool("crash"), hanging):
            with pytest.raises(MCPError, match="ended with exit status 13") as told:
                await call
            assert told.value.code == -32052
        assert await pid(client) != first
    last_words = next(record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert "goodbye, my key is [redacted]" in last_words


@pytest.mark.spec("GATE-74")
async def test_a_child_that_was_killed_from_outside_is_started_again(tmp_path: Path) -> None:
    async with at() as here, here.client() as client:
        first = await pid(client)
        hanging = await hung(client, tmp_path)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(MCPError, match="exit status -9"):
            await hanging
        assert await pid(client) != first


@pytest.mark.spec("GATE-74")
async def test_a_child_that_crashes_again_and_again_is_started_later_and_later() -> None:
    clock = ManualClock()
    async with at("--die", clock=clock) as here:
        for pause in (0.0, 0.5, 1.0, 2.0, 4.0):
            if pause:
                refused = (await here.post("tools/list"))["error"]
                assert f"not be restarted for {pause:.1f} s" in refused["message"]
            clock.advance(pause)
            for _ in range(1 if pause else 2):
                ended = (await here.post("tools/list"))["error"]
                assert "ended with exit status 3" in ended["message"]


@pytest.mark.spec("GATE-74")
async def test_a_call_that_is_not_answered_in_time_is_an_error_and_leaves_the_child_to_the_others(
    tmp_path: Path, leap: Leap
) -> None:
    async with at(answer_timeout_seconds=30) as here, here.client() as client:
        first = await pid(client)
        asking = await hung(client, tmp_path)
        leap(30)
        with pytest.raises(MCPError, match="did not answer 'tools/call' in 30 s"):
            await asking
        seen = json.loads(text(await client.call_tool("pid")))
        assert seen["pid"] == first
        assert len(seen["cancelled"]) == 1, "the child is told that nobody waits any more"


@pytest.mark.spec("GATE-74")
async def test_a_child_that_answers_nothing_any_more_is_replaced(tmp_path: Path, leap: Leap) -> None:
    async with at(answer_timeout_seconds=30) as here, here.client() as client:
        first = await pid(client)
        asking = await hung(client, tmp_path, "stuck")
        leap(30)
        with pytest.raises(MCPError, match="did not answer"):
            await asking
        await ended(first)
        assert await pid(client) != first


@pytest.mark.spec("GATE-74")
async def test_a_child_that_never_shakes_hands_is_an_error_and_not_a_hang() -> None:
    async with at("--mute", answer_timeout_seconds=0.5) as here:
        assert "did not answer 'initialize' in 0.5 s" in (await here.post("tools/list"))["error"]["message"]


@pytest.mark.spec("GATE-74")
async def test_a_program_that_is_not_there_is_an_error_that_names_it() -> None:
    async with at(command=["/nowhere/server"]) as here:
        error = (await here.post("tools/list"))["error"]
        assert "'/nowhere/server': No such file" in error["message"]
        assert error["data"]["code"] == "upstream_failed"


@pytest.mark.spec("GATE-74")
async def test_noise_between_the_messages_and_long_lines_do_no_harm() -> None:
    async with at() as here, here.client() as client:
        assert text(await client.call_tool("noise", {"text": "x"})) == "x"
        assert len(text(await client.call_tool("long", {"length": 3_000_000}))) == 3_000_000


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.spec("GATE-74")
async def test_what_a_child_answers_comes_whole_whatever_the_protocol_knows_of_it(version: str) -> None:
    odd: list[dict[str, Any]] = [
        {"content": [{"type": "hologram", "data": "x"}]},
        {"structuredContent": {"rows": [1.5, None], "n": 12345678901234567890123}},
        {"content": [{"type": "text", "text": "hi", "shade": "red"}], "cost": 3, "_meta": {"own": None}},
        {"toolResult": "as it was in 2024"},
    ]
    async with at("--odd") as here:
        for result in odd:
            told = await here.post("tools/call", version=version, name="say", arguments={"result": result})
            own = {key: value for key, value in told["result"].items() if key not in ("resultType", "_meta")}
            assert own == {key: value for key, value in result.items() if key != "_meta"}
            assert told["result"].get("_meta", {}).items() >= result.get("_meta", {}).items()
        listed = (await here.post("tools/list", version=version))["result"]["tools"]
        assert listed[-2:] == ODD_TOOLS
        assert listed[:-2] == TOOLS


@pytest.mark.spec("GATE-74")
async def test_a_text_that_a_child_has_cut_within_a_character_is_an_answer_and_not_a_hang() -> None:
    async with at() as here, here.client() as client:
        assert text(await client.call_tool("half")) == "a thumb \ufffd, \U0001f44d whole, and tail \ufffd"


@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.spec("GATE-74")
async def test_progress_of_the_child_reaches_the_caller_before_the_answer(era: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with at() as here, here.client(era) as client:
        assert text(await client.call_tool("steps", {"text": "done"}, progress_callback=on_progress)) == "done"
    assert sorted(told) == [(0.0, 3.0, "step 0"), (1.0, 3.0, "step 1"), (2.0, 3.0, "step 2")]


@pytest.mark.parametrize("era", ERAS)
async def test_what_belongs_to_the_callers_own_connection_does_not_reach_the_child(era: str) -> None:
    async with at() as here, here.client(era) as client:
        seen = text(await client.call_tool("echo", {"text": "", "meta": True}, meta={"mine": 1}))
        assert json.loads(seen) == {"mine": 1}


@pytest.mark.spec("GATE-47", "GATE-74")
async def test_a_caller_that_goes_cancels_its_call_at_the_child(tmp_path: Path) -> None:
    async with at() as here, here.client() as client:
        await pid(client)
        mark = tmp_path / "mark"
        asking = asyncio.create_task(here.post("tools/call", name="hang", arguments={"mark": str(mark)}))
        await appeared(mark)
        for call in tuple(here.calls):
            call.cancel()  # as the door does
        await asyncio.gather(asking, return_exceptions=True)
        seen = json.loads(text(await client.call_tool("pid")))
        assert len(seen["cancelled"]) == 1


@pytest.mark.spec("GATE-74")
async def test_an_idle_child_is_stopped_and_started_at_the_next_call() -> None:
    clock = ManualClock()
    async with at(clock=clock, idle_seconds=100) as here, here.client() as client:
        first = await pid(client)
        await clock.sleepers(1)
        clock.advance(99)
        assert await pid(client) == first
        await clock.sleepers(1)
        clock.advance(101)
        await ended(first)
        assert await pid(client) != first


@pytest.mark.parametrize("flags", [(), ("--stays",)])
@pytest.mark.spec("GATE-74")
async def test_the_end_of_the_server_ends_each_child_and_all_that_it_started(flags: tuple[str, ...]) -> None:
    async with at(*flags) as here, here.client() as client:
        child = await pid(client)
        grandchild = int(text(await client.call_tool("spawn")))
        assert psutil.pid_exists(grandchild)
    await ended(child, grandchild)


@pytest.mark.spec("GATE-74")
async def test_a_crash_takes_along_what_the_child_had_started() -> None:
    async with at() as here, here.client() as client:
        grandchild = int(text(await client.call_tool("spawn")))
        with pytest.raises(MCPError, match="ended"):
            await client.call_tool("crash")
        await ended(grandchild)
