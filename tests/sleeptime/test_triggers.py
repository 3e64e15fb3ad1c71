"""What besides turns makes a pass due: a full context, what went stale, an edit of a block; and passes over all."""

from collections.abc import Sequence

import pytest

from circadia.memory.blocks import BlockAuthor
from circadia.records.change import ChangeKind
from circadia.records.episode import Episode
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.sleeptime.proposals.operation import PageContext, Step
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Pairs, Slow, Tier, reading


class Seeing(Pairs):
    """Remembers the views that it was given."""

    def __init__(self) -> None:
        self.views: list[PageContext] = []

    def plan(self, view: PageContext) -> Sequence[Step]:
        self.views.append(view)
        return super().plan(view)


async def triggers(tier: Tier, number: int) -> list[Trigger]:
    """Return what passes were begun for, once so many have ended."""
    return [run.trigger for run in await tier.ended(number)]


async def demoted(stand: Stand, *rows: Episode, by: str = "ann") -> None:
    for row in rows:
        async with stand.store.begin_write() as tx:
            assert await stand.memory.episodes.demote(
                tx, stand.bank, row.id, by=by, reason="it is over", evidence=f"letter about {row.id}", weight=0.3
            )


async def worked_through(stand: Stand, tier: Tier, number: int = 8) -> list[Episode]:
    """Return so many episodes that a pass has worked through."""
    rows = await stand.said(*(f"thing {at}" for at in range(number)))
    stand.clock.advance(60)
    await tier.worker().step()
    await tier.ended()
    return rows


async def taken_back(stand: Stand, tier: Tier, run: Pass) -> int:
    """Take back what a pass has done; return how many changes that were."""
    async with stand.store.begin_write() as tx:
        ended = await tx.passes.get(run.id)
        assert ended is not None
        return len(await tier.tier.undo(tx, stand.bank, ended, by="ann"))


@pytest.mark.spec("SLEEP-02")
async def test_a_call_that_fills_its_context_makes_a_bank_due_at_once_if_anything_waits(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading))
    worker = tier.worker()
    tier.signals.publish("context", "ann", {"user": None, "filled": 0.9})  # it knows no bank yet
    await worker.step()
    assert await tier.passes() == []
    await stand.said("a", "b")
    await worker.step()
    assert await triggers(tier, 1) == [Trigger.OVERFLOW]
    await stand.said("c")
    await worker.step()
    assert len(await tier.passes()) == 1, "one pass for one full context"
    for filled in (0.5, 0.0):
        tier.signals.publish("context", "ann", {"user": None, "filled": filled})
    stand.clock.advance(11)
    await worker.step()
    assert len(await tier.passes()) == 1
    tier.signals.publish("context", "ann", {"user": None, "filled": 1.0})
    await worker.step()
    assert await triggers(tier, 2) == [Trigger.OVERFLOW, Trigger.OVERFLOW]


@pytest.mark.spec("SLEEP-02")
async def test_a_pass_begins_when_others_have_demoted_a_share_of_the_bank_though_nothing_was_said(stand: Stand) -> None:
    seeing = Seeing()
    tier = Tier(stand, ScriptedChatModel(reading), does=[seeing], stale_share=0.2)
    rows = await worked_through(stand, tier)  # eight episodes and four notes
    await demoted(stand, *rows[:2])
    worker = tier.worker()
    await worker.step()
    assert len(await tier.passes()) == 1, "two of twelve are less than a fifth"
    await demoted(stand, rows[2])
    stand.clock.advance(61)
    await worker.step()
    assert await triggers(tier, 2) == [Trigger.IDLE, Trigger.STALE]
    assert set(seeing.views[-1].stale) == {each.id for each in rows[:3]}
    stand.clock.advance(3600)
    await worker.step()
    assert len(await tier.passes()) == 2, "what a pass has looked at makes none due again"


@pytest.mark.spec("SLEEP-02")
async def test_what_passes_demote_and_what_is_taken_back_of_it_makes_none_due(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), stale_share=0.1)
    rows = await worked_through(stand, tier)
    run = await stand.begun()
    changes = [
        stand.change(
            ChangeKind.DEMOTE_EPISODE, each.id, after={"reason": "over", "evidence": f"x{each.number}", "weight": 0.3}
        )
        for each in rows
    ]
    await stand.publish(run, *changes, upto=rows[-1].number)
    await stand.ended(run)
    worker = tier.worker()
    await worker.step()
    assert await taken_back(stand, tier, run) == 8
    stand.clock.advance(3600)
    await worker.step()
    assert len(await tier.passes()) == 2
    async with stand.store.begin_read() as tx:
        assert await tx.sleep_states.find_banks_with_changes() == []


