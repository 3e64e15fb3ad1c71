"""The worker begins passes when they are due, lets them yield to whoever waits, and recovers what died."""

import asyncio
from contextlib import suppress

import pytest

from circadia.errors import StorageUnavailable
from circadia.llm.chat_model import ModelAnswerError
from circadia.records.bank import Trust
from circadia.records.change import ChangeState
from circadia.records.sleep_pass import PassStatus, Trigger
from circadia.testing.clock import ManualClock
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Slow, Tier, reading
from tests.watched_store import LostReplyStore

LEASE_SECONDS = 15.0


@pytest.mark.spec("SLEEP-01", "SLEEP-03", "SLEEP-12")
async def test_a_pass_begins_when_nothing_was_said_for_a_while_and_not_before(stand: Stand) -> None:
    mind = ScriptedChatModel(reading)
    tier = Tier(stand, mind, idle_seconds=60)
    worker = tier.worker()
    await worker.step()
    assert await tier.gate() == ""
    await stand.said("I live in Porto.", "I have a cat.")
    await worker.step()
    assert await tier.passes() == []
    assert await tier.gate() == "not_yet"
    assert mind.asked == [], "no model is asked to find out that nothing is to be done"
    stand.clock.advance(60)
    await worker.step()
    (run,) = await tier.ended()
    assert (run.trigger, run.status, dict(run.counts)) == (Trigger.IDLE, PassStatus.SUCCEEDED, {"add_note": 1})
    assert [note.text for note in await stand.notes()] == ["I live in Porto. I have a cat."]
    stand.clock.advance(3600)
    await worker.step()
    assert len(await tier.passes()) == 1


@pytest.mark.spec("SLEEP-01")
async def test_what_is_answered_until_a_pass_begins_is_written_before_it_however_that_goes(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading))
    worker = tier.worker()
    asked = await tier.asked()
    begun: list[bool] = []

    async def written() -> None:
        begun.append((await tier.passes())[0].started_at is not None)

    async def broken() -> None:
        raise StorageUnavailable("the disk is full")

    tier.tier.behind = [broken, written]
    await worker.step()
    (run,) = await tier.ended()
    assert (run.id, begun) == (asked.id, [False])


@pytest.mark.spec("SLEEP-01")
async def test_a_pass_begins_at_once_when_all_agents_of_the_bank_sleep(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading))
    worker = tier.worker()
    await tier.agent(asleep=False)
    await stand.said("I live in Porto.", "I have a cat.")
    await worker.step()
    assert await tier.passes() == []
    await tier.agent(asleep=True)
    await worker.step()
    (run,) = await tier.ended()
    assert run.trigger is Trigger.ASLEEP


@pytest.mark.spec("SLEEP-01")
async def test_so_many_completed_turns_make_a_pass_due(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), frequency_turns=3)
    worker = tier.worker()
    await stand.said("a", "b", trust=Trust.AGENT)
    await worker.step()
    assert await tier.passes() == []
    await stand.said("c", trust=Trust.AGENT)
    stand.clock.advance(11)
    await worker.step()
    (run,) = await tier.ended()
    assert run.trigger is Trigger.CADENCE


@pytest.mark.spec("SLEEP-04", "SLEEP-10")
async def test_a_new_turn_stops_a_pass_and_the_answer_that_was_on_its_way_is_kept(stand: Stand) -> None:
    slow = Slow()
    mind = ScriptedChatModel(slow)
    tier = Tier(stand, mind, idle_seconds=60)
    worker = tier.worker()
    await stand.said("one", "two", "three", "four")
    stand.clock.advance(60)
    await worker.step()
    await slow.asked.wait()
    tier.signals.publish("turn", "ann", {"user": None})
    (run,) = await tier.until(lambda found: found[0].status is PassStatus.PENDING)
    assert run.detail == "it yields to whoever waits"
    slow.free.set()  # the call in flight ends in the background
    tier.signals.publish("turn", "ann", {"user": None, "ended": True})
    async with asyncio.timeout(60):
        while len(mind.asked) == 1 and worker.running_count:
            await asyncio.sleep(0)
    stand.clock.advance(30)
    await worker.step()
    assert (await tier.passes())[0].status is PassStatus.PENDING, "it goes on once the bank is idle again"
    stand.clock.advance(31)
    await worker.step()
    (run,) = await tier.ended()
    assert run.status is PassStatus.SUCCEEDED
    assert [each.data for each in mind.asked] == ["one two", "three four"], "nothing is asked twice"


