"""Keys of `limits` and `server`."""

import asyncio
from typing import Any

import pytest

from circadia.testing.upstream import MockUpstream
from tests.fixtures.leap import Leap
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import ADMIN, CHAT, Live

TALK: Any = {"agents": [{"name": "ann"}, {"name": "bob"}], "threads": [{"name": "t", "participants": ["ann"]}]}


async def refused(at: Live, token: str, body: object = CHAT) -> str:
    """Return the message of a call that is refused with 429 or 413."""
    async with asyncio.timeout(20), at.call(token, body=body) as response:
        assert response.status in (429, 413)
        return (await response.json())["error"]["message"]


async def answered(at: Live, token: str, body: object) -> tuple[int, Any, Any]:
    async with at.call(token, body=body) as response:
        return response.status, response.headers, await response.json()


@pytest.mark.setting("limits.max_holds", limits={"max_holds": 2})
async def test_the_third_held_call_of_all_agents_is_refused(at: Live) -> None:
    tokens = [await at.agent(name) for name in ("ann", "bob", "carl")]
    for name in ("ann", "bob", "carl"):
        await at.sleeping(True, name)
    held = [asyncio.create_task(at.called(token, CHAT)) for token in tokens[:2]]
    await at.held(2)
    assert "2" in await refused(at, tokens[2])
    for name in ("ann", "bob"):
        await at.sleeping(False, name)
    await asyncio.gather(*held)


@pytest.mark.setting("limits.max_holds_per_agent", limits={"max_holds_per_agent": 1})
async def test_the_second_held_call_of_one_agent_is_refused_while_another_agents_is_held(at: Live) -> None:
    ann, bob = await at.agent("ann"), await at.agent("bob")
    await at.sleeping(True, "ann")
    await at.sleeping(True, "bob")
    held = [asyncio.create_task(at.called(token, CHAT)) for token in (ann, bob)]
    await at.held(2)
    assert "1" in await refused(at, ann)
    await at.sleeping(False, "ann")
    await at.sleeping(False, "bob")
    await asyncio.gather(*held)


async def metrics(at: Live) -> bytes:
    async with at.http.get(f"{at.url}/metrics", headers={"authorization": f"Bearer {ADMIN}"}) as response:
        return await response.read()


def chat(characters: int) -> dict[str, Any]:
    return {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "x" * characters}]}


async def on_disk(at: Live, folder: Any, *sizes: int) -> int:
    """Return how many of the calls with texts of these lengths lie on disk while they are held."""
    token = await at.agent()
    await at.sleeping(True)
    held = [asyncio.create_task(at.called(token, chat(size))) for size in sizes]
    await at.held(len(sizes))
    found = sum(path.is_file() for path in (folder / "data" / "held").rglob("*"))
    await at.sleeping(False)
    await asyncio.gather(*held)
    return found


@pytest.mark.setting("limits.spill_bytes", limits={"spill_bytes": 3_000})
async def test_a_held_body_of_more_than_the_spill_bytes_is_on_disk(at: Live, tmp_path: Any) -> None:
    assert await on_disk(at, tmp_path, 2_000, 4_000) == 1


@pytest.mark.setting("limits.max_held_bytes", limits={"max_held_bytes": 5_000})
async def test_held_bodies_beyond_the_memory_for_all_are_on_disk(at: Live, tmp_path: Any) -> None:
    assert await on_disk(at, tmp_path, 4_000, 4_000, 4_000) == 2


@pytest.mark.setting("limits.max_spilled_bytes", limits={"spill_bytes": 1_000, "max_spilled_bytes": 5_000})
async def test_a_call_is_refused_once_the_disk_for_held_bodies_is_used_up(at: Live) -> None:
    token = await at.agent()
    await at.sleeping(True)
    held = asyncio.create_task(at.called(token, chat(4_000)))
    await at.held(1)
    assert await refused(at, token, chat(4_000))
    await at.sleeping(False)
    await held


@pytest.mark.spec("LARGE-07")
@pytest.mark.setting("limits.max_body_bytes_in_flight", limits={"max_body_bytes_in_flight": 500_000})
async def test_a_call_waits_while_bodies_in_flight_leave_no_room_and_then_goes_on_or_is_refused(
    at: Live, provider: MockUpstream, leap: Leap
) -> None:
    token = await at.agent()
    goes_on = asyncio.Event()
    provider.next(delay=goes_on)
    first = asyncio.create_task(at.called(token, chat(300_000)))
    await provider.wait_for_requests(1)
    second, third = (asyncio.create_task(answered(at, token, chat(400_000 + number))) for number in range(2))
    assert b"choices" in await at.called(token, chat(100)), "a small one passes"
    leap(29)
    fourth = asyncio.create_task(answered(at, token, chat(250_000)))
    assert b"choices" in await at.called(token, chat(100))
    leap(2)
    for waiting in (second, third):
        status, headers, body = await waiting
        assert (status, body["error"]["code"]) == (429, "limit_reached")
        assert int(headers["retry-after"]) == 5
    assert len(provider.requests) == 3
    goes_on.set()
    assert b"choices" in await first
    assert (await fourth)[0] == 200
    assert b"\ncircadia_body_bytes_in_flight 0.0" in await metrics(at)


