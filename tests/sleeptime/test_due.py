"""When a pass over a bank begins, and which gate is closed if it does not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.ids import BankId
from circadia.records.sleep_pass import Backlog, Leftover, PassBlocker, SleepState, Trigger
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.triggers.due import ActivityEnd, BankSleepStatus, decide_pass

LATE_SECONDS = 10.0

T0 = datetime(2026, 3, 1, tzinfo=UTC)
IDLE = SleepPolicySettings.model_validate({})


def policy(**stated: Any) -> SleepPolicySettings:
    return SleepPolicySettings.model_validate(stated)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def known(**more: Any) -> BankSleepStatus:
    """Return a bank with two turns, said at 0 and at 10 s, while its agents are awake."""
    backlog = Backlog(episodes=4, turns=2, importance=1.0, oldest_at=at(0), newest_at=at(10), last=4)
    fresh = BankSleepStatus(state=SleepState(bank_id=BankId("b")), backlog=backlog, asleep=False, busy=False, begun=0)
    return replace(fresh, **more)


def nothing(**more: Any) -> BankSleepStatus:
    """Return a bank in which nothing was said since the last pass."""
    return known(backlog=Backlog(), **more)


def with_backlog(**more: Any) -> BankSleepStatus:
    return known(backlog=replace(known().backlog, **more))


def with_state(**more: Any) -> BankSleepStatus:
    return known(state=replace(known().state, **more))


@pytest.mark.spec("SLEEP-01", "SLEEP-02")
@pytest.mark.parametrize(
    ("seen", "seconds", "trigger"),
    [
        (known(), 69.9, None),
        (known(), 70, Trigger.IDLE),
        (known(asleep=True), 10, Trigger.ASLEEP),
        (with_backlog(turns=5), 11, Trigger.CADENCE),
        (with_backlog(newest_at=at(3599)), 3599, None),
        (with_backlog(newest_at=at(3599)), 3600, Trigger.LAG),
        (with_backlog(importance=5.0), 11, Trigger.IMPORTANCE),
        (known(filled=0.79), 11, None),
        (known(filled=0.8), 11, Trigger.OVERFLOW),
        (known(ended=ActivityEnd(of="conversation", at=at(11))), 11, Trigger.ENDED),
        (known(ended=ActivityEnd(of="pulse", at=at(11))), 11, Trigger.ENDED),
        (known(ended=ActivityEnd(of="conversation", at=at(-LATE_SECONDS))), 11, Trigger.ENDED),
        (known(ended=ActivityEnd(of="conversation", at=at(-LATE_SECONDS - 0.1))), 11, None),
        (known(stale=0.19), 11, None),
        (known(stale=0.2), 11, Trigger.STALE),
        (known(edited_at=at(30)), 69.9, None),
        (known(edited_at=at(30)), 70, Trigger.IDLE),
        (nothing(stale=0.2), 11, Trigger.STALE),
        (nothing(edited_at=at(30)), 89.9, None),
        (nothing(edited_at=at(30)), 90, Trigger.DOCUMENT),
        (nothing(edited_at=at(30), turn_at=at(50)), 109.9, None),
        (nothing(edited_at=at(30), asleep=True), 30, Trigger.DOCUMENT),
    ],
)
def test_the_first_trigger_whose_time_has_come_begins_a_pass(
    seen: BankSleepStatus, seconds: float, trigger: Trigger | None
) -> None:
    verdict = decide_pass(IDLE, seen, at(seconds))
    assert verdict.trigger is trigger
    assert (verdict.gate is PassBlocker.NOBODY_DUE) is (trigger is None)


@pytest.mark.spec("SLEEP-03")
def test_the_cheapest_gate_that_is_closed_is_the_answer() -> None:
    failing = SleepState(bank_id=BankId("b"), failures=2, not_before=at(500))
    ready = replace(known(), begun=11)
    many = replace(ready, begun=12, backlog=Backlog())
    back_off = replace(many, state=failing)
    busy = replace(back_off, busy=True)
    paused = replace(busy, state=replace(failing, paused_by="ann"))
    found = [decide_pass(rules, seen, at(100)) for rules, seen in (
        (policy(enabled=False), paused), (IDLE, paused), (IDLE, busy), (IDLE, back_off), (IDLE, many),
        (IDLE, replace(many, begun=11)), (IDLE, ready),
    )]  # fmt: skip
    assert [(each.gate, each.at) for each in found] == [
        (PassBlocker.DISABLED, None),
        (PassBlocker.PAUSED, None),
        (PassBlocker.BUSY, None),
        (PassBlocker.BACK_OFF, at(500)),
        (PassBlocker.PASSES, None),
        (PassBlocker.EMPTY, None),
        (None, None),
    ]
    assert decide_pass(IDLE, back_off, at(500)).gate is PassBlocker.PASSES


@pytest.mark.spec("SLEEP-13")
@pytest.mark.parametrize(("ahead", "waits"), [(30, True), (3600 * 1.25, True), (3600 * 9, False), (86400 * 30, False)])
def test_a_pause_after_failures_ends_also_where_the_clock_was_set_back(ahead: float, waits: bool) -> None:
    failing = replace(known(), state=SleepState(bank_id=BankId("b"), failures=1, not_before=at(100 + ahead)))
    assert (decide_pass(IDLE, failing, at(100)).gate is PassBlocker.BACK_OFF) is waits


@pytest.mark.spec("SLEEP-13")
def test_what_failed_is_tried_again_and_what_is_quarantined_is_not() -> None:
    nothing = Backlog()
    failed = Leftover(first=1, last=9, failures=5, cause="bad JSON")
    poison = Leftover(first=3, last=3, failures=3, cause="bad JSON")
    assert (
        decide_pass(IDLE, replace(with_state(leftovers=(poison, failed)), backlog=nothing), at(0)).trigger
        is Trigger.IDLE
    )
    assert decide_pass(IDLE, replace(with_state(leftovers=(poison,)), backlog=nothing), at(0)).gate is PassBlocker.EMPTY


@pytest.mark.spec("SLEEP-01")
def test_a_trigger_can_be_switched_off() -> None:
    rules = policy(frequency_turns=0, importance=0, overflow_share=0, stale_share=0)
    many = replace(with_backlog(turns=99, importance=99.0), filled=1.0, stale=1.0)
    assert decide_pass(rules, many, at(11)).trigger is None
    assert decide_pass(rules, nothing(stale=1.0), at(11)).gate is PassBlocker.EMPTY


@pytest.mark.spec("SLEEP-01", "SLEEP-02")
def test_nothing_begins_in_the_middle_of_a_reply_but_for_turns_that_have_waited_too_long() -> None:
    end = ActivityEnd(of="conversation", at=at(50))
    full = known(filled=1.0, stale=1.0, edited_at=at(0), ended=end, replying_since=at(100))
    for seen in (full, replace(full, backlog=Backlog()), replace(full, asleep=True), replace(full, scheduled_at=at(0))):
        assert decide_pass(IDLE, seen, at(101)).gate is PassBlocker.REPLYING
    assert decide_pass(IDLE, replace(full, replying_since=at(3550)), at(3600)).trigger is Trigger.LAG


@pytest.mark.spec("SLEEP-02", "SLEEP-03")
def test_each_trigger_says_in_words_what_it_was() -> None:
    found = [
        decide_pass(IDLE, seen, at(90)).detail
        for seen in (
            known(filled=1.0, turn_at=at(80)),
            known(filled=0.856, turn_at=at(80)),
            nothing(stale=0.25),
            nothing(edited_at=at(0)),
            nothing(edited_at=at(40)),
            nothing(),
            known(ended=ActivityEnd(of="pulse", at=at(80))),
            known(ended=ActivityEnd(of="conversation", at=at(80))),
            nothing(ended=ActivityEnd(of="conversation", at=at(80))),
        )
    ]
    assert found == [
        "a call was too long for its model", "a call filled 86% of its model's context",
        "25% of the bank has gone stale since the last pass", "a block was written by somebody else",
        "nothing was said since the last pass; a block was written by somebody else",
        "nothing was said since the last pass", "a pulse of one of its agents has ended",
        "a conversation of one of its agents has ended", "nothing was said since the last pass",
    ]  # fmt: skip


@pytest.mark.spec("SLEEP-01")
@given(turns=st.integers(0, 9), importance=st.floats(0, 9), newest=st.floats(0, 10_000), now=st.floats(0, 20_000))
def test_what_is_told_as_the_time_to_look_again_is_when_a_pass_begins(
    turns: int, importance: float, newest: float, now: float
) -> None:
    seen = with_backlog(turns=turns, importance=importance, newest_at=at(newest))
    verdict = decide_pass(IDLE, seen, at(max(now, newest)))
    if verdict.trigger is None:
        assert verdict.at is not None
        assert decide_pass(IDLE, seen, verdict.at).trigger is not None
        assert decide_pass(IDLE, seen, verdict.at - timedelta(microseconds=1)).trigger is None
