"""What operations bring and cost is told; nothing pauses one."""

from datetime import UTC, date, datetime, timedelta

import pytest

from circadia.ids import BankId
from circadia.llm.usage import Usage
from circadia.records.sleep_call import Benefit, SleepCost
from circadia.sleeptime.budget.savings import Balance, compute_balances
from circadia.sleeptime.engine.health import SleepHealth
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Tier, reading

DAY = datetime(2026, 3, 29, 12, tzinfo=UTC).date()


def gain(operation: str, day: date = DAY, bank: str = "b", *, tokens: int = 7) -> Benefit:
    return Benefit(
        bank_id=BankId(bank), operation=operation, day=day, uses=1, saved_tokens=tokens, saved_seconds=0.5,
        saved_nanousd=3, unpriced_tokens=0,
    )  # fmt: skip


@pytest.mark.spec("SLEEP-86")
def test_each_operation_with_a_use_or_a_cost_is_told_by_name() -> None:
    spent, nothing = (SleepCost(calls=calls, tokens=0, nanousd=0, seconds=0.0) for calls in (2, 0))
    assert compute_balances([gain("rethink"), gain("rethink")], {"reflect": spent}) == [
        Balance(operation="reflect", uses=0, saved_tokens=0, saved_seconds=0, saved_nanousd=0, spent=spent),
        Balance(operation="rethink", uses=2, saved_tokens=14, saved_seconds=1.0, saved_nanousd=6, spent=nothing),
    ]


@pytest.mark.spec("SLEEP-86")
async def test_an_operation_that_nobody_uses_goes_on_however_much_it_costs(stand: Stand) -> None:
    mind = ScriptedChatModel(reading, used=Usage(input_tokens=900_000, output_tokens=100_000))
    tier = Tier(stand, mind, idle_seconds=0)
    worker = tier.worker()
    for day in range(30):
        await stand.said(f"Morning {day}.", f"Evening {day}.")
        await worker.step()
        await tier.ended(day + 1)
        stand.clock.advance(24 * 3600)
    assert len(mind.asked) == 30
    async with stand.store.begin_read() as tx:
        (found,) = await tier.tier.fetch_balances(tx, stand.bank)
    assert (found.operation, found.uses, found.spent.calls) == ("pairs", 0, 13)


@pytest.mark.spec("SLEEP-60")
async def test_tokens_that_were_saved_and_spent_today_are_measured(stand: Stand) -> None:
    tier = Tier(
        stand, ScriptedChatModel(reading, used=Usage(input_tokens=900_000, output_tokens=100_000)), idle_seconds=0
    )
    health = SleepHealth(stand.clock, stand.store, tier.tier)
    await stand.said("One.", "Two.")
    await tier.worker().step()
    await tier.ended(1)
    today = stand.clock.now().date()
    async with stand.store.begin_write() as tx:
        await tx.benefits.add([gain("reflect", day, stand.bank.id) for day in (today, today - timedelta(days=1))])
    await health.step()
    assert (health.seen.spent_today, health.seen.saved_today) == (1_000_000, 7)
