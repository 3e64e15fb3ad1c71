"""Guardrails: the checks of a wake, in their fixed order (WAKE-10).

Each is a pure function of the facts. The first one that blocks decides; `explain` shows all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from circadia.records.agent import Agent
from circadia.records.coordination import Guardrails, OnBlock, PairMode
from circadia.records.schedule import BlackoutPolicy
from circadia.records.wake import Decision, GuardrailCheck, GuardrailCounts, WakeSource


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetLimits:
    """Limits of all agents together; None means no limit."""

    max_concurrent_pulses: int | None = None
    max_wakes_per_day: int | None = None
    """Counted per UTC day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmissionFacts:
    target: Agent
    source: WakeSource
    now: datetime
    tally: GuardrailCounts
    depth: int
    blackout: tuple[str, datetime] | None = None
    spent_usd: float = 0.0
    """Cost of the target's model calls today."""
    failures: int = 0
    """Length of its current streak of failed pulses."""
    failed_at: datetime | None = None
    fleet: FleetLimits = FleetLimits()
    asker: Guardrails | None = None
    asks_anew_at: datetime | None = None
    """When its requests are counted afresh although it stays awake; None in a pulse with a time limit."""
    routine_policy: BlackoutPolicy = BlackoutPolicy.RUN
    """Blackout policy for a routine that has waited; its plan has already checked one that is due now."""

    @property
    def limits(self) -> Guardrails:
        return self.target.coordination.wake_guardrails

    @property
    def is_resident(self) -> bool:
        """Whether its pulses are its times awake, with nothing launched."""
        return self.target.coordination.launcher == "resident"


class GuardrailFinding(NamedTuple):
    """The result of one guardrail; a tuple, as each decision makes many."""

    against: bool = False
    limit: float | None = None
    value: float | None = None
    detail: str = ""
    """The obstacle and its remedy, in words."""
    until: datetime | None = None
    on_block: OnBlock = OnBlock.REFUSE


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeDecision:
    decision: Decision
    rule: str | None = None
    detail: str = ""
    not_before: datetime | None = None
    """Deferred: the latest time of the next check. Refused: the end of the obstacle."""
    trace: Sequence[GuardrailCheck] = ()
    """Checks up to the deciding guardrail, or all of them."""


_FINE: Final = GuardrailFinding()
CIRCUIT_FAILURES: Final = 5
CIRCUIT_SECONDS: Final = 900.0
"""How long the circuit stays open; then one pulse is tried."""
LOOK_AGAIN_SECONDS: Final = 60.0
"""Interval of checks of a deferred wake whose obstacle has no known end, besides at each end that may matter."""


def check_guardrails(facts: AdmissionFacts, *, to_the_end: bool = False) -> WakeDecision:
    """Return the decision of the guardrails; `to_the_end` also runs those after the deciding one."""
    trace: list[GuardrailCheck] = []
    first: tuple[str, GuardrailFinding] | None = None
    for rule, guardrail in GUARDRAILS:
        finding = guardrail(facts)
        trace.append(
            GuardrailCheck(
                rule=rule, passed=not finding.against, limit=finding.limit, value=finding.value, detail=finding.detail
            )
        )
        if finding.against and first is None:
            first = rule, finding
            if not to_the_end:
                break
    if first is None:
        return WakeDecision(decision=Decision.ADMITTED, trace=tuple(trace))
    rule, finding = first
    if finding.on_block is OnBlock.DEFER:
        until = finding.until or facts.now + timedelta(seconds=LOOK_AGAIN_SECONDS)
        return WakeDecision(
            decision=Decision.DEFERRED, rule=rule, detail=finding.detail, not_before=until, trace=tuple(trace)
        )
    return WakeDecision(
        decision=Decision.REFUSED, rule=rule, detail=finding.detail, not_before=finding.until, trace=tuple(trace)
    )


