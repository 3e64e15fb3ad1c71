"""What fails in a step, whoever has written it, holds up neither the other work of the bank nor that of the process."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.memory.blocks import BlockAuthor
from circadia.records.bank import Bank
from circadia.records.change import Change
from circadia.records.event import EventType
from circadia.records.sleep_pass import PassStatus, SleepState, Trigger
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, PassContext, Step
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import PairOutput, Pairs, Slow, Tier, reading


async def state_of(stand: Stand) -> SleepState:
    async with stand.store.begin_read() as tx:
        return await tx.sleep_states.get(stand.bank.id)


class Own:
    """An operation of a user's own that does not know of poison."""

    name = "own_broken"
    asks = False

    def __init__(self, *, plans: bool) -> None:
        self.plans = plans

    def plan(self, view: PageContext) -> Sequence[Step]:
        if not self.plans and any(each.text == "poison" for each in view.page):
            raise KeyError("poison")
        return [Step(name="all", episodes=view.page)] if view.page else []

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        if any(each.text == "poison" for each in step.episodes):
            raise KeyError("poison")
        return []


@pytest.mark.spec("SLEEP-13")
@pytest.mark.parametrize("plans", [True, False])
async def test_a_fault_in_a_users_own_operation_sets_apart_what_it_fails_on_and_stops_no_other(
    stand: Stand, plans: bool
) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), does=[Own(plans=plans), Pairs()], idle_seconds=0)
    texts = ["a", "b", "poison", "c"]
    await stand.said(*texts)
    for number in range(1, 12):
        stand.clock.advance(3600)
        await tier.worker().step()
        if len(await tier.passes()) < number:
            break
        await tier.ended(number)
    (left,) = (await state_of(stand)).leftovers
    told = "it raised KeyError; see the log, or switch 'own_broken' off"
    assert (left.first, left.is_quarantined, left.cause) == (3, True, told)
    first = (await tier.passes())[0]
    assert (first.status, first.detail) == (PassStatus.PARTIAL, f"own_broken: episodes 1 to 4: {told}")
    read = {word for note in await stand.notes() for word in note.text.split()}
    assert read == set(texts), "the other operation has read all"


half_named = type("HalfNamed", (type,), {"__name__": property(lambda _: "Half\ud83e")})
"""A class of classes whose names end in half a character."""
HalfError: type[Exception] = half_named("HalfError", (Exception,), {})


class Closing(Pairs):
    """Fails at the end of a pass with words that no database can store."""

    name = "own_closing"

    async def close(self, bank: Bank, context: PassContext) -> Mapping[str, int]:
        raise HalfError


@pytest.mark.spec("LARGE-132")
async def test_a_pass_whose_result_cannot_be_stored_has_failed_and_the_next_one_runs(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), does=[Closing()], idle_seconds=0)
    for number in (1, 2):
        await stand.said("a", "b")
        stand.clock.advance(3600)
        await tier.worker().step()
        ended = (await tier.ended(number))[-1]
        assert (ended.status, ended.detail) == (PassStatus.FAILED, "its result cannot be stored; see the log")
        assert f"the result of {ended.id} is given up; the job fails" in caplog.messages
    async with stand.store.begin_read() as tx:
        events = await tx.events.find_after(0, types=[EventType.PASS], limit=99)
    assert [event.data["status"] for event in events].count("failed") == 2


class Editing(Pairs):
    """Asks about each block that somebody has written, and has no new episodes then."""

    name = "editing"

    def plan(self, view: PageContext) -> Sequence[Step]:
        return [Step(name="edited", data={"label": each}) for each in view.edited]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        await ask(Prompt(rules="Edit.", data=str(step.data["label"])), PairOutput, most_tokens=9)
        return []


def prose(prompt: Prompt, _: type[BaseModel]) -> PairOutput | ModelAnswerError:
    return ModelAnswerError("prose") if prompt.rules == "Edit." else PairOutput(text=prompt.data)


