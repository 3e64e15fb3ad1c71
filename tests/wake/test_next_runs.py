"""The next runs of an agent are those that the engine would make of its routines."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    load_zone,
)
from circadia.wake.scheduling.planning import RoutineAction, RoutineRun, next_runs, plan_from, plan_routine
from tests.wake.minutes import MINUTE, WINDOWS, walk

pytestmark = pytest.mark.spec("UI-07")

BERLIN = "Europe/Berlin"
NIGHT = RecurringBlackout(start="22:00", end="06:00", label="night")
POLICIES = BlackoutPolicies()


def routine(
    name: str, now: datetime, *, zone: str = BERLIN, policy: BlackoutPolicy | None = None, **rule: object
) -> Routine:
    spec = RoutineSpec(
        name=name,
        recurrence=Recurrence.model_validate({"zone": zone, **rule}),
        blackout_policy=policy,
        misfire_grace_seconds=None,
    )
    return plan_from(Routine(id=RoutineId(name), agent_id=AgentId("a"), spec=spec, created_at=now), now)


def found(
    routines: Sequence[Routine], now: datetime, *blackouts: Blackout, zone: str = BERLIN, most: int = 10
) -> list[RoutineRun]:
    return list(islice(next_runs(routines, blackouts, now, zone=zone, policies=POLICIES), most))


def on_the_clock(runs: Sequence[RoutineRun]) -> list[str]:
    return [run.at.astimezone(load_zone(BERLIN)).isoformat() for run in runs]


def test_a_time_that_berlin_skips_in_spring_is_the_end_of_the_gap() -> None:
    now = datetime(2026, 3, 27, 12, tzinfo=UTC)
    assert on_the_clock(found([routine("r", now, cron="30 2 * * *")], now, most=3)) == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_a_time_that_berlin_repeats_in_autumn_runs_once_and_a_rule_for_each_hour_runs_twice() -> None:
    now = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
    daily, hourly = routine("daily", now, cron="30 2 * * *"), routine("hourly", now, cron="0 * * * *")
    assert on_the_clock(found([daily, hourly], now, most=5)) == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T03:00:00+01:00",
        "2026-10-25T04:00:00+01:00",
    ]


@pytest.mark.parametrize(("day", "ends"), [("2026-03-28", "04:00"), ("2026-10-24", "05:00")])
def test_a_deferred_run_is_at_the_end_of_the_night_on_the_clock_of_the_zone_and_names_its_last_occurrence(
    day: str, ends: str
) -> None:
    now = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=UTC)
    runs = found([routine("r", now, policy=BlackoutPolicy.DEFER, cron="0 1,3 * * *")], now, NIGHT, most=1)
    following = now.date() + timedelta(days=1)
    assert [(run.at, run.deferred_from) for run in runs] == [
        (
            datetime.fromisoformat(f"{following}T{ends}").replace(tzinfo=UTC),
            datetime(following.year, following.month, following.day, 3, tzinfo=load_zone(BERLIN)).astimezone(UTC),
        )
    ]


def test_a_yearly_rule_runs_ten_times_in_ten_years() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    runs = found([routine("birthday", now, cron="0 9 29 3 *")], now, NIGHT)
    assert [run.at.year for run in runs] == list(range(2027, 2037))
    assert {run.at.hour for run in runs} == {7, 8}, "nine o'clock in Berlin, in winter and in summer"


def test_the_last_instant_ends_the_list_and_a_routine_that_is_off_is_not_in_it() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    far = [datetime(2031, 1, day, tzinfo=UTC) for day in (1, 2)]
    off = routine("off", now, cron="0 * * * *")
    off = plan_from(
        Routine(
            id=off.id,
            agent_id=off.agent_id,
            spec=off.spec.model_copy(update={"enabled": False}),
            created_at=off.created_at,
        ),
        now,
    )
    assert [(run.at, run.routine) for run in found([routine("once", now, at=far), off], now)] == [
        (at, "once") for at in far
    ]


@settings(max_examples=60, deadline=None)
@given(
    window=st.sampled_from(sorted(WINDOWS)),
    crons=st.lists(
        st.sampled_from(["0 3 * * *", "*/20 * * * *", "30 2 * * *", "17 */5 * * *", "0 22 * * *", "0 6 * * *"]),
        min_size=1,
        max_size=3,
        unique=True,
    ),
    policy=st.sampled_from(BlackoutPolicy),
    late=st.integers(0, 30),
)
def test_they_are_what_the_engine_runs_when_it_looks_each_minute(
    window: str, crons: list[str], policy: BlackoutPolicy, late: int
) -> None:
    minutes = walk(*WINDOWS[window])
    zone = minutes.zone
    noon = RecurringBlackout(start="12:00", end="13:10")
    once = OneOffBlackout(start=minutes.start + timedelta(hours=40), end=minutes.start + timedelta(hours=50))
    blackouts = (NIGHT, noon, once)
    now = minutes.start + late * MINUTE
    routines = [routine(cron, minutes.start, zone=zone, policy=policy, cron=cron) for cron in crons]
    ran: list[tuple[datetime, str]] = []
    for start in routines:
        state = start
        for minute in minutes.minutes[late:]:
            while state.next_at is not None and state.next_at <= minute:
                plan = plan_routine(state, blackouts, minute, zone=zone, policies=POLICIES)
                if plan.verdict is RoutineAction.RUN:
                    ran.append((minute, state.name))
                state = plan.routine
    shown = takewhile(
        lambda run: run.at < minutes.end, next_runs(routines, blackouts, now, zone=zone, policies=POLICIES)
    )
    in_search = [(run.at, run.routine) for run in shown]
    assert in_search == sorted(ran)[: len(in_search)]
    assert len(in_search) == len(ran) or len(in_search) > 100, "a thousand plans are enough for a hundred runs"


def test_the_search_ends_though_no_occurrence_ever_runs() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    never = routine("never", now, cron="0 3 * * *")
    assert found([never], now, NIGHT) == []
    nights = [RecurringBlackout(start="22:00", end="06:00", label=str(number)) for number in range(200)]
    hourly = routine("hourly", now, policy=BlackoutPolicy.RUN, cron="0 * * * *")
    assert len(found([hourly], now, *nights, most=1000)) == 25, "5,000 divided by 200"


def test_what_runs_after_the_end_of_the_search_is_not_shown_without_what_runs_before() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    never, yearly = routine("never", now, cron="0 3 * * *"), routine("yearly", now, cron="0 9 1 1 *")
    runs = found([never, yearly], now, NIGHT)
    assert [run.at.year for run in runs] == [2027, 2028, 2029], "a thousand nights"
