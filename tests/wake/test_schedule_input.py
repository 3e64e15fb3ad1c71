"""Schedules that could never be meant: each is refused with what to write instead."""

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from circadia.errors import InvalidRequest
from circadia.records.schedule import Blackout, OneOffBlackout, Recurrence, RecurringBlackout, RoutineSpec, Weekday
from circadia.wake.scheduling.recurrence import next_after

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOURLY = Recurrence(every_seconds=3_600)


@pytest.mark.spec("WAKE-40")
@pytest.mark.parametrize(
    "cron",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "@daily",
        "a b c d e",
        "* * * * 1L,",
        "1,,2 * * * *",
        "1" * 300 + " * * * *",
        "² * * * *",
    ],
)
def test_a_cron_rule_that_cannot_be_read_is_refused(cron: str) -> None:
    with pytest.raises(InvalidRequest, match="cron"):
        Recurrence(cron=cron)


@pytest.mark.spec("WAKE-40")
@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 2 *", "* * */20 * 1L"])
def test_a_cron_rule_that_is_never_due_is_refused(cron: str) -> None:
    with pytest.raises(InvalidRequest, match=r"never due|not due once"):
        Recurrence(cron=cron)


@pytest.mark.spec("WAKE-40")
@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="0123456789*/-,#LWlwMONJAN ²", max_size=24) | st.text(max_size=12))
def test_any_text_as_a_cron_rule_is_refused_or_due(cron: str) -> None:
    recurrence = None
    with contextlib.suppress(InvalidRequest):
        recurrence = Recurrence(cron=cron)
    assert recurrence is None or next_after(recurrence, AT, seed="s") is not None


@pytest.mark.spec("WAKE-40")
@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("europe/berlin", "did you mean 'Europe/Berlin'"),
        ("Europe/Berlim", "did you mean 'Europe/Berlin'"),
        ("Europe", "Europe/"),
        ("", "write one like"),
        ("../../etc/passwd", "write one like"),
        ("/etc/localtime", "write one like"),
        ("localtime", "write one like"),
        ("Mars/Olympus\x00", "no time zone"),
        ("\ud800", "no time zone"),
    ],
)
def test_a_zone_that_does_not_exist_is_refused_with_the_nearest_name(zone: str, hint: str) -> None:
    with pytest.raises(InvalidRequest, match="no time zone") as refused:
        Recurrence(every_seconds=60, zone=zone)
    assert hint in refused.value.message


@pytest.mark.spec("WAKE-40", "WAKE-41")
@pytest.mark.parametrize("every", [-1, 0, 59, 30 * 86_400 + 1])
def test_an_interval_under_a_minute_or_over_30_days_is_refused(every: int) -> None:
    with pytest.raises(ValidationError, match=r"or equal to (60|2592000)"):
        Recurrence(every_seconds=every)


@pytest.mark.spec("WAKE-40")
def test_a_recurrence_has_one_rule_exactly() -> None:
    for given_rules in ({}, {"every_seconds": 60, "cron": "* * * * *"}, {"cron": "* * * * *", "at": (AT,)}):
        with pytest.raises(InvalidRequest, match="exactly one of every_seconds, cron and at"):
            Recurrence(**given_rules)  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("WAKE-40")
def test_what_does_not_go_with_a_rule_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="offset_seconds 60"):
        Recurrence(every_seconds=60, offset_seconds=60)
    with pytest.raises(InvalidRequest, match="go with every_seconds only"):
        Recurrence(cron="* * * * *", offset_seconds=1)
    with pytest.raises(InvalidRequest, match="do not go with at"):
        Recurrence(at=(AT,), jitter_seconds=1)
    with pytest.raises(ValidationError, match="jitter_seconds"):
        Recurrence(every_seconds=60, jitter_seconds=-1)
    with pytest.raises(InvalidRequest, match="no zone"):
        Recurrence(at=(AT.replace(tzinfo=None),))
    with pytest.raises(InvalidRequest, match="no zone"):
        Recurrence(every_seconds=60, anchor=AT.replace(tzinfo=None))
    with pytest.raises(InvalidRequest, match="years 1970 to 9000"):
        Recurrence(at=(datetime.max.replace(tzinfo=UTC),))
    with pytest.raises(InvalidRequest, match="the limit is 1000"):
        Recurrence(at=(AT,) * 1_001)


@pytest.mark.spec("WAKE-40")
def test_a_routine_with_values_out_of_range_is_refused() -> None:
    for name in ("", "  ", "two\nlines", "x" * 101):
        with pytest.raises(InvalidRequest, match="not a valid routine name"):
            RoutineSpec(name=name, recurrence=HOURLY)
    for timeout in (0, -1, float("nan"), float("inf"), 86_401):
        with pytest.raises(ValidationError, match="timeout_seconds"):
            RoutineSpec(name="inbox", recurrence=HOURLY, timeout_seconds=timeout)
    with pytest.raises(ValidationError, match="misfire_grace_seconds"):
        RoutineSpec(name="inbox", recurrence=HOURLY, misfire_grace_seconds=0)


@pytest.mark.spec("WAKE-40", "WAKE-42")
def test_records_survive_being_written_as_json() -> None:
    recurrences = TypeAdapter(Recurrence)
    for recurrence in (HOURLY, Recurrence(cron="0 9 * * 1-5", zone="Asia/Kolkata"), Recurrence(at=(AT,))):
        assert recurrences.validate_json(recurrences.dump_json(recurrence)) == recurrence
    blackouts = TypeAdapter(tuple[Blackout, ...])
    both = (
        RecurringBlackout(start="23:00", end="07:00", weekdays=frozenset({Weekday.FRI}), label="Night"),
        OneOffBlackout(start=AT, end=AT.replace(hour=13)),
    )
    assert blackouts.validate_json(blackouts.dump_json(both)) == both
