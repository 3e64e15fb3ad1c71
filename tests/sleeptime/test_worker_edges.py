"""Passes keep going, and let others go on, where banks are many, settings are odd and things happen in between."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.memory.banks import NewBank
from circadia.memory.forgetting import forget
from circadia.records.bank import Bank, BankPolicy
from circadia.records.change import FORGOTTEN, Change
from circadia.records.sleep_pass import Leftover, PassStatus, Trigger
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step
from circadia.sleeptime.triggers.pass_lifecycle import NewPass
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import PairOutput, Pairs, Slow, Tier, reading


class Wide(Pairs):
    """An operation that asks once for the whole page."""

    name = "wide"

    def plan(self, view: PageContext) -> Sequence[Step]:
        return [Step(name="all", episodes=view.page)] if view.page else []


async def under_way(stand: Stand, **policy: Any) -> tuple[Tier, SleepWorker, Slow]:
    """Begin a pass whose model has been asked and does not answer yet."""
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow), **policy)
    worker = tier.worker()
    await stand.said("one", "two")
    await worker.step()
    await slow.asked.wait()
    return tier, worker, slow


async def another(stand: Stand, name: str, policy: BankPolicy | None = None) -> Bank:
    """Make a bank with two episodes."""
    async with stand.store.begin_write() as tx:
        bank = await stand.memory.banks.create(tx, NewBank(name=name, policy=policy or BankPolicy()), by="test")
    home, stand.bank = stand.bank, bank
    await stand.said("one", "two")
    stand.bank = home
    return bank


@pytest.mark.spec("SLEEP-11", "SLEEP-13")
async def test_of_two_leftovers_with_the_same_beginning_none_is_dropped_with_the_other(stand: Stand) -> None:
    tier = Tier(
        stand, ScriptedChatModel(lambda _, __: ModelAnswerError("prose")), does=[Pairs(), Wide()], idle_seconds=0
    )
    worker = tier.worker()
    await stand.said("a", "b", "c", "d")
    await worker.step()
    await tier.ended()
    asked = 0

    def stopping(prompt: Prompt, _: type[BaseModel]) -> PairOutput | ModelAnswerError:
        nonlocal asked
        asked += 1
        return (
            PairOutput(text=prompt.data)
            if asked < 3
            else ModelAnswerError("500", passing=True, retry_after_seconds=999)
        )

    tier.mind = ScriptedChatModel(stopping)
    stand.clock.advance(3600)
    await worker.step()
    await tier.ended(2)
    tier.mind = ScriptedChatModel(reading)
    for number in range(3, 6):
        stand.clock.advance(3600)
        await tier.worker().step()
        if len(await tier.passes()) >= number:
            await tier.ended(number)
    read = {word for note in await stand.notes() for word in note.text.split()}
    assert read == {"a", "b", "c", "d"}


@pytest.mark.spec("SLEEP-04", "SLEEP-10")
async def test_a_question_on_its_way_is_waited_for_by_the_pass_that_goes_on(stand: Stand) -> None:
    tier, worker, slow = await under_way(stand, frequency_turns=1, idle_seconds=0)
    for _ in range(3):
        tier.signals.publish("turn", "ann", {"user": None})
        await tier.until(lambda found: found[0].status is PassStatus.PENDING)
        tier.signals.publish("turn", "ann", {"user": None, "ended": True})
        stand.clock.advance(1)
        await worker.step()
    slow.free.set()
    await tier.ended()
    assert slow.count == 1


@pytest.mark.spec("SLEEP-10")
async def test_what_another_process_has_put_back_is_worked_on_no_more_before_it_begins_anew(stand: Stand) -> None:
    tier, worker, slow = await under_way(stand, frequency_turns=1, idle_seconds=0)
    (stalled,) = worker._running.values()  # pyright: ignore[reportPrivateUsage] (what goes on is not to be seen)
    async with stand.store.begin_write() as tx:
        (taken,) = await tx.passes.find_claimed()
        await tier.tier.rows.requeue(tx, stand.bank, taken, "its process died", seconds=0, died=True)
    await worker.step()
    async with asyncio.timeout(60):
        await asyncio.wait((stalled.task,))
    slow.free.set()
    await worker.step()
    (run,) = await tier.ended()
    assert (run.status, run.epoch) == (PassStatus.SUCCEEDED, 2)
    assert stalled.task.cancelled()


@pytest.mark.spec("SLEEP-01")
async def test_no_pass_begins_in_the_middle_of_a_reply(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=60)
    worker = tier.worker()
    await stand.said("one", "two")
    await worker.step()
    tier.signals.publish("turn", "ann", {"user": None})
    stand.clock.advance(100)
    await worker.step()
    assert await tier.passes() == []
    tier.signals.publish("turn", "ann", {"user": None, "ended": True})
    stand.clock.advance(60)
    await worker.step()
    assert (await tier.ended())[0].trigger is Trigger.IDLE


@pytest.mark.spec("SLEEP-02")
async def test_a_schedule_begins_a_pass_where_nothing_else_would(stand: Stand) -> None:
    only: dict[str, Any] = {"idle_seconds": 86_400, "frequency_turns": 0, "importance": 0, "max_lag_minutes": 40_000}
    tier = Tier(stand, ScriptedChatModel(reading), schedules=[{"cron": "0 3 * * *"}], **only)
    worker = tier.worker()
    await stand.said("one", "two")
    stand.clock.advance(3 * 3600)
    await worker.step()
    assert [(run.trigger, run.status) for run in await tier.ended()] == [(Trigger.SCHEDULE, PassStatus.SUCCEEDED)]


@pytest.mark.spec("SLEEP-04")
async def test_a_turn_stops_a_pass_over_a_bank_in_which_nothing_waited(stand: Stand) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow), idle_seconds=3600)
    await stand.said("one", "two")
    await tier.asked()
    worker = tier.worker()
    await worker._start()  # pyright: ignore[reportPrivateUsage] (before it has looked at any bank)
    await slow.asked.wait()
    tier.signals.publish("turn", "ann", {"user": None})
    await tier.until(lambda found: found[0].status is PassStatus.PENDING)
    slow.free.set()


@pytest.mark.spec("SLEEP-61", "SLEEP-40")
async def test_a_pass_by_hand_over_a_paused_bank_waits_and_asks_nothing(stand: Stand) -> None:
    mind = ScriptedChatModel(reading)
    tier = Tier(stand, mind, idle_seconds=0)
    worker = tier.worker()
    await stand.said("one", "two")
    async with stand.store.begin_write() as tx:
        await tier.tier.pause(tx, stand.bank, by="ann")
    await tier.asked()
    for _ in range(20):
        await worker.step()
    assert (await tier.passes())[0].detail == "paused by ann"
    assert mind.asked == []
    async with stand.store.begin_write() as tx:
        await tier.tier.resume(tx, stand.bank, by="ann")
    await worker.step()
    assert (await tier.ended())[0].status is PassStatus.SUCCEEDED


@pytest.mark.spec("SLEEP-61")
async def test_a_pass_that_is_due_begins_as_soon_as_its_bank_is_paused_no_more(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=0)
    worker = tier.worker()
    await stand.said("one", "two")
    stand.clock.advance(3600)
    async with stand.store.begin_write() as tx:
        await tier.tier.pause(tx, stand.bank, by="ann")
    await worker.step()
    assert (await tier.passes(), await tier.gate()) == ([], "paused")
    async with stand.store.begin_write() as tx:
        await tier.tier.resume(tx, stand.bank, by="ann")
    await worker.step()
    assert (await tier.ended())[0].status is PassStatus.SUCCEEDED


@pytest.mark.spec("SLEEP-14")
async def test_banks_that_must_wait_keep_no_other_bank_from_its_pass(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=0, max_concurrent_passes=1)
    paused = [await another(stand, f"paused{at}") for at in range(5)]
    async with stand.store.begin_write() as tx:
        for bank in paused:
            await tier.tier.request_pass(tx, bank, NewPass(trigger=Trigger.HAND))
            await tier.tier.pause(tx, bank, by="ann")
    await stand.said("one", "two")
    await tier.asked()
    await tier.worker().step()
    done = await tier.until(lambda found: any(not run.is_open for run in found))
    assert [run.bank_id for run in done if not run.is_open] == [stand.bank.id]


@pytest.mark.spec("SLEEP-14")
async def test_a_bank_whose_policy_does_not_hold_any_more_stops_no_other(stand: Stand) -> None:
    await another(stand, "a-first", BankPolicy(sleeptime={"idle_seconds": "never", "of_old": 1}))
    await stand.said("one", "two")
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=0)
    await tier.worker().step()
    assert len(await tier.ended(2)) == 2


@pytest.mark.spec("SLEEP-40")
async def test_a_pass_that_has_yielded_is_not_kept_out_by_itself(stand: Stand) -> None:
    tier, worker, slow = await under_way(stand, idle_seconds=0, passes_per_hour=1)
    tier.signals.publish("turn", "ann", {"user": None})
    await tier.until(lambda found: found[0].status is PassStatus.PENDING)
    tier.signals.publish("turn", "ann", {"user": None, "ended": True})
    slow.free.set()
    stand.clock.advance(1)
    await worker.step()
    assert (await tier.ended())[0].status is PassStatus.SUCCEEDED


@pytest.mark.spec("SLEEP-13")
async def test_what_is_set_apart_keeps_no_asked_for_pass_from_its_work(stand: Stand) -> None:
    planned: list[int] = []

    class Counting(Pairs):
        def plan(self, view: PageContext) -> Sequence[Step]:
            planned.append(len(view.page))
            return []

    tier = Tier(stand, ScriptedChatModel(reading), does=[Counting()])
    async with stand.store.begin_write() as tx:
        state = await tx.sleep_states.get(stand.bank.id)
        apart = Leftover(first=1, last=1, failures=3, cause="prose")
        await tx.sleep_states.put(replace(state, leftovers=(apart,)))
    await tier.asked()
    await tier.worker().step()
    await tier.ended()
    assert planned == [0]


@pytest.mark.spec("SLEEP-13")
async def test_a_step_that_is_never_answered_is_set_apart_once_others_are(stand: Stand) -> None:
    def deaf(prompt: Prompt, _: type[BaseModel]) -> PairOutput | ModelAnswerError:
        if "c" in prompt.data:
            return ModelAnswerError("no answer within 120 s", passing=True, retry_after_seconds=999)
        return PairOutput(text=prompt.data)

    tier = Tier(stand, ScriptedChatModel(deaf), idle_seconds=0)
    await stand.said("a", "b", "c", "d", "e", "f")
    for number in range(1, 16):
        await tier.worker().step()
        if len(await tier.passes()) >= number:
            await tier.ended(number)
        stand.clock.advance(3 * 3600)
    read = {word for note in await stand.notes() for word in note.text.split()}
    assert read == set("abdef")
    async with stand.store.begin_read() as tx:
        (left,) = (await tx.sleep_states.get(stand.bank.id)).leftovers
    assert left.is_quarantined


@pytest.mark.spec("SLEEP-60", "MEM-03")
async def test_neither_what_failed_nor_what_was_forgotten_stands_in_the_records(stand: Stand) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow), does=[Pairs()])
    first, _ = await stand.said("My salary is 92000.", "I am pregnant.")
    await tier.asked()
    await tier.worker().step()
    await slow.asked.wait()
    async with stand.store.begin_write() as tx:
        await forget(tx, stand.bank, [first.id])
    slow.free.set()
    (run,) = await tier.ended()
    assert await stand.changes(run) == [("refused", FORGOTTEN)]
    tier.mind = ScriptedChatModel(lambda _, __: ModelAnswerError("bad JSON"))
    await stand.said("My salary is 1.", "I am tired.")
    await tier.asked()
    await tier.worker().step()
    last = (await tier.ended(2))[-1]
    assert last.detail.startswith("pairs: episodes 3 to 4: bad JSON")
    async with stand.store.begin_read() as tx:
        told = [str(event.data) for event in await tx.events.find_after(0, limit=1000)]
        changes: Sequence[Change] = await tx.passes.find_changes(run.id)
    assert not [each for each in (*told, str(changes)) if "salary" in each or "92000" in each]


@pytest.mark.spec("SLEEP-04")
async def test_a_step_that_takes_the_processor_for_long_leaves_the_event_loop_to_others(stand: Stand) -> None:
    class Heavy(Pairs):
        async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
            while not free.is_set():  # until the event loop has had its turn meanwhile
                pass
            return await super().propose(step, view, ask)

    free = asyncio.Event()
    tier = Tier(stand, ScriptedChatModel(reading), does=[Heavy()])
    await stand.said("one", "two")
    await tier.asked()
    await tier.worker().step()
    async with asyncio.timeout(60):
        await asyncio.sleep(0.05)
        free.set()
    assert (await tier.ended())[0].status is PassStatus.SUCCEEDED
