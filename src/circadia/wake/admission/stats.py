"""What the ledger says of one agent's day: its counts against its guardrails (WAKE-70)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from circadia.records.agent import Agent
from circadia.records.coordination import Guardrails
from circadia.records.schedule import load_zone
from circadia.stores.base import Tx
from circadia.wake.admission.budgets import fetch_tally
from circadia.wake.admission.chains import NOWHERE
from circadia.wake.scheduling.wall_clock import day_bounds


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeStats:
    """One agent's wakes in its present day."""

    limits: Guardrails
    """Its limits."""
    wakes_today: int
    """Counted wakes."""
    last_wake_at: datetime | None
    """When one was last admitted that counts."""
    day: date
    """The day that it is in its zone."""
    zone: str
    """Its zone."""
    resets_at: datetime
    """When that day ends, and the counts with it."""
    cooldown_remaining_seconds: float
    """Until its cooldown is over; 0 if it is."""
    session_minutes_today: float
    """Minutes that its pulses have run, the present ones too."""
    per_source: Mapping[str, int]
    """Counted wakes by who asked."""
    refused_today: Mapping[str, int]
    """Refused requests by guardrail."""
    deferred: int
    """Requests that wait."""
    active_pulses: int
    """Pulses that have not ended."""


async def fetch_wake_stats(tx: Tx, agent: Agent, now: datetime) -> WakeStats:
    """Count the agent's present day, from the same rows that admission counts."""
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
    # As the guardrail counts: a clock that was set back makes it no longer than it is.
    over = min(last, now) + timedelta(seconds=cooldown_seconds)
    return max(0.0, (over - now).total_seconds())