@pytest.mark.spec("SLEEP-02")
async def test_a_block_that_somebody_else_writes_makes_a_pass_due_once_it_is_quiet(stand: Stand) -> None:
    seeing = Seeing()
    tier = Tier(stand, ScriptedChatModel(reading), does=[seeing])
    await worked_through(stand, tier)
    worker = tier.worker()
    await stand.write("human", "Ann moved to Lisbon.")
    await stand.write("rules", "Be short.", writer=BlockAuthor.SLEEP)  # of a sleep-time agent
    await worker.step()
    assert len(await tier.passes()) == 1
    async with stand.store.begin_read() as tx:
        bank = await tx.banks.get(stand.bank.id)
        assert bank is not None
        verdict = await tier.tier.fetch_verdict(tx, bank)
    assert verdict.detail == "nothing was said since the last pass; a block was written by somebody else"
    stand.clock.advance(60)
    await worker.step()
    assert await triggers(tier, 2) == [Trigger.IDLE, Trigger.DOCUMENT]
    assert "human" in seeing.views[-1].edited
    stand.clock.advance(3600)
    await worker.step()
    assert len(await tier.passes()) == 2


@pytest.mark.spec("SLEEP-02", "SLEEP-32")
async def test_what_passes_and_sleep_time_agents_write_and_an_undo_make_none_due(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading))
    await worked_through(stand, tier)
    run = await stand.begun()
    await stand.publish(run, stand.rewrite(None, "learned", "Ann lives in Porto."), upto=8)
    await stand.ended(run)
    await stand.write("rules", "Be short.", writer=BlockAuthor.SLEEP)
    worker = tier.worker()
    stand.clock.advance(3600)
    await worker.step()
    assert await taken_back(stand, tier, run) == 1
    stand.clock.advance(3600)
    await worker.step()
    assert len(await tier.passes()) == 2
    async with stand.store.begin_read() as tx:
        assert await tx.sleep_states.find_banks_with_changes() == []


@pytest.mark.spec("SLEEP-02")
async def test_an_edit_while_a_pass_works_belongs_to_the_next_one(stand: Stand) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow))
    await stand.said("a", "b")
    stand.clock.advance(60)
    worker = tier.worker()
    await worker.step()
    await slow.asked.wait()
    await stand.write("human", "Ann moved to Lisbon.")
    slow.free.set()
    await tier.ended()
    stand.clock.advance(61)
    await worker.step()
    assert await triggers(tier, 2) == [Trigger.IDLE, Trigger.DOCUMENT]


@pytest.mark.spec("SLEEP-02")
async def test_both_can_be_switched_off(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), documents=False, stale_share=0)
    rows = await worked_through(stand, tier)
    await demoted(stand, *rows)
    await stand.write("human", "Ann moved to Lisbon.")
    stand.clock.advance(3600)
    worker = tier.worker()
    await worker.step()
    assert await tier.gate() == "empty"
    assert len(await tier.passes()) == 1


@pytest.mark.spec("SLEEP-02")
async def test_a_schedule_can_ask_for_a_pass_over_the_whole_bank(stand: Stand) -> None:
    seeing = Seeing()
    weekly = [{"cron": "0 3 * * *"}, {"cron": "0 4 * * 0", "full": True}]
    tier = Tier(stand, ScriptedChatModel(reading), does=[seeing], schedules=weekly)
    worker = tier.worker()
    rows = await worked_through(stand, tier)
    await demoted(stand, rows[0])
    days = 0
    while not any(run.full for run in await tier.passes()) and days < 8:
        days += 1
        stand.clock.advance(86_400)
        await worker.step()
        await tier.ended(1 + days)
    runs = await tier.passes()
    assert [run.full for run in runs] == [False] * days + [True], "once within a week"
    assert {run.trigger for run in runs[1:]} == {Trigger.SCHEDULE}
    whole = [view for view in seeing.views if view.full]
    assert [(len(view.page), len(view.notes), set(view.stale)) for view in whole] == [(0, 4, {rows[0].id})]


@pytest.mark.spec("SLEEP-02", "SLEEP-04")
@pytest.mark.parametrize("needed", [True, False])
async def test_only_a_pass_that_the_next_answer_needs_goes_on_though_a_turn_begins(stand: Stand, needed: bool) -> None:
    slow = Slow()
    tier = Tier(stand, ScriptedChatModel(slow))
    await stand.said("one", "two")
    await tier.asked(trigger=Trigger.NEEDED if needed else Trigger.HAND)
    worker = tier.worker()
    await worker.step()
    await slow.asked.wait()
    tier.signals.publish("turn", "ann", {"user": None})
    await stand.said("three")
    await worker.step()
    slow.free.set()
    (run,) = await tier.until(lambda found: found[0].status is not PassStatus.RUNNING)
    assert run.status is (PassStatus.SUCCEEDED if needed else PassStatus.PENDING)