@pytest.mark.spec("SLEEP-04")
async def test_a_wake_stops_a_pass_also_where_its_signal_is_lost(stand: Stand) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow))
    worker = tier.worker()
    await tier.agent(asleep=True)
    await stand.said("one", "two")
    await worker.step()
    await slow.asked.wait()
    await tier.agent(asleep=False)
    await worker.step()
    (run,) = await tier.until(lambda found: found[0].status is PassStatus.PENDING)
    assert run.trigger is Trigger.ASLEEP
    slow.free.set()
    await tier.agent(asleep=True)
    stand.clock.advance(1)
    await worker.step()
    assert (await tier.ended())[0].status is PassStatus.SUCCEEDED
    assert slow.count == 1


@pytest.mark.spec("SLEEP-01", "SLEEP-04")
async def test_a_bank_that_is_never_quiet_is_worked_on_slowly_once_its_turns_have_waited_too_long(stand: Stand) -> None:
    tier = Tier(
        stand, ScriptedChatModel(reading), idle_seconds=600, max_lag_minutes=10, frequency_turns=0, importance=0
    )
    worker = tier.worker()
    await stand.said(*(f"turn {at}" for at in range(8)))
    stand.clock.advance(120)
    tier.signals.publish("turn", "ann", {"user": None})
    await worker.step()
    assert await tier.passes() == []
    stand.clock.advance(60)
    await stand.said("another")
    await worker.step()
    while not [run for run in await tier.passes() if not run.is_open]:
        tier.signals.publish("turn", "ann", {"user": None})
        await worker.step()
        stand.clock.advance(1)
        await asyncio.sleep(0)
    (run,) = await tier.passes()
    assert (run.trigger, run.status) == (Trigger.LAG, PassStatus.SUCCEEDED)


@pytest.mark.spec("SLEEP-10", "SLEEP-12", "SLEEP-70")
async def test_a_pass_of_a_dead_process_is_taken_over_and_pays_for_no_answer_twice(stand: Stand) -> None:
    mind = ScriptedChatModel(reading)
    tier = Tier(stand, mind, idle_seconds=0)
    await stand.said("one", "two", "three", "four")
    slow = Slow()
    tier.mind = ScriptedChatModel(slow)
    dead = tier.worker("exe1", clock=ManualClock(stand.clock.now()))
    await dead.step()
    await slow.asked.wait()
    tier.mind = mind
    other = tier.worker("exe2")
    await other.step()
    stand.clock.advance(LEASE_SECONDS - 1)
    await other.step()
    (run,) = await tier.passes()
    assert (run.status, run.owner) == (PassStatus.RUNNING, "exe1")
    stand.clock.advance(1)
    await other.step()
    stand.clock.advance(1)
    await other.step()
    (run,) = await tier.ended()
    assert (run.status, run.owner, run.epoch) == (PassStatus.SUCCEEDED, "exe2", 2)
    slow.free.set()  # the one that was thought dead comes back, and must not publish
    async with asyncio.timeout(60):
        while dead.running_count:
            await asyncio.sleep(0)
    assert sorted(note.text for note in await stand.notes()) == ["one two", "three four"]
    assert [each.data for each in mind.asked] == ["one two", "three four"]


@pytest.mark.spec("SLEEP-10", "SLEEP-70")
async def test_two_workers_run_one_pass_of_a_bank(stand: Stand) -> None:
    mind = ScriptedChatModel(reading)
    tier = Tier(stand, mind, idle_seconds=0)
    workers = [tier.worker(f"exe{at}") for at in range(4)]
    await stand.said("one", "two")
    await asyncio.gather(*(worker.step() for worker in workers))
    await asyncio.gather(*(worker.step() for worker in workers))
    assert [run.status for run in await tier.ended()] == [PassStatus.SUCCEEDED]
    assert len(mind.asked) == 1


@pytest.mark.spec("SLEEP-03", "SLEEP-61")
async def test_a_bank_that_is_paused_has_no_pass_and_says_why(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=0)
    worker = tier.worker()
    async with stand.store.begin_write() as tx:
        await tier.tier.pause(tx, stand.bank, by="ann")
    await stand.said("one", "two")
    await worker.step()
    assert await tier.gate() == "paused"
    async with stand.store.begin_write() as tx:
        await tier.tier.resume(tx, stand.bank, by="ann")
    stand.clock.advance(10)
    await worker.step()
    assert (await tier.ended())[0].status is PassStatus.SUCCEEDED


@pytest.mark.spec("SLEEP-40")
async def test_no_more_passes_begin_within_an_hour_than_are_allowed(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=0, passes_per_hour=3)
    worker = tier.worker()
    for at in range(5):
        await stand.said(f"{at} a", f"{at} b")
        stand.clock.advance(10)
        await worker.step()
        await tier.until(lambda found: all(not each.is_open for each in found))
    assert len(await tier.passes()) == 3
    assert await tier.gate() == "passes"
    stand.clock.advance(3600)
    await worker.step()
    assert len(await tier.ended(4)) == 4


