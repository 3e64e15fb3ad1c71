"""When an operation pays, and when it is paused: the rule, and what a worker makes of it."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from circadia.ids import BankId
from circadia.llm.usage import Usage
from circadia.records.benefit import Benefit
from circadia.records.event import EventType
from circadia.records.sleep_call import OperationDayCost, SleepCost
from circadia.records.sleep_pass import PassStatus
from circadia.records.sleep_state import BalanceStatus, OperationPause
from circadia.settings.sleeptime import BenefitSettings
from circadia.sleeptime.budget.benefit import Balance, compute_balances, list_paused_operations
from circadia.sleeptime.engine.health import SleepHealth
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Tier, reading

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
OLD = 20
"""Days ago that are more than a window."""


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def cost(days: float, *, calls: int = 30, tokens: int = 1_000, usd: float = 1.0, unpriced: int = 0) -> OperationDayCost:
    spent = SleepCost(calls=calls, tokens=tokens, nanousd=round(usd * 1e9), seconds=1.0)
    return OperationDayCost(
        operation="reflect", day=ago(days).date(), first_at=ago(days), unpriced=unpriced, spent=spent
    )


def gain(days: float, *, tokens: int = 5_000, usd: float = 2.0, unpriced: int = 0) -> Benefit:
    return Benefit(
        bank_id=BankId("b"), operation="reflect", day=ago(days).date(), uses=1, saved_tokens=tokens, saved_seconds=1.0,
        saved_nanousd=round(usd * 1e9), unpriced_tokens=unpriced,
    )  # fmt: skip


def balance(
    gains: list[Benefit], costs: list[OperationDayCost], pause: OperationPause | None = None, **stated: Any
) -> Balance:
    settings = BenefitSettings.model_validate(stated)
    (found,) = compute_balances(settings, [] if pause is None else [pause], gains, costs, NOW)
    return found


def pause(since: float, until: float) -> OperationPause:
    return OperationPause(operation="reflect", at=ago(since), until=ago(until))


@pytest.mark.spec("SLEEP-42")
def test_an_operation_pays_that_brings_what_it_costs_and_falls_short_below() -> None:
    costs = [cost(OLD), cost(2)]
    pays = balance([gain(1, usd=1.0)], costs)
    assert (pays.standing, pays.ratio, pays.unit) == (BalanceStatus.PAYS, 1.0, "usd")
    assert (pays.calls, pays.spent_tokens, pays.saved_tokens, pays.uses) == (30, 1_000, 5_000, 1)
    short = balance([gain(1, usd=0.9)], costs)
    assert (short.standing, short.ratio) == (BalanceStatus.SHORT, 0.9)
    assert balance([], costs).ratio == 0.0, "nobody ever used what it made"
    assert balance([gain(1, usd=0.9)], costs, least_ratio=0.5).standing is BalanceStatus.PAYS
    assert balance([gain(15, usd=9.0)], costs).standing is BalanceStatus.SHORT, "before the window"


@pytest.mark.spec("SLEEP-42")
@pytest.mark.parametrize("side", ["cost", "benefit"])
def test_tokens_are_compared_where_a_price_is_not_known_on_either_side(side: str) -> None:
    costs = [cost(OLD), cost(2, usd=99.0, unpriced=int(side == "cost"))]
    gains = [gain(1, tokens=500, unpriced=int(side == "benefit"))]
    found = balance(gains, costs)
    assert (found.unit, found.ratio, found.standing) == ("tokens", 0.5, BalanceStatus.SHORT)
    assert balance(gains, costs, hot_weight=2.0).standing is BalanceStatus.PAYS


@pytest.mark.spec("SLEEP-42")
def test_nothing_is_judged_that_is_new_or_has_cost_little_or_nothing_or_is_spared() -> None:
    assert balance([], [cost(13.9), cost(2)]).standing is BalanceStatus.NEW
    assert balance([], [cost(14), cost(2)]).standing is BalanceStatus.SHORT
    assert balance([], [cost(OLD), cost(2, calls=19)]).standing is BalanceStatus.LITTLE
    assert balance([], [cost(OLD), cost(2, usd=0.009)]).standing is BalanceStatus.LITTLE
    assert balance([], [cost(OLD), cost(2, usd=0.0, unpriced=30)]).standing is BalanceStatus.SHORT
    assert balance([], [cost(OLD), cost(2)], spared=["reflect"]).standing is BalanceStatus.SPARED
    assert balance([], [cost(OLD), cost(2)], enabled=False).standing is BalanceStatus.SPARED
    assert balance([gain(1)], []).standing is BalanceStatus.FREE
    assert BenefitSettings.model_validate({}).spared == ("contradictions",)


@pytest.mark.spec("SLEEP-42")
def test_after_a_pause_an_operation_is_judged_anew() -> None:
    before = [cost(16), cost(2)]
    now = balance([], before, pause(1, -13))
    assert (now.standing, now.paused_until) == (BalanceStatus.PAUSED, ago(-13))
    assert list_paused_operations(BenefitSettings.model_validate({}), [pause(1, -13)], NOW) == {"reflect"}
    assert not list_paused_operations(BenefitSettings.model_validate({"enabled": False}), [pause(1, -13)], NOW)
    assert not list_paused_operations(BenefitSettings.model_validate({}), [pause(15, 1)], NOW)
    assert balance([], before, pause(15, 1)).standing is BalanceStatus.FREE, "what was before it counts no more"
    assert balance([], [*before, cost(0.5)], pause(15, 1)).standing is BalanceStatus.NEW
    assert balance([], [cost(40), cost(15), cost(2)], pause(30, 16)).standing is BalanceStatus.SHORT


def costly(stand: Stand, **benefit: Any) -> tuple[Tier, ScriptedChatModel]:
    """Return a tier whose passes cost a thousandth of a dollar for each question."""
    mind = ScriptedChatModel(reading, used=Usage(input_tokens=900_000, output_tokens=100_000))
    stated = {"min_calls": 1, "min_cost_usd": 0.001, "window_days": 2, **benefit}
    return Tier(stand, mind, idle_seconds=0, benefit=stated), mind


async def events(stand: Stand) -> list[Any]:
    async with stand.store.begin_read() as tx:
        return [each.data for each in await tx.events.find_after(0, types=(EventType.OPERATION_PAUSED,))]


async def standing(tier: Tier) -> Balance:
    async with tier.stand.store.begin_read() as tx:
        (found,) = await tier.tier.fetch_balances(tx, tier.stand.bank)
    return found


@pytest.mark.spec("SLEEP-42")
async def test_an_operation_that_nobody_profits_from_is_paused_told_and_tried_again(stand: Stand) -> None:
    tier, mind = costly(stand)
    worker = tier.worker()
    for day in range(3):
        await stand.said(f"Morning {day}.", f"Evening {day}.")
        await worker.step()
        await tier.ended(day + 1)
        assert (await standing(tier)).standing is (BalanceStatus.PAUSED if day == 2 else BalanceStatus.NEW)
        stand.clock.advance(24 * 3600)
    (told,) = await events(stand)
    assert (told["bank"], told["operation"], told["ratio"], told["window_days"]) == ("ann", "pairs", 0.0, 2)
    assert (told["spent_usd"], told["saved_usd"], told["calls"]) == (pytest.approx(0.003), 0.0, 3)
    asked = len(mind.asked)
    await stand.said("Paused.", "Still paused.")
    await worker.step()
    assert (await tier.ended(4))[-1].status is PassStatus.NO_CHANGE
    assert len(mind.asked) == asked, "it is left out"
    stand.clock.advance(24 * 3600)
    await stand.said("Tried again.", "By itself.")
    await worker.step()
    await tier.ended(5)
    assert len(mind.asked) == asked + 1
    assert (await standing(tier)).standing is BalanceStatus.NEW
    assert len(await events(stand)) == 1


@pytest.mark.spec("SLEEP-42", "SLEEP-61")
async def test_resume_and_a_person_s_own_wish_start_a_paused_operation(stand: Stand) -> None:
    tier, mind = costly(stand)
    worker = tier.worker()
    now = stand.clock.now()
    async with stand.store.begin_write() as tx:
        state = await tx.sleep_states.get(stand.bank.id)
        waits = OperationPause(operation="pairs", at=now, until=now + timedelta(days=2))
        await tx.sleep_states.put(type(state)(bank_id=stand.bank.id, pauses=(waits,)))
    await stand.said("One.", "Two.")
    await tier.asked(operations=("pairs",))
    await worker.step()
    await tier.ended(1)
    assert len(mind.asked) == 1
    async with stand.store.begin_write() as tx:
        await tier.tier.resume(tx, stand.bank, by="ann")
    await stand.said("Three.", "Four.")
    await worker.step()
    await tier.ended(2)
    assert len(mind.asked) == 2
    assert (await standing(tier)).standing is BalanceStatus.NEW


@pytest.mark.spec("SLEEP-42")
async def test_an_operation_whose_work_is_used_goes_on(stand: Stand) -> None:
    tier, mind = costly(stand)
    worker = tier.worker()
    for day in range(4):
        await stand.said(f"Morning {day}.", f"Evening {day}.")
        async with stand.store.begin_write() as tx:
            used = Benefit(
                bank_id=stand.bank.id, operation="pairs", day=stand.clock.now().date(), uses=9, saved_tokens=10**8,
                saved_seconds=0.0, saved_nanousd=10**8, unpriced_tokens=0,
            )  # fmt: skip
            await tx.benefits.add([used])
        await worker.step()
        await tier.ended(day + 1)
        stand.clock.advance(24 * 3600)
    assert ((await standing(tier)).standing, await events(stand)) == (BalanceStatus.PAYS, [])
    assert len(mind.asked) == 4


@pytest.mark.spec("SLEEP-60")
async def test_tokens_that_were_saved_and_spent_today_are_measured(stand: Stand) -> None:
    tier, _ = costly(stand)
    health = SleepHealth(stand.clock, stand.store, tier.tier)
    await stand.said("One.", "Two.")
    await tier.worker().step()
    await tier.ended(1)
    today = stand.clock.now().date()
    async with stand.store.begin_write() as tx:
        for day in (today, today - timedelta(days=1)):
            await tx.benefits.add([_saving(stand.bank.id, day)])
    await health.step()
    assert (health.seen.spent_today, health.seen.saved_today) == (1_000_000, 7)


def _saving(bank: BankId, day: date) -> Benefit:
    return Benefit(
        bank_id=bank, operation="reflect", day=day, uses=1, saved_tokens=7, saved_seconds=0.0, saved_nanousd=0,
        unpriced_tokens=7,
    )  # fmt: skip