def _enabled(facts: AdmissionFacts) -> GuardrailFinding:
    if not facts.target.enabled:
        return GuardrailFinding(against=True, detail=f"{facts.target.reference!r} is disabled")
    if not facts.target.coordination.wakes_enabled and facts.source is not WakeSource.PERSON:
        return GuardrailFinding(
            against=True, detail=f"{facts.target.reference!r} accepts no wakes (wakes_enabled is false)"
        )
    return _FINE


def _session(facts: AdmissionFacts) -> GuardrailFinding:
    if facts.source not in (WakeSource.AGENT, WakeSource.THREAD):
        return _FINE
    # The only limit of the sender: it bounds the wakes that one of its runs can cause.
    limit = (facts.asker or facts.limits).max_wakes_per_session
    if limit is None:
        return _FINE  # without a limit it is not counted
    finding = _compare_with_limit(limit, facts.tally.asked_in_session, "wakes requested in one pulse or time awake")
    if not finding.against:
        return finding
    anew = "in its next pulse"
    if facts.asks_anew_at is not None:
        anew = f"when it has slept, or from {facts.asks_anew_at.isoformat(timespec='seconds')} on"
    return finding._replace(detail=f"{finding.detail}; it may ask again {anew}", until=facts.asks_anew_at)


def _chain_depth(facts: AdmissionFacts) -> GuardrailFinding:
    return _compare_with_limit(facts.limits.max_chain_depth, facts.depth - 1, "wakes from the root of a chain")


def _chain_visits(facts: AdmissionFacts) -> GuardrailFinding:
    return _compare_with_limit(facts.limits.max_chain_visits, facts.tally.visits, "wakes of this agent in one chain")


def _blackout(facts: AdmissionFacts) -> GuardrailFinding:
    policy = facts.target.coordination.blackout_policies.wake
    if facts.source is WakeSource.SCHEDULE:
        policy = facts.routine_policy
    if facts.blackout is None or policy is BlackoutPolicy.RUN:
        return _FINE
    label, end = facts.blackout
    detail = f"{facts.target.reference!r} is in its blackout {label!r} until {end.isoformat()}"
    on_block = OnBlock.DEFER if policy is BlackoutPolicy.DEFER else OnBlock.REFUSE
    return GuardrailFinding(against=True, detail=detail, until=end, on_block=on_block)


def _busy(facts: AdmissionFacts) -> GuardrailFinding:
    if facts.source is WakeSource.SCHEDULE:
        return _FINE
    awake = facts.is_resident and not facts.target.asleep
    if facts.tally.under_way == 0 and not awake:
        return GuardrailFinding(value=0)
    state, until = ("awake", "until it sleeps") if awake else ("running", "for it to finish")
    detail = f"{facts.target.reference!r} is already {state}; the wake waits {until}"
    on_block = facts.target.coordination.on_busy
    return GuardrailFinding(against=True, value=max(1, facts.tally.under_way), detail=detail, on_block=on_block)


def _concurrency(facts: AdmissionFacts) -> GuardrailFinding:
    return _compare_with_limit(
        facts.target.coordination.max_concurrent_pulse_sessions,
        facts.tally.open_pulses,
        "pulses at the same time",
        on_block=facts.target.coordination.on_concurrency,
    )


def _cooldown(facts: AdmissionFacts) -> GuardrailFinding:
    seconds, last = facts.limits.cooldown_seconds, facts.tally.last_wake_at
    if facts.source is WakeSource.SCHEDULE or seconds is None or last is None:
        return GuardrailFinding(limit=seconds)
    # A clock that was set back must not lengthen the cooldown.
    passed = max(0.0, (facts.now - last).total_seconds())
    if passed >= seconds:
        return GuardrailFinding(limit=seconds, value=passed)
    until = min(last, facts.now) + timedelta(seconds=seconds)
    detail = f"{facts.target.reference!r} was woken {passed:.0f} s ago; its cooldown is {seconds:g} s"
    on_block = facts.target.coordination.on_cooldown
    return GuardrailFinding(against=True, limit=seconds, value=passed, detail=detail, until=until, on_block=on_block)


