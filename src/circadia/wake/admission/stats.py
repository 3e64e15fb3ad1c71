"""An agent's wakes of the current day, beside its guardrails (WAKE-70)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from circadia.agents.chains import NOWHERE
from circadia.records.agent import Agent
from circadia.records.coordination import Guardrails
from circadia.records.schedule import load_zone
from circadia.stores.base import Tx
from circadia.wake.admission.budgets import fetch_tally
from circadia.wake.scheduling.wall_clock import day_bounds


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeStats:
    limits: Guardrails
    wakes_today: int
    """Wakes that count against its limits."""
    last_wake_at: datetime | None
    day: date
    zone: str
    resets_at: datetime
    cooldown_remaining_seconds: float
    session_minutes_today: float
    """Run time of its pulses, open ones included."""
    per_source: Mapping[str, int]
    refused_today: Mapping[str, int]
    deferred: int
    active_pulses: int


async def fetch_wake_stats(tx: Tx, agent: Agent, now: datetime) -> WakeStats:
    """Count the agent's current day from the same rows as admission."""
    limits, zone = agent.coordination.wake_guardrails, agent.coordination.zone
    starts, ends = day_bounds(zone, now)
    tally = await fetch_tally(tx, agent, now, place=NOWHERE)
    return WakeStats(
        limits=limits,
        wakes_today=tally.wakes_today,
        last_wake_at=tally.last_wake_at,
        day=now.astimezone(load_zone(zone)).date(),
        zone=zone,
        resets_at=ends,
        cooldown_remaining_seconds=_remaining_cooldown(limits.cooldown_seconds, tally.last_wake_at, now),
        session_minutes_today=round(tally.run_seconds_today / 60, 3),
        per_source=await tx.wakes.count_by_sender(agent.id, starts),
        refused_today=await tx.wakes.count_refused_by_rule(agent.id, starts),
        deferred=len(await tx.wakes.find_deferred(agent.id)),
        active_pulses=tally.open_pulses,
    )


def _remaining_cooldown(cooldown_seconds: float | None, last: datetime | None, now: datetime) -> float:
    if cooldown_seconds is None or last is None:
        return 0.0
    # As in the guardrail, a clock that was set back does not lengthen the cooldown.
    over = min(last, now) + timedelta(seconds=cooldown_seconds)
    return max(0.0, (over - now).total_seconds())
