"""The fleet at a glance, and what is not well in it (UI-03)."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from circadia.agents.access import require_operator
from circadia.api.observability.usage import group_usage
from circadia.api.parts import Parts, Who, noun_router
from circadia.records.call import UsageGroup
from circadia.records.member import Member, Role
from circadia.records.overview import Overview
from circadia.records.pulse import Pulse
from circadia.records.wake import FLEET
from circadia.schemas.overview import AlertView, OverviewView
from circadia.sleeptime.engine.health import RED_BANK

router = noun_router("overview")

_CLAIMED_WITHIN: Final = timedelta(minutes=1)
"""A pulse that nobody has claimed by then waits for a worker that has its launcher."""
_MOST_UNCLAIMED: Final = 1_000
_MOST_NAMED: Final = 3
_ALERTS: Final = timedelta(days=1)
_MOST_ALERTS: Final = 20
_NANO: Final = 10**9
FAILING_WINDOW: Final = timedelta(minutes=5)
FAILING_SHARE: Final = 0.5
"""An upstream of which so many of the last calls failed is called a problem."""


@router.get("/overview")
async def show_overview(who: Who, parts: Parts) -> OverviewView:
    """Show the fleet at a glance: agents, held calls, today's usage, savings and wakes, alerts and problems.

    Operator only.
    """
    require_operator(who)
    now = parts.clock.now()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    async with parts.store.begin_read() as tx:
        members = await tx.members.find_all(now)
        counts = await tx.overviews.count(now, own=parts.member_id)
        tiers = await tx.calls.sum_by_group("tier", since=today)
        recent = await tx.calls.sum_by_group("upstream", since=now - FAILING_WINDOW)
        alerts = await tx.alerts.find_recent(since=now - _ALERTS, limit=_MOST_ALERTS)
        red_banks = len(await tx.alerts.find_alert_times(RED_BANK))
        unclaimed = await tx.pulses.find_unclaimed(now, before=now - _CLAIMED_WITHIN, limit=_MOST_UNCLAIMED)
        overdue = (await tx.due_work.find(now, fleet_rule=FLEET)).overdue_pulses
    _, held_here = parts.holds.list_holds(limit=1)
    return OverviewView.of(
        counts,
        held=counts.held + held_here,
        usage_today=[group_usage(tier) for tier in tiers],
        saved_usd_today=counts.saved_nanousd_today / _NANO,
        alerts=[AlertView.of(alert) for alert in alerts if alert.cause != RED_BANK],
        problems=list(_find_problems(counts, members, recent, red_banks, unclaimed, overdue=overdue)),
    )


def _find_problems(
    counts: Overview, members: Sequence[Member], recent: Sequence[UsageGroup], red_banks: int,
    unclaimed: Sequence[Pulse], *, overdue: bool,
) -> Iterator[str]:  # fmt: skip
    if members and all(member.role is Role.GATEWAY for member in members):
        yield "No worker runs, so pulses, passes and schedules wait. Start one: circadia serve --role worker"
    else:
        yield from _find_missing_launchers(unclaimed)
    if overdue:
        yield "A pulse runs longer than it may. Look at the pulses and at the launcher's program"
    for upstream in recent:
        if upstream.failed >= FAILING_SHARE * upstream.calls:
            yield (
                f"Upstream {upstream.key!r} fails: {upstream.failed} of {upstream.calls} calls in 5 minutes. "
                "Look at the events of type upstream_error"
            )
    if red_banks:
        yield f"Banks whose passes fall behind: {red_banks}. See why: circadia passes status"
    if counts.dead_letters:
        yield f"Messages that could not be delivered: {counts.dead_letters}. Requeue or handle them: circadia messages"


def _find_missing_launchers(unclaimed: Sequence[Pulse]) -> Iterator[str]:
    waiting: dict[str, list[str]] = {}
    for pulse in unclaimed:
        waiting.setdefault(pulse.launcher, []).append(pulse.agent)
    for launcher, references in waiting.items():
        agents = list(dict.fromkeys(references))
        more = f" and {len(agents) - _MOST_NAMED} more" if len(agents) > _MOST_NAMED else ""
        yield (
            f"No worker has launcher {launcher!r}, so pulses wait: {', '.join(agents[:_MOST_NAMED])}{more}. Start one "
            "whose configuration has it, or change the agent's launcher"
        )
