"""The eight losses known from earlier systems of sleep-time compute; none of them happens here (SLEEP-70)."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from circadia.errors import Conflict
from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.memory.blocks import BlockAuthor, BlockUpdate
from circadia.records.change import Change, ChangeState
from circadia.records.sleep_pass import PassStatus
from circadia.sleeptime.proposals.changes import block_of, write_block
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step
from circadia.testing.clock import ManualClock
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import PairOutput, Slow, Tier, reading

pytestmark = pytest.mark.spec("SLEEP-70")


class Lines:
    """An operation that has the model add a line to the block `learned` for each page."""

    name = "lines"
    asks = True

    def plan(self, view: PageContext) -> Sequence[Step]:
        return [Step(name="learned", episodes=view.page)] if view.page else []

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        read = await ask(
            Prompt(rules="Add.", data=" ".join(each.text for each in step.episodes)), PairOutput, most_tokens=9
        )
        block = block_of(view, "learned")
        value = read.text if block is None else f"{block.value}\n{read.text}"
        return [write_block(view, self.name, "learned", value, [], why="new")]


async def worked(tier: Tier, **more: Any) -> PassStatus:
    """Ask for a pass by hand, run it to its end, and return how it ended."""
    asked = await tier.asked(**more)
    await tier.worker().step()
    found = await tier.until(lambda runs: not next(run for run in runs if run.id == asked.id).is_open)
    return next(run.status for run in found if run.id == asked.id)


async def read_by(stand: Stand) -> Counter[str]:
    """Return how often each word stands in a note."""
    return Counter(word for note in await stand.notes() for word in note.text.split())


@pytest.mark.spec("SLEEP-11", "SLEEP-13")
async def test_an_http_500_in_a_pass_loses_no_turn(stand: Stand) -> None:
    broken = ModelAnswerError("the provider answered 500", passing=True, retry_after_seconds=999)
    answers = iter([PairOutput(text="a b"), broken])
    await stand.said("a", "b", "c", "d", "e", "f")
    tier = Tier(stand, ScriptedChatModel(lambda prompt, _: next(answers)))
    assert await worked(tier) is PassStatus.FAILED
    assert await read_by(stand) == Counter(), "a page is published whole"
    mind = ScriptedChatModel(reading)
    tier.mind = mind
    assert await worked(tier) is PassStatus.SUCCEEDED
    assert await read_by(stand) == Counter("abcdef")
    assert [each.data for each in mind.asked] == ["c d", "e f"], "what was answered before is paid for once"


@pytest.mark.spec("SLEEP-30")
async def test_a_persons_edit_during_a_pass_stays(stand: Stand) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow), does=[Lines()])
    await stand.write("learned", "Ann lives in Porto.\nShe likes tea.", writer=BlockAuthor.SLEEP)
    await stand.said("She has a cat.")
    await tier.asked()
    worker = tier.worker()
    await worker.step()
    await slow.asked.wait()
    block = await stand.block("learned")
    async with stand.store.begin_write() as tx:
        edit = BlockUpdate(value="Ann lives in Lisbon.\nShe likes tea.", expected_version=block.version)
        await stand.memory.blocks.write(tx, stand.bank, "learned", edit, writer=BlockAuthor.PERSON, by="ann")
    slow.free.set()
    await tier.ended()
    assert (await stand.block("learned")).value == "Ann lives in Lisbon.\nShe likes tea.\nShe has a cat."


@pytest.mark.spec("SLEEP-10", "SLEEP-30")
async def test_of_four_passes_at_once_none_loses_what_another_wrote(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), does=[Lines()])
    workers = [tier.worker(f"exe{at}") for at in range(4)]
    for text in ("one", "two", "three", "four"):
        await stand.said(text)
        asked = await asyncio.gather(*(tier.asked() for _ in range(4)), return_exceptions=True)
        assert sum(isinstance(each, Conflict) for each in asked) == 3, "a bank has one pass at a time"
        await asyncio.gather(*(worker.step() for worker in workers))
        await tier.until(lambda runs: not any(run.is_open for run in runs))
    assert (await stand.block("learned")).value == "one\ntwo\nthree\nfour"


@pytest.mark.spec("SLEEP-11")
async def test_a_backlog_of_61_turns_is_read_to_its_end(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circadia.sleeptime.engine.pass_runner.PAGE", 10)
    names = [f"t{at}" for at in range(61)]
    await stand.said(*names)
    assert await worked(Tier(stand, ScriptedChatModel(reading))) is PassStatus.SUCCEEDED
    assert await read_by(stand) == Counter(names)


@pytest.mark.spec("SLEEP-10", "SLEEP-12")
async def test_a_pass_whose_process_was_killed_is_not_running_for_ever(stand: Stand) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow))
    await stand.said("a", "b")
    await tier.asked()
    await tier.worker("killed", clock=ManualClock(stand.clock.now())).step()
    await slow.asked.wait()  # it never says anything again
    tier.mind = ScriptedChatModel(reading)
    other = tier.worker("other")
    for _ in range(20):
        await other.step()
        stand.clock.advance(1)
    (run,) = await tier.ended()
    assert (run.status, run.owner) == (PassStatus.SUCCEEDED, "other")
    assert await read_by(stand) == Counter("ab")
    slow.free.set()


@pytest.mark.spec("SLEEP-11")
async def test_the_last_turn_after_a_trigger_is_read_too(stand: Stand) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow))
    await stand.said("a")
    await tier.asked()
    await stand.said("b")  # before it begins: it belongs to this pass
    await tier.worker().step()
    await slow.asked.wait()
    await stand.said("c", "d")  # while it runs: to the next
    slow.free.set()
    await tier.ended()
    assert await read_by(stand) == Counter("ab")
    assert await worked(tier) is PassStatus.SUCCEEDED
    assert await read_by(stand) == Counter("abcd")


@pytest.mark.spec("SLEEP-40")
async def test_limits_are_kept_and_failures_count(stand: Stand) -> None:
    answers = iter([ModelAnswerError("prose"), PairOutput(text="c d"), PairOutput(text="e f")])
    mind = ScriptedChatModel(lambda prompt, _: next(answers))
    tier = Tier(stand, mind, budget={"per_day": {"calls": 2}})
    await stand.said(*"abcdef")
    assert await worked(tier) is PassStatus.PARTIAL
    assert len(mind.asked) == 2
    assert await worked(tier) is PassStatus.FAILED
    assert len(mind.asked) == 2
    tier.mind = mind = ScriptedChatModel(reading)
    for ends in (PassStatus.PARTIAL, PassStatus.SUCCEEDED):  # what failed is tried again in halves: three calls
        stand.clock.advance(24 * 3600 + 1)
        assert await worked(tier) is ends
    assert len(mind.asked) == 3
    assert await read_by(stand) == Counter("abcdef")


@pytest.mark.spec("SLEEP-32")
async def test_a_pass_is_undone_after_an_edit_and_a_restart_and_the_edit_stays(stand: Stand, tmp_path: Path) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), does=[Lines()])
    await stand.write("learned", "Ann lives in Porto.\nShe likes tea.", writer=BlockAuthor.SLEEP)
    await stand.said("She has a cat.")
    assert await worked(tier) is PassStatus.SUCCEEDED
    await stand.write("learned", "Ann lives in Lisbon.\nShe likes tea.\nShe has a cat.")
    again = Tier(stand, None)  # nothing of the pass is in memory
    (run,) = await again.passes()
    async with stand.store.begin_write() as tx:
        done = await again.tier.undo(tx, stand.bank, run, by="ann")
    assert [each.state for each in done] == [ChangeState.UNDONE]
    assert (await stand.block("learned")).value == "Ann lives in Lisbon.\nShe likes tea."
    history = [block.value for block in await _history(stand)]
    assert [value.replace("\n", " ") for value in history] == [
        "Ann lives in Porto. She likes tea.",
        "Ann lives in Porto. She likes tea. She has a cat.",
        "Ann lives in Lisbon. She likes tea. She has a cat.",
        "Ann lives in Lisbon. She likes tea.",
    ], "each version is there to go back to"


async def _history(stand: Stand) -> Sequence[Any]:
    async with stand.store.begin_read() as tx:
        return await tx.blocks.history(stand.bank.id, "learned")
