"""MCP through a load balancer that knows nothing of sessions: each request reaches the other of two gateways."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult, ResourceListChangedNotification

from circadia.testing.mcp_upstream import MockMcpServer
from tests.cluster.balanced import Balanced, balanced_gateways
from tests.cluster.resumable_mcp_server import resumable_server
from tests.interaction.live import Live
from tests.interaction.test_mcp_door import VERSION, ask, call, session
from tests.mcp_server.stand import ERAS, structured, text

pytestmark = pytest.mark.spec("CLU-14")
CHILD: dict[str, Any] = {"command": [sys.executable, "-m", "circadia.testing.mcp_upstream", "--stdio"]}


def require_both(at: Balanced, method: str = "POST") -> None:
    """Check that requests of this method were answered by either gateway."""
    assert {gateway for used, gateway in at.answers if used == method} == {"0", "1"}, at.answers


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_of_own_tools_needs_no_gateway_of_its_own(tmp_path: Path, postgres_url: str, era: str) -> None:
    async with balanced_gateways(tmp_path, postgres_url) as at:
        ann, bob = await at.here.agent(), await at.here.agent("bob")
        async with at.open_client(ann, era=era) as talker, at.open_client(bob, era=era) as waiter:
            for client in (talker, waiter):
                assert {tool.name for tool in (await client.list_tools()).tools} >= {"wait_for_mention"}
                assert (await client.read_resource("circadia://state")).contents
            thread = structured(await talker.call_tool("create_thread", {"name": "t", "participants": ["bob"]}))
            for number in range(4):  # twice over either gateway
                waiting = asyncio.create_task(waiter.call_tool("wait_for_mention", {"timeout_seconds": 60}))
                await at.wait_for_holds(1)
                words = {"thread": thread["thread"]["id"], "content": str(number), "mentions": ["bob"]}
                structured(await talker.call_tool("send_message", words))
                heard = structured(await waiting)["messages"]
                assert [message["content"] for message in heard] == [str(number)]
        require_both(at)


@pytest.mark.parametrize("era", ERAS)
async def test_a_held_tool_call_goes_on_after_a_wake_at_the_other_gateway(
    tmp_path: Path, postgres_url: str, era: str
) -> None:
    async with balanced_gateways(tmp_path, postgres_url) as at:
        ann = await at.here.agent()
        async with at.open_client(ann, era=era) as client:
            for _ in range(2):
                await at.there.sleeping(True)
                calls: list[asyncio.Task[Any]] = []
                holds = 0, 0
                while not all(holds):  # a request of the client's own may come between
                    calls.append(asyncio.create_task(client.call_tool("list_agents", {})))
                    async with asyncio.timeout(60):
                        # One that is faster than the signal of the sleep is answered.
                        while sum(holds := await at.count_holds()) < sum(not each.done() for each in calls):
                            await asyncio.sleep(0.01)
                await at.here.sleeping(False)
                for answer in await asyncio.gather(*calls):
                    assert [agent["name"] for agent in structured(answer)["agents"]] == ["ann"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_proxied_server_with_sessions_sees_one_client_over_both_gateways(
    tmp_path: Path, postgres_url: str, era: str
) -> None:
    async with MockMcpServer() as tools:
        servers = {"echo": {"url": tools.url}}
        async with balanced_gateways(tmp_path, postgres_url, mcp_servers=servers) as at:
            async with at.open_client(await at.here.agent(), "/echo", era) as client:
                steps: list[float] = []

                async def note(progress: float, total: float | None, message: str | None) -> None:
                    steps.append(progress)

                for number in range(4):
                    assert text(await client.call_tool("echo", {"text": str(number)})) == str(number)
                    steps.clear()
                    await client.call_tool("slow", {"seconds": 0.01}, progress_callback=note)
                    assert steps == [0, 1, 2, 3, 4, 5]
            require_both(at)


async def test_streams_of_a_proxied_server_come_and_are_resumed_over_either_gateway(
    tmp_path: Path, postgres_url: str
) -> None:
    announced = asyncio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, ResourceListChangedNotification):
            announced.set()

    async def confirm(_: ClientRequestContext, __: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="decline")

    async with resumable_server() as url:
        servers = {"kept": {"url": url}}
        async with balanced_gateways(tmp_path, postgres_url, mcp_servers=servers) as at:
            opening = at.open_client(
                await at.here.agent(), "/kept", message_handler=on_message, elicitation_callback=confirm
            )
            async with opening as client:
                for _ in range(3):
                    announced.clear()
                    assert text(await client.call_tool("announce", {})) == "announced"
                    async with asyncio.timeout(60):
                        await announced.wait()
                    assert text(await client.call_tool("interrupted", {})) == "resumed"
                    assert text(await client.call_tool("confirm", {})) == "decline"
                sessions = {text(await client.call_tool("session", {})) for _ in range(2)}
                assert len(sessions) == 1, "the server sees one session"
            require_both(at)
            require_both(at, "GET")


async def cancel(at: Live, token: str, server: str, session_id: str, request_id: int) -> None:
    """Tell a gateway that a request of the session is cancelled."""
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}
    headers = {"mcp-session-id": session_id, "mcp-protocol-version": VERSION}
    async with at.tool(token, notice, server=server, headers=headers) as response:
        assert response.status == 202


@pytest.mark.parametrize("server", ["", "/echo", "/child"])
async def test_a_cancellation_reaches_the_call_that_the_other_gateway_holds(
    tmp_path: Path, postgres_url: str, server: str
) -> None:
    async with MockMcpServer() as tools:
        servers = {"echo": {"url": tools.url}, "child": CHILD}
        async with balanced_gateways(tmp_path, postgres_url, mcp_servers=servers) as at:
            ann = await at.here.agent()
            session_id, other_id = [await session(at.here, ann, server) for _ in range(2)]
            await at.here.sleeping(True)
            called = call("echo" if server else "list_agents", 7, **({"text": "x"} if server else {}))
            pending = asyncio.create_task(ask(at.here, ann, called, server, **{"mcp-session-id": session_id}))
            spared = asyncio.create_task(ask(at.here, ann, called, server, **{"mcp-session-id": other_id}))
            await at.here.held(2)
            await cancel(at.there, ann, server, session_id, 7)
            assert await pending == [], "MCP wants no response to what was cancelled"
            await at.here.held(1)
            await at.here.sleeping(False)
            assert "result" in (await spared)[-1], "a request of another session with this id goes on"
            assert len(tools.calls) == (1 if server == "/echo" else 0)


async def test_a_cancellation_ends_a_running_wait_at_the_other_gateway(tmp_path: Path, postgres_url: str) -> None:
    async with balanced_gateways(tmp_path, postgres_url) as at:
        ann, bob = await at.here.agent(), await at.here.agent("bob")
        session_id = await session(at.here, bob)
        waiting = asyncio.create_task(
            ask(at.here, bob, call("wait_for_mention", 7, timeout_seconds=3000), **{"mcp-session-id": session_id})
        )
        await at.wait_for_holds(1)
        await cancel(at.there, bob, "", session_id, 7)
        assert await waiting == []
        thread = (await ask(at.there, ann, call("create_thread", name="t", participants=["bob"])))[-1]["result"]
        where = thread["structuredContent"]["thread"]["id"]
        await ask(at.there, ann, call("send_message", thread=where, content="hi", mentions=["bob"]))
        heard = (await ask(at.there, bob, call("wait_for_mention", timeout_seconds=60)))[-1]["result"]
        assert [message["content"] for message in heard["structuredContent"]["messages"]] == ["hi"]


@pytest.mark.spec("GATE-75")
@pytest.mark.parametrize("per_agent", [False, True])
async def test_each_gateway_has_a_child_of_its_own_of_a_stdio_server(
    tmp_path: Path, postgres_url: str, per_agent: bool
) -> None:
    servers = {"child": {**CHILD, "per_agent": per_agent}}
    async with balanced_gateways(tmp_path, postgres_url, mcp_servers=servers) as at:
        tokens = [await at.here.agent(name) for name in ("ann", "bob")]
        processes: set[str] = set()
        for token in tokens:
            async with at.open_client(token, "/child") as client:
                for _ in range(4):
                    processes.add(json.loads(text(await client.call_tool("whoami_env", {})))["pid"])
        assert len(processes) == (4 if per_agent else 2)
        require_both(at)
