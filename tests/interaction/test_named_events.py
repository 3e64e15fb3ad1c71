"""Named events: an agent waits for one in a call, or asleep, and gets it once (WAKE-81)."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.ahead import OffsetClock
from tests.interaction.live import Live, live
from tests.interaction.test_missed_mentions import tool, until_awake

BATCH = "batch.completed"


@pytest.fixture(params=["sqlite", "postgres"])
def server_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return {} if url is None else {"server": {"database_url": url}}


@asynccontextmanager
async def with_ann(folder: Path, settings: dict[str, Any]) -> AsyncGenerator[tuple[Live, str]]:
    async with live(folder, **settings) as server:
        yield server, await server.agent("ann")


async def emit(server: Live, name: str, *, token: str | None = None, **body: Any) -> list[dict[str, Any]]:
    status, answer = await server.rest("POST", f"/events/{name}", body, **({} if token is None else {"token": token}))
    assert status == 200, answer
    return answer["deliveries"]


async def waits(server: Live, agent: str = "ann") -> list[dict[str, Any]]:
    return (await server.rest("GET", f"/agents/{agent}/event-waits"))[1]["waits"]


@pytest.mark.spec("WAKE-81")
async def test_a_call_waits_for_the_event_with_its_data_and_returns_it_once(
    tmp_path: Path, server_settings: dict[str, Any]
) -> None:
    async with with_ann(tmp_path, server_settings) as (server, ann):
        wanted = {"name": BATCH, "filter": {"batch": {"id": "b7"}}}
        call = asyncio.create_task(tool(server, ann, "wait_for_event", **wanted, timeout_seconds=50))
        async with asyncio.timeout(60):
            while not await waits(server):
                await asyncio.sleep(0.02)
        assert await emit(server, "build.finished", data={"batch": {"id": "b7"}}) == []
        assert await emit(server, BATCH, data={"batch": {"id": "b8"}}) == []
        (delivery,) = await emit(server, BATCH, data={"batch": {"id": "b7", "status": "ended"}})
        assert (delivery["agent"], delivery["wake"]) == ("ann", None)
        async with asyncio.timeout(60):
            answer = await call
        assert answer["event"]["data"] == {"batch": {"id": "b7", "status": "ended"}}
        assert answer["event"]["id"] == delivery["message"]
        assert await waits(server) == []
        (again,) = [await tool(server, ann, "wait_for_event", **wanted, timeout_seconds=0)]
        assert again == {"event": None, "timed_out": True}
        assert (await server.events("named_event"))[2]["data"] == {"name": BATCH, "by": "operator", "agents": ["ann"]}


@pytest.mark.spec("WAKE-81")
async def test_a_wait_outlasts_its_call_and_the_server_and_the_next_call_finds_what_came_between(
    tmp_path: Path, server_settings: dict[str, Any]
) -> None:
    wanted = {"name": BATCH, "filter": {"id": 7}}
    async with with_ann(tmp_path, server_settings) as (server, ann):
        assert (await tool(server, ann, "wait_for_event", **wanted, timeout_seconds=0))["timed_out"]
        assert (await tool(server, ann, "wait_for_event", **wanted, timeout_seconds=0))["timed_out"]
        assert len(await waits(server)) == 1
    async with live(tmp_path, **server_settings) as server:
        assert len(await emit(server, BATCH, data={"id": 7})) == 1
    async with live(tmp_path, **server_settings) as server:
        other = {"name": BATCH, "filter": {"id": 8}}
        assert (await tool(server, ann, "wait_for_event", **other, timeout_seconds=0))["timed_out"]
        assert (await tool(server, ann, "wait_for_event", **wanted, timeout_seconds=50))["event"]["data"] == {"id": 7}
        assert [wait["filter"] for wait in await waits(server)] == [{"id": 8}]


@pytest.mark.spec("WAKE-81")
async def test_over_rest_each_call_returns_the_event_until_it_is_acknowledged(
    tmp_path: Path, server_settings: dict[str, Any]
) -> None:
    async with with_ann(tmp_path, server_settings) as (server, ann):
        path, body = "/agents/ann/event-waits", {"name": BATCH, "filter": {"id": 7}, "timeout_seconds": 60}
        call = asyncio.create_task(server.rest("POST", path, body, token=ann))
        async with asyncio.timeout(60):
            while not await waits(server):
                await asyncio.sleep(0.02)
        await server.sleeping(True)  # a sleep of its agent does not stop a program that waits
        assert len(await emit(server, BATCH, data={"id": 7})) == 1
        async with asyncio.timeout(60):
            _, first = await call
        again = (await server.rest("POST", path, body, token=ann))[1]
        assert first["event"]["data"] == {"id": 7}
        assert again == first
        assert (await server.rest("POST", f"/agents/ann/inbox/{first['event']['message']}/ack", token=ann))[0] == 200
        status, none = await server.rest("POST", path, {**body, "timeout_seconds": 0}, token=ann)
        assert (status, none) == (200, {"event": None, "timed_out": True})
        (wait,) = await waits(server)
        assert (await server.rest("DELETE", f"{path}/{wait['id']}", token=ann))[0] == 204
        assert (await server.rest("DELETE", f"{path}/{wait['id']}", token=ann))[0] == 404
        assert await emit(server, BATCH, data={"id": 7}) == []


@pytest.mark.spec("WAKE-81")
async def test_a_repeat_with_the_same_key_reaches_no_agent_twice_and_ends_no_wait(tmp_path: Path) -> None:
    async with with_ann(tmp_path, {}) as (server, ann):
        for count in (1, 0):
            await tool(server, ann, "wait_for_event", name=BATCH, timeout_seconds=0)
            assert len(await emit(server, BATCH, data={"id": 7}, key="delivery-1")) == count
            assert len(await waits(server)) == 1 - count
            await tool(server, ann, "wait_for_event", name=BATCH, timeout_seconds=0)
        assert len(await waits(server)) == 1
        assert len(await emit(server, BATCH, data={"id": 7}, key="delivery-2")) == 1


@pytest.mark.spec("WAKE-81")
async def test_a_wait_is_given_up_a_day_after_its_call(tmp_path: Path, ahead: type[OffsetClock]) -> None:
    async with with_ann(tmp_path, {}) as (server, ann):
        for hours, count in ((23, 1), (25, 0)):
            await tool(server, ann, "wait_for_event", name=BATCH, timeout_seconds=0)
            ahead.by += timedelta(hours=hours)
            assert len(await emit(server, BATCH, data={"id": hours})) == count
            found = await tool(server, ann, "wait_for_event", name=BATCH, timeout_seconds=0, since_seconds=0)
            assert found["timed_out"] is (count == 0)


@pytest.mark.spec("WAKE-81", "WAKE-83")
async def test_an_event_of_an_earlier_sleep_wakes_nobody_from_the_next_one(tmp_path: Path) -> None:
    async with with_ann(tmp_path, {}) as (server, ann):
        path = "/sessions/default/agents/ann/sleeping"
        for wake_on in ([f"event:{BATCH}"], ["mention"]):
            status, _ = await server.rest("PUT", path, {"sleeping": True, "wake_on": wake_on}, token=ann)
            assert status == 200
        await server.sleeping(False)
        await server.sleeping(True)
        assert await emit(server, BATCH, data={"id": 7}) == []
        assert (await server.rest("GET", path))[1]["sleeping"]


@pytest.mark.spec("WAKE-81")
async def test_an_agents_event_reaches_agents_that_it_may_address_and_counts_as_its_wake(tmp_path: Path) -> None:
    async with with_ann(tmp_path, {}) as (server, ann):
        bob = await server.agent("bob")
        status, made = await server.rest("POST", "/sessions", {"name": "away", "agents": [{"name": "eve"}]})
        assert status == 201
        eve = made["agents"][0]["token"]
        for token in (ann, eve):
            assert (await tool(server, token, "sleep_self", wake_on=[f"event:{BATCH}"]))["sleeping"]
        assert [each["agent"] for each in await emit(server, BATCH, token=bob, data={})] == ["ann"]
        (wake,) = (await server.rest("GET", "/wakes"))[1]["wakes"]
        assert (wake["from"], wake["depth"]) == (f"event:{BATCH}", 1)
        assert (await server.rest("GET", "/wakes?sender=bob"))[1]["wakes"] == [wake]
        await until_awake(server, "ann")


@pytest.mark.spec("WAKE-81")
async def test_an_agent_has_a_bounded_number_of_waits_and_bad_names_are_refused(tmp_path: Path) -> None:
    async with with_ann(tmp_path, {}) as (server, ann):
        for number in range(101):
            body = {"name": BATCH, "filter": {"id": number}, "timeout_seconds": 0}
            status, answer = await server.rest("POST", "/agents/ann/event-waits", body, token=ann)
            assert status == (200 if number < 100 else 409), answer
        for name in ("two words", "-x", "x" * 101):
            assert (await server.rest("POST", "/agents/ann/event-waits", {"name": name}, token=ann))[0] == 422
            assert (await server.rest("POST", f"/events/{name}", {}))[0] == 422
        long = {"name": "x", "filter": {"id": "x" * 4_000}}
        assert (await server.rest("POST", "/agents/ann/event-waits", long, token=ann))[0] == 422
        assert (await server.rest("POST", f"/events/{BATCH}", {"data": {"text": "x" * 1_000_001}}))[0] in (413, 422)


@pytest.mark.spec("WAKE-81")
async def test_an_event_at_one_gateway_ends_a_wait_at_another(tmp_path: Path, postgres_url: str) -> None:
    shared: dict[str, Any] = {"server": {"database_url": postgres_url}}
    async with live(tmp_path / "a", **shared) as here, live(tmp_path / "b", **shared) as there:
        ann = await here.agent("ann")
        call = asyncio.create_task(tool(here, ann, "wait_for_event", name=BATCH, timeout_seconds=50))
        async with asyncio.timeout(60):
            while not await waits(there):
                await asyncio.sleep(0.02)
        assert len(await emit(there, BATCH, data={"id": 7})) == 1
        async with asyncio.timeout(20):
            assert (await call)["event"]["data"] == {"id": 7}
