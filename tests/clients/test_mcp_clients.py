"""Official MCP clients of both eras are held and released, and notice nothing."""

import asyncio
import json

import pytest

from tests.clients.conftest import Stage
from tests.clients.mcp_clients import McpClient, impatient_clients, mcp_clients
from tests.clients.node_program import NodeFailed

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE_MILLISECONDS = 1000
PAST_PATIENCE_SECONDS = 2.5
CLIENTS = [pytest.param(client, id=client.name) for client in mcp_clients()]
SERVERS = [pytest.param("/mcp/tools", id="http"), pytest.param("/mcp/child", id="stdio")]


def by_name(clients: list[McpClient]) -> list[object]:
    return [pytest.param(client, id=client.name) for client in clients]


@pytest.mark.spec("GATE-40", "GATE-52", "GATE-74")
@pytest.mark.parametrize("progress", [True, False], ids=["progress", "plain"])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_held_tool_call_gets_its_answer(client: McpClient, server: str, progress: bool, stage: Stage) -> None:
    agent = await stage.agent(asleep=True)
    url = stage.server.url + server
    asked = asyncio.create_task(client.call(url, agent.token, "echo", {"text": "hello"}, progress))
    hold = await agent.held_long()
    assert hold["door"] == "mcp"
    assert stage.tools.calls == []
    await agent.wake()
    answer = await asked
    assert (answer.text, answer.is_error) == ("hello", False)
    assert len(stage.tools.calls) == (1 if server == "/mcp/tools" else 0)
    assert bool(answer.steps) == progress
    assert answer.steps == sorted(set(answer.steps)), "progress must grow with each notification"


@pytest.mark.spec("GATE-52", "GATE-74")
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_json_answer_that_comes_after_the_stream_was_opened_arrives_in_it(
    client: McpClient, stage: Stage
) -> None:
    agent = await stage.agent(asleep=True)
    url = f"{stage.server.url}/mcp/json"
    asked = asyncio.create_task(client.call(url, agent.token, "echo", {"text": "hello"}, True))
    await agent.held_long()
    await agent.wake()
    answer = await asked
    assert answer.text == "hello"
    assert answer.steps
    assert len(stage.json_tools.calls) == 1


@pytest.mark.spec("GATE-40", "GATE-52")
@pytest.mark.parametrize("progress", [True, False], ids=["progress", "plain"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_held_call_of_circadias_own_tool_gets_its_answer(
    client: McpClient, progress: bool, stage: Stage
) -> None:
    agent = await stage.agent(asleep=True)
    asked = asyncio.create_task(client.call(f"{stage.server.url}/mcp", agent.token, "list_agents", {}, progress))
    await agent.held_long()
    await agent.wake()
    answer = await asked
    assert not answer.is_error
    assert "worker" in answer.text
    assert bool(answer.steps) == progress


@pytest.mark.spec("GATE-52", "GATE-61")
@pytest.mark.parametrize("client", CLIENTS)
async def test_the_tools_own_progress_arrives_after_the_hold(client: McpClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=True)
    url = f"{stage.server.url}/mcp/tools"
    asked = asyncio.create_task(client.call(url, agent.token, "slow", {"seconds": 0.1}, True))
    await agent.held_long()
    await agent.wake()
    answer = await asked
    assert answer.text == "took 0.1 seconds"
    assert answer.steps[-1] == 5


@pytest.mark.spec("GATE-52")
@pytest.mark.parametrize("server", ["/mcp", "/mcp/tools", "/mcp/child"])
@pytest.mark.parametrize("client", by_name(impatient_clients(PATIENCE_MILLISECONDS, reset=True)))
async def test_progress_keeps_an_impatient_client_alive(client: McpClient, server: str, stage: Stage) -> None:
    agent = await stage.agent(asleep=True)
    tool, arguments = ("list_agents", {}) if server == "/mcp" else ("echo", {"text": "hello"})
    asked = asyncio.create_task(client.call(stage.server.url + server, agent.token, tool, arguments, True))
    await agent.held(seconds=PAST_PATIENCE_SECONDS)
    await agent.wake()
    answer = await asked
    assert not answer.is_error
    assert len(answer.steps) >= 2


@pytest.mark.spec("GATE-47")
@pytest.mark.parametrize("server", ["/mcp", "/mcp/tools", "/mcp/child"])
@pytest.mark.parametrize("client", by_name(impatient_clients(PATIENCE_MILLISECONDS, reset=False)))
async def test_a_client_that_gives_up_is_dropped_and_its_call_never_runs(
    client: McpClient, server: str, stage: Stage
) -> None:
    agent = await stage.agent(asleep=True)
    tool, arguments = ("list_agents", {}) if server == "/mcp" else ("echo", {"text": "hello"})
    asked = asyncio.create_task(client.call(stage.server.url + server, agent.token, tool, arguments, False))
    await agent.held()
    with pytest.raises(NodeFailed, match="timed out"):
        await asked
    await stage.server.held(0)
    await agent.wake()
    assert stage.tools.calls == []


@pytest.mark.spec("GATE-74")
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_child_that_crashes_fails_its_call_and_serves_the_next(client: McpClient, stage: Stage) -> None:
    agent = await stage.agent(asleep=False)
    url = f"{stage.server.url}/mcp/child"
    with pytest.raises(Exception, match=r"(?i)child|ended|closed|died|crash|stopped"):
        await client.call(url, agent.token, "crash", {}, False)
    answer = await client.call(url, agent.token, "add", {"a": 1, "b": 2}, False)
    assert answer.text == "3.0"


@pytest.mark.spec("GATE-75")
async def test_each_agent_has_a_child_of_its_own_where_the_server_is_configured_so(stage: Stage) -> None:
    client = mcp_clients()[0]
    url = f"{stage.server.url}/mcp/own_child"
    one, other = await stage.agent(asleep=False), await stage.agent(asleep=False)
    asked = [(one, "PROVIDER_KEY"), (one, "PATH"), (other, "PATH")]
    told = [
        json.loads((await client.call(url, agent.token, "whoami_env", {"names": [name]}, False)).text)
        for agent, name in asked
    ]
    assert told[0]["pid"] == told[1]["pid"] != told[2]["pid"]
    assert "PROVIDER_KEY" not in told[0], "a child gets no variable that the configuration does not name"
    assert "PATH" in told[1]
