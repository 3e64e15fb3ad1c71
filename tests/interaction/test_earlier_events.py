"""Named events that came before their agent began to wait: kept for an hour, and had once (WAKE-81, WAKE-83)."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from circadia.client import Client
from circadia.stores.locks import event_key
from tests.fixtures.ahead import OffsetClock
from tests.interaction.live import Live, live
from tests.interaction.test_cluster import connected
from tests.interaction.test_missed_mentions import tool, until_awake
from tests.interaction.test_named_events import BATCH, emit, waits
from tests.interaction.test_token_rotation import WAITING

HAD = {"event": None, "timed_out": True}


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return {} if url is None else {"server": {"database_url": url}}


async def look(server: Live, token: str, **arguments: Any) -> dict[str, Any]:
    return await tool(server, token, "wait_for_event", **{"name": BATCH, "timeout_seconds": 0, **arguments})


@pytest.mark.spec("WAKE-81")
async def test_a_job_that_ends_before_the_wait_begins_is_found_once(tmp_path: Path, database: dict[str, Any]) -> None:
    async with live(tmp_path, **database) as server:
        ann = await server.agent("ann")
        for number in (6, 7, 8):
            assert await emit(server, BATCH, data={"id": number}) == []
        assert await emit(server, "build.finished", data={"id": 7}) == []
        seen = await look(server, ann, filter={"id": 7})
        assert (seen["event"]["data"], seen["timed_out"]) == ({"id": 7}, False)
        assert await waits(server) == []
        assert await look(server, ann, filter={"id": 7}) == HAD
        found = [(await look(server, ann))["event"]["data"]["id"] for _ in range(2)]
        assert found == [6, 8], "the oldest first, and none twice"
        assert (await look(server, ann)) == HAD
        assert len(await waits(server)) == 2
    async with live(tmp_path, **database) as server:
        assert len(await emit(server, BATCH, data={"id": 9})) == 1
        assert (await look(server, ann))["event"]["data"] == {"id": 9}


@pytest.mark.spec("WAKE-81")
async def test_an_event_counts_for_a_minute_or_for_as_long_as_the_wait_says_up_to_an_hour(
    tmp_path: Path, database: dict[str, Any], ahead: type[OffsetClock]
) -> None:
    async with live(tmp_path, **database) as server:
        ann = await server.agent("ann")
        await emit(server, BATCH, data={"id": 7})
        assert await look(server, ann, since_seconds=0) == HAD
        (wait,) = await waits(server)
        ahead.by += timedelta(seconds=70)
        assert await look(server, ann) == HAD
        assert (await look(server, ann, since_seconds=100))["event"]["data"] == {"id": 7}
        assert await waits(server) == [], "the event ended the wait that was there"
        path = "/agents/ann/event-waits"
        assert (await server.rest("DELETE", f"{path}/{wait['id']}", token=ann))[0] == 404
        await emit(server, BATCH, data={"id": 6})
        ahead.by += timedelta(seconds=70)
        async with Client(server.url, ann) as client:
            with pytest.raises(TimeoutError):
                await client.wait_for_event("ann", BATCH, {"id": 6}, timeout_seconds=0.2)
            assert (await client.wait_for_event("ann", BATCH, {"id": 6}, since_seconds=100)).data == {"id": 6}
        for wrong in (-1, 3_601, "60", None):
            body = {"name": BATCH, "timeout_seconds": 0, "since_seconds": wrong}
            assert (await server.rest("POST", path, body, token=ann))[0] == 422
        for age, found in ((3_500, True), (3_650, False)):
            await emit(server, BATCH, data={"id": age})
            ahead.by += timedelta(seconds=age)
            body = {"name": BATCH, "timeout_seconds": 0, "since_seconds": 3_600}
            status, answer = await server.rest("POST", path, body, token=ann)
            assert (status, answer["timed_out"]) == (200, not found)
            if found:
                await server.rest("POST", f"/agents/ann/inbox/{answer['event']['message']}/ack", token=ann)


@pytest.mark.spec("WAKE-81")
async def test_an_event_of_a_key_is_had_once_whether_it_came_before_the_wait_or_after(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        for _ in range(2):
            assert await emit(server, BATCH, data={"id": 7}, key="one") == []
        assert (await look(server, ann))["event"]["data"] == {"id": 7}
        assert await look(server, ann) == HAD
        assert await emit(server, BATCH, data={"id": 7}, key="one") == []
        assert await look(server, ann) == HAD


@pytest.mark.spec("WAKE-81")
async def test_an_earlier_event_reaches_who_its_agent_may_address_and_no_other(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        ann, bob = await server.agent("ann"), await server.agent("bob")
        _, made = await server.rest("POST", "/sessions", {"name": "away", "agents": [{"name": "eve"}]})
        assert await emit(server, BATCH, token=bob, data={"id": 7}) == []
        assert await look(server, made["agents"][0]["token"]) == HAD
        assert (await look(server, ann))["event"]["data"] == {"id": 7}
        assert await emit(server, BATCH, token=bob, data={"id": 8}) == []
        assert (await server.rest("DELETE", "/sessions/default/agents/bob"))[0] in (200, 204)
        assert (await look(server, ann))["event"]["data"] == {"id": 8}


@pytest.mark.spec("WAKE-83")
async def test_a_batch_that_ends_before_its_agent_sleeps_wakes_it(tmp_path: Path, database: dict[str, Any]) -> None:
    async with live(tmp_path, **database) as server:
        ann = await server.agent("ann")
        await emit(server, BATCH, data={"id": 7})
        wish = {"wake_on": [f"event:{BATCH}"], "filter": {"id": 7}}
        await tool(server, ann, "sleep_self", **wish)
        await until_awake(server, "ann")
        (wake,) = (await server.rest("GET", "/wakes"))[1]["wakes"]
        assert (wake["decision"], wake["from"]) == ("admitted", f"event:{BATCH}")
        assert (await look(server, ann, filter={"id": 7}))["event"]["data"] == {"id": 7}
        assert (await tool(server, ann, "sleep_self", **wish))["sleeping"], "it has had it"
        assert len((await server.rest("GET", "/wakes"))[1]["wakes"]) == 1
        assert (await server.rest("GET", "/sessions/default/agents/ann/sleeping"))[1]["sleeping"]


@pytest.mark.spec("WAKE-81", "WAKE-83")
@pytest.mark.parametrize("waited", [True, False])
async def test_an_event_before_a_sleep_stays_in_its_chain(tmp_path: Path, waited: bool) -> None:
    async with live(tmp_path) as server:
        ann, bob = await server.agent("ann"), await server.agent("bob")
        await server.sleeping(True, "bob")
        status, first = await server.rest("POST", "/wakes", {"to": "bob", "message": "begin", "reason": "blocker"})
        assert (status, first["decision"]) == (201, "admitted")
        await until_awake(server, "bob")
        if waited:
            await look(server, ann)
        await emit(server, BATCH, token=bob, data={"id": 7})
        await tool(server, ann, "sleep_self", wake_on=[f"event:{BATCH}"])
        await until_awake(server, "ann")
        wake, before = (await server.rest("GET", "/wakes"))[1]["wakes"]
        assert (wake["agent"], wake["depth"], wake["root"]) == ("ann", before["depth"] + 1, before["root"])


@pytest.mark.spec("WAKE-81")
async def test_a_wait_that_begins_while_its_event_is_written_elsewhere_sees_it(
    tmp_path: Path, postgres_url: str
) -> None:
    writing = (
        "INSERT INTO named_events (id, name, content, depth, at) VALUES ('nev_1', 'batch.completed', '{\"id\": 7}', 0, "
        "extract(epoch FROM now()) * 1000000)"
    )
    number = event_key(BATCH).number
    async with live(tmp_path, server={"database_url": postgres_url}) as server, connected(postgres_url) as elsewhere:
        ann = await server.agent("ann")
        await elsewhere.exec_driver_sql(f"SELECT pg_advisory_lock({number})")
        waiting = asyncio.create_task(look(server, ann))
        async with asyncio.timeout(60):
            while not (await elsewhere.exec_driver_sql(WAITING)).scalar_one():
                assert not waiting.done(), "it looked before the event was there"
                await asyncio.sleep(0.01)
        await elsewhere.exec_driver_sql(writing)
        await elsewhere.exec_driver_sql(f"SELECT pg_advisory_unlock({number})")
        assert (await waiting)["event"]["data"] == {"id": 7}


@pytest.mark.spec("WAKE-81")
async def test_whatever_comes_first_of_an_event_and_its_wait_at_two_servers_the_event_is_found(
    tmp_path: Path, postgres_url: str
) -> None:
    shared: dict[str, Any] = {"server": {"database_url": postgres_url}}
    async with live(tmp_path / "a", **shared) as here, live(tmp_path / "b", **shared) as there:
        ann = await here.agent("ann")
        for number in range(60):
            name = f"build.{number}"
            early, _ = await asyncio.gather(look(here, ann, name=name), emit(there, name, data={"number": number}))
            found = early if early["event"] else await look(here, ann, name=name, since_seconds=0)
            assert found["event"] is not None, number
            assert await look(there, ann, name=name) == HAD
