"""The watch that tests keep on event loops tells of a callback that computes for too long, and of nothing else."""

import asyncio
import gc
import time

import pytest

from tests.recording.loop_watch import LoopWatch

pytestmark = pytest.mark.spec("LARGE-04")


def compute(seconds: float) -> None:
    """Use the processor for so long."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(100))


async def test_a_callback_that_computes_for_over_50_ms_is_told_with_its_stack() -> None:
    told: list[tuple[float, str]] = []
    watch = LoopWatch(asyncio.get_running_loop(), lambda seconds, stack: told.append((seconds, stack)))
    await asyncio.sleep(0)
    compute(0.2)
    await asyncio.sleep(0)
    watch.stop()
    assert [seconds > 0.05 and "compute" in stack for seconds, stack in told] == [True] * len(told) != []


async def test_a_callback_that_computes_between_collections_of_garbage_is_told_too() -> None:
    told: list[str] = []
    watch = LoopWatch(asyncio.get_running_loop(), lambda _, stack: told.append(stack))
    await asyncio.sleep(0)
    for _ in range(10):
        compute(0.03)
        gc.collect()
    await asyncio.sleep(0)
    watch.stop()
    assert told


async def test_what_waits_or_takes_turns_or_collects_garbage_is_not_told() -> None:
    told: list[str] = []
    watch = LoopWatch(asyncio.get_running_loop(), lambda _, stack: told.append(stack))
    for _ in range(20):
        compute(0.02)
        await asyncio.sleep(0)
    time.sleep(0.2)
    await asyncio.sleep(0)
    kept = [[number] for number in range(400_000)]
    gc.collect()
    await asyncio.sleep(0)
    del kept
    watch.stop()
    assert not [stack for stack in told if "compute" in stack or "gc.collect" in stack]
