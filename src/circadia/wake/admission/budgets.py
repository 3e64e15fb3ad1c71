"""Remaining budgets after a decision, and the decision in words, for every entrance (WAKE-05)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Final

from circadia.agents.chains import NOWHERE, ChainPosition
from circadia.ids import WakeId
from circadia.records.agent import Agent
from circadia.records.coordination import Guardrails, PairMode
from circadia.records.schedule import load_zone
from circadia.records.wake import Charge, Decision, GuardrailCounts, Wake
from circadia.stores.base import Tx
from circadia.wake.scheduling.wall_clock import day_bounds

SPENT: Final = frozenset({
    "max_wakes_per_session", "max_wakes_per_day", "max_wakes_per_pair_per_day", "max_daily_session_minutes", "fleet",
    "money",
})  # fmt: skip
"""Guardrails that are budgets: a short wait does not help."""
_OF_THE_DAY: Final = frozenset({"max_wakes_per_day", "max_wakes_per_pair_per_day", "max_daily_session_minutes"})
MAX_ASKED: Final = 100
"""Requests of a sender without `max_wakes_per_session` that are counted: a count of all would cost more with each."""
_NO_WAKE: Final = WakeId("")
"""Matches no request, so a tally counts all."""
_NO_ROOT: Final = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    limit: float | None
    """None means no limit."""
    used: float

    @property
    def remaining(self) -> float | None:
        return None if self.limit is None else max(0.0, self.limit - self.used)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budgets:
    session: Budget | None
    """Wakes that the sender may ask for in its current pulse or time awake; None for a person."""
    day: Budget
    pair: Budget | None
    """Those of them that the pair accounts for; None for a person."""


def counting_window(place: ChainPosition, now: datetime) -> tuple[datetime, datetime | None]:
    """Return the start of the period in which requests count together, and its end if that needs no sleep.

    Without an end each day counts separately: a limit would otherwise apply forever.
    """
    since = place.since or now
    if place.endless_in is None:
        return since, None
    starts, ends = day_bounds(place.endless_in, now)
    return max(since, starts), ends


async def fetch_tally(
    tx: Tx,
    target: Agent,
    now: datetime,
    *,
    sender: Agent | None = None,
    place: ChainPosition,
    fleet_wakes_most: int = 0,
) -> GuardrailCounts:
    """Return the counts of the ledger now, decided requests included; those of the fleet up to `fleet_wakes_most`."""
    max_asked = None if sender is None else sender.coordination.wake_guardrails.max_wakes_per_session
    return await tx.wakes.tally(
        target.id,
        wake_id=_NO_WAKE,
        sender_id=sender.id if sender is not None else None,
        sender_pulse=place.pulse_id,
        asked_since=counting_window(place, now)[0],
        root_id=place.root_id or _NO_ROOT,
        day=day_bounds(target.coordination.zone, now)[0],
        utc_day=_utc_midnight(now),
        now=now,
        asked_most=0 if sender is None else max(MAX_ASKED, max_asked or 0),
        fleet_wakes_most=fleet_wakes_most,
    )


def count_wake(tally: GuardrailCounts, wake: Wake) -> GuardrailCounts:
    """Return the counts once the wake is stored."""
    charged = wake.charge in (Charge.RESERVED, Charge.CHARGED)
    asked = wake.sender_id is not None and wake.decision in (Decision.ADMITTED, Decision.DEFERRED)
    return replace(
        tally,
        wakes_today=tally.wakes_today + charged,
        by_sender_today=tally.by_sender_today + (charged and wake.sender_id is not None),
        asked_in_session=tally.asked_in_session + asked,
    )


async def fetch_budgets(
    tx: Tx,
    target: Agent,
    now: datetime,
    *,
    sender: Agent | None,
    place: ChainPosition,
    counts: GuardrailCounts | None = None,
) -> Budgets:
    """Return the budgets that are left, by `counts` of this transaction if there are any."""
    tally = counts or await fetch_tally(tx, target, now, sender=sender, place=place)
    limits = target.coordination.wake_guardrails
    day = Budget(limit=limits.max_wakes_per_day, used=tally.wakes_today)
    if sender is None:
        return Budgets(session=None, day=day, pair=None)
    pair = tally.by_sender_today + (tally.of_sender_today if limits.pair_mode is PairMode.UNDIRECTED else 0)
    return Budgets(
        session=Budget(limit=sender.coordination.wake_guardrails.max_wakes_per_session, used=tally.asked_in_session),
        day=day,
        pair=Budget(limit=limits.max_wakes_per_pair_per_day, used=pair),
    )


def retry_at(wake: Wake, target: Agent) -> datetime | None:
    """Return when the wake may pass, or None if unknown; a deferred wake is retried then without a new request."""
    if wake.decision not in (Decision.DEFERRED, Decision.REFUSED):
        return None
    if wake.not_before is not None:
        return wake.not_before
    if wake.rule in _OF_THE_DAY:
        return day_bounds(target.coordination.zone, wake.decided_at)[1]
    if wake.rule == "money":
        return _utc_midnight(wake.decided_at) + timedelta(days=1)
    return None


def describe_decision(wake: Wake | None, target: Agent) -> str:
    """Return the outcome of a message and its wake, for the sender."""
    name = target.reference
    if wake is None:
        return f"The message is in the inbox of {name!r}, which reads it at its next run. No wake was requested."
    inbox_note = " The message is in its inbox." if wake.message_id is not None else ""
    match wake.decision:
        case Decision.ADMITTED:
            passed = f" ({wake.detail})" if wake.detail else ""
            return f"{name!r} is woken{passed}."
        case Decision.COALESCED:
            return f"{name!r} is about to begin a run, and this is part of it ({wake.detail})."
        case Decision.DEFERRED:
            return (
                f"{name!r} is woken later, without another request: {wake.detail}.{inbox_note} "
                f"The request waits until {_format_time(wake.expires_at)} at most."
            )
        case Decision.REFUSED:
            free = " message_agent stays free: use it for what can wait." if wake.rule in SPENT else ""
            return f"{name!r} is not woken: {wake.detail}.{inbox_note}{free}"
        case Decision.EXPIRED:
            return f"{name!r} was not woken in time: {wake.detail}."
        case Decision.CANCELLED:
            return f"The wake was cancelled: {wake.detail}.{inbox_note}"


def _utc_midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _format_time(at: datetime | None) -> str:
    return "then" if at is None else at.isoformat(timespec="seconds")


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
