"""What each setting of the sleep tier does, seen in what passes ask, begin and change; numbers beside the promise."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from circadia.errors import NotFound
from circadia.llm.chat_model import Prompt
from circadia.llm.usage import Usage
from circadia.memory.banks import NewBank
from circadia.records.change import ChangeKind
from circadia.records.sleep_pass import PassStatus, Trigger
from circadia.sleeptime.triggers.pass_lifecycle import NewPass
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import PairOutput, Pairs, Slow, Tier, reading

MINUTE, HOUR, DAY = 60, 3600, 86_400
TWO_CALLS = {"calls": 2}


class OwnPairs(Pairs):
    """The same as an operation that settings can name."""

    name = "own_pairs"


async def asked_in_four_passes(stand: Stand, settings: Mapping[str, Any]) -> list[int]:
    """Return what was asked by the end of a pass, of one ten minutes later, and of others an hour and a day after it.

    An answer takes 100,000 tokens, a ten-thousandth of a dollar and ten seconds, and twelve wait for their question.
    """

    def script(prompt: Prompt, _: type[BaseModel]) -> PairOutput:
        stand.clock.advance(10)
        return PairOutput(text=prompt.data)

    mind = ScriptedChatModel(script, used=Usage(input_tokens=99_990, output_tokens=10))
    own = {"own_operations": {"own_pairs": "tests.sleeptime.test_settings:OwnPairs"}}
    tier = Tier(stand, mind, does=[OwnPairs()], when="manual", **own, **settings)
    worker = tier.worker()
    await stand.said(*(f"I have box {at}." for at in range(24)))
    counts: list[int] = []
    for number, seconds in enumerate((0, 10 * MINUTE, HOUR + MINUTE, DAY + MINUTE), 1):
        stand.clock.advance(seconds)
        await tier.asked()
        await worker.step()
        await tier.ended(number)
        counts.append(len(mind.asked))
    return counts


NO_LIMIT: Mapping[str, Any] = {"budget": {}, "fleet_budget": {}}


@pytest.mark.spec("SLEEP-40")
@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        ({}, [12, 12, 12, 12]),
        ({"budget": {"per_pass": TWO_CALLS}}, [2, 4, 6, 8]),
        ({"budget": {"per_hour": TWO_CALLS}}, [2, 2, 4, 6]),
        ({"budget": {"per_day": TWO_CALLS}}, [2, 2, 2, 4]),
        ({"fleet_budget": {"per_hour": TWO_CALLS}}, [2, 2, 4, 6]),
        ({"fleet_budget": {"per_day": TWO_CALLS}}, [2, 2, 2, 4]),
        ({"operations": {"own_pairs": {"budget": {"per_pass": TWO_CALLS}}}}, [2, 4, 6, 8]),
        ({"operations": {"own_pairs": {"budget": {"per_day": TWO_CALLS}}}}, [2, 2, 2, 4]),
        ({"operations": {"rethink": {"budget": {"per_pass": TWO_CALLS}}}}, [12, 12, 12, 12]),
        ({"budget": {"per_pass": {"tokens": 250_000}}}, [3, 6, 9, 12]),
        ({"budget": {"per_pass": {"usd": 0.00025}}}, [3, 6, 9, 12]),
        ({"budget": {"per_pass": {"seconds": 25}}}, [3, 6, 9, 12]),
        ({"budget": {"per_day": {"seconds": 25}}}, [3, 3, 3, 6]),
    ],
    ids=str,
)
async def test_passes_spend_what_their_settings_allow_in_each_window_and_go_on_in_the_next(
    stand: Stand, settings: Mapping[str, Any], counts: list[int]
) -> None:
    assert await asked_in_four_passes(stand, {**NO_LIMIT, **settings}) == counts


@pytest.mark.spec("SLEEP-40")
@pytest.mark.parametrize("setting", ["passes_per_hour", "max_passes_per_hour"])
async def test_no_more_passes_begin_within_an_hour_than_a_bank_or_all_of_them_may(stand: Stand, setting: str) -> None:
    settings: dict[str, Any] = {"idle_seconds": 0, setting: 3}
    tier = Tier(stand, ScriptedChatModel(reading), **settings)
    worker = tier.worker()
    for at in range(5):
        await stand.said(f"{at} a", f"{at} b")
        stand.clock.advance(10)
        await worker.step()
        await tier.until(lambda found: all(not each.is_open for each in found))
    assert len(await tier.passes()) == 3
    stand.clock.advance(HOUR)
    await worker.step()
    assert len(await tier.ended(4)) == 4


@pytest.mark.spec("SLEEP-01")
@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 60),
        ({"when": "idle"}, 60),
        ({"when": "coding"}, 600),
        ({"preset": "chat"}, 60),
        ({"preset": "coding"}, 600),
    ],
    ids=str,
)
async def test_a_bank_is_idle_after_a_minute_and_one_of_a_coding_agent_after_ten(
    stand: Stand, settings: Mapping[str, Any], seconds: int
) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), **settings)
    worker = tier.worker()
    await stand.said("one", "two")
    stand.clock.advance(seconds - 1)
    await worker.step()
    assert await tier.passes() == []
    stand.clock.advance(1)
    await worker.step()
    assert [each.trigger for each in await tier.ended()] == [Trigger.IDLE]


@pytest.mark.spec("SLEEP-02")
async def test_a_pass_that_is_needed_begins_before_those_that_were_asked_for_earlier(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), when="manual", max_concurrent_passes=1)
    worker = tier.worker()
    await tier.asked()
    async with stand.store.begin_write() as tx:
        for name in ("bob", "eve"):
            bank = await stand.memory.banks.create(tx, NewBank(name=name), by="test")
            trigger = Trigger.NEEDED if name == "eve" else Trigger.HAND
            await tier.tier.request_pass(tx, bank, NewPass(trigger=trigger, by="ann"))
    await worker.step()
    begun = [each.trigger for each in await tier.ended() if each.started_at is not None]
    assert begun == [Trigger.NEEDED]


@pytest.mark.spec("SLEEP-31")
@pytest.mark.parametrize(("notes", "removed"), [(10, 1), (100, 5), (400, 20), (440, 20)])
async def test_a_pass_removes_5_percent_of_the_notes_and_20_at_most(stand: Stand, notes: int, removed: int) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    maker = await stand.begun("p0")
    await stand.publish(maker, *(stand.note(f"n{at}", sources) for at in range(notes)))
    await stand.ended(maker)
    run = await stand.begun()
    await stand.publish(run, *(stand.change(ChangeKind.RETIRE_NOTE, f"n{at}", why="stale") for at in range(25)[:notes]))
    states = [state for state, _ in await stand.changes(run)]
    assert states == ["published"] * removed + ["staged"] * (min(25, notes) - removed)


@pytest.mark.spec("SLEEP-32")
async def test_a_pass_is_undone_from_its_last_change_to_its_first(stand: Stand) -> None:
    read = await stand.write("human", "Ann lives in Lisbon.")
    run = await stand.begun()
    run = await stand.publish(run, stand.rewrite(read, "human", "Ann lives in Porto."))
    moved = await stand.block("human")
    run = await stand.publish(
        run, stand.rewrite(moved, "human", "Ann lives in Braga."), stand.rewrite(None, "new", "made")
    )
    new = await stand.block("new")
    run = await stand.publish(run, stand.rewrite(new, "new", "made and changed"))
    async with stand.store.begin_write() as tx:
        await stand.publisher.undo(tx, run, stand.bank, by="ann")
    assert (await stand.block("human")).value == "Ann lives in Lisbon."
    with pytest.raises(NotFound):
        await stand.block("new")


@pytest.mark.spec("SLEEP-61")
async def test_to_pause_a_bank_stops_the_pass_that_runs_over_it(stand: Stand) -> None:
    slow = Slow()
    mind = ScriptedChatModel(slow)
    tier = Tier(stand, mind, idle_seconds=60)
    worker = tier.worker()
    await stand.said("one", "two", "three", "four")
    stand.clock.advance(60)
    await worker.step()
    await slow.asked.wait()
    async with stand.store.begin_write() as tx:
        await tier.tier.pause(tx, stand.bank, by="ann")
    await worker.step()
    await tier.until(lambda found: found[0].status is PassStatus.PENDING)
    slow.free.set()
    stand.clock.advance(HOUR)
    await worker.step()
    assert [each.status for each in await tier.passes()] == [PassStatus.PENDING]
    async with stand.store.begin_write() as tx:
        await tier.tier.resume(tx, stand.bank, by="ann")
    stand.clock.advance(HOUR)
    await worker.step()
    async with asyncio.timeout(60):
        assert [each.status for each in await tier.ended()] == [PassStatus.SUCCEEDED]
    assert len(mind.asked) == 2
