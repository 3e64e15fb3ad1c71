"""What sleeping and dreaming saved, by day: an estimate with a stated rule (UI-16)."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Annotated, Final

from fastapi import Query

from circadia.agents.access import require_operator
from circadia.api.context import Context, Who, noun_router
from circadia.records.call import UsageGroup
from circadia.schemas.fleet import DaySavings, SavingsReport

router = noun_router("usage")

POLL_SECONDS: Final = 300
"""Read time-out of the Python MCP client, and idle limit of Claude Code: an agent that polls asks again after it."""
_NANO: Final = 10**9
_MAX_DAYS: Final = 92
_MONTH_DAYS: Final = 30


@router.get("/usage/savings")
async def report_savings(
    who: Who,
    context: Context,
    days: Annotated[int, Query(ge=0, le=_MAX_DAYS, description="Days before today that the answer has, too.")] = 13,
) -> SavingsReport:
    """Estimate what sleeping and dreaming saved, by UTC day. Operator only.

    While a call is held, its agent asks nothing. An agent that polls would have made a call every 5 minutes, at the
    mean price of that day's calls of the same model. Calls without a known price save nothing here, nor does the time
    for which a call waited for a person's approval.
    """
    require_operator(who)
    today = context.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    first = today - timedelta(days=days)
    async with context.store.begin_read() as tx:
        groups = await tx.calls.sum_by_group("day", "tier", "model", since=first)
        spared = await tx.benefits.sum_saved_money(since=first.date())
        waits = await tx.approvals.sum_waits(first)
    dates = [(first + timedelta(days=number)).date() for number in range(days + 1)]
    estimates = [_estimate_day(day, groups, waits, spared.get(day, 0) / _NANO) for day in dates]
    before = estimates[:-1]
    return SavingsReport(
        poll_seconds=POLL_SECONDS,
        days=estimates,
        mean_usd=sum(day.saved_usd for day in before) / len(before) if before else None,
        month_usd=estimates[-1].saved_usd * _MONTH_DAYS,
    )


def _estimate_day(
    day: date, all_groups: Sequence[UsageGroup], waits: Mapping[tuple[date, str], timedelta], memory_usd: float
) -> DaySavings:
    groups = [group for group in all_groups if group.keys[0] == day.isoformat()]
    hot = [group for group in groups if group.keys[1] == "hot"]
    asleep = {group: max(0.0, group.held_seconds - _approval_seconds(waits, day, group)) for group in hot}
    sleeping_usd = sum(seconds / POLL_SECONDS * _mean_price(group) for group, seconds in asleep.items()) / _NANO
    dreaming_usd = sum(group.cost_nanousd for group in groups if group.keys[1] == "sleep") / _NANO
    return DaySavings(
        day=day,
        held_seconds=round(sum(asleep.values()), 3),
        sleeping_usd=sleeping_usd,
        memory_usd=memory_usd,
        dreaming_usd=dreaming_usd,
        saved_usd=sleeping_usd + memory_usd - dreaming_usd,
    )


def _approval_seconds(waits: Mapping[tuple[date, str], timedelta], day: date, group: UsageGroup) -> float:
    """Return the seconds for which calls waited for a person: such a call would have cost nothing without sleep."""
    return waits.get((day, group.keys[2]), timedelta()).total_seconds()


def _mean_price(group: UsageGroup) -> float:
    priced = group.calls - group.unpriced
    return group.cost_nanousd / priced if priced else 0.0