@pytest.mark.spec("SLEEP-13", "SLEEP-02")
@pytest.mark.parametrize("turns", [False, True])
async def test_what_is_never_answered_of_an_edit_is_left_after_some_passes_though_nothing_is_new(
    stand: Stand, turns: bool
) -> None:
    mind = ScriptedChatModel(prose)
    tier = Tier(stand, mind, does=[Pairs(), Editing()], idle_seconds=0, frequency_turns=1)
    await stand.write("human", "Ann", writer=BlockAuthor.PERSON)
    for number in range(1, 12):
        if turns:
            await stand.said(f"{number} a", f"{number} b")
        stand.clock.advance(3600)
        await tier.worker().step()
        if len(await tier.passes()) < number:
            break
        ended = (await tier.ended(number))[-1]
        state = await state_of(stand)
        if ended.status is PassStatus.PARTIAL:
            assert state.not_before is not None
            assert (state.not_before - stand.clock.now()).total_seconds() < 60, "new turns are not held back for it"
            assert state.succeeded_at is None
    assert sum(each.rules == "Edit." for each in mind.asked) == 4
    assert (await state_of(stand)).failures == (0 if turns else 4)


@pytest.mark.spec("SLEEP-43", "SLEEP-14")
async def test_steps_that_wait_for_a_model_leave_the_threads_that_all_share_to_others(stand: Stand) -> None:
    class Threaded(Slow):
        async def __call__(self, prompt: Prompt, output: type[BaseModel]) -> PairOutput:
            return await asyncio.to_thread(PairOutput, text=prompt.data)  # as a model does that is opened late

    crowd = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(crowd)
    tier = Tier(stand, ScriptedChatModel(Threaded()))
    await stand.said("one", "two")
    await tier.asked()
    await tier.worker().step()
    assert (await tier.ended())[0].status is PassStatus.SUCCEEDED


@pytest.mark.spec("SLEEP-10")
async def test_who_cancels_a_pass_ends_its_question(stand: Stand) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow))
    worker = tier.worker()
    await stand.said("one", "two")
    run = await tier.asked()
    await worker.step()
    await slow.asked.wait()
    async with stand.store.begin_write() as tx:
        present = await tx.passes.get(run.id)
        assert present is not None
        await tier.tier.cancel(tx, stand.bank, present, by="ann")
    await worker.step()
    async with asyncio.timeout(60):
        while not await errors(stand):
            await asyncio.sleep(0)
    assert await errors(stand) == ["dropped"]
    assert not worker.running_count


async def errors(stand: Stand) -> list[str]:
    async with stand.store.begin_read() as tx:
        (run,) = await tx.passes.find_all()
        return [each.error for each in await tx.sleep_calls.find_by_pass(run.id) if each.error]


class Whole(Pairs):
    """Asks once more where a pass looks at the whole bank."""

    def plan(self, view: PageContext) -> Sequence[Step]:
        self.full = getattr(self, "full", 0) + view.full
        return super().plan(view)


@pytest.mark.spec("SLEEP-04")
async def test_a_pass_over_the_whole_bank_that_goes_on_does_not_begin_anew(stand: Stand) -> None:
    whole, slow = Whole(), Slow()
    tier = Tier(stand, ScriptedChatModel(slow), does=[whole], idle_seconds=0)
    await stand.said("one", "two")
    await tier.asked(full=True)
    worker = tier.worker()
    await worker.step()
    await slow.asked.wait()
    tier.signals.publish("turn", "ann", {"user": None})
    await tier.until(lambda found: found[0].status is PassStatus.PENDING)
    tier.signals.publish("turn", "ann", {"user": None, "ended": True})
    slow.free.set()
    stand.clock.advance(60)
    await worker.step()
    (run,) = await tier.ended()
    assert (run.status, run.trigger, whole.full) == (PassStatus.SUCCEEDED, Trigger.HAND, 1)


class Unclosed(Own):
    """Another one, that fails once all is published."""

    async def close(self, bank: Bank, context: PassContext) -> Mapping[str, int]:
        raise KeyError("poison")


@pytest.mark.spec("SLEEP-13")
async def test_a_fault_at_the_end_of_a_pass_leaves_what_it_has_published_and_is_told(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), does=[Unclosed(plans=True), Pairs()], idle_seconds=0)
    await stand.said("one", "two")
    await tier.asked()
    await tier.worker().step()
    ended = (await tier.ended())[0]
    assert ended.status is PassStatus.PARTIAL
    assert "own_broken: it raised KeyError" in ended.detail
    assert "poison" not in ended.detail
    assert ended.counts["add_note"] == 1
    assert (await state_of(stand)).cursor == ended.upto
