"""Which recorded decisions would be others under other settings."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circadia.errors import InvalidRequest
from circadia.ids import PulseId
from circadia.records.coordination import OnBlock, PairMode
from circadia.records.wake import Charge, Decision, GuardrailCheck, Wake, WakeSource
from circadia.wake.admission.replay import replay, settings_to_replay
from circadia.wake.scheduling.wall_clock import day_bounds
from tests.wake.ledgers import WakeStep, coordinations, decided

pytestmark = pytest.mark.spec("WAKE-75")

ASKS = st.lists(
    st.builds(
        WakeStep,
        minutes=st.integers(0, 400),
        target=st.integers(0, 2),
        sender=st.one_of(st.none(), st.integers(0, 2)),
        session=st.integers(0, 2),
        depth=st.integers(1, 4),
        root=st.integers(0, 2),
        source=st.sampled_from([WakeSource.AGENT, WakeSource.AGENT, WakeSource.THREAD, WakeSource.SCHEDULE]),
    ),
    max_size=40,
)
LIMIT = st.one_of(st.none(), st.integers(0, 5))
LIMITS = {
    "wake_guardrails.max_wakes_per_day": LIMIT,
    "wake_guardrails.max_wakes_per_pair_per_day": LIMIT,
    "wake_guardrails.max_wakes_per_session": LIMIT,
    "wake_guardrails.max_chain_depth": LIMIT,
    "wake_guardrails.max_chain_visits": LIMIT,
    "wake_guardrails.cooldown_seconds": st.one_of(st.none(), st.integers(0, 40_000).map(float)),
    "wake_guardrails.pair_mode": st.sampled_from(PairMode).map(str),
}
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Auckland"])
SOME = st.fixed_dictionaries({}, optional=LIMITS)
OWN = st.fixed_dictionaries({"zone": ZONES}, optional={**LIMITS, "on_cooldown": st.sampled_from(OnBlock).map(str)})


def aged(ledger: list[Wake], draws: list[int]) -> list[Wake]:
    """Let some of the requests end as others do: expired, cancelled, joined, released, let pass by a person."""
    found: list[Wake] = []
    pulse: PulseId | None = None
    for wake, draw in zip(ledger, draws, strict=False):
        if draw == 8:
            stopping = GuardrailCheck(rule="draining", passed=False)
            wake = replace(wake, decision=Decision.DEFERRED, rule="draining", charge=Charge.NONE, trace=(stopping,))
        changed = wake
        if wake.decision is Decision.DEFERRED:
            ends = (Decision.DEFERRED, Decision.EXPIRED, Decision.CANCELLED, Decision.COALESCED)
            changed = replace(wake, decision=ends[draw % 4], rule=None)
        elif wake.decision is Decision.ADMITTED and draw == 5:
            changed = replace(wake, charge=Charge.RELEASED)
        elif draw == 6:
            changed = replace(wake, decision=Decision.COALESCED, pulse_id=pulse or PulseId("pls_earlier"))
            changed = replace(changed, charge=Charge.NONE, rule=None)
        elif draw == 7 and wake.decision is Decision.REFUSED:
            changed = replace(wake, decision=Decision.ADMITTED, charge=Charge.CHARGED, overridden_by="operator: now")
        if changed.decision is Decision.ADMITTED:
            pulse = changed.pulse_id
        found.append(changed)
    return found


@settings(deadline=None, max_examples=150)
@given(ASKS, OWN, st.lists(st.integers(0, 8), min_size=40, max_size=40))
def test_a_replay_without_other_settings_changes_nothing(
    asks: list[WakeStep], own: dict[str, object], draws: list[int]
) -> None:
    ledger = aged(decided(asks, own), draws)
    outcomes = replay(ledger, {}, coordinations(own))
    assert len(outcomes) == len(ledger)
    assert not [each for each in outcomes if each.is_changed]


@settings(deadline=None, max_examples=300)
@given(ASKS, OWN, SOME)
def test_a_replay_says_what_the_guardrails_would_have_decided(
    asks: list[WakeStep], own: dict[str, object], other: dict[str, object]
) -> None:
    own |= {"on_cooldown": "refuse"}
    outcomes = replay(decided(asks, own), other, coordinations(own))
    expected = decided(asks, {**own, **other})
    assert [(each.decision, each.rule) for each in outcomes] == [(each.decision, each.rule) for each in expected]


def storm(count: int, *, minutes: int = 10) -> list[WakeStep]:
    """Return asks for one agent, by another, each in a pulse of its own."""
    return [WakeStep(minutes=minutes, target=0, sender=1, session=number) for number in range(count)]


FREE: dict[str, object] = {"wake_guardrails.max_wakes_per_pair_per_day": None}


def test_a_lower_limit_refuses_from_its_count_on() -> None:
    ledger = decided(storm(6, minutes=1), {**FREE, "wake_guardrails.cooldown_seconds": 0.0})
    outcomes = replay(ledger, settings_to_replay({"max_wakes_per_day": 4}), coordinations(FREE))
    assert [each.is_changed for each in outcomes] == [False] * 4 + [True] * 2
    told = outcomes[4]
    assert (told.decision, told.rule, told.limit, told.value) == (Decision.REFUSED, "max_wakes_per_day", 4, 4)


def test_settings_hold_from_the_given_time_on_and_what_was_before_counts() -> None:
    ledger = decided(storm(6), FREE)
    since = ledger[3].at
    outcomes = replay(ledger, settings_to_replay({"max_wakes_per_day": 2}), coordinations(FREE), since=since)
    assert [each.is_changed for each in outcomes] == [False] * 3 + [True] * 3
    assert outcomes[3].value == 3


def test_settings_may_hold_for_one_agent_only() -> None:
    asks = [WakeStep(minutes=30, target=number % 2, sender=2, session=number) for number in range(6)]
    ledger = decided(asks, {})
    none = settings_to_replay({"max_wakes_per_day": 0})
    outcomes = replay(ledger, none, coordinations({}), only=ledger[0].agent_id)
    assert {each.wake.agent for each in outcomes if each.is_changed} == {"ann"}


def test_the_limit_of_wakes_that_one_run_asks_for_is_the_senders_own() -> None:
    asks = [WakeStep(minutes=30, target=0, sender=1) for _ in range(3)]
    ledger = decided(asks, FREE)
    two = settings_to_replay({"max_wakes_per_session": 2})
    of_target = replay(ledger, two, coordinations(FREE), only=ledger[0].agent_id)
    of_sender = replay(ledger, two, coordinations(FREE), only=ledger[0].sender_id)
    assert [each.is_changed for each in of_target] == [False] * 3
    assert [each.rule for each in of_sender] == [None, None, "max_wakes_per_session"]


def test_what_an_agent_asks_for_outside_of_its_pulses_is_counted_by_its_days() -> None:
    asks = [WakeStep(minutes=8 * 60, target=0, sender=1) for _ in range(6)]
    own: dict[str, object] = {**FREE, "wake_guardrails.max_wakes_per_session": None, "zone": "Asia/Tokyo"}
    ledger = [replace(each, sender_pulse=None) for each in decided(asks, own)]
    outcomes = replay(ledger, settings_to_replay({"max_wakes_per_session": 2}), coordinations(own))
    days = [day_bounds("Asia/Tokyo", each.at)[0] for each in ledger]
    assert 2 < len(set(days)) < 5
    assert [each.is_changed for each in outcomes] == [days[:place].count(day) >= 2 for place, day in enumerate(days)]
    assert any(each.is_changed for each in outcomes)


def test_a_longer_cooldown_defers_and_the_deferred_wake_counts_at_its_end() -> None:
    ledger = decided(storm(4, minutes=10), FREE)
    outcomes = replay(ledger, settings_to_replay({"cooldown_seconds": 900}), coordinations(FREE))
    assert [each.decision for each in outcomes] == [
        Decision.ADMITTED, Decision.DEFERRED, Decision.DEFERRED, Decision.DEFERRED,
    ]  # fmt: skip
    assert [each.value for each in outcomes[1:]] == [600.0, 300.0, 0.0]


def test_what_joined_a_pulse_that_would_not_be_is_judged_itself() -> None:
    first, second, third = decided(storm(3, minutes=1), {**FREE, "wake_guardrails.cooldown_seconds": 0.0})
    joined = replace(third, decision=Decision.COALESCED, pulse_id=second.pulse_id, charge=Charge.NONE)
    kept = replay([first, second, joined], {}, coordinations(FREE))
    assert kept[2].decision is Decision.COALESCED
    outcomes = replay([first, second, joined], settings_to_replay({"max_wakes_per_day": 1}), coordinations(FREE))
    assert [each.decision for each in outcomes] == [Decision.ADMITTED, Decision.REFUSED, Decision.REFUSED]


def test_guardrails_of_which_nothing_is_recorded_are_named() -> None:
    ledger = decided(storm(2), {**FREE, "wake_guardrails.max_wakes_per_day": 1})
    outcomes = replay(ledger, settings_to_replay({"max_wakes_per_day": 2}), coordinations(FREE))
    assert outcomes[1].decision is Decision.ADMITTED
    assert outcomes[1].assumed == ("max_daily_session_minutes", "fleet", "money", "circuit")


def test_recorded_minutes_are_compared_with_another_limit() -> None:
    (wake,) = decided(storm(1), FREE)
    spent = GuardrailCheck(rule="max_daily_session_minutes", passed=True, limit=120, value=50)
    wake = replace(wake, trace=[spent if each.rule == spent.rule else each for each in wake.trace])
    (outcome,) = replay([wake], settings_to_replay({"max_daily_session_minutes": 45}), coordinations(FREE))
    assert (outcome.decision, outcome.value) == (Decision.REFUSED, 50)


def test_what_was_deferred_is_refused_where_its_cause_refuses() -> None:
    ledger = decided(storm(2, minutes=1), FREE)
    assert ledger[1].decision is Decision.DEFERRED
    expired = replace(ledger[1], decision=Decision.EXPIRED, decided_at=ledger[1].at + timedelta(days=1))
    outcomes = replay([ledger[0], expired], settings_to_replay({"on_cooldown": "refuse"}), coordinations(FREE))
    assert (outcomes[1].decision, outcomes[1].rule) == (Decision.REFUSED, "cooldown_seconds")


def test_a_request_without_a_trace_stays_as_it_is() -> None:
    bare = [replace(each, trace=()) for each in decided(storm(3), FREE)]
    outcomes = replay(bare, settings_to_replay({"max_wakes_per_day": 0}), coordinations(FREE))
    assert not any(each.is_changed for each in outcomes)


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({"max_wakes_a_day": 4}, "max_wakes_per_day"),
        ({"zone": "UTC"}, "a replay cannot change 'zone'"),
        ({"max_wakes_per_day": -1}, "max_wakes_per_day"),
        ({"pair_mode": "both"}, "pair_mode"),
    ],
)
def test_a_setting_that_a_replay_cannot_change_is_named(given_: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        settings_to_replay(given_)
