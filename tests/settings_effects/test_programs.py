"""Programs, functions and receivers that a server starts or calls: what they are given, and for how long."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web

from circadia.clock import SystemClock
from circadia.wake.launchers.base import Launch
from tests.fixtures.leap_clock import LeapClock
from tests.fixtures.ports import deaf
from tests.interaction.live import Live, live
from tests.interaction.test_wakes import SECRET, until
from tests.server.test_programs import MCP_PROGRAM
from tests.wake.launchers.webhook_bench import serving

ENDED = ("succeeded", "failed", "timed_out", "cancelled", "interrupted")
SECRETS = {"CITY": "Porto", "HOOK": SECRET}


@asynccontextmanager
async def launching(folder: Path, launcher: dict[str, Any]) -> AsyncGenerator[Live]:
    """Run a server whose agent `bob` has this launcher."""
    agents = {"bob": {"coordination": {"launcher": "own", "heartbeat_minutes": None}}}
    async with live(folder / "data", agents=agents, launchers={"own": launcher}, environment=SECRETS) as at:
        yield at


async def pulsed(at: Live) -> str:
    """Begin a pulse of bob's, and return its id."""
    status, told = await at.rest("POST", "/agents/bob/pulses", {})
    assert status in (200, 201, 202), told
    return told["pulse"]


async def cancelled(at: Live, gone: Callable[[], bool]) -> float:
    """Begin a pulse and cancel it; return the seconds until what it has begun is gone."""
    pulse = await pulsed(at)
    await until(at, pulse, "running")
    await asyncio.sleep(0.5)  # until it is at work
    clock = SystemClock()
    began = clock.monotonic()
    assert (await at.rest("POST", f"/pulses/{pulse}/cancel", {}))[0] in (200, 202)
    async with asyncio.timeout(30):
        while not gone():
            await asyncio.sleep(0.02)
    return clock.monotonic() - began


@pytest.mark.setting(
    "launchers.subprocess.kind", "launchers.subprocess.command", "launchers.subprocess.cwd",
    "launchers.subprocess.env", "launchers.subprocess.env_from", "launchers.subprocess.prompt",
)  # fmt: skip
async def test_a_program_gets_its_folder_its_environment_and_its_prompt(tmp_path: Path) -> None:
    script = 'echo "$COLOUR $CITY $PWD"; head -c 11 "$CIRCADIA_PROMPT_FILE"'
    launcher = {
        "kind": "subprocess", "command": ["sh", "-c", script], "cwd": str(tmp_path), "env": {"COLOUR": "red"},
        "env_from": ["CITY"], "prompt": "file",
    }  # fmt: skip
    async with launching(tmp_path, launcher) as at:
        pulse = await until(at, await pulsed(at), *ENDED)
    assert pulse["status"] == "succeeded"
    assert f"red Porto {tmp_path}\nYou are bob" in pulse["detail"]


