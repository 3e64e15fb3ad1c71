"""The clock that tests move by hand."""

import asyncio
from datetime import UTC, datetime

import pytest

from circadia.testing.clock import ManualClock


async def test_time_passes_only_when_it_is_advanced() -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    clock.advance(90)
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 3, 1, 0, 1, 30, tzinfo=UTC), 90.0)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


async def test_sleepers_wake_when_they_are_due_in_the_order_of_their_instants() -> None:
    clock = ManualClock()
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as group:
        for seconds in (3.0, 0.0, 1.0, 2.0, -1.0):
            group.create_task(sleep(seconds))
        await clock.wait_for_sleepers(3)
        assert woken == [0.0, -1.0]
        clock.advance(0.999)
        await asyncio.sleep(0)
        assert woken == [0.0, -1.0]
        clock.advance(1.001)
        await clock.wait_for_sleepers(1)
        await asyncio.sleep(0)
        assert woken == [0.0, -1.0, 1.0, 2.0]
        clock.advance(1.0)
    assert (woken[-1], clock.sleepers) == (3.0, 0)


async def test_a_sleeper_that_is_cancelled_counts_no_more() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.wait_for_sleepers(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert clock.sleepers == 0
    clock.advance(10)