@pytest.mark.spec("SLEEP-02", "SLEEP-12")
async def test_a_dry_run_shows_what_a_pass_would_do_and_changes_nothing(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=3600)
    worker = tier.worker()
    await stand.said("one", "two")
    asked = await tier.asked(dry_run=True)
    await worker.step()
    (run,) = await tier.ended()
    assert (run.id, run.status) == (asked.id, PassStatus.NO_CHANGE)
    assert await stand.notes() == []
    async with stand.store.begin_read() as tx:
        assert [each.state for each in await tx.passes.find_changes(run.id)] == [ChangeState.STAGED]
        assert (await tx.sleep_states.get(stand.bank.id)).cursor == 0


@pytest.mark.spec("SLEEP-02")
async def test_a_schedule_begins_a_pass_though_nothing_is_new(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), schedules=[{"cron": "0 3 * * *"}])
    worker = tier.worker()
    await worker.step()
    assert await tier.passes() == []
    stand.clock.advance(3 * 3600)
    await worker.step()
    (run,) = await tier.ended()
    assert (run.trigger, run.status) == (Trigger.SCHEDULE, PassStatus.NO_CHANGE)
    stand.clock.advance(3600)
    await worker.step()
    assert len(await tier.passes()) == 1
    stand.clock.advance(23 * 3600)
    await worker.step()
    assert len(await tier.ended(2)) == 2


@pytest.mark.spec("SLEEP-10")
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("before", "status"), [(0, PassStatus.PENDING), (1, PassStatus.RUNNING)], ids=["claimed", "taken"]
)
async def test_a_pass_that_was_taken_without_a_word_from_the_database_goes_on(
    stand: Stand, alone: bool, before: int, status: PassStatus
) -> None:
    store = stand.store = LostReplyStore(stand.store)
    tier = Tier(stand, ScriptedChatModel(reading))
    worker = tier.worker(alone=alone)
    await stand.said("one", "two")
    await worker.step()
    await tier.asked()
    store.spared, store.lost = before, 1
    with suppress(StorageUnavailable):
        await worker._start()  # pyright: ignore[reportPrivateUsage] (nothing else is to write before)
    assert [(run.status, run.owner) for run in await tier.passes()] == [(status, "exe1")]
    assert worker.running_count == 0
    stand.clock.advance(LEASE_SECONDS)
    await worker.step()
    assert [run.status for run in await tier.ended()] == [PassStatus.SUCCEEDED]


@pytest.mark.spec("SLEEP-02")
@pytest.mark.parametrize(("days", "passes"), [(1, 1), (3, 2), (500, 2)])
async def test_schedules_go_on_when_a_clock_that_was_days_ahead_is_set_right(
    stand: Stand, days: int, passes: int
) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), schedules=[{"cron": "0 3 * * *"}], passes_per_hour=1)
    worker = tier.worker()
    stand.clock.set(days * 86_400)
    stand.clock.advance(3 * 3600)
    await worker.step()
    await tier.ended()
    stand.clock.set(-days * 86_400)
    stand.clock.advance(7200)
    await worker.step()
    assert len(await tier.passes()) == 1
    stand.clock.advance(22 * 3600)
    await worker.step()
    assert len(await tier.passes()) == passes


@pytest.mark.spec("SLEEP-13")
async def test_after_failures_the_next_pass_waits_longer_each_time(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(lambda _, __: ModelAnswerError("500", passing=True, retry_after_seconds=3600)))
    worker = tier.worker()
    await stand.said("one", "two")
    stand.clock.advance(60)
    pauses: list[float] = []
    for _ in range(4):
        await worker.step()
        run = (await tier.until(lambda found: bool(found) and not found[-1].is_open))[-1]
        assert (run.status, run.detail) == (PassStatus.FAILED, "pairs: episodes 1 to 2: 500"), "told once"
        async with stand.store.begin_read() as tx:
            state = await tx.sleep_states.get(stand.bank.id)
        assert state.not_before is not None
        pauses.append((state.not_before - stand.clock.now()).total_seconds())
        assert state.cursor == 0, "the input is kept"
        stand.clock.advance(pauses[-1])
    assert pauses == sorted(pauses)
    assert pauses[-1] > 4 * pauses[0]


@pytest.mark.spec("SLEEP-10")
async def test_a_server_that_stops_puts_its_passes_back_and_the_next_goes_on(stand: Stand) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow), idle_seconds=0)
    worker = tier.worker(alone=True)
    await stand.said("one", "two")
    await worker.step()
    await slow.asked.wait()
    await worker.drain()
    assert (await tier.passes())[0].status is PassStatus.PENDING
    tier.mind = ScriptedChatModel(reading)
    stand.clock.advance(1)
    await tier.worker("exe2", alone=True).step()
    assert (await tier.ended())[0].status is PassStatus.SUCCEEDED
