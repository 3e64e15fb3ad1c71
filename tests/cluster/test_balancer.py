"""Two gateways behind HAProxy as `deploy` configures it: what reaches whom while a gateway or PostgreSQL is away."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from circadia.testing.mcp_upstream import MockMcpServer
from tests.cluster.gateway_pair import Pair, two_gateways
from tests.durability.test_database_away import WAYS
from tests.fixtures.balancer import UNCHECKED
from tests.fixtures.postgres import PostgresServer
from tests.interaction.test_mcp_door import call
from tests.mcp_server.stand import ERAS
from tests.mcp_server.stand import text as text_of

OUTAGE_SECONDS: Final = 10.0
"""Far more than HAProxy needs to notice a gateway that is not ready, and less than the grace of 30 s."""
BROKEN: Final = 502
AGENT: Final = [{"name": "ann"}]


async def add_agent(pair: Pair) -> str:
    """Return the token of an awake agent that both gateways know."""
    token = (await pair.staying.create_session("team", AGENT))["ann"]
    for gateway in (pair.stopping, pair.staying):
        assert await ask_model(pair, token, url=gateway.url) == 200
    return token


async def read_status(pending: Any) -> int:
    async with pending as answer:
        await answer.read()
        return answer.status


async def ask_model(pair: Pair, token: str, *, url: str | None = None) -> int:
    """Make a model call through the balancer, by a client that never tries again; return the status."""
    return await read_status(pair.chat(url or pair.url, token))


async def use_tool(pair: Pair, token: str) -> int:
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    return await read_status(pair.http.post(f"{pair.url}/mcp/tools", json=call("echo", text="pay"), headers=headers))


async def kill_one(pair: Pair, calls: Sequence[asyncio.Task[int]], answers: asyncio.Event) -> None:
    """Kill the gateway of one of two running calls; its caller hears of it, and the other call is answered."""
    await pair.stopping.kill9()
    done, pending = await asyncio.wait(calls, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert [each.result() for each in done] == [BROKEN], "only the client knows whether it may run again"
    answers.set()
    assert [await each for each in pending] == [200]


@pytest.mark.spec("CLU-135")
async def test_a_tool_that_runs_when_its_gateway_is_killed_runs_once(tmp_path: Path, postgres_url: str) -> None:
    async with MockMcpServer(stateless=True, json_response=True) as tools:
        servers = {"tools": {"url": tools.url}}
        async with two_gateways(tmp_path, postgres_url, changes=UNCHECKED, mcp_servers=servers) as pair:
            token = await add_agent(pair)
            tools.gate.clear()
            calls = [asyncio.create_task(use_tool(pair, token)) for _ in range(2)]  # one at each gateway
            await tools.wait_for_calls(2)
            await kill_one(pair, calls, tools.gate)
            assert len(tools.calls) == 2


@pytest.mark.spec("CLU-135")
@pytest.mark.parametrize("era", ERAS)
async def test_an_mcp_client_hears_that_its_call_broke_off_and_goes_on_at_another_gateway(
    tmp_path: Path, postgres_url: str, era: str
) -> None:
    async with MockMcpServer() as tools:
        servers = {"tools": {"url": tools.url}}
        async with two_gateways(tmp_path, postgres_url, mcp_servers=servers) as pair:
            headers = {"authorization": f"Bearer {await add_agent(pair)}"}
            await pair.staying.terminate()
            await pair.wait_until_balanced({"0"})
            async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False, verify=False) as http:
                transport = streamable_http_client(f"{pair.url}/mcp/tools", http_client=http)
                async with Client(transport, mode=era) as client:
                    assert text_of(await client.call_tool("echo", {"text": "first"})) == "first"
                    tools.gate.clear()
                    running = asyncio.create_task(client.call_tool("echo", {"text": "pay"}))
                    await tools.wait_for_calls(2)
                    await pair.stopping.kill9()
                    with pytest.raises(MCPError):
                        await running
                    tools.gate.set()
                    await pair.staying.start()
                    await pair.wait_until_balanced({"1"})
                    assert text_of(await client.call_tool("echo", {"text": "again"})) == "again"
            assert [each.arguments["text"] for each in tools.calls] == ["first", "pay", "again"]


@pytest.mark.spec("CLU-135")
async def test_a_model_call_whose_gateway_is_killed_is_not_repeated(tmp_path: Path, postgres_url: str) -> None:
    async with two_gateways(tmp_path, postgres_url, changes=UNCHECKED) as pair:
        token = await add_agent(pair)
        pair.provider.gate.clear()
        calls = [asyncio.create_task(ask_model(pair, token)) for _ in range(2)]
        await pair.provider.wait_for_requests(4)
        await kill_one(pair, calls, pair.provider.gate)
        assert len(pair.provider.requests) == 4


@pytest.mark.spec("CLU-135")
async def test_an_error_of_a_provider_is_passed_on_and_not_repeated(tmp_path: Path, postgres_url: str) -> None:
    async with two_gateways(tmp_path, postgres_url) as pair:
        token = await add_agent(pair)
        pair.provider.next(status=503, times=2)
        assert [await ask_model(pair, token) for _ in range(2)] == [503, 503]
        assert len(pair.provider.requests) == 4


@pytest.mark.spec("CLU-135")
async def test_a_gateway_that_takes_no_connection_costs_no_call(tmp_path: Path, postgres_url: str) -> None:
    async with two_gateways(tmp_path, postgres_url, changes=UNCHECKED) as pair:
        token = await add_agent(pair)
        await pair.stopping.kill9()
        assert [await ask_model(pair, token) for _ in range(10)] == [200] * 10


@pytest.mark.spec("CLU-17")
@pytest.mark.parametrize("way", WAYS)
async def test_calls_of_awake_agents_pass_a_balancer_while_postgresql_is_away_for_less_than_the_grace(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, way: str
) -> None:
    async with two_gateways(tmp_path, postgres_url) as pair:
        token = await add_agent(pair)
        statuses: Counter[int] = Counter()
        loop = asyncio.get_running_loop()
        with WAYS[way](postgres_server):
            ends_at = loop.time() + OUTAGE_SECONDS
            while loop.time() < ends_at:
                statuses[await ask_model(pair, token)] += 1
        assert statuses.keys() == {200}, statuses


@pytest.mark.spec("CLU-17")
async def test_a_gateway_is_ready_without_postgresql_until_its_grace_is_over_and_again_once_it_is_back(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    grace_seconds = 6.0
    async with two_gateways(tmp_path, postgres_url, server={"auth_grace_seconds": grace_seconds}) as pair:
        loop = asyncio.get_running_loop()
        token = await add_agent(pair)
        with WAYS["stopped"](postgres_server):
            began = loop.time()
            assert await pair.probe() == (200, "ready: awake agents pass for a while; PostgreSQL does not answer\n")
            status = await wait_for_readiness(pair, 503)
            assert loop.time() - began > grace_seconds - 2, "the last look at the database may be a second old"
            assert status == "PostgreSQL does not answer\n"
            async with asyncio.timeout(60):  # on a busy machine it may not be ready before that
                while await ask_model(pair, token, url=pair.stopping.url) != 503:
                    await asyncio.sleep(0.05)
        assert await wait_for_readiness(pair, 200) == "ready\n"


async def wait_for_readiness(pair: Pair, wanted: int) -> str:
    """Return what the gateway's `/readyz` says once it has this status."""
    async with asyncio.timeout(60):
        while True:
            status, text = await pair.probe()
            if status == wanted and text != "":
                return text
            await asyncio.sleep(0.05)
