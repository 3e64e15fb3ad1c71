"""Replay of recorded wake requests under other settings: which decisions would change (WAKE-75).

Pure: requests with their traces come in, outcomes go out. A trace holds the value that each guardrail compared at that
time; the replay shifts it by what the changed decisions add or remove, so a replay without changed settings changes
nothing. Values that do not depend on requests (busy, concurrent pulses, minutes, fleet, money, circuit) stay as
recorded. A request that would be deferred counts as admitted when its cooldown ends, or at once.
"""

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from circadia.errors import InvalidRequest
from circadia.ids import AgentId, PulseId
from circadia.records.coordination import (
    DEFAULT,
    Coordination,
    OnBlock,
    PairMode,
    build_coordination,
    flatten_coordination,
)
from circadia.records.schedule import BlackoutPolicy
from circadia.records.wake import Charge, Decision, GuardrailCheck, Wake, WakeSource
from circadia.suggestions import did_you_mean
from circadia.wake.admission.guardrails import GUARDRAILS
from circadia.wake.admission.requests import DRAINING
from circadia.wake.scheduling.wall_clock import day_bounds

_GROUP: Final = "wake_guardrails"
_COUNTED: Final = (
    "max_wakes_per_session", "max_chain_depth", "max_chain_visits", "cooldown_seconds", "max_wakes_per_day",
    "max_wakes_per_pair_per_day",
)  # fmt: skip
"""Guardrails whose values follow from the requests themselves."""
_RECORDED: Final = ("max_concurrent_pulse_sessions", "max_daily_session_minutes")
"""Guardrails whose values are known from traces only."""
_ON_BLOCK: Final = {
    "busy": "on_busy", "cooldown_seconds": "on_cooldown", "max_concurrent_pulse_sessions": "on_concurrency",
    "fleet": "on_concurrency",
}  # fmt: skip
SETTABLE: Final = (*_COUNTED, *_RECORDED, "pair_mode", "on_busy", "on_cooldown", "on_concurrency")
_SENDERS: Final = "max_wakes_per_session"
"""The only limit that belongs to the sender."""
_OF_AGENTS: Final = frozenset({WakeSource.AGENT, WakeSource.THREAD})
_ASKED: Final = frozenset({Decision.ADMITTED, Decision.DEFERRED, Decision.EXPIRED})
"""Decisions that count as a wake call of the sender's pulse."""
_COUNTS: Final = frozenset({Charge.RESERVED, Charge.CHARGED})
_BLOCKED: Final = frozenset({Decision.REFUSED, Decision.DEFERRED, Decision.EXPIRED, Decision.CANCELLED})


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayOutcome:
    wake: Wake
    decision: Decision
    rule: str | None = None
    limit: float | None = None
    value: float | None = None
    assumed: tuple[str, ...] = ()
    """Guardrails without any record; they are assumed to pass."""

    @property
    def is_changed(self) -> bool:
        return self.decision is not self.wake.decision


