"""The MCP doors as their callers see them: holds, signs of life, session ids, cancellation, proxied servers."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from circadia.gateway.mcp.messages import WAIT_TOOLS
from circadia.gateway.model_call import hold
from circadia.mcp_server.tools import GROUPS
from circadia.testing.mcp_upstream import MockMcpServer
from tests.fixtures.leap import Leap
from tests.gateway.wire.peer import answering, peer
from tests.interaction.live import Live, live

VERSION = "2025-11-25"
HELLO = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
CHILD = {"command": [sys.executable, "-m", "circadia.testing.mcp_upstream", "--stdio"]}


def call(name: str, number: int = 1, token: object = None, /, **arguments: object) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def messages(text: str) -> list[dict[str, Any]]:
    """Return the JSON-RPC messages of an SSE or JSON answer."""
    if text.lstrip().startswith("{"):
        return [json.loads(text)]
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


async def ask(at: Live, token: str, message: object, server: str = "", **headers: str) -> list[dict[str, Any]]:
    sent = {"mcp-protocol-version": VERSION, **headers}
    async with asyncio.timeout(60), at.tool(token, message, server=server, headers=sent) as response:
        return messages(await response.text())


async def session(at: Live, token: str, server: str = "") -> str:
    async with at.tool(token, HELLO, server=server) as response:
        assert response.status == 200
        await response.read()
        return response.headers["mcp-session-id"]


@pytest.mark.spec("GATE-40", "GATE-41", "GATE-43")
async def test_tool_calls_wait_while_lists_and_handshakes_pass(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        await session(at, token)
        assert (await ask(at, token, {"jsonrpc": "2.0", "id": 1, "method": "ping"}))[0]["result"] == {}
        assert (await ask(at, token, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))[0]["result"]["tools"]
        pending = asyncio.create_task(ask(at, token, call("list_agents", 3)))
        read = {"jsonrpc": "2.0", "id": 4, "method": "resources/read", "params": {"uri": "circadia://state"}}
        reading = asyncio.create_task(ask(at, token, read))
        holds = await at.held(2)
        assert {hold["what"] for hold in holds} == {"tools/call list_agents", "resources/read circadia://state"}
        await at.sleeping(False)
        seen = json.dumps((await pending)[-1]["result"])
        assert '"asleep": false' in seen, "what an admitted call sees includes the change that woke it"
        assert (await reading)[-1]["result"]["contents"]


@pytest.mark.setting("defaults.hold_lists")
@pytest.mark.spec("GATE-41")
async def test_the_strict_mode_holds_lists_too(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(hold_lists=True)
        await at.sleeping(True)
        pending = asyncio.create_task(ask(at, token, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
        await at.held(1)
        await at.sleeping(False)
        assert (await pending)[-1]["result"]["tools"]


@pytest.mark.spec("GATE-52")
async def test_a_held_call_gets_growing_progress_if_it_asked_for_it_and_else_comments(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        for progress in ("p-1", None):
            async with at.tool(token, call("list_agents", 1, progress)) as response:
                assert response.headers["content-type"].startswith("text/event-stream")
                beats = [await response.content.readuntil(b"\n\n") for _ in range(3)]
                await at.sleeping(False)
                text = await response.text()
            await at.sleeping(True)
            assert messages(text)[-1]["id"] == 1
            if progress is None:
                assert set(beats) == {b": keep-alive\n\n"}
                continue
            told = [messages(beat.decode())[0]["params"] for beat in beats]
            assert {each["progressToken"] for each in told} == {"p-1"}
            assert told[0]["progress"] < told[1]["progress"] < told[2]["progress"] < 0, "a tool's own may begin with 0"


@pytest.mark.spec("GATE-35")
async def test_a_client_that_looks_for_a_sign_in_by_oauth_finds_none(tmp_path: Path) -> None:
    """After a 401 it would try to register, and forget the token that it has."""
    async with live(tmp_path) as at:
        for what in ("protected-resource", "protected-resource/mcp", "authorization-server"):
            async with at.http.get(f"{at.url}/.well-known/oauth-{what}") as answer:
                assert (answer.status, "WWW-Authenticate" in answer.headers) == (404, False)


@pytest.mark.spec("GATE-35")
async def test_a_session_id_opens_nothing_for_another_token_or_another_server(tmp_path: Path) -> None:
    async with MockMcpServer() as tools, live(tmp_path, mcp_servers={"echo": {"url": tools.url}}) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob")
        own, proxied = await session(at, ann), await session(at, ann, "/echo")
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for token, given, server, status in (
            (ann, own, "", 200),
            (bob, own, "", 404),
            (ann, "made-up", "", 404),
            (ann, proxied, "/echo", 200),
            (bob, proxied, "/echo", 404),
            (ann, own, "/echo", 404),
        ):
            headers = {"mcp-session-id": given, "mcp-protocol-version": VERSION}
            async with at.tool(token, ping, server=server, headers=headers) as response:
                assert response.status == status, await response.text()


@pytest.mark.spec("GATE-74", "GATE-40")
async def test_a_proxied_server_answers_over_http_and_its_calls_are_held(tmp_path: Path) -> None:
    async with MockMcpServer() as tools, live(tmp_path, mcp_servers={"echo": {"url": tools.url}}) as at:
        token = await at.agent()
        given = await session(at, token, "/echo")
        headers = {"mcp-session-id": given}
        answer = await ask(at, token, call("echo", text="one"), "/echo", **headers)
        assert "one" in json.dumps(answer[-1]["result"])
        await at.sleeping(True)
        pending = asyncio.create_task(ask(at, token, call("echo", 2, text="two"), "/echo", **headers))
        await at.held(1)
        await at.sleeping(False)
        assert "two" in json.dumps((await pending)[-1]["result"])


@pytest.mark.spec("GATE-74")
async def test_a_proxied_server_that_is_away_is_a_clear_error_and_not_a_hang(tmp_path: Path) -> None:
    async with live(tmp_path, mcp_servers={"gone": {"url": "http://127.0.0.1:9/mcp"}}) as at:
        token = await at.agent()
        error = (await ask(at, token, call("echo"), "/gone"))[-1]["error"]
        assert "'gone' cannot be reached" in error["message"]


@pytest.mark.spec("GATE-75", "GATE-74")
async def test_a_stdio_server_is_reached_through_its_door_and_held_like_any(tmp_path: Path) -> None:
    servers = {"far": {"url": "http://127.0.0.1:9/mcp"}, "child": CHILD}
    async with live(tmp_path, mcp_servers=servers) as at:
        token = await at.agent()
        answer = await ask(at, token, call("echo", text="one"), "/child")
        assert "one" in json.dumps(answer[-1]["result"])
        await at.sleeping(True)
        pending = asyncio.create_task(ask(at, token, call("echo", 2, text="two"), "/child"))
        await at.held(1)
        await at.sleeping(False)
        assert "two" in json.dumps((await pending)[-1]["result"])


@pytest.mark.spec("GATE-47")
async def test_a_cancelled_call_is_dropped_and_never_runs(tmp_path: Path) -> None:
    async with MockMcpServer() as tools, live(tmp_path, mcp_servers={"echo": {"url": tools.url}}) as at:
        token = await at.agent()
        for server in ("", "/echo"):
            headers = {"mcp-session-id": await session(at, token, server)}
            await at.sleeping(True)
            name = "echo" if server else "list_agents"
            pending = asyncio.create_task(ask(at, token, call(name, 7), server, **headers))
            await at.held(1)
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            async with at.tool(token, cancel, server=server, headers=headers) as response:
                assert response.status == 202
            await at.held(0)
            assert await pending == [], "MCP wants no response to what was cancelled"
            await at.sleeping(False)
        assert [event["data"]["reason"] for event in await at.events("dropped")] == ["caller gone"] * 2


@pytest.mark.spec("GATE-47", "GATE-71")
async def test_a_waiting_caller_that_hangs_up_reads_nothing(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob")
        made = (await ask(at, ann, call("create_thread", name="t", participants=["bob"])))[-1]["result"]
        thread = made["structuredContent"]["thread"]["id"]
        waiting = asyncio.create_task(ask(at, bob, call("wait_for_mention", timeout_seconds=30)))
        async with asyncio.timeout(60):
            while not at.server.waiting():  # it must be through the gate before the gate is shut
                await asyncio.sleep(0.01)
        await at.sleeping(True, "bob")
        held = asyncio.create_task(ask(at, bob, call("wait_for_mention", timeout_seconds=30)))
        await at.held(1)
        for task in (waiting, held):
            task.cancel()
        await asyncio.gather(waiting, held, return_exceptions=True)
        await at.held(0)
        await ask(at, ann, call("send_message", thread=thread, content="hi bob", mentions=["bob"]))
        await at.sleeping(False, "bob")
        got = (await ask(at, bob, call("wait_for_mention", timeout_seconds=5)))[-1]["result"]["structuredContent"]
        assert [message["content"] for message in got["messages"]] == ["hi bob"]


@pytest.mark.spec("GATE-48")
async def test_the_longest_hold_ends_with_a_retryable_json_rpc_error(tmp_path: Path) -> None:
    for grace in (60, 0.1):
        async with live(tmp_path / str(grace), defaults={"hold_grace_seconds": grace}) as at:
            token = await at.agent(hold_max_seconds=0.3)
            await at.sleeping(True)
            error = (await ask(at, token, call("list_agents", 5)))[-1]
            assert error["id"] == 5
            assert error["error"]["data"]["sleeping"] is True
            assert error["error"]["data"]["retryable"] is True


@pytest.mark.setting("defaults.mcp_wait_answer_seconds")
@pytest.mark.spec("GATE-48")
async def test_own_wait_tools_can_answer_nothing_yet_and_no_other_tool_does(tmp_path: Path) -> None:
    assert {tool.name for tool in GROUPS["waits"]} == WAIT_TOOLS.keys()
    async with live(tmp_path, defaults={"mcp_wait_answer_seconds": 0.3}) as at:
        token = await at.agent()
        for asleep in (True, False):
            await at.sleeping(asleep)
            result = (await ask(at, token, call("wait_for_mention", timeout_seconds=3000)))[-1]["result"]
            assert result["structuredContent"] == {"messages": [], "timed_out": True}
            assert "again" in result["content"][0]["text"]
            result = (await ask(at, token, call("wait_for_event", name="e", timeout_seconds=3000)))[-1]["result"]
            assert result["structuredContent"] == {"event": None, "timed_out": True}
        await at.sleeping(True)
        pending = asyncio.create_task(ask(at, token, call("list_agents")))
        await at.held(1)
        await ask(at, token, call("wait_for_mention"))  # over before the other call is
        assert not pending.done()
        await at.sleeping(False)
        await pending


@pytest.mark.spec("GATE-42", "WAKE-81")
@pytest.mark.parametrize("wait", ["wait_for_mention", "wait_for_event"])
async def test_other_calls_pass_a_wait_that_was_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    monkeypatch.setattr(hold, "ORDER_SECONDS", 60.0)
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        arguments = {"name": "e"} if wait == "wait_for_event" else {}
        waiting = asyncio.create_task(ask(at, token, call(wait, timeout_seconds=3000, **arguments)))
        await at.held(1)
        listing = asyncio.create_task(ask(at, token, call("list_agents", 2)))
        await at.held(2)
        await at.sleeping(False)
        async with asyncio.timeout(30):
            await listing
            await ask(at, token, call("list_agents", 3))
        assert not waiting.done()
        waiting.cancel()


@pytest.mark.spec("GATE-48")
@pytest.mark.parametrize("asleep", [True, False])
@pytest.mark.parametrize("program", ["node", "undici", "Bun/1.2", "Deno/2.1"])
async def test_a_wait_of_a_javascript_client_is_answered_before_it_gives_up_at_60_seconds(
    tmp_path: Path, leap: Leap, program: str, asleep: bool
) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(asleep)
        wait = call("wait_for_mention", timeout_seconds=70)
        plain = at.tool(token, wait, headers={"mcp-protocol-version": VERSION, "user-agent": program})
        other = at.tool(token, {**wait, "id": 9}, headers={"mcp-protocol-version": VERSION})
        async with plain as first, other as second:  # both have begun to wait, and get signs of life
            reading = [asyncio.create_task(each.text()) for each in (first, second)]
            leap(54)
            await at.rest("GET", "/holds")
            assert not any(each.done() for each in reading)
            leap(1.5)
            result = messages(await reading[0])[-1]["result"]
            assert result["structuredContent"] == {"messages": [], "timed_out": True}
            assert not reading[1].done(), "who bears it waits for as long as it asked"
            reading[1].cancel()


@pytest.mark.spec("GATE-46")
async def test_over_the_limit_a_held_call_is_a_json_rpc_error(tmp_path: Path) -> None:
    async with live(tmp_path, limits={"max_holds_per_agent": 1}) as at:
        token = await at.agent()
        await at.sleeping(True)
        pending = asyncio.create_task(ask(at, token, call("list_agents")))
        await at.held(1)
        error = (await ask(at, token, call("list_agents", 2)))[-1]["error"]
        assert "1 held calls already" in error["message"]
        await at.sleeping(False)
        await pending


@pytest.mark.setting("limits.max_mcp_body_bytes")
@pytest.mark.spec("GATE-60", "GATE-07")
async def test_wrong_tokens_servers_grants_and_bodies_fail_at_once(tmp_path: Path) -> None:
    servers = {"child": CHILD}
    async with live(tmp_path, mcp_servers=servers, limits={"max_mcp_body_bytes": 100_000}) as at:
        token = await at.agent(mcp_servers=[])
        await at.sleeping(True)
        for given, server, body, status in (
            ("wrong", "", call("x"), 401),
            (token, "/child", call("x"), 403),
            (token, "/chld", call("x"), 404),
            (token, "", b"{", 400),
            (token, "", b'"text"', 400),
            (token, "", b"x" * 5_000_000, 413),
        ):
            async with asyncio.timeout(10), at.tool(given, body, server=server) as response:
                answer = await response.json()
                assert (response.status, bool(answer["error"]["message"])) == (status, True), answer
        async with at.tool(token, call("x"), server="/nowhere") as response:
            told = (await response.json())["error"]["message"]
        assert told == "no MCP server 'nowhere' in the configuration; there are 'child'"
        for method in ("GET", "PUT"):
            headers = {"authorization": f"Bearer {token}"}
            async with at.http.request(method, f"{at.url}/mcp", headers=headers) as response:
                assert response.status == 405


@pytest.mark.spec("GATE-40")
@pytest.mark.parametrize("number", [None, 1.5, True, {"a": 1}, [1]])
async def test_a_request_whose_id_is_none_is_refused_and_not_taken_for_a_notification(
    tmp_path: Path, number: object
) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        async with asyncio.timeout(60), at.tool(token, {**call("list_agents"), "id": number}) as response:
            assert response.status == 400
            assert "`id` of a request" in (await response.json())["error"]["message"]
        told = {"jsonrpc": "2.0", "id": None, "method": "notifications/initialized"}
        async with asyncio.timeout(60), at.tool(token, told) as response:
            assert response.status == 202


@pytest.mark.spec("GATE-62", "GATE-74")
@pytest.mark.parametrize("name", ["api-key", "x-goog-api-key"])
async def test_no_server_behind_gets_the_agents_token_by_another_name(tmp_path: Path, name: str) -> None:
    taken = answering(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
    async with peer(taken) as far:
        servers = {"far": {"url": f"http://127.0.0.1:{far.port}/mcp"}}
        async with live(tmp_path, mcp_servers=servers) as at:
            token = await at.agent()
            headers = {name: token, "x-other": "kept", "x-empty": ""}
            async with asyncio.timeout(60), at.tool(token, call("x"), server="/far", headers=headers) as response:
                assert response.status == 202
        assert b"x-other: kept" in far.heads[0].lower()
        assert b"x-empty:" in far.heads[0].lower()
        assert token.encode() not in far.heads[0]
