"""Passes of several servers on one database: none begins while another's agent is answering, nothing is asked twice."""

import asyncio
from typing import Any

import pytest

from circadia.records.sleep_pass import PassBlocker, PassStatus
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.testing.clock import ManualClock
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Slow, Tier, reading

BEGUN: dict[str, object] = {"user": None, "turn": 7}
ENDED: dict[str, object] = {**BEGUN, "ended": True}
pytestmark = pytest.mark.spec("SLEEP-01", "SLEEP-04", "SLEEP-10")


async def told(tier: Tier) -> None:
    """Have what signals said of turns written, as a server does a tenth of a second later."""
    await tier.tier.turns.write_turns(tier.stand.store)


async def verdict(tier: Tier) -> PassBlocker | None:
    async with tier.stand.store.begin_read() as tx:
        return (await tier.tier.fetch_verdict(tx, tier.stand.bank)).gate


async def two(stand: Stand, mind: ScriptedChatModel, **policy: Any) -> tuple[Tier, SleepWorker, Tier, SleepWorker]:
    here, there = (Tier(stand, mind, **policy) for _ in range(2))
    return here, here.worker("here"), there, there.worker("there")


async def test_no_pass_begins_while_an_answer_is_under_way_at_another_server(stand: Stand) -> None:
    here, here_works, there, there_works = await two(
        stand, ScriptedChatModel(reading), frequency_turns=1, idle_seconds=0
    )
    await stand.said("one", "two")
    here.signals.publish("turn", "ann", BEGUN)
    await told(here)
    await there_works.step()
    assert await there.passes() == []
    assert await verdict(there) is PassBlocker.REPLYING
    for _ in range(20):  # it takes long, and its server lives
        stand.clock.advance(5)
        await here_works.step()
        await there_works.step()
    assert await there.passes() == []
    here.signals.publish("turn", "ann", ENDED)
    await told(here)
    stand.clock.advance(10)
    await there_works.step()
    assert [run.status for run in await there.ended()] == [PassStatus.SUCCEEDED]


async def test_a_turn_of_a_server_that_was_killed_ends_with_its_lease(stand: Stand) -> None:
    here, _, there, there_works = await two(stand, ScriptedChatModel(reading), idle_seconds=0)
    here.signals.publish("turn", "ann", BEGUN)
    await told(here)
    await stand.said("one", "two")  # two minutes in which nobody says that it lives
    await there_works.step()
    assert [run.status for run in await there.ended()] == [PassStatus.SUCCEEDED]


async def test_a_turn_at_another_server_stops_a_pass(stand: Stand) -> None:
    slow = Slow()
    here, _, there, there_works = await two(stand, ScriptedChatModel(slow), idle_seconds=0)
    here.signals.publish("turn", "ann", {**BEGUN, "turn": 1})  # it was there before the pass began
    await stand.said("one", "two")
    asked = await there.asked()
    await there_works.step()
    await slow.asked.wait()
    await there_works.step()
    assert (await there.passes())[0].status is PassStatus.RUNNING
    stand.clock.advance(1)
    here.signals.publish("turn", "ann", BEGUN)
    await told(here)
    await there_works.step()
    (run,) = await there.until(lambda found: found[0].status is PassStatus.PENDING)
    assert (run.id, run.detail) == (asked.id, "it yields to whoever waits")
    slow.free.set()


async def test_turns_of_one_bank_that_overlap_are_told_apart_and_other_banks_turns_hold_nothing_back(
    stand: Stand,
) -> None:
    here, _, there, _ = await two(stand, ScriptedChatModel(reading), idle_seconds=0)
    await stand.said("one", "two")
    for key, turn in (("ann", 1), ("ann", 2), ("other", 3)):
        here.signals.publish("turn", key, {"user": None, "turn": turn})
    await told(here)
    here.signals.publish("turn", "ann", {**ENDED, "turn": 1})
    await told(here)
    for tier in (here, there):
        assert await verdict(tier) is PassBlocker.REPLYING
    here.signals.publish("turn", "ann", {**ENDED, "turn": 2})
    await told(here)
    for tier in (here, there):
        stand.clock.advance(1)
        assert await verdict(tier) is None


@pytest.mark.parametrize("killed", [False, True])
async def test_a_question_that_one_server_asks_is_not_asked_by_the_one_that_goes_on_with_the_pass(
    stand: Stand, killed: bool
) -> None:
    slow = Slow()
    mind = ScriptedChatModel(slow)
    here, there = (Tier(stand, mind, idle_seconds=0) for _ in range(2))
    here_works = here.worker("here", clock=ManualClock(stand.clock.now()) if killed else None)
    await stand.said("one", "two")
    await here.asked()
    await here_works.step()
    await slow.asked.wait()
    here.signals.publish("turn", "ann", BEGUN)  # the pass yields, and its question is still under way
    await here.until(lambda found: found[0].status is PassStatus.PENDING)
    here.signals.publish("turn", "ann", ENDED)
    there_works = there.worker("there")
    for _ in range(10):
        stand.clock.advance(4)
        await there_works.step()
        await there.until(lambda found: found[0].status is PassStatus.RUNNING)
        if not killed:
            for _ in range(20):
                await asyncio.sleep(0)
    if killed:
        async with asyncio.timeout(60):
            while slow.count < 2:
                stand.clock.advance(1)
                await asyncio.sleep(0)
    slow.free.set()
    async with asyncio.timeout(60):
        while any(run.is_open for run in await there.passes()):
            stand.clock.advance(1)
            await asyncio.sleep(0)
    assert slow.count == 1 + killed, "a server that is gone is not waited for beyond its lease"
    assert [note.text for note in await stand.notes()] == ["one two"]