SIZES: Any = {"max_model_body_bytes": 2_000, "max_mcp_body_bytes": 3_000, "max_api_body_bytes": 4_000}


@pytest.mark.setting("limits.max_model_body_bytes", "limits.max_api_body_bytes", limits=SIZES)
async def test_bodies_of_model_calls_and_rest_calls_have_limits_of_their_own(at: Live) -> None:
    token = await at.agent()
    assert await at.called(token, chat(1_500))
    assert "2000" in (await refused(at, token, chat(2_500))).replace(",", "")
    body = {"name": "ann"}
    assert (await at.rest("POST", "/banks", {**body, "description": "x" * 3_500}))[0] == 201
    assert (await at.rest("POST", "/banks", {"name": "bob", "description": "x" * 4_500}))[0] == 413


@pytest.mark.setting(
    "limits.max_message_characters", "limits.max_open_threads_per_agent",
    limits={"max_message_characters": 10, "max_open_threads_per_agent": 1},
)  # fmt: skip
async def test_messages_and_open_threads_have_limits(at: Live) -> None:
    status, team = await at.rest("POST", "/sessions", {"name": "team", **TALK})
    assert status == 201
    ann = team["agents"][0]["token"]
    thread = "/sessions/team/threads/t/messages"
    assert (await at.rest("POST", thread, {"from": "ann", "content": "x" * 10}))[0] == 201
    assert (await at.rest("POST", thread, {"from": "ann", "content": "x" * 11}))[0] in (400, 413, 422)
    opened = [await at.rest("POST", "/sessions/team/threads", {"name": name}, token=ann) for name in ("a", "b")]
    assert [status for status, _ in opened] == [201, 429]


@pytest.mark.setting("limits.keep_handled_days", limits={"keep_handled_days": 2})
async def test_handled_messages_are_deleted_after_their_days(at: Live, clock: LeapClock) -> None:
    await at.agent()
    _, sent = await at.rest("POST", "/messages", {"to": "ann", "content": "hello"})
    assert (await at.rest("POST", f"/agents/ann/inbox/{sent['message']}/ack"))[0] < 300

    async def handled() -> int:
        return (await at.rest("GET", "/agents/ann/inbox"))[1]["counts"]["handled"]

    clock.leap(47 * 3600)
    assert await handled() == 1
    clock.leap(2 * 3600)
    async with asyncio.timeout(20):
        while await handled():
            clock.leap(1)
            await asyncio.sleep(0.02)


@pytest.mark.setting("server.allowed_hosts", server={"allowed_hosts": ["gate.internal"]})
async def test_a_host_is_answered_where_it_is_allowed(at: Live) -> None:
    async def status(host: str) -> int:
        headers = {"authorization": f"Bearer {ADMIN}", "host": host}
        async with at.http.get(f"{at.url}/api/v1/sessions", headers=headers) as response:
            return response.status

    assert await status("gate.internal") == 200
    assert await status("other.internal") in (400, 403, 421)


@pytest.mark.setting("server.allowed_origins", server={"allowed_origins": ["https://page.example"]})
async def test_a_page_may_call_the_api_where_its_origin_is_allowed(at: Live) -> None:
    async def allowed(origin: str) -> str | None:
        headers = {"authorization": f"Bearer {ADMIN}", "origin": origin}
        async with at.http.get(f"{at.url}/api/v1/sessions", headers=headers) as response:
            return response.headers.get("access-control-allow-origin")

    assert await allowed("https://page.example") == "https://page.example"
    assert await allowed("https://other.example") is None


@pytest.mark.setting("defaults.stall_seconds", defaults={"stall_seconds": 50})
async def test_a_session_stalls_after_its_seconds(at: Live, clock: LeapClock) -> None:
    assert (await at.rest("POST", "/sessions", {"name": "team", "agents": [{"name": "ann"}]}))[0] == 201
    await at.rest("PUT", "/sessions/team/agents/ann/sleeping", {"sleeping": True})
    clock.leap(45)
    await asyncio.sleep(0.1)
    assert not await at.events("session_stalled")
    clock.leap(10)
    async with asyncio.timeout(20):
        while not await at.events("session_stalled"):
            clock.leap(1)
            await asyncio.sleep(0.02)