@pytest.mark.setting("launchers.subprocess.grace_seconds")
async def test_a_program_that_does_not_stop_is_killed_after_its_grace(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; trap '' TERM; while :; do sleep 0.1; done"
    launcher = {"kind": "subprocess", "command": ["sh", "-c", script], "grace_seconds": 0.5}

    def gone() -> bool:
        return not psutil.pid_exists(int((tmp_path / "pid").read_text()))

    async with launching(tmp_path, launcher) as at:
        assert 0.5 <= await cancelled(at, gone) < 8, "10 by default"


async def greets(launch: Launch) -> str:
    return f"{launch.prompt[:11]}, well done"


ENDS: list[str] = []
"""What the function below has heard of its end."""


async def lingers(launch: Launch) -> None:
    """Stay after the polite end until the forced one."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        ENDS.append("polite")
        try:
            await asyncio.sleep(60)
        finally:
            ENDS.append("forced")


@pytest.mark.setting("launchers.callable.kind", "launchers.callable.function", "launchers.callable.grace_seconds")
async def test_a_function_is_called_and_waited_for_as_long_as_its_grace(tmp_path: Path) -> None:
    async with launching(tmp_path, {"kind": "callable", "function": f"{__name__}:greets"}) as at:
        assert (await until(at, await pulsed(at), *ENDED))["detail"] == "You are bob, well done"
    function = {"kind": "callable", "function": f"{__name__}:lingers", "grace_seconds": 0.5}
    ENDS.clear()
    (tmp_path / "more").mkdir()
    async with launching(tmp_path / "more", function) as at:
        assert 0.5 <= await cancelled(at, lambda: ENDS == ["polite", "forced"]) < 8, "10 by default"


@asynccontextmanager
async def receiving(folder: Path, answers: list[int | None], **more: Any) -> AsyncGenerator[tuple[Live, list[str]]]:
    """Run a server and a receiver, which answers with these statuses in turn, or never; yield what it was sent."""
    sent: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        sent.append(json.loads(await request.read())["type"])
        status = answers.pop(0) if answers else 200
        try:
            while status is None and request.transport is not None and not request.transport.is_closing():
                await asyncio.sleep(0.02)
        finally:
            sent.extend(["left"] * (status is None))
        return web.Response(status=status or 200, headers={"retry-after": "1"} if status == 503 else {})

    async with serving(handle) as url:
        hook = {"kind": "webhook", "url": url, "secret_env": "HOOK", "allowed_networks": ["127.0.0.0/8"], **more}
        async with launching(folder, hook) as at:
            yield at, sent


@pytest.mark.setting(
    "launchers.webhook.kind", "launchers.webhook.url", "launchers.webhook.secret_env",
    "launchers.webhook.allowed_networks", "launchers.webhook.retries", "launchers.webhook.retry_max_seconds",
)  # fmt: skip
@pytest.mark.parametrize(
    ("more", "status", "requests"),
    [
        ({}, "succeeded", 2), ({"retries": 0}, "failed", 1), ({"retry_max_seconds": 0.5}, "failed", 1),
        ({"allowed_networks": ["10.0.0.0/8"]}, "failed", 0),
    ],
)  # fmt: skip
async def test_a_busy_receiver_is_asked_again_as_often_and_after_as_long_as_the_file_says(
    tmp_path: Path, more: dict[str, Any], status: str, requests: int
) -> None:
    async with receiving(tmp_path, [503], **more) as (at, sent):
        found = await until(at, await pulsed(at), *ENDED)
    assert (found["status"], len(sent)) == (status, requests)


@pytest.mark.setting("launchers.webhook.answer_timeout_seconds")
async def test_an_answer_of_a_receiver_is_waited_for_as_long_as_the_file_says(tmp_path: Path) -> None:
    async with receiving(tmp_path, [None], answer_timeout_seconds=0.3) as (at, _):
        async with asyncio.timeout(20):
            pulse = await until(at, await pulsed(at), *ENDED)
    assert pulse["status"] == "failed"


@pytest.mark.setting("launchers.webhook.grace_seconds")
async def test_a_receiver_that_is_asked_to_stop_is_waited_for_as_long_as_its_grace(tmp_path: Path) -> None:
    async with receiving(tmp_path, [None, None], grace_seconds=0.5) as (at, sent):
        assert 0.4 <= await cancelled(at, lambda: sent.count("left") == 2) < 8, "10 by default"


@pytest.mark.setting("launchers.webhook.connect_timeout_seconds")
async def test_a_receiver_that_cannot_be_reached_is_given_up_as_soon_as_the_file_says(tmp_path: Path) -> None:
    with deaf("127.0.0.1") as port:
        hook = {
            "kind": "webhook", "url": f"http://127.0.0.1:{port}", "secret_env": "HOOK", "retries": 0,
            "allowed_networks": ["127.0.0.0/8"], "connect_timeout_seconds": 0.3,
        }  # fmt: skip
        async with launching(tmp_path, hook) as at:
            clock = SystemClock()
            pulse, began = await pulsed(at), clock.monotonic()
            found = await until(at, pulse, *ENDED)
            assert clock.monotonic() - began < 8, "10 by default"
            assert found["status"] == "failed"


async def tool(at: Live, token: str, server: str) -> list[str]:
    """Call the only tool of the MCP server, and return its words."""
    message: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "look", "arguments": {}},
    }
    async with at.tool(token, message, server=f"/{server}") as response:
        text = await response.text()
    return json.loads(text[text.index("{") :])["result"]["content"][0]["text"].split()


@pytest.mark.setting(
    "mcp_servers.command", "mcp_servers.cwd", "mcp_servers.env", "mcp_servers.env_from", "mcp_servers.per_agent",
    "mcp_servers.idle_seconds", "defaults.mcp_servers",
)  # fmt: skip
async def test_a_stdio_server_gets_its_folder_and_environment_and_is_shared_and_kept_as_the_file_says(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    program = MCP_PROGRAM.replace("LOOK", 'echo "$COLOUR $CITY $PWD $$"')
    base = {"command": ["sh", "-c", program], "cwd": str(folder), "env": {"COLOUR": "red"}, "env_from": ["CITY"]}
    servers = {"shared": base, "own": {**base, "per_agent": True}, "short": {**base, "idle_seconds": 30}}
    clock = LeapClock()
    agents = {"eve": {"token_env": "EVE", "mcp_servers": ["shared"]}}
    environment = {**SECRETS, "EVE": "token-of-agent-eve-in-the-tests-0123456789"}
    async with live(tmp_path / "data", clock=clock, mcp_servers=servers, environment=environment, agents=agents) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob")
        first = {name: await tool(at, ann, name) for name in servers}
        assert {tuple(words[:3]) for words in first.values()} == {("red", "Porto", os.path.realpath(folder))}
        assert (await tool(at, bob, "shared"))[3] == first["shared"][3]
        assert (await tool(at, bob, "own"))[3] != first["own"][3]
        for _ in range(8):
            clock.leap(10)
            await asyncio.sleep(0.1)
        assert (await tool(at, ann, "shared"))[3] == first["shared"][3]
        assert (await tool(at, ann, "short"))[3] != first["short"][3]
        async with at.tool(environment["EVE"], {"jsonrpc": "2.0", "id": 1, "method": "ping"}, server="/own") as refused:
            assert refused.status == 403


@pytest.mark.setting("mcp_servers.answer_timeout_seconds")
async def test_a_stdio_server_s_answer_is_waited_for_as_long_as_the_file_says(tmp_path: Path) -> None:
    program = MCP_PROGRAM.replace("LOOK", "sleep 60")
    servers = {"slow": {"command": ["sh", "-c", program], "answer_timeout_seconds": 0.5}}
    async with live(tmp_path, mcp_servers=servers) as at:
        token = await at.agent()
        message: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "look", "arguments": {}},
        }
        async with asyncio.timeout(20), at.tool(token, message, server="/slow") as response:
            assert "did not answer" in await response.text()
