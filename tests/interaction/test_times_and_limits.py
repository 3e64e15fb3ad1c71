"""Times, limits and budgets as a caller meets them, each at the number that the documentation names."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from circadia.testing.clock import ManualClock
from tests.interaction.live import CHAT, Live, live

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STREAM = {**CHAT, "stream": True}
MESSAGE = {"model": "claude-3-5-haiku-latest", "max_tokens": 99, "messages": CHAT["messages"]}


async def phase(at: Live) -> str:
    return (await at.held(1))[0]["phase"]


async def opened(at: Live) -> None:
    async with asyncio.timeout(60):
        while await phase(at) != "opened":
            await asyncio.sleep(0)


@pytest.mark.spec("GATE-50", "GATE-51")
@pytest.mark.parametrize(
    ("profile", "streamed", "seconds"),
    [("direct", True, 2), ("direct", False, 120), ("reverse_proxy", True, 2), ("reverse_proxy", False, 45)],
)
async def test_a_held_call_is_silent_for_its_time_and_gets_a_sign_of_life_every_15_seconds(
    tmp_path: Path, profile: str, streamed: bool, seconds: int
) -> None:
    clock = ManualClock()
    async with live(tmp_path, clock=clock, timings={}, defaults={"profile": profile}) as at:
        token = await at.agent()
        await at.sleeping(True)
        sign = b": keep-alive\n\n" if streamed else b" "

        async def call() -> aiohttp.ClientResponse:
            return await at.call(token, body=STREAM if streamed else CHAT)

        calling = asyncio.create_task(call())
        await at.held(1)
        clock.advance(seconds - 0.5)
        assert await phase(at) == "silent"
        clock.advance(0.6)
        await opened(at)
        response = await calling
        assert await response.content.readexactly(len(sign)) == sign
        again = asyncio.create_task(response.content.readexactly(len(sign)))
        clock.advance(14.5)
        await phase(at)
        assert not again.done()
        clock.advance(0.6)
        assert await asyncio.wait_for(again, 60) == sign
        await at.sleeping(False)
        assert b"hello" in await response.read()


@pytest.mark.spec("GATE-66")
@pytest.mark.parametrize(
    "budget", [{"max_calls_per_day": 1}, {"max_tokens_per_day": 5_000}, {"max_usd_per_day": 0.003}], ids=str
)
async def test_a_daily_budget_starts_anew_at_midnight_utc_and_not_before(
    tmp_path: Path, budget: dict[str, Any]
) -> None:
    clock = ManualClock(NOON)
    async with live(tmp_path, clock=clock) as at:
        token = await at.agent(**budget)
        at.upstream.next(
            times=2, usage=False, body={"choices": [{"message": {"content": "hi"}}]}
        )  # as much as reserved

        async def status() -> tuple[int, float]:
            async with at.call(token) as response:
                await response.read()
                await at.server.journal.flush()
                return response.status, float(response.headers.get("retry-after", 0))

        assert (await status())[0] == 200
        assert await status() == (429, 12 * 3600)
        clock.advance(12 * 3600 - 1)
        assert await status() == (429, 1)
        clock.advance(1)
        assert (await status())[0] == 200
        assert (await status())[0] == 429


@pytest.mark.spec("GATE-66")
async def test_past_a_budget_an_anthropic_caller_gets_429_in_anthropics_shape(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(max_calls_per_day=0)
        async with at.call(token, "/v1/messages", MESSAGE, upstream="anthropic") as response:
            problem = await response.json()
        assert (response.status, response.headers["x-should-retry"]) == (429, "false")
        assert (problem["type"], problem["error"]["type"]) == ("error", "rate_limit_error")
        assert "max_calls_per_day (0)" in problem["error"]["message"]
        assert at.upstream.requests == []


@pytest.mark.spec("GATE-46")
async def test_held_bodies_go_to_disk_where_the_memory_for_them_is_full_and_past_both_a_call_is_refused(
    tmp_path: Path,
) -> None:
    def body(number: int) -> dict[str, Any]:
        return {**CHAT, "messages": [{"role": "user", "content": f"{number} {'x' * 1000}"}]}

    size = len(json.dumps(body(0)))
    limits = {"max_held_bytes": 2 * size, "spill_bytes": 100 * size, "max_spilled_bytes": 2 * size}
    async with live(tmp_path, limits=limits, defaults={"hold_silent_seconds": 60}) as at:
        token = await at.agent(on_wake="forward")
        await at.sleeping(True)
        calls: list[asyncio.Task[bytes]] = []
        for number, on_disk in enumerate((0, 0, 1, 2)):
            calls.append(asyncio.create_task(at.called(token, body(number))))
            await at.held(number + 1)
            assert len(list((tmp_path / "held").glob("*"))) == on_disk
        async with at.call(token, body=body(4)) as response:
            assert (response.status, response.headers["retry-after"]) == (429, "30")
        await at.sleeping(False)
        await asyncio.gather(*calls)
        assert [json.loads(each.body) for each in at.upstream.requests] == [body(number) for number in range(4)]
        assert list((tmp_path / "held").glob("*")) == []


@pytest.mark.spec("GATE-35")
async def test_a_host_that_the_operator_allows_is_served_and_any_other_refused_at_each_door(tmp_path: Path) -> None:
    async with live(tmp_path, server={"allowed_hosts": ["agents.example"]}) as at:
        token = await at.agent()
        doors = (
            ("GET", "/healthz"),
            ("GET", "/api/v1/agents"),
            ("POST", "/llm/openai/v1/chat/completions"),
            ("POST", "/mcp"),
        )
        for method, path in doors:
            for host, refused in (
                ("agents.example", False),
                ("AGENTS.example:80", False),
                ("10.1.2.3:4114", False),
                ("[fd00::1]:4114", False),
                ("other.example", True),
                ("10.1.2.3.example", True),
            ):
                headers = {"host": host, "authorization": f"Bearer {token}"}
                async with at.http.request(method, f"{at.url}{path}", json=CHAT, headers=headers) as response:
                    assert (response.status == 421) is refused, (path, host, response.status)


@pytest.mark.spec("GATE-04")
async def test_a_sleep_that_is_there_already_leaves_held_calls_held_for_the_next_wake(tmp_path: Path) -> None:
    async with live(tmp_path, defaults={"hold_silent_seconds": 60}) as at:
        token = await at.agent()
        await at.sleeping(True)
        calling = asyncio.create_task(at.answered(token))
        (before,) = await at.held(1)
        path = "/sessions/default/agents/ann/sleeping"
        state = (await at.rest("GET", path))[1]
        await at.sleeping(True)
        assert (await at.rest("GET", path))[1] == state
        (after,) = await at.held(1)
        assert (after["id"], after["phase"], state["held"]) == (before["id"], "silent", 1)
        assert [len(await at.events(kind)) for kind in ("sleep_start", "held", "dropped")] == [1, 1, 0]
        assert at.upstream.requests == []
        await at.sleeping(False)
        assert (await calling)[0] == 200


@pytest.mark.spec("GATE-03")
async def test_a_state_tells_what_caused_it_a_person_an_event_or_a_pulse(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        await at.agent("bob")
        made = {"name": "ann", "wake_events": ["mentioned"], "sleep_events": ["last_thread_closed"]}
        assert (await at.rest("POST", "/sessions/default/agents", made))[0] == 201
        thread = (await at.rest("POST", "/sessions/default/threads", {"name": "t", "participants": ["ann", "bob"]}))[1]
        place = f"/sessions/default/threads/{thread['id']}"

        async def state() -> tuple[bool, str, int]:
            told = (await at.rest("GET", "/sessions/default/agents/ann/sleeping"))[1]
            return told["sleeping"], told["cause"], told["generation"]

        await at.sleeping(True)
        assert await state() == (True, "rest", 1)
        said = {"from": "bob", "content": "hello", "mentions": ["ann"]}
        assert (await at.rest("POST", f"{place}/messages", said))[0] in (200, 201)
        assert await state() == (False, "event", 2)
        assert (await at.rest("POST", f"{place}/close"))[0] == 200
        assert await state() == (True, "event", 3)
        assert (await at.rest("POST", "/wakes", {"to": "ann", "reason": "blocker"}))[0] == 201
        async with asyncio.timeout(60):
            while (await state())[0]:
                await asyncio.sleep(0.01)
        assert await state() == (False, "pulse", 4)
        told = [
            (each["data"]["cause"], each["data"]["generation"]) for each in await at.events("sleep_start", "sleep_stop")
        ]
        assert told == [("rest", 1), ("event", 2), ("event", 3), ("pulse", 4)]


@pytest.mark.spec("GATE-65")
async def test_a_prompt_that_is_to_be_made_anew_goes_on_with_a_notice_where_its_stream_is_open_already(
    tmp_path: Path,
) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(on_wake="refresh")
        await at.sleeping(True)
        async with at.call(token, body=STREAM) as response:
            await opened(at)
            await at.sleeping(False)
            stream = await response.read()
        assert (response.status, stream.endswith(b"data: [DONE]\n\n")) == (200, True)
        assert b"error" not in stream
        assert "<circadia-notice>" in at.upstream.requests[-1].json()["messages"][-1]["content"]


@pytest.mark.spec("WAKE-10", "GATE-66")
async def test_what_an_agents_calls_have_cost_reaches_the_guardrail_of_its_wakes(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 1_000_000, "total_tokens": 1_000_010}
    answer = {"id": "c", "model": "gpt-4o-mini", "choices": [{"index": 0, "message": {"content": "x"}}], "usage": usage}
    async with live(tmp_path) as at:
        token = await at.agent(max_usd_per_day=0.5)
        await at.sleeping(True)

        async def rule() -> str | None:
            told = (await at.rest("POST", "/wakes", {"to": "ann", "reason": "blocker", "dry_run": True}))[1]
            return told["rule"]

        assert await rule() is None
        await at.sleeping(False)
        at.upstream.next(body=answer)
        async with at.call(token, body={**CHAT, "max_tokens": 10}) as response:
            assert response.status == 200
        assert (await at.usage())[0]["cost_usd"] > 0.5
        await at.sleeping(True)
        assert await rule() == "money"
