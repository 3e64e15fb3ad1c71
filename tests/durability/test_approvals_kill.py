"""A gateway is killed at each step of an approval: the repeated call finds what was decided, and is sent once."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from circadia.testing.upstream import MockUpstream
from tests.durability.test_restarts import call, config, held
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.spec("WAKE-86")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def sections(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    if request.param == "sqlite":
        return {}
    return {"server": {"database_url": request.getfixturevalue("postgres_url")}}


async def list_approvals(server: CircadiaProcess, status: str) -> list[dict[str, Any]]:
    return (await server.call("GET", f"/approvals?status={status}"))["approvals"]


async def decide(server: CircadiaProcess, verdict: str) -> None:
    (approval,) = await list_approvals(server, "pending")
    await server.call("POST", f"/approvals/{approval['id']}/{verdict}", {"reason": "because"})


async def test_a_kill_before_and_after_a_decision_and_after_the_write_loses_and_doubles_nothing(
    tmp_path: Path, sections: Mapping[str, Any]
) -> None:
    async with (
        MockUpstream() as upstream,
        CircadiaProcess(tmp_path, {**config(upstream), **sections}) as server,
        aiohttp.ClientSession() as http,
    ):
        agents = [{"name": "ann", "policy": {"approve_models": ["*"]}}]
        tokens = await server.create_session("team", agents)

        async def kill(count: int) -> asyncio.Task[tuple[int, str]]:
            """Kill the server while a call waits, and return the repeat, which waits too if `count` is 1."""
            calling = asyncio.create_task(call(http, server.url, tokens["ann"]))
            await held(server, 1)
            await server.restart(kill=True)
            with pytest.raises(aiohttp.ClientError):
                await calling
            again = asyncio.create_task(call(http, server.url, tokens["ann"]))
            await held(server, count)
            return again

        repeat = await kill(1)
        assert len(await list_approvals(server, "pending")) == 1, "the repeat waits for what its first caller asked"
        await server.call("PUT", "/sessions/team/agents/ann/sleeping", {"sleeping": True})
        await decide(server, "approve")
        await server.restart(kill=True)
        with pytest.raises(aiohttp.ClientError):
            await repeat
        await server.call("PUT", "/sessions/team/agents/ann/sleeping", {"sleeping": False})
        assert (await call(http, server.url, tokens["ann"]))[0] == 200
        assert len(upstream.requests) == 1
        repeat = await kill(1)
        await decide(server, "refuse")
        status, text = await repeat
        assert (status, "because" in text) == (403, True)
        upstream.gate.clear()
        writing = asyncio.create_task(call(http, server.url, tokens["ann"]))
        await held(server, 1)
        await decide(server, "approve")
        await upstream.wait_for_requests(2)
        await server.restart(kill=True)
        with pytest.raises(aiohttp.ClientError):
            await writing
        upstream.gate.set()
        again = asyncio.create_task(call(http, server.url, tokens["ann"]))
        await held(server, 1)
        assert len(upstream.requests) == 2, "what may have been done is not done again without a person"
        await decide(server, "approve")
        assert (await again)[0] == 200
