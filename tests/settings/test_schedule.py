"""Schedules as they stand in `circadia.yaml`, in our words and in DjinnBot's."""

from datetime import UTC, datetime

import pytest
import yaml
from pydantic import ValidationError

from circadia.records.schedule import (
    BlackoutPolicies,
    BlackoutPolicy,
    OneOffBlackout,
    Recurrence,
    RecurringBlackout,
    RoutineSpec,
    Weekday,
)
from circadia.settings.schedule import DjinnbotScheduleSettings
from circadia.settings.sleeptime import SleepScheduleSettings

OURS = """
timezone: Europe/Berlin
routines:
  - name: inbox
    every_seconds: 1800
    offset_seconds: 180
    anchor: 2026-01-01T00:00
    timeout_seconds: 120
  - name: nightly
    instructions: Run the whole test suite.
    cron: "0 2 * * 1-5"
    jitter_seconds: 60
    blackout_policy: defer
    misfire_grace_seconds: null
    enabled: false
  - name: launch
    at: [2026-03-01T10:00, "2026-03-02T10:00:00Z"]
blackouts:
  - label: Night
    start_time: 23:00
    end_time: 07:00
    weekdays: [fri, sat]
  - label: Holidays
    start: 2026-12-23
    end: 2026-12-27T12:00
blackout_policies: {wake: run}
"""
DJINNBOT = """
timezone: Europe/Berlin
pulse_enabled: true
pulse_interval_minutes: 30
pulse_offset_minutes: 3
pulse_container_timeout_ms: 120000
pulse_max_consecutive_skips: 7
pulse_one_offs: ['2026-03-01T10:00:00Z']
pulse_blackouts:
  - {label: Nighttime, start_time: '23:00', end_time: '07:00', type: recurring, days_of_week: [0, 6]}
  - {label: Holiday Freeze, start_time: '2026-12-23T00:00:00', end_time: '2026-12-27T00:00:00', type: one_off}
  - {label: Maintenance, start: '2026-12-01T00:00:00Z', end: '2026-12-01T02:00:00Z', type: one-off}
"""


def read(text: str) -> DjinnbotScheduleSettings:
    return DjinnbotScheduleSettings.model_validate(yaml.safe_load(text) or {})


def refusal(text: str) -> str:
    with pytest.raises(ValidationError) as refused:
        read(text)
    return "; ".join(f"{'.'.join(map(str, line['loc']))}: {line['msg']}" for line in refused.value.errors())


@pytest.mark.spec("WAKE-40")
def test_routines_in_the_file_are_records_in_the_agents_zone() -> None:
    zone = "Europe/Berlin"
    assert read(OURS).routine_specs() == (
        RoutineSpec(
            name="inbox",
            recurrence=Recurrence(
                every_seconds=1_800, offset_seconds=180, anchor=datetime(2025, 12, 31, 23, tzinfo=UTC), zone=zone
            ),
            timeout_seconds=120,
        ),
        RoutineSpec(
            name="nightly",
            instructions="Run the whole test suite.",
            recurrence=Recurrence(cron="0 2 * * 1-5", jitter_seconds=60, zone=zone),
            blackout_policy=BlackoutPolicy.DEFER,
            misfire_grace_seconds=None,
            enabled=False,
        ),
        RoutineSpec(
            name="launch",
            recurrence=Recurrence(
                at=(datetime(2026, 3, 1, 9, tzinfo=UTC), datetime(2026, 3, 2, 10, tzinfo=UTC)), zone=zone
            ),
        ),
    )


@pytest.mark.spec("WAKE-42")
def test_blackouts_in_the_file_may_have_unquoted_times_and_dates() -> None:
    settings = read(OURS)
    assert settings.blackout_records() == (
        RecurringBlackout(start="23:00", end="07:00", weekdays=frozenset({Weekday.FRI, Weekday.SAT}), label="Night"),
        OneOffBlackout(
            start=datetime(2026, 12, 22, 23, tzinfo=UTC), end=datetime(2026, 12, 27, 11, tzinfo=UTC), label="Holidays"
        ),
    )
    assert settings.blackout_policies == BlackoutPolicies(wake=BlackoutPolicy.RUN)


