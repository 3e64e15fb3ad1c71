"""The guardrails: what may be against a wake, in their fixed order (WAKE-10).

Each is a function of the facts alone that says what it finds; none acts. The first that is against a wake decides, and
`explain` shows what all of them say.
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
    """Limits of all agents together; none means no limit."""

    max_concurrent_pulses: int | None = None
    """Open pulses."""
    max_wakes_per_day: int | None = None
    """Counted wakes in a UTC day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmissionFacts:
    """All that a decision rests on."""

    target: Agent
    """Whom to wake."""
    source: WakeSource
    """What asks."""
    now: datetime
    """The moment."""
    tally: GuardrailCounts
    """What the ledger counts."""
    depth: int
    """Depth of the wake in its chain."""
    blackout: tuple[str, datetime] | None = None
    """Label and end of the blackout that it is in."""
    spent_usd: float = 0.0
    """What the target's model calls cost today."""
    failures: int = 0
    """Its last pulses that failed, in a row."""
    failed_at: datetime | None = None
    """When the last of them ended."""
    fleet: FleetLimits = FleetLimits()
    """Limits of all agents together."""
    asker: Guardrails | None = None
    """The limits of the agent that asks, if an agent does."""
    asks_anew_at: datetime | None = None
    """When what it asks for is counted anew although it does not sleep; none in a pulse that has a time limit."""
    routine_policy: BlackoutPolicy = BlackoutPolicy.RUN
    """What a blackout means for a routine that has waited; of one that is due now its plan has asked."""

    @property
    def limits(self) -> Guardrails:
        """Return the target's own limits."""
        return self.target.coordination.wake_guardrails

    @property
    def is_resident(self) -> bool:
        """Whether its pulses are its times awake."""
        return self.target.coordination.launcher == "resident"


class GuardrailFinding(NamedTuple):
    """What one guardrail has to say; a tuple, as each decision makes many."""

    against: bool = False
    """Whether it is against the wake."""
    limit: float | None = None
    """The setting that it compared with."""
    value: float | None = None
    """What it counted."""
    detail: str = ""
    """What is in the way, and what can be done, in words."""
    until: datetime | None = None
    """When what is in the way ends, if that is known."""
    on_block: OnBlock = OnBlock.REFUSE
    """Whether the wake waits for the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeDecision:
    """What is decided."""

    decision: Decision
    """Admitted, deferred or refused."""
    rule: str | None = None
    """The guardrail that decided."""
    detail: str = ""
    """Why."""
    not_before: datetime | None = None
    """When a deferred one is looked at again at the latest; of a refused one, when what is in the way ends."""
    trace: Sequence[GuardrailCheck] = ()
    """What was said; up to the one that decided, or by all."""


_FINE: Final = GuardrailFinding()
CIRCUIT_FAILURES: Final = 5
"""Pulses that fail in a row until the circuit opens."""
CIRCUIT_SECONDS: Final = 900.0
"""Time that it stays open; then one pulse is tried."""
LOOK_AGAIN_SECONDS: Final = 60.0
"""Where no end is known, a deferred wake is looked at after so long, besides at each end that may matter to it."""


def check_guardrails(facts: AdmissionFacts, *, to_the_end: bool = False) -> WakeDecision:
    """Return what the guardrails decide; `to_the_end` asks those behind the deciding one too."""
    trace: list[GuardrailCheck] = []
    first: tuple[str, GuardrailFinding] | None = None
    for rule, look in GUARDRAILS:
        found = look(facts)
        trace.append(
            GuardrailCheck(
                rule=rule, passed=not found.against, limit=found.limit, value=found.value, detail=found.detail
            )
        )
        if found.against and first is None:
            first = rule, found
            if not to_the_end:
                break
    if first is None:
        return WakeDecision(decision=Decision.ADMITTED, trace=tuple(trace))
    rule, found = first
    if found.on_block is OnBlock.DEFER:
        until = found.until or facts.now + timedelta(seconds=LOOK_AGAIN_SECONDS)
        return WakeDecision(
            decision=Decision.DEFERRED, rule=rule, detail=found.detail, not_before=until, trace=tuple(trace)
        )
    return WakeDecision(
        decision=Decision.REFUSED, rule=rule, detail=found.detail, not_before=found.until, trace=tuple(trace)
    )


def _enabled(facts: AdmissionFacts) -> GuardrailFinding:
    if not facts.target.enabled:
        return GuardrailFinding(against=True, detail=f"{facts.target.reference!r} is disabled")
    if not facts.target.coordination.wakes_enabled and facts.source is not WakeSource.PERSON:
        return GuardrailFinding(
            against=True, detail=f"{facts.target.reference!r} takes no wakes (wakes_enabled is false)"
        )
    return _FINE


def _session(facts: AdmissionFacts) -> GuardrailFinding:
    if facts.source not in (WakeSource.AGENT, WakeSource.THREAD):
        return _FINE
    # The one limit that is the sender's own: it keeps in what one run of it may set off.
    limit = (facts.asker or facts.limits).max_wakes_per_session
    if limit is None:
        return _FINE  # without a limit it is not counted
    found = _compare_with_limit(
        limit, facts.tally.asked_in_session, "wakes that an agent may ask for in one pulse, or time awake"
    )
    if not found.against:
        return found
    anew = "in its next pulse"
    if facts.asks_anew_at is not None:
        anew = f"when it has slept, or from {facts.asks_anew_at.isoformat(timespec='seconds')} on"
    return found._replace(detail=f"{found.detail}; it may ask again {anew}", until=facts.asks_anew_at)


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
    detail = f"{facts.target.reference!r} is {'awake' if awake else 'at work'} already; it is woken when that ends"
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
    # A clock that was set back must not make it longer than it is.
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
    found = _FINE  # without a limit it is not counted
    if pulses is not None:
        found = _compare_with_limit(
            pulses,
            facts.tally.fleet_open,
            "pulses of all agents at the same time",
            on_block=facts.target.coordination.on_concurrency,
        )
    if found.against or wakes is None or facts.source is WakeSource.SCHEDULE:
        return found
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
    """Compare a count with its limit: the one that would reach beyond it is refused."""
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
"""In the order in which they are asked."""
