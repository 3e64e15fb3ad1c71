"""Waits at the model door that go another way: an impatient caller, and a wake whose messages nobody can count."""

import asyncio
import json
from pathlib import Path

import pytest

from circadia.errors import StorageUnavailable
from circadia.stores.sql.deliveries import Deliveries
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import live


@pytest.mark.spec("GATE-51")
async def test_a_caller_that_gives_up_at_once_gets_no_more_signs_of_life_than_others(tmp_path: Path) -> None:
    clock = LeapClock()
    async with live(tmp_path, clock=clock, defaults={"hold_silent_seconds": 1, "keep_alive_seconds": 15}) as at:
        token = await at.agent()
        await at.sleeping(True)
        async with at.call(token, headers={"x-stainless-timeout": "0.001"}) as response:
            for _ in range(40):
                clock.leap(0.5)
                await at.held(1)
            await at.sleeping(False)
            answer = await response.read()
        assert len(answer) - len(answer.lstrip(b" ")) <= 2, "in 20 s"


@pytest.mark.spec("GATE-65")
async def test_woken_calls_go_on_without_the_number_of_messages_that_cannot_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> int:
        raise StorageUnavailable("the database is busy")

    async with live(tmp_path, defaults={"hold_silent_seconds": 60}) as at:
        token = await at.agent()
        await at.sleeping(True)
        pending = [asyncio.create_task(at.answered(token)) for _ in range(3)]
        await at.held(3)
        monkeypatch.setattr(Deliveries, "count_unread", fails)
        await at.sleeping(False)
        assert [(await call)[0] for call in pending] == [200] * 3
    for request in at.upstream.requests:
        sent = json.loads(request.body)["messages"][-1]["content"]
        assert "; there may be unread messages: call wait_for_message on the Circadia MCP server." in sent