@pytest.mark.spec("WAKE-40", "WAKE-42")
def test_the_names_of_djinnbot_give_the_same_records() -> None:
    settings, zone = read(DJINNBOT), "Europe/Berlin"
    assert settings.routine_specs() == (
        RoutineSpec(
            name="pulse", recurrence=Recurrence(every_seconds=1_800, offset_seconds=180, zone=zone), timeout_seconds=120
        ),
        RoutineSpec(
            name="pulse one-offs",
            recurrence=Recurrence(at=(datetime(2026, 3, 1, 10, tzinfo=UTC),), zone=zone),
            timeout_seconds=120,
        ),
    )
    assert settings.blackout_records() == (
        RecurringBlackout(
            start="23:00", end="07:00", weekdays=frozenset({Weekday.SAT, Weekday.SUN}), label="Nighttime"
        ),
        OneOffBlackout(
            start=datetime(2026, 12, 22, 23, tzinfo=UTC),
            end=datetime(2026, 12, 26, 23, tzinfo=UTC),
            label="Holiday Freeze",
        ),
        OneOffBlackout(
            start=datetime(2026, 12, 1, tzinfo=UTC), end=datetime(2026, 12, 1, 2, tzinfo=UTC), label="Maintenance"
        ),
    )
    assert settings.stated_schedule()["max_consecutive_skips"] == 7


@pytest.mark.spec("WAKE-40")
def test_pulses_are_every_30_minutes_unless_the_file_says_otherwise_and_can_be_switched_off() -> None:
    assert read("").routine_specs() == ()
    (on,) = read("pulse_enabled: true").routine_specs()
    assert (on.recurrence.every_seconds, on.enabled) == (1_800, True)
    (implied,) = read("pulse_interval_minutes: 1").routine_specs()
    assert (implied.recurrence.every_seconds, implied.enabled) == (60, True)
    (off,) = read("{pulse_enabled: false, pulse_interval_minutes: 43200}").routine_specs()
    assert (off.recurrence.every_seconds, off.enabled) == (30 * 86_400, False)


@pytest.mark.spec("WAKE-40", "WAKE-42")
@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("timezone: Europe/Berlim", "", "did you mean 'Europe/Berlin'"),
        ("routines: [{name: a, cron: '0 0 30 2 *'}]", "routines.0", "never due"),
        ("routines: [{name: a, cron: '*/70 * * * *'}]", "routines.0", "a step of 70 in a field of 60 values"),
        ("routines: [{name: a}]", "routines.0", "exactly one of"),
        ("routines: [{name: a, every_seconds: 59}]", "routines.0.every_seconds", "greater than or equal to 60"),
        ("routines: [{name: a, every_seconds: 60, offset_seconds: 60}]", "routines.0", "write 0 to 59"),
        ("routines: [{name: a, every_seconds: 60}, {name: a, every_seconds: 90}]", "", "two routines are named 'a'"),
        ("{routines: [{name: pulse, every_seconds: 60}], pulse_enabled: true}", "", "two routines are named 'pulse'"),
        ("{pulse_interval_minutes: 30, pulse_offset_minutes: 30}", "", "offset_seconds 1800"),
        ("pulse_interval_minutes: 43201", "pulse_interval_minutes", "43200"),
        ("blackouts: [{start_time: 7pm, end_time: '08:00'}]", "blackouts.0", "write HH:MM"),
        ("blackouts: [{start_time: '2026-99-01', end_time: '08:00'}]", "blackouts.0.start_time", "month must be in"),
        ("blackouts: [{start_time: '07:00'}]", "blackouts.0", "write one pair"),
        ("blackouts: [{start_time: '07:00', end_time: 2026-12-01}]", "blackouts.0", "write both alike"),
        ("blackouts: [{start: 2026-12-02, end: 2026-12-01}]", "blackouts.0", "no length"),
        ("blackouts: [{start: 2026-12-01, end: 2026-12-02, weekdays: [mon]}]", "blackouts.0", "leave out weekdays"),
        ("blackouts: [{start_time: '01:00', end_time: '02:00', type: one_off}]", "blackouts.0", "has dates"),
        ("blackouts: [{start_time: '01:00', end_time: '02:00', days_of_week: [7]}]", "blackouts.0.days_of_week.0", "6"),
        ("blackouts: [{start_time: '01:00', end_time: '02:00', weekdays: []}]", "blackouts.0", "no weekdays"),
        ("blackouts: [{start_time: '09:00', end_time: '09:00'}]", "", "cover the whole week"),
        ("pulse_blackout: []", "pulse_blackout", "Extra inputs"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_its_place_with_what_to_write(text: str, place: str, said: str) -> None:
    message = refusal(text)
    assert message.startswith(f"{place}: ")
    assert said in message


@pytest.mark.spec("WAKE-40")
@pytest.mark.parametrize(("cron", "is_valid"), [("0 */36 * * *", False), ("*/60 */24 */31 */12 */7", True)])
def test_a_pass_has_no_step_of_cron_that_is_longer_than_its_field(cron: str, is_valid: bool) -> None:
    if is_valid:
        assert SleepScheduleSettings.model_validate({"cron": cron}).cron == cron
        return
    with pytest.raises(ValidationError, match="a step of 36 in a field of 24 values"):
        SleepScheduleSettings.model_validate({"cron": cron})
