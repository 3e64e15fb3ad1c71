"""What becomes of a routine at an instant: runs, waits, is skipped or is recorded as missed, and never twice."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circadia.errors import InvalidRequest
from circadia.ids import AgentId, RoutineId
from circadia.records.schedule import (
    Blackout,
    BlackoutPolicies,
    BlackoutPolicy,
    OneOffBlackout,
    Recurrence,
    RecurringBlackout,
    Routine,
    RoutineSpec,
    RunKind,
)
from circadia.wake.scheduling.planning import RoutineAction, RoutinePlan, plan_from, plan_routine
from circadia.wake.scheduling.recurrence import count_between, next_after

BERLIN = "Europe/Berlin"
HOURLY = Recurrence(every_seconds=3_600)
NIGHT = RecurringBlackout(start="22:00", end="06:00", label="Nighttime")
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
START = datetime(2026, 6, 1, tzinfo=UTC)
"""A Monday."""


def utc(text: str) -> datetime:
    """Return an instant of June 2026, from `day hour:minute[:second]`."""
    return datetime.fromisoformat(f"2026-06-{text}").replace(tzinfo=UTC)


def routine(
    recurrence: Recurrence = HOURLY,
    now: datetime = START,
    *,
    policy: BlackoutPolicy | None = None,
    grace: int | None = 300,
) -> Routine:
    """Return a routine as planned at `now` for the first time."""
    made = Routine(
        id=RoutineId("routine_1"),
        agent_id=AgentId("agent_1"),
        spec=RoutineSpec(name="inbox", recurrence=recurrence, blackout_policy=policy, misfire_grace_seconds=grace),
        created_at=now,
    )
    return plan_from(made, now)


def changed(planned: Routine, **spec: object) -> Routine:
    """Return the routine with other values in its spec, not planned again."""
    return replace(planned, spec=planned.spec.model_copy(update=spec))


def told(decided: RoutinePlan) -> tuple[str, str | None, int, int, str | None]:
    """Return verdict, occurrence, missed, coalesced and the following `next_at`."""
    due, following = decided.occurrence, decided.routine.next_at
    return (
        decided.verdict.value,
        None if due is None else f"{due:%d %H:%M}",
        decided.missed,
        decided.coalesced,
        None if following is None else f"{following:%d %H:%M}",
    )


@pytest.mark.spec("WAKE-43")
@pytest.mark.parametrize(
    ("grace", "now", "expected"),
    [
        pytest.param(300, "01 00:59:59", ("wait", None, 0, 0, "01 01:00"), id="not yet due"),
        pytest.param(300, "01 01:00:00", ("run", "01 01:00", 0, 0, "01 02:00"), id="on time"),
        pytest.param(300, "01 01:05:00", ("run", "01 01:00", 0, 0, "01 02:00"), id="late within the grace"),
        pytest.param(300, "01 01:05:01", ("missed", "01 01:00", 1, 0, "01 02:00"), id="late beyond the grace"),
        pytest.param(300, "01 04:01:00", ("run", "01 04:00", 3, 0, "01 05:00"), id="the last within it, three older"),
        pytest.param(300, "01 04:30:00", ("missed", "01 04:00", 4, 0, "01 05:00"), id="all beyond it"),
        pytest.param(None, "01 04:30:00", ("run", "01 04:00", 3, 0, "01 05:00"), id="however late, one run"),
        pytest.param(7_200, "01 04:30:00", ("run", "01 04:00", 3, 0, "01 05:00"), id="several within it, one run"),
    ],
)
def test_a_late_occurrence_runs_once_within_the_grace_and_else_is_counted(
    grace: int | None, now: str, expected: tuple[str, str | None, int, int, str | None]
) -> None:
    decided = plan_routine(routine(grace=grace), [], utc(now))
    assert told(decided) == expected
    assert decided.routine.missed == decided.missed
    assert plan_routine(decided.routine, [], utc(now)).verdict is RoutineAction.WAIT


@pytest.mark.spec("WAKE-42")
@pytest.mark.parametrize(
    ("policy", "now", "expected"),
    [
        pytest.param(BlackoutPolicy.RUN, "01 22:00", ("run", "01 22:00", 0, 0, "01 23:00"), id="runs"),
        pytest.param(BlackoutPolicy.SKIP, "01 22:00", ("skipped", "01 22:00", 0, 0, "01 23:00"), id="skipped"),
        pytest.param(BlackoutPolicy.DEFER, "01 22:00", ("deferred", "01 22:00", 0, 0, "02 06:00"), id="deferred"),
        pytest.param(BlackoutPolicy.DEFER, "01 21:59:59", ("wait", None, 0, 0, "01 22:00"), id="not yet due"),
    ],
)
def test_an_occurrence_in_a_blackout_goes_by_the_policy(
    policy: BlackoutPolicy, now: str, expected: tuple[str, str | None, int, int, str | None]
) -> None:
    decided = plan_routine(routine(now=utc("01 21:00"), policy=policy), [NIGHT], utc(now))
    assert told(decided) == expected
    if decided.verdict in {RoutineAction.SKIPPED, RoutineAction.DEFERRED}:
        assert decided.blackout is not None
        assert decided.blackout.labels == ("Nighttime",)
    assert decided.routine.skips == (1 if decided.verdict is RoutineAction.SKIPPED else 0)


@pytest.mark.spec("WAKE-42")
def test_each_kind_of_run_has_its_policy_and_a_routine_may_have_its_own() -> None:
    once = Recurrence(at=(utc("01 23:00"),))
    assert plan_routine(routine(now=utc("01 21:30")), [NIGHT], utc("01 22:00")).verdict is RoutineAction.SKIPPED
    assert plan_routine(routine(once), [NIGHT], utc("01 23:00")).verdict is RoutineAction.RUN
    stricter = BlackoutPolicies(one_off=BlackoutPolicy.DEFER)
    assert plan_routine(routine(once), [NIGHT], utc("01 23:00"), policies=stricter).verdict is RoutineAction.DEFERRED
    own = routine(once, policy=BlackoutPolicy.SKIP)
    assert plan_routine(own, [NIGHT], utc("01 23:00"), policies=stricter).verdict is RoutineAction.SKIPPED
    assert BlackoutPolicies().policy_for(RunKind.WAKE) is BlackoutPolicy.DEFER


@pytest.mark.spec("WAKE-42")
def test_all_that_waited_for_the_end_of_a_blackout_is_one_run() -> None:
    waits = plan_routine(routine(now=utc("01 21:00"), policy=BlackoutPolicy.DEFER), [NIGHT], utc("01 22:00")).routine
    assert told(plan_routine(waits, [NIGHT], utc("02 03:00"))) == ("wait", "01 22:00", 0, 0, "02 06:00")
    runs = plan_routine(waits, [NIGHT], utc("02 06:00:01"))
    assert told(runs) == ("run", "02 06:00", 0, 8, "02 07:00")
    assert runs.routine.deferred_from is None
    late = plan_routine(changed(waits, misfire_grace_seconds=None), [NIGHT], utc("02 08:10"))
    assert told(late) == ("run", "02 08:00", 2, 8, "02 09:00")


@pytest.mark.spec("WAKE-42")
def test_what_waits_runs_at_once_when_its_blackout_is_taken_away() -> None:
    waits = plan_routine(routine(now=utc("01 21:00"), policy=BlackoutPolicy.DEFER), [NIGHT], utc("01 22:00")).routine
    freed = plan_routine(waits, [], utc("02 01:30"))
    assert told(freed)[:2] == ("run", "02 01:00")
    assert freed.late_seconds == 0
    shorter = RecurringBlackout(start="22:00", end="03:00")
    assert told(plan_routine(waits, [shorter], utc("02 01:30")))[4] == "02 03:00"


@pytest.mark.spec("WAKE-42", "WAKE-43")
def test_the_grace_of_what_waits_counts_from_the_end_of_its_blackout() -> None:
    daily = Recurrence(cron="0 23 * * *")
    waits = plan_routine(routine(daily, policy=BlackoutPolicy.DEFER), [NIGHT], utc("01 23:00")).routine
    assert plan_routine(waits, [NIGHT], utc("02 06:05")).verdict is RoutineAction.RUN
    assert plan_routine(waits, [NIGHT], utc("02 06:05:01")).verdict is RoutineAction.MISSED


@pytest.mark.spec("WAKE-42")
def test_a_late_run_that_would_start_in_a_blackout_goes_by_the_policy() -> None:
    late = utc("01 22:01")
    before = Recurrence(cron="59 21 * * *")
    assert plan_routine(routine(before, policy=BlackoutPolicy.SKIP), [NIGHT], late).verdict is RoutineAction.SKIPPED
    assert told(plan_routine(routine(before, policy=BlackoutPolicy.DEFER), [NIGHT], late))[4] == "02 06:00"
    after = plan_routine(
        routine(before, now=utc("01 12:00"), policy=BlackoutPolicy.SKIP, grace=None), [NIGHT], utc("02 07:00")
    )
    assert after.verdict is RoutineAction.RUN


@pytest.mark.spec("WAKE-42")
def test_a_blackout_that_never_ends_skips_and_blackouts_are_in_the_agents_zone() -> None:
    always: list[Blackout] = [RecurringBlackout(start="00:00", end="24:00")]
    assert plan_routine(routine(policy=BlackoutPolicy.DEFER), always, utc("01 01:00")).verdict is RoutineAction.SKIPPED
    in_berlin = plan_routine(routine(now=utc("01 19:30")), [NIGHT], utc("01 20:00"), zone=BERLIN)
    assert in_berlin.verdict is RoutineAction.SKIPPED


@pytest.mark.spec("WAKE-43")
def test_a_clock_that_is_set_back_runs_no_occurrence_twice() -> None:
    ran = plan_routine(routine(), [], utc("01 01:00")).routine
    for minutes in (59, 30, 1):
        assert plan_routine(ran, [], utc("01 01:00") - minutes * MINUTE).verdict is RoutineAction.WAIT
    assert told(plan_routine(ran, [], utc("01 02:00")))[:2] == ("run", "01 02:00")
    assert plan_from(ran, utc("01 00:30")).next_at == utc("01 02:00"), "nor does a change of the routine"
    assert plan_from(ran, utc("01 00:30") - timedelta(days=2)).next_at == utc("01 01:00") - timedelta(days=2)


@pytest.mark.spec("WAKE-43")
def test_a_clock_that_is_set_back_before_what_waits_leaves_it_waiting() -> None:
    waits = plan_routine(routine(now=utc("01 21:00"), policy=BlackoutPolicy.DEFER), [NIGHT], utc("01 22:00")).routine
    assert told(plan_routine(waits, [NIGHT], utc("01 20:00"))) == ("wait", "01 22:00", 0, 0, "02 06:00")
    freed = plan_routine(waits, [], utc("01 20:00"))
    assert told(freed) == ("wait", "01 22:00", 0, 0, "01 22:00")
    assert told(plan_routine(freed.routine, [], utc("01 22:00")))[:2] == ("run", "01 22:00")
    skipped = plan_routine(changed(waits, blackout_policy=BlackoutPolicy.SKIP), [NIGHT], utc("01 20:00"))
    assert told(skipped) == ("skipped", "01 22:00", 0, 0, "01 23:00")


@pytest.mark.spec("WAKE-43")
def test_a_clock_that_is_set_forward_a_year_runs_once_and_counts_without_a_walk() -> None:
    later = START + timedelta(days=365)
    every_minute = plan_routine(routine(Recurrence(every_seconds=60)), [], later)
    assert (every_minute.verdict, every_minute.missed) == (RoutineAction.RUN, 365 * 1_440 - 1)
    assert every_minute.routine.next_at == later + MINUTE
    cron = plan_routine(routine(Recurrence(cron="* * * * *")), [], later)
    assert (cron.verdict, cron.missed, cron.routine.next_at) == (RoutineAction.RUN, 1_000, later + MINUTE)


@pytest.mark.spec("WAKE-43")
def test_a_one_off_that_is_over_has_no_next_occurrence() -> None:
    once = routine(Recurrence(at=(utc("01 10:00"), utc("03 10:00"))))
    first = plan_routine(once, [], utc("01 10:00"))
    assert told(first) == ("run", "01 10:00", 0, 0, "03 10:00")
    last = plan_routine(first.routine, [], utc("04 10:00"))
    assert told(last) == ("missed", "03 10:00", 1, 0, None)
    assert plan_routine(last.routine, [], utc("05 10:00")).verdict is RoutineAction.WAIT


@pytest.mark.spec("WAKE-40")
def test_a_routine_that_is_switched_off_is_never_due_and_starts_anew_when_switched_on() -> None:
    off = plan_from(changed(routine(), enabled=False), START)
    assert off.next_at is None
    assert plan_routine(off, [], utc("05 00:00")).verdict is RoutineAction.WAIT
    assert plan_routine(changed(routine(), enabled=False), [], utc("05 00:00")).verdict is RoutineAction.WAIT
    assert plan_from(changed(off, enabled=True), utc("05 00:30")).next_at == utc("05 01:00")


@pytest.mark.spec("WAKE-43")
def test_a_routine_whose_schedule_has_changed_under_its_next_instant_still_gets_a_verdict() -> None:
    yearly = changed(routine(), recurrence=Recurrence(cron="0 0 1 1 *"))
    assert told(plan_routine(yearly, [], utc("01 01:00")))[:2] == ("run", "01 01:00")


@pytest.mark.spec("WAKE-42", "WAKE-43")
@pytest.mark.parametrize("policy", [BlackoutPolicy.DEFER, BlackoutPolicy.SKIP])
def test_a_late_occurrence_before_a_blackout_is_not_counted_as_missed_too(policy: BlackoutPolicy) -> None:
    current = plan_from(routine(Recurrence(every_seconds=5_400), policy=policy, grace=7_200), utc("01 16:00"))
    late = plan_routine(current, [NIGHT], utc("01 20:00"), zone=BERLIN)  # 16:30 and 18:00 are missed, 19:30 is late
    assert late.occurrence == utc("01 19:30")
    assert (late.verdict.value, late.missed, late.coalesced) == (
        "deferred" if policy is BlackoutPolicy.DEFER else "skipped", 2, 0,
    )  # fmt: skip


@pytest.mark.spec("WAKE-43")
def test_a_naive_now_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no zone"):
        plan_routine(routine(), [], START.replace(tzinfo=None))


@pytest.mark.spec("WAKE-42", "WAKE-43")
@settings(max_examples=60, deadline=None)
@given(
    recurrence=st.sampled_from(
        [
            Recurrence(every_seconds=1_800),
            Recurrence(every_seconds=5_400, jitter_seconds=600, stagger_seconds=600),
            Recurrence(cron="*/20 * * * *", zone=BERLIN, jitter_seconds=60),
            Recurrence(cron="15 2,3,21 * * *", zone=BERLIN),
            Recurrence(at=tuple(START + n * 7 * HOUR for n in range(1, 20))),
        ]
    ),
    policy=st.sampled_from(BlackoutPolicy),
    grace=st.sampled_from([1, 300, 7_200, None]),
    steps=st.lists(
        st.tuples(st.sampled_from(["due", "late", "gone", "back", "changed"]), st.integers(1, 40_000)),
        min_size=1,
        max_size=60,
    ),
)
def test_over_outages_clock_changes_and_new_blackouts_each_occurrence_is_accounted_for_once(
    recurrence: Recurrence, policy: BlackoutPolicy, grace: int | None, steps: list[tuple[str, int]]
) -> None:
    current = routine(recurrence, policy=policy, grace=grace)
    freeze = OneOffBlackout(start=START + 30 * HOUR, end=START + 41 * HOUR)
    blackouts: list[Blackout] = [NIGHT]
    now, ran, tally = START, list[datetime](), Counter[RoutineAction]()
    for kind, seconds in steps:
        if kind == "changed":
            blackouts = [NIGHT, freeze] if len(blackouts) == 1 else [NIGHT]
        elif kind == "due":
            now = max(now, current.next_at or now)
        elif kind == "late":
            now = max(now, current.next_at or now) + (seconds % 400) * SECOND
        else:
            now += (seconds if kind == "gone" else -(seconds % 3_600)) * SECOND
        decided = plan_routine(current, blackouts, now, zone=BERLIN)
        itself = decided.verdict in {RoutineAction.RUN, RoutineAction.SKIPPED}
        tally[decided.verdict] += decided.missed + decided.coalesced + itself
        current = decided.routine
        if decided.verdict is RoutineAction.RUN and decided.occurrence is not None:
            ran.append(decided.occurrence)
        assert current.next_at is None or current.next_at > now or decided.verdict is RoutineAction.WAIT
    assert ran == sorted(set(ran))
    open_from = current.deferred_from or current.next_at
    if open_from is not None:
        due = count_between(recurrence, START, open_from - SECOND / 1_000_000, seed=current.id)
        first = next_after(recurrence, START - SECOND / 1_000_000, seed=current.id)
        assert tally.total() == due - (first == START)