def _day(facts: AdmissionFacts) -> GuardrailFinding:
    if facts.source is WakeSource.SCHEDULE:
        return _FINE
    return _compare_with_limit(facts.limits.max_wakes_per_day, facts.tally.wakes_today, "wakes a day")


def _pair(facts: AdmissionFacts) -> GuardrailFinding:
    if facts.source not in (WakeSource.AGENT, WakeSource.THREAD):
        return _FINE
    both = facts.limits.pair_mode is PairMode.UNDIRECTED
    count = facts.tally.by_sender_today + (facts.tally.of_sender_today if both else 0)
    what = "wakes a day between the two" if both else "wakes a day by the same agent"
    return _compare_with_limit(facts.limits.max_wakes_per_pair_per_day, count, what)


def _minutes(facts: AdmissionFacts) -> GuardrailFinding:
    return _compare_with_limit(
        facts.limits.max_daily_session_minutes, facts.tally.run_seconds_today / 60, "minutes of pulses a day"
    )


def _fleet(facts: AdmissionFacts) -> GuardrailFinding:
    pulses, wakes = facts.fleet.max_concurrent_pulses, facts.fleet.max_wakes_per_day
    finding = _FINE  # without a limit it is not counted
    if pulses is not None:
        finding = _compare_with_limit(
            pulses,
            facts.tally.fleet_open,
            "pulses of all agents at the same time",
            on_block=facts.target.coordination.on_concurrency,
        )
    if finding.against or wakes is None or facts.source is WakeSource.SCHEDULE:
        return finding
    return _compare_with_limit(wakes, facts.tally.fleet_wakes_today, "wakes of all agents a UTC day")


def _money(facts: AdmissionFacts) -> GuardrailFinding:
    return _compare_with_limit(
        facts.target.policy.max_usd_per_day, facts.spent_usd, "US dollars of model calls a UTC day"
    )


def _circuit(facts: AdmissionFacts) -> GuardrailFinding:
    if facts.failures < CIRCUIT_FAILURES or facts.failed_at is None or facts.source is WakeSource.PERSON:
        return GuardrailFinding(limit=CIRCUIT_FAILURES, value=facts.failures)
    until = facts.failed_at + timedelta(seconds=CIRCUIT_SECONDS)
    if until <= facts.now:
        return GuardrailFinding(limit=CIRCUIT_FAILURES, value=facts.failures)
    detail = f"the last {facts.failures} pulses of {facts.target.reference!r} failed; it is tried again then"
    return GuardrailFinding(
        against=True, limit=CIRCUIT_FAILURES, value=facts.failures, detail=detail, until=until, on_block=OnBlock.DEFER
    )


def _compare_with_limit(
    limit: float | None, value: float, what: str, *, on_block: OnBlock = OnBlock.REFUSE
) -> GuardrailFinding:
    if limit is None or value < limit:
        return GuardrailFinding(limit=limit, value=value)
    return GuardrailFinding(
        against=True, limit=limit, value=value, detail=f"limit reached: {limit:g} {what}", on_block=on_block
    )


GUARDRAILS: Final[Sequence[tuple[str, Callable[[AdmissionFacts], GuardrailFinding]]]] = (
    ("enabled", _enabled),
    ("max_wakes_per_session", _session),
    ("max_chain_depth", _chain_depth),
    ("max_chain_visits", _chain_visits),
    ("blackout", _blackout),
    ("busy", _busy),
    ("max_concurrent_pulse_sessions", _concurrency),
    ("cooldown_seconds", _cooldown),
    ("max_wakes_per_day", _day),
    ("max_wakes_per_pair_per_day", _pair),
    ("max_daily_session_minutes", _minutes),
    ("fleet", _fleet),
    ("money", _money),
    ("circuit", _circuit),
)
