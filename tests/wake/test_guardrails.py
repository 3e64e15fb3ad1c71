"""The guardrails, each at its edge and all in their order."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.ids import AgentId, PulseId, SessionId
from circadia.records.agent import Agent, AgentPolicy
from circadia.records.coordination import Coordination, Guardrails, OnBlock, PairMode
from circadia.records.schedule import BlackoutPolicies, BlackoutPolicy
from circadia.records.wake import Decision, GuardrailCounts, WakeSource
from circadia.wake.admission.guardrails import GUARDRAILS, AdmissionFacts, FleetLimits, check_guardrails

CIRCUIT_FAILURES = 5
CIRCUIT_SECONDS = 900.0

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTHING: Final = GuardrailCounts(
    wakes_today=0, by_sender_today=0, of_sender_today=0, last_wake_at=None, asked_in_session=0, visits=0,
    joinable=None, under_way=0, open_pulses=0, run_seconds_today=0.0, fleet_open=0, fleet_wakes_today=0,
)  # fmt: skip
ORDER: Final = [
    "enabled", "max_wakes_per_session", "max_chain_depth", "max_chain_visits", "blackout", "busy",
    "max_concurrent_pulse_sessions", "cooldown_seconds", "max_wakes_per_day", "max_wakes_per_pair_per_day",
    "max_daily_session_minutes", "fleet", "money", "circuit",
]  # fmt: skip


def target(
    limits: Guardrails | None = None,
    *,
    enabled: bool = True,
    asleep: bool = True,
    policy: AgentPolicy | None = None,
    **more: Any,
) -> Agent:
    given: dict[str, Any] = {"launcher": "fake", **more}
    coordination = Coordination(**given, wake_guardrails=limits or Guardrails())
    return Agent(
        id=AgentId("agt_bob"), session_id=SessionId("ses"), session="default", name="bob", token_hash="", since=NOW,
        created_at=NOW, enabled=enabled, asleep=asleep, coordination=coordination, policy=policy or AgentPolicy(),
    )  # fmt: skip


def facts(agent: Agent | None = None, *, counts: Mapping[str, Any] | None = None, **more: Any) -> AdmissionFacts:
    given: dict[str, Any] = {
        "source": WakeSource.AGENT, "now": NOW, "depth": 1, **more,
    }  # fmt: skip
    return AdmissionFacts(target=agent or target(), tally=replace(NOTHING, **(counts or {})), **given)


def decided(given: AdmissionFacts) -> tuple[Decision, str | None]:
    verdict = check_guardrails(given)
    return verdict.decision, verdict.rule


AGAINST_ALL: Final = facts(
    target(
        Guardrails(
            max_wakes_per_session=0, max_chain_depth=0, max_chain_visits=0, max_wakes_per_day=0,
            max_wakes_per_pair_per_day=0, max_daily_session_minutes=0,
        ),
        enabled=False, max_concurrent_pulse_sessions=0, policy=AgentPolicy(max_usd_per_day=0),
    ),
    counts={"last_wake_at": NOW, "under_way": 1},
    blackout=("night", NOW + timedelta(hours=1)), fleet=FleetLimits(max_wakes_per_day=0, max_concurrent_pulses=0),
    failures=CIRCUIT_FAILURES, failed_at=NOW,
)  # fmt: skip


@pytest.mark.spec("WAKE-10")
def test_the_first_that_is_against_a_wake_decides_and_explain_hears_all_in_the_fixed_order() -> None:
    assert [rule for rule, _ in GUARDRAILS] == ORDER
    short, whole = check_guardrails(AGAINST_ALL), check_guardrails(AGAINST_ALL, to_the_end=True)
    assert (short.decision, short.rule, short.detail) == (whole.decision, whole.rule, whole.detail)
    assert [each.rule for each in short.trace] == ["enabled"]
    assert [each.rule for each in whole.trace if not each.passed] == ORDER


@pytest.mark.spec("WAKE-10", "WAKE-20")
def test_with_those_before_it_out_of_the_way_each_decides_in_turn() -> None:
    now = AGAINST_ALL
    agent = now.target
    cures: dict[str, AdmissionFacts] = {}

    def cure(rule: str, **changes: Any) -> None:
        nonlocal now
        assert check_guardrails(now).rule == rule
        now = replace(now, **changes)
        cures[rule] = now

    def limits(**changes: Any) -> Agent:
        nonlocal agent
        own = agent.coordination
        agent = replace(
            agent,
            coordination=own.model_copy(update={"wake_guardrails": own.wake_guardrails.model_copy(update=changes)}),
        )  # fmt: skip
        return agent

    agent = replace(agent, enabled=True)
    cure("enabled", target=agent)
    cure("max_wakes_per_session", target=limits(max_wakes_per_session=1))
    cure("max_chain_depth", target=limits(max_chain_depth=1))
    cure("max_chain_visits", target=limits(max_chain_visits=1))
    cure("blackout", blackout=None)
    cure("busy", tally=replace(now.tally, under_way=0))
    agent = replace(agent, coordination=agent.coordination.model_copy(update={"max_concurrent_pulse_sessions": 1}))
    cure("max_concurrent_pulse_sessions", target=agent)
    cure("cooldown_seconds", target=limits(cooldown_seconds=0.0))
    cure("max_wakes_per_day", target=limits(max_wakes_per_day=1))
    cure("max_wakes_per_pair_per_day", target=limits(max_wakes_per_pair_per_day=1))
    cure("max_daily_session_minutes", target=limits(max_daily_session_minutes=1.0))
    cure("fleet", fleet=FleetLimits())
    agent = replace(agent, policy=AgentPolicy(max_usd_per_day=1))
    cure("money", target=agent)
    cure("circuit", failures=0)
    assert list(cures) == ORDER
    assert decided(now) == (Decision.ADMITTED, None)


COUNTED: Final = [
    ("max_wakes_per_session", "asked_in_session", 1),
    ("max_chain_visits", "visits", 1),
    ("max_wakes_per_day", "wakes_today", 1),
    ("max_wakes_per_pair_per_day", "by_sender_today", 1),
    ("max_daily_session_minutes", "run_seconds_today", 60),
]


@pytest.mark.spec("WAKE-10", "WAKE-16", "WAKE-20")
@pytest.mark.parametrize(("rule", "count", "unit"), COUNTED)
def test_a_budget_lets_pass_what_is_below_it_and_refuses_from_there_on(rule: str, count: str, unit: int) -> None:
    def at(limit: int | None, value: float) -> tuple[Decision, str | None]:
        own: dict[str, Any] = {rule: limit}
        return decided(facts(target(Guardrails(**own)), counts={count: value}))

    assert at(0, 0) == (Decision.REFUSED, rule)
    assert at(None, 10**9) == (Decision.ADMITTED, None)
    assert at(3, 2 * unit) == (Decision.ADMITTED, None)
    assert at(3, 3 * unit) == (Decision.REFUSED, rule)
    assert at(3, 4 * unit) == (Decision.REFUSED, rule)
    three: dict[str, Any] = {rule: 3}
    verdict = check_guardrails(facts(target(Guardrails(**three)), counts={count: 3 * unit}))
    last = verdict.trace[-1]
    assert (last.rule, last.passed, last.limit, last.value) == (rule, False, 3, 3)
    assert "3" in verdict.detail


@pytest.mark.spec("WAKE-10", "WAKE-60")
@pytest.mark.parametrize(
    ("limit", "depth", "passes"), [(0, 1, False), (None, 999, True), (24, 24, True), (24, 25, False)]
)
def test_a_chain_may_be_as_deep_as_its_limit(limit: int | None, depth: int, passes: bool) -> None:
    decision, rule = decided(facts(target(Guardrails(max_chain_depth=limit)), depth=depth))
    assert (decision is Decision.ADMITTED) is passes
    assert rule == (None if passes else "max_chain_depth")


@pytest.mark.spec("WAKE-10")
def test_the_limit_of_a_session_is_that_of_the_asker() -> None:
    asked = {"asked_in_session": 2}
    strict, free = Guardrails(max_wakes_per_session=2), Guardrails(max_wakes_per_session=None)
    assert decided(facts(target(free), counts=asked, asker=strict))[1] == "max_wakes_per_session"
    assert decided(facts(target(strict), counts=asked, asker=free))[1] is None


@pytest.mark.spec("WAKE-10", "WAKE-20")
@pytest.mark.parametrize(
    ("seconds", "ago", "passes"),
    [(300, 299.999, False), (300, 300, True), (0, 0, True), (None, 0, True), (300, None, True), (300, -50, False)],
)
def test_a_cooldown_ends_to_the_instant(seconds: float | None, ago: float | None, passes: bool) -> None:
    last = None if ago is None else NOW - timedelta(seconds=ago)
    verdict = check_guardrails(facts(target(Guardrails(cooldown_seconds=seconds)), counts={"last_wake_at": last}))
    assert (verdict.decision is Decision.ADMITTED) is passes
    if not passes and ago is not None:
        assert verdict.decision is Decision.DEFERRED
        assert verdict.not_before == NOW + timedelta(seconds=300 - max(0, ago))


@pytest.mark.spec("WAKE-10")
def test_a_pair_counts_one_direction_or_both() -> None:
    counts = {"by_sender_today": 3, "of_sender_today": 2}
    directed, both = Guardrails(), Guardrails(pair_mode=PairMode.UNDIRECTED)
    assert decided(facts(target(directed), counts=counts)) == (Decision.ADMITTED, None)
    assert decided(facts(target(both), counts=counts)) == (Decision.REFUSED, "max_wakes_per_pair_per_day")


@pytest.mark.spec("WAKE-20", "WAKE-42")
@pytest.mark.parametrize(
    ("policy", "decision"),
    [
        (BlackoutPolicy.RUN, Decision.ADMITTED),
        (BlackoutPolicy.DEFER, Decision.DEFERRED),
        (BlackoutPolicy.SKIP, Decision.REFUSED),
    ],
)
def test_a_blackout_does_to_a_wake_what_the_policy_says(policy: BlackoutPolicy, decision: Decision) -> None:
    end = NOW + timedelta(hours=1)
    agent = target(blackout_policies=BlackoutPolicies(wake=policy))
    verdict = check_guardrails(facts(agent, blackout=("night", end)))
    assert verdict.decision is decision
    assert verdict.not_before == (None if decision is Decision.ADMITTED else end)


@pytest.mark.spec("WAKE-10", "WAKE-56")
def test_a_resident_agent_is_busy_while_awake_and_any_agent_while_a_pulse_is_under_way() -> None:
    assert decided(facts(target(launcher="resident", asleep=False))) == (Decision.DEFERRED, "busy")
    assert decided(facts(target(asleep=False))) == (Decision.ADMITTED, None)
    assert decided(facts(counts={"under_way": 1, "open_pulses": 1})) == (Decision.DEFERRED, "busy")
    assert decided(facts(counts={"open_pulses": 2})) == (Decision.DEFERRED, "max_concurrent_pulse_sessions")
    assert decided(facts(counts={"open_pulses": 1})) == (Decision.ADMITTED, None)


@pytest.mark.spec("WAKE-20")
@pytest.mark.parametrize("key", ["on_busy", "on_cooldown", "on_concurrency"])
def test_each_policy_turns_a_deferral_into_a_refusal(key: str) -> None:
    counts: dict[str, Any] = {
        "on_busy": {"under_way": 1}, "on_cooldown": {"last_wake_at": NOW}, "on_concurrency": {"open_pulses": 2},
    }[key]  # fmt: skip
    assert decided(facts(counts=counts))[0] is Decision.DEFERRED
    refusing: dict[str, Any] = {key: OnBlock.REFUSE}
    assert decided(facts(target(**refusing), counts=counts))[0] is Decision.REFUSED


@pytest.mark.spec("WAKE-10")
def test_a_routine_passes_what_is_for_wakes_and_not_what_is_for_all_pulses() -> None:
    counts: dict[str, Any] = {
        "asked_in_session": 99, "under_way": 1, "last_wake_at": NOW, "wakes_today": 99, "by_sender_today": 99,
        "fleet_wakes_today": 99,
    }  # fmt: skip
    schedule: dict[str, Any] = {
        "source": WakeSource.SCHEDULE,
        "fleet": FleetLimits(max_wakes_per_day=1, max_concurrent_pulses=5),
    }
    assert decided(facts(counts=counts, **schedule)) == (Decision.ADMITTED, None)
    beyond: list[tuple[str, dict[str, Any]]] = [
        ("max_concurrent_pulse_sessions", {"open_pulses": 2}),
        ("max_daily_session_minutes", {"run_seconds_today": 7200.0}),
        ("fleet", {"fleet_open": 5}),
    ]
    for rule, more in beyond:
        assert decided(facts(counts={**counts, **more}, **schedule))[1] == rule


@pytest.mark.spec("WAKE-10")
def test_only_a_person_wakes_an_agent_whose_wakes_are_switched_off_and_nobody_a_disabled_one() -> None:
    for source in WakeSource:
        person = source is WakeSource.PERSON
        assert (decided(facts(target(wakes_enabled=False), source=source))[1] is None) is person
        assert decided(facts(target(enabled=False), source=source)) == (Decision.REFUSED, "enabled")


@pytest.mark.spec("WAKE-10")
def test_money_is_compared_with_the_agents_budget() -> None:
    poor = target(policy=AgentPolicy(max_usd_per_day=2.5))
    assert decided(facts(poor, spent_usd=2.49)) == (Decision.ADMITTED, None)
    assert decided(facts(poor, spent_usd=2.5)) == (Decision.REFUSED, "money")
    assert decided(facts(spent_usd=1e9)) == (Decision.ADMITTED, None)


@pytest.mark.spec("WAKE-54")
@pytest.mark.parametrize(
    ("failures", "ago", "source", "decision"),
    [
        (CIRCUIT_FAILURES - 1, 0, WakeSource.AGENT, Decision.ADMITTED),
        (CIRCUIT_FAILURES, 0, WakeSource.AGENT, Decision.DEFERRED),
        (CIRCUIT_FAILURES, CIRCUIT_SECONDS - 1, WakeSource.SCHEDULE, Decision.DEFERRED),
        (CIRCUIT_FAILURES, CIRCUIT_SECONDS, WakeSource.AGENT, Decision.ADMITTED),
        (CIRCUIT_FAILURES, 0, WakeSource.PERSON, Decision.ADMITTED),
    ],
)
def test_the_circuit_opens_after_failures_in_a_row_and_lets_one_try_later(
    failures: int, ago: float, source: WakeSource, decision: Decision
) -> None:
    given = facts(failures=failures, failed_at=NOW - timedelta(seconds=ago), source=source)
    assert decided(given)[0] is decision


@pytest.mark.spec("WAKE-10", "WAKE-20")
@given(
    counts=st.fixed_dictionaries({
        name: st.integers(0, 15)
        for name in ("wakes_today", "by_sender_today", "of_sender_today", "asked_in_session", "visits", "under_way",
                     "open_pulses", "fleet_open", "fleet_wakes_today")
    }),
    minutes=st.integers(0, 150),
    ago=st.none() | st.integers(-10, 400),
    depth=st.integers(1, 30),
    source=st.sampled_from(WakeSource),
)  # fmt: skip
def test_whatever_is_counted_explain_agrees_and_what_waits_says_until_when(
    counts: dict[str, int], minutes: int, ago: int | None, depth: int, source: WakeSource
) -> None:
    last = None if ago is None else NOW - timedelta(seconds=ago)
    given = facts(
        counts={**counts, "run_seconds_today": minutes * 60.0, "last_wake_at": last, "joinable": PulseId("p")},
        depth=depth, source=source, fleet=FleetLimits(max_concurrent_pulses=8, max_wakes_per_day=12),
    )  # fmt: skip
    short, whole = check_guardrails(given), check_guardrails(given, to_the_end=True)
    assert (short.decision, short.rule, short.not_before) == (whole.decision, whole.rule, whole.not_before)
    assert list(short.trace) == list(whole.trace[: len(short.trace)])
    against = [each.rule for each in whole.trace if not each.passed]
    assert (against[:1] or [None])[0] == short.rule
    assert (short.not_before is not None) is (short.decision is Decision.DEFERRED)
    assert short.not_before is None or short.not_before > NOW
