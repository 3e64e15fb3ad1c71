"""A round of decisions on passes costs what is due, however many banks there are."""

import pytest

from circadia.memory.banks import NewBank
from circadia.memory.episodes import NewEpisode
from circadia.records.bank import Trust
from circadia.records.sleep_pass import Trigger
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.testing.scripted_model import ScriptedChatModel
from tests.recording.statement_recorder import SentStatement, recorded
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Tier, reading

pytestmark = pytest.mark.spec("LARGE-06", "SLEEP-03")


async def add_banks(stand: Stand, first: int, last: int) -> None:
    """Add banks in each of which something was said."""
    async with stand.store.begin_write() as tx:
        for number in range(first, last):
            bank = await stand.memory.banks.create(tx, NewBank(name=f"b{number:03}"), by="test")
            await stand.memory.episodes.remember(tx, bank, NewEpisode(text="a", speaker="x", trust=Trust.PERSON))


async def count_statements(worker: SleepWorker) -> tuple[int, int]:
    """Return the number of statements of one step, and how many of them write."""
    sent: list[SentStatement] = []
    with recorded(sent.append):
        await worker.step()
    return len(sent), sum(not each.text.lstrip().startswith("SELECT") for each in sent)


async def test_a_step_costs_the_same_for_three_banks_with_a_backlog_and_for_three_hundred(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=86_400, max_lag_minutes=None)
    worker = tier.worker()
    counts: list[tuple[int, int]] = []
    for first, last in ((0, 3), (3, 300)):
        await add_banks(stand, first, last)
        for _ in range(6):  # a hundred banks at a time
            await worker.step()
        counts.append(await count_statements(worker))
    few, many = counts
    assert many == few
    assert few[0] <= 6
    assert few[1] == 0, "it writes nothing"
    stand.clock.advance(1800)
    assert await count_statements(worker) == few, "nor does time alone make it look at them"


async def test_every_bank_is_decided_on_when_its_time_comes(stand: Stand) -> None:
    tier = Tier(stand, ScriptedChatModel(reading), idle_seconds=60, max_passes_per_hour=1_000)
    worker = tier.worker()
    await add_banks(stand, 0, 250)
    for _ in range(4):
        await worker.step()
    assert await tier.passes() == []
    stand.clock.advance(60)
    for _ in range(4):
        await worker.step()
    async with stand.store.begin_read() as tx:
        runs = await tx.passes.find_all(limit=1_000)
    assert len({run.bank_id for run in runs}) == 250
    assert {run.trigger for run in runs} == {Trigger.IDLE}


async def test_new_settings_are_applied_to_banks_of_which_nothing_has_changed(stand: Stand) -> None:
    before = Tier(stand, ScriptedChatModel(reading), idle_seconds=86_400)
    await stand.said("a", "b")
    await before.worker().step()
    stand.clock.advance(60)
    after = Tier(stand, ScriptedChatModel(reading), idle_seconds=60)
    await after.worker("exe2").step()
    assert [run.trigger for run in await after.ended()] == [Trigger.IDLE]
