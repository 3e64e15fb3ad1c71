"""What Prometheus sees of passes."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from circadia.testing.upstream import MockUpstream
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import ADMIN, KEY, Live, live

HOUR_SECONDS = 3600


@pytest.mark.spec("SLEEP-60")
async def test_each_move_of_a_pass_is_counted_and_how_work_stands_is_shown(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        assert (await server.rest("POST", "/banks", {"name": "team"}))[0] == 201
        assert (await server.rest("POST", "/banks/team/episodes", {"text": "The build is green."}))[0] == 201
        status, run = await server.rest("POST", "/banks/team/passes", {"wait_seconds": 30})
        assert (status, run["ended_at"] is not None) == (202, True)
        headers = {"authorization": f"Bearer {ADMIN}"}
        text = ""
        async with asyncio.timeout(60):
            while f'circadia_passes_total{{status="{run["status"]}"}} 1.0' not in text:
                async with server.http.get(f"{server.url}/metrics", headers=headers) as answer:
                    text = await answer.text()
    assert 'circadia_passes_total{status="pending"} 1.0' in text
    names = ("lag_seconds", "backlog_episodes", "failures_in_a_row", "red_banks", "banks_waiting", "tokens_24h")
    for name in (*names, "saved_tokens_today", "spent_tokens_today"):
        assert f"\ncircadia_sleep_{name} " in text


async def seen(server: Live, clock: LeapClock, **wanted: float) -> dict[str, float]:
    """Return these values of `circadia_sleep_…` once they are the wanted ones, or as they are after ten measurements.

    A measurement is made every 15 seconds.
    """
    values: dict[str, float] = {}
    for _ in range(10):
        async with server.http.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {ADMIN}"}) as answer:
            lines = re.findall(r"^circadia_sleep_(\w+) (\S+)$", await answer.text(), re.MULTILINE)
        values = {name: float(value) for name, value in lines if name in wanted}
        if values == wanted:
            break
        clock.leap(15)
        await asyncio.sleep(0.2)
    return values


async def a_pass(server: Live, clock: LeapClock) -> Any:
    """Return a pass that has ended; whatever it waits for is over at once."""
    run = (await server.rest("POST", "/banks/team/passes", {}))[1]
    async with asyncio.timeout(60):
        while run["ended_at"] is None:
            clock.leap(1)
            await asyncio.sleep(0.02)
            run = (await server.rest("GET", f"/passes/{run['id']}"))[1]
    return run


@pytest.mark.spec("SLEEP-60")
async def test_the_values_are_what_waits_what_fails_and_what_passes_have_used(tmp_path: Path) -> None:
    clock = LeapClock()
    model = {"upstream": "openai", "name": "gpt-4o-mini"}
    async with (
        MockUpstream(key=KEY) as provider,
        live(tmp_path, clock=clock, provider=provider, sleeptime={"when": "manual", "model": model}) as server,
    ):
        assert (await server.rest("POST", "/banks", {"name": "team"}))[0] == 201
        nothing = {"backlog_episodes": 0, "banks_waiting": 0, "failures_in_a_row": 0, "red_banks": 0, "tokens_24h": 0}
        assert await seen(server, clock, **nothing) == nothing
        for text in ("Ann lives in Porto.", "Bob sold his bike in May."):
            assert (await server.rest("POST", "/banks/team/episodes", {"text": text}))[0] == 201
        clock.leap(10 * HOUR_SECONDS)
        waiting = {"backlog_episodes": 2, "banks_waiting": 1, "red_banks": 0, "failures_in_a_row": 0}
        assert await seen(server, clock, **waiting) == waiting
        async with server.http.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {ADMIN}"}) as answer:
            lag = re.search(r"^circadia_sleep_lag_seconds (\S+)$", await answer.text(), re.MULTILINE)
        assert lag is not None
        assert 10 * HOUR_SECONDS <= float(lag[1]) <= 10 * HOUR_SECONDS + 10 * 15 + 60

        said = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": '{"notes": []}'}}
        used = {"prompt_tokens": 700, "completion_tokens": 33, "total_tokens": 733}
        provider.next(
            body={"id": "1", "object": "chat.completion", "choices": [said], "usage": used, "created": 1, "model": "m"}
        )
        assert (await a_pass(server, clock))["status"] == "no_change"
        done = {"backlog_episodes": 0, "tokens_24h": 733, "spent_tokens_today": 733, "usd_24h": 0.0001248}
        assert await seen(server, clock, **done) == done, "0.15 and 0.60 dollars for a million tokens"
        provider.next(times=20, status=401)
        assert (await server.rest("POST", "/banks/team/episodes", {"text": "Ann moved to Faro."}))[0] == 201
        assert (await a_pass(server, clock))["status"] == "failed"
        failing = {"backlog_episodes": 1, "failures_in_a_row": 1, "tokens_24h": 733}
        assert await seen(server, clock, **failing) == failing