def settings_to_replay(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return the settings by their flat names; the prefix `wake_guardrails.` may be left out. Raises InvalidRequest."""
    flat: dict[str, object] = {}
    for name, value in given.items():
        bare = name.removeprefix(f"{_GROUP}.")
        if bare not in SETTABLE:
            raise InvalidRequest(f"a replay cannot change {name!r}{did_you_mean(bare, SETTABLE)}")
        flat[_flat_name(bare)] = value
    try:
        build_coordination(flat)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if not str(part).startswith("function-"))
        raise InvalidRequest(f"{where}: {first['msg']}; the value was {first['input']!r}") from error
    return flat


def replay(
    requests: Iterable[Wake],
    settings: Mapping[str, object],
    coordinations: Mapping[AgentId, Coordination],
    *,
    since: datetime | None = None,
    only: AgentId | None = None,
) -> Sequence[ReplayOutcome]:
    """Return the outcome of each request, in the order of the decisions.

    `settings` come from `settings_to_replay`; they apply from `since` on, to all agents or to `only` one.
    `coordinations` are the agents' current settings, used where a trace ends before a guardrail. Include the requests
    of the two days before `since`, so that the counts are complete.
    """
    ordered = sorted(requests, key=lambda wake: (wake.decided_at, wake.decision is Decision.COALESCED, wake.at))
    led = {wake.pulse_id for wake in ordered if wake.decision is Decision.ADMITTED and wake.pulse_id is not None}
    run = _Replay(settings, coordinations, frozenset(led), only)
    return [run.step(wake, replayed=since is None or wake.at >= since) for wake in ordered]


def _flat_name(bare: str) -> str:
    return bare if bare in flatten_coordination(DEFAULT) else f"{_GROUP}.{bare}"


_Session = tuple[AgentId | None, PulseId | datetime]
"""A sender and its pulse; outside of any pulse the day, as times awake are not recorded."""


class _Ledger:
    def __init__(self) -> None:
        self._woken: dict[AgentId, list[tuple[datetime, AgentId]]] = defaultdict(list)
        self.asked: Counter[_Session] = Counter()
        self.visits: Counter[tuple[str, AgentId]] = Counter()

    def add(self, wake: Wake, decision: Decision, session: _Session, *, counts: bool, at: datetime) -> None:
        if decision in _ASKED and wake.trace:  # what is unguarded has none
            self.asked[session] += 1
        if counts:
            self.visits[wake.root_id, wake.agent_id] += 1
            insort(self._woken[wake.agent_id], (at, wake.sender_id or AgentId("")))

    def count_wakes(self, target: AgentId, start: datetime, now: datetime, sender: AgentId | None = None) -> int:
        count = 0
        for at, by in reversed(self._woken[target]):
            if at < start:
                break
            count += at <= now and sender in (None, by)
        return count

    def last_wake_at(self, target: AgentId, now: datetime) -> datetime | None:
        return next((at for at, _ in reversed(self._woken[target]) if at <= now), None)

    def has_pending_wake(self, target: AgentId, now: datetime) -> bool:
        """Return whether a deferred request will wake the target later."""
        woken = self._woken[target]
        return bool(woken) and woken[-1][0] > now


class _Replay:
    """One replay: the recorded course of events beside the replayed one."""

    def __init__(
        self,
        settings: Mapping[str, object],
        coordinations: Mapping[AgentId, Coordination],
        led: frozenset[PulseId],
        only: AgentId | None,
    ) -> None:
        self._settings = settings
        self._names = frozenset(name.removeprefix(f"{_GROUP}.") for name in settings)
        self._own = coordinations
        self._changed: dict[AgentId, Coordination] = {}
        self._led = led
        self._only = only
        self._gone: set[PulseId] = set()
        self._was = _Ledger()
        self._would = _Ledger()

    def step(self, wake: Wake, *, replayed: bool) -> ReplayOutcome:
        same = ReplayOutcome(wake=wake, decision=wake.decision, rule=wake.rule)
        names = frozenset(
            name for name in self._names if self._only in (None, wake.sender_id if name == _SENDERS else wake.agent_id)
        )
        fixed = not replayed or not wake.trace or wake.overridden_by is not None or _recorded_rule(wake) == DRAINING
        outcome = same if fixed else self._replay_request(wake, self._coordination_of(wake, names), names)
        self._count_in_both(wake, outcome)
        return outcome

    def _coordination_of(self, wake: Wake, names: frozenset[str]) -> Coordination:
        own = self._own.get(wake.agent_id, DEFAULT)
        if not names:
            return own
        if wake.agent_id not in self._changed:
            self._changed[wake.agent_id] = build_coordination({**flatten_coordination(own), **self._settings})
        return self._changed[wake.agent_id]

    def _replay_request(self, wake: Wake, coordination: Coordination, names: frozenset[str]) -> ReplayOutcome:
        replayed = self._apply_guardrails(wake, coordination, names)
        if wake.decision is Decision.COALESCED and wake.pulse_id is not None:
            joined = wake.pulse_id not in self._led or wake.pulse_id not in self._gone
            if joined and (
                replayed.rule not in ("enabled", "max_chain_depth") or replayed.rule == _recorded_rule(wake)
            ):
                return ReplayOutcome(wake=wake, decision=Decision.COALESCED)
        elif wake.decision is Decision.COALESCED and replayed.decision is Decision.DEFERRED:
            return ReplayOutcome(wake=wake, decision=Decision.COALESCED)
        return replayed

    def _apply_guardrails(self, wake: Wake, coordination: Coordination, names: frozenset[str]) -> ReplayOutcome:
        checks = {check.rule: check for check in wake.trace}
        assumed: list[str] = []
        for rule, _ in GUARDRAILS:
            check = checks.get(rule)
            limit, value = self._limit_and_value(wake, rule, check, coordination, names)
            if check is None and value is None and _rule_applies(rule, wake.source):
                assumed.append(rule)
            if _is_against(rule, check, limit, value):
                decision = self._blocked_decision(wake, rule, coordination, names)
                return ReplayOutcome(wake=wake, decision=decision, rule=rule, limit=limit, value=value)
        return ReplayOutcome(wake=wake, decision=Decision.ADMITTED, assumed=tuple(assumed))

    def _limit_and_value(
        self, wake: Wake, rule: str, check: GuardrailCheck | None, coordination: Coordination, names: frozenset[str]
    ) -> tuple[float | None, float | None]:
        if rule not in (*_COUNTED, *_RECORDED) or not _rule_applies(rule, wake.source):
            return (None, None) if check is None else (check.limit, check.value)
        limit = self._limit(wake, rule, coordination) if rule in names or check is None else check.limit
        if rule in _RECORDED:
            alone = rule == "max_concurrent_pulse_sessions" and wake.pulse_id in self._gone
            value = None if check is None or check.value is None else check.value - alone
        elif rule == "cooldown_seconds":
            value = self._seconds_since_wake(wake, check)
        elif check is None or _must_recount(wake, rule, check, names):
            value = self._count(self._would, wake, rule, coordination)
        elif check.value is None:
            value = None
        else:
            difference = self._count(self._would, wake, rule, coordination) - self._count(
                self._was, wake, rule, coordination
            )
            value = check.value + difference
        return limit, value

    def _limit(self, wake: Wake, rule: str, coordination: Coordination) -> float | None:
        if rule == _SENDERS:
            own = DEFAULT if wake.sender_id is None else self._own.get(wake.sender_id, DEFAULT)
            changed = _flat_name(rule) in self._settings and self._only in (None, wake.sender_id)
            coordination = build_coordination({**flatten_coordination(own), **self._settings}) if changed else own
        holder = coordination if rule == "max_concurrent_pulse_sessions" else coordination.wake_guardrails
        return getattr(holder, rule)

    def _count(self, ledger: _Ledger, wake: Wake, rule: str, coordination: Coordination) -> float:
        if rule == "max_chain_depth":
            return wake.depth - 1
        if rule == "max_chain_visits":
            return ledger.visits[wake.root_id, wake.agent_id]
        if rule in ("max_wakes_per_session", "max_wakes_per_pair_per_day") and wake.sender_id is None:
            return 0
        if rule == "max_wakes_per_session":
            return ledger.asked[self._session_of(wake)]
        start, now = day_bounds(coordination.zone, wake.decided_at)[0], wake.decided_at
        if rule == "max_wakes_per_day":
            return ledger.count_wakes(wake.agent_id, start, now)
        both = coordination.wake_guardrails.pair_mode is PairMode.UNDIRECTED
        back = ledger.count_wakes(wake.sender_id, start, now, wake.agent_id) if both and wake.sender_id else 0
        return ledger.count_wakes(wake.agent_id, start, now, wake.sender_id) + back

    def _seconds_since_wake(self, wake: Wake, check: GuardrailCheck | None) -> float | None:
        was, would = (ledger.last_wake_at(wake.agent_id, wake.decided_at) for ledger in (self._was, self._would))
        if check is not None and check.limit is not None and was == would:
            return check.value
        return None if would is None else (wake.decided_at - would).total_seconds()

    def _blocked_decision(self, wake: Wake, rule: str, coordination: Coordination, names: frozenset[str]) -> Decision:
        policy = _ON_BLOCK.get(rule)
        if rule == _recorded_rule(wake) and wake.decision in _BLOCKED and policy not in names:
            return wake.decision
        waits = rule == "circuit"
        if policy is not None:
            waits = getattr(coordination, policy) is OnBlock.DEFER
        elif rule == "blackout":
            waits = coordination.blackout_policies.wake is BlackoutPolicy.DEFER
        if not waits:
            return Decision.REFUSED
        return wake.decision if wake.decision in _BLOCKED - {Decision.REFUSED} else Decision.DEFERRED

    def _count_in_both(self, wake: Wake, outcome: ReplayOutcome) -> None:
        counted = wake.charge in _COUNTS
        at = wake.decided_at
        session = self._session_of(wake)
        self._was.add(wake, wake.decision, session, counts=counted, at=at)
        if outcome.is_changed:
            if wake.decision is Decision.ADMITTED and wake.pulse_id is not None:
                self._gone.add(wake.pulse_id)
            counted = wake.source is not WakeSource.SCHEDULE and outcome.decision in (
                Decision.ADMITTED,
                Decision.DEFERRED,
            )
            if outcome.decision is Decision.ADMITTED and wake.pulse_id is not None:
                self._gone.discard(wake.pulse_id)
            elif outcome.decision is Decision.DEFERRED:
                counted = counted and not self._would.has_pending_wake(wake.agent_id, at)
                if outcome.rule == "cooldown_seconds" and outcome.limit is not None and outcome.value is not None:
                    at += timedelta(seconds=outcome.limit - outcome.value)
        self._would.add(wake, outcome.decision, session, counts=counted, at=at)

    def _session_of(self, wake: Wake) -> _Session:
        own = DEFAULT if wake.sender_id is None else self._own.get(wake.sender_id, DEFAULT)
        return wake.sender_id, wake.sender_pulse or day_bounds(own.zone, wake.at)[0]


def _recorded_rule(wake: Wake) -> str | None:
    """Return the guardrail that blocked the request, whatever became of it later."""
    return next((check.rule for check in wake.trace if not check.passed), None)


def _rule_applies(rule: str, source: WakeSource) -> bool:
    if rule in ("max_wakes_per_session", "max_wakes_per_pair_per_day"):
        return source in _OF_AGENTS
    if rule in ("cooldown_seconds", "max_wakes_per_day", "blackout", "busy"):
        return source is not WakeSource.SCHEDULE
    return rule != "circuit" or source is not WakeSource.PERSON


def _must_recount(wake: Wake, rule: str, check: GuardrailCheck, names: frozenset[str]) -> bool:
    """Return whether the changed setting counts something else than the trace did."""
    if rule == "max_wakes_per_pair_per_day":
        return "pair_mode" in names
    # Not counted without a limit, counted only up to the limit beyond it, and no longer counted at the last check of a
    # deferred request.
    unsure = wake.decided_at > wake.at or check.value is None or not check.passed
    return rule == _SENDERS and rule in names and unsure


def _is_against(rule: str, check: GuardrailCheck | None, limit: float | None, value: float | None) -> bool:
    if rule not in (*_COUNTED, *_RECORDED):
        return check is not None and not check.passed
    if check is not None and (check.limit, check.value) == (limit, value):
        return not check.passed
    if limit is None or value is None:
        return False
    return value < limit if rule == "cooldown_seconds" else value >= limit
