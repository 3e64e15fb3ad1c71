"""A server that is killed while an alarm rings, or while an event comes in: the agent wakes once."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fixtures.server_process import PROGRAM, CircadiaProcess

STANDS = "stands"
EVENT = "/events/batch.completed"


async def sleep(server: CircadiaProcess, token: str, **wish: Any) -> None:
    url = f"{server.url}/api/v1/sessions/team/agents/ann/sleeping"
    headers = {"authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as http,
        http.put(url, json={"sleeping": True, **wish}, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()


async def until_stands(folder: Path) -> None:
    async with asyncio.timeout(60):
        while not (folder / STANDS).exists():
            await asyncio.sleep(0.02)


async def until_awake(server: CircadiaProcess) -> list[dict[str, Any]]:
    """Return the wakes once the agent is awake."""
    async with asyncio.timeout(60):
        while (await server.call("GET", "/sessions/team/agents/ann/sleeping"))["sleeping"]:
            await asyncio.sleep(0.02)
    return (await server.call("GET", "/wakes"))["wakes"]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return {} if url is None else {"server": {"database_url": url}}


@pytest.mark.spec("WAKE-80")
@pytest.mark.parametrize("step", ["before an alarm is fired", "between an alarm and its commit"])
async def test_an_alarm_rings_once_although_its_server_is_killed_while_it_rings(
    tmp_path: Path, config: dict[str, Any], step: str
) -> None:
    program = ("tests.durability.stopping_server", step, str(tmp_path / STANDS))
    async with CircadiaProcess(tmp_path, config, program=program) as server:
        token = (await server.create_session("team", [{"name": "ann"}]))["ann"]
        await sleep(server, token, for_seconds=1, reason="look", cancel_if_woken=True)
        await until_stands(tmp_path)
        await server.kill9()
        server.program = PROGRAM
        await server.start()
        (wake,) = await until_awake(server)
        assert (wake["from"], wake["reason"], wake["decision"]) == ("alarm", "look", "admitted")
        await server.restart(kill=True)  # once it has rung
        assert await until_awake(server) == [wake]
        (alarm,) = (await server.call("GET", "/agents/team:ann/alarms"))["alarms"]
        assert alarm["next_at"] is None


@pytest.mark.spec("WAKE-81")
async def test_an_event_whose_server_is_killed_before_its_answer_is_delivered_once_by_its_repeat(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    program = ("tests.durability.stopping_server", "between an event and its commit", str(tmp_path / STANDS))
    event = {"data": {"id": "b7"}, "key": "evt_1"}
    async with CircadiaProcess(tmp_path, config, program=program) as server:
        token = (await server.create_session("team", [{"name": "ann"}]))["ann"]
        await sleep(server, token, wake_on=["event:batch.completed"])
        call = asyncio.create_task(server.call("POST", EVENT, event))
        await until_stands(tmp_path)
        await server.kill9()
        with suppress(aiohttp.ClientError):
            await call
        server.program = PROGRAM
        await server.start()
        assert len((await server.call("POST", EVENT, event))["deliveries"]) == 1
        (wake,) = await until_awake(server)
        assert wake["decision"] == "admitted"
        await server.restart(kill=True)
        assert (await server.call("POST", EVENT, event))["deliveries"] == []
        assert (await server.call("GET", "/agents/team:ann/inbox"))["counts"]["unread"] == 1
