"""REST views of passes, changes and the sleep-time status of a bank."""

from collections.abc import Sequence
from typing import Final

from circadia.records.sleep_call import FORGOTTEN, SleepCost
from circadia.records.sleep_pass import Pass
from circadia.schemas.passes import PassCostLine, PassCostView, PassDetail, PassView
from circadia.schemas.sleeptime import BalanceView, PassDecisionView, SleeptimeStatusView
from circadia.sleeptime.budget.savings import Balance
from circadia.sleeptime.engine.services import SleeptimeStatus
from circadia.stores.base import Tx

NANOUSD: Final = 1e9
NO_COST: Final = SleepCost(calls=0, tokens=0, nanousd=0, seconds=0.0)


def _balance_view(each: Balance) -> BalanceView:
    return BalanceView.of(
        each,
        saved_seconds=round(each.saved_seconds, 3),
        saved_usd=each.saved_nanousd / NANOUSD,
        calls=each.spent.calls,
        spent_tokens=each.spent.tokens,
        spent_usd=each.spent.nanousd / NANOUSD,
    )


def pass_cost_view(spent: SleepCost) -> PassCostView:
    return PassCostView.of(spent, usd=spent.nanousd / NANOUSD, seconds=round(spent.seconds, 3))


async def pass_view(tx: Tx, bank: str, run: Pass) -> PassView:
    return _build_pass_view(bank, run, await tx.sleep_calls.sum_cost(pass_id=run.id))


async def pass_views(tx: Tx, runs: Sequence[Pass]) -> list[PassView]:
    """Return a page of passes, with the names of their banks."""
    costs = await tx.sleep_calls.sum_cost_by_pass([run.id for run in runs])
    names = await tx.banks.find_names({run.bank_id for run in runs})
    return [_build_pass_view(names[run.bank_id], run, costs.get(run.id, NO_COST)) for run in runs]


def _build_pass_view(bank: str, run: Pass, spent: SleepCost) -> PassView:
    return PassView.of(run, bank=bank, run_seconds=round(run.run_seconds, 3), spent=pass_cost_view(spent))


async def pass_detail(tx: Tx, bank: str, run: Pass) -> PassDetail:
    """Return the pass with its ledger (SLEEP-60)."""
    view = await pass_view(tx, bank, run)
    lines = [
        PassCostLine.of(line, **dict(pass_cost_view(line.spent)))
        for line in await tx.sleep_calls.sum_cost_by_model(run.id)
    ]
    calls = await tx.sleep_calls.find_by_pass(run.id)
    failed = [f"{call.operation}: {call.error}" for call in calls if call.error not in ("", FORGOTTEN)]
    return PassDetail.of(view, ledger=lines, errors=list(dict.fromkeys(failed)))


async def sleeptime_status_view(tx: Tx, status: SleeptimeStatus) -> SleeptimeStatusView:
    state, name = status.state, status.bank.name
    return SleeptimeStatusView.of(
        state,
        bank=name,
        policy=status.policy.model_dump(mode="json"),
        begins=status.begins,
        backlog=status.backlog,
        verdict=PassDecisionView.of(status.verdict, due=status.verdict.trigger is not None),
        running=None if status.running is None else await pass_view(tx, name, status.running),
        spent=pass_cost_view(status.spent),
        lag_seconds=round(status.lag_seconds, 3),
        balances=[_balance_view(balance) for balance in status.balances],
        red=status.red,
    )
