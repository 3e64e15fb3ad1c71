"""Which times an agent is left alone in: against an oracle that looks at the zone's clock each minute."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circadia.errors import InvalidRequest
from circadia.records.schedule import Blackout, OneOffBlackout, RecurringBlackout, Weekday, check_blackouts
from circadia.wake.scheduling.blackouts import BlackoutPeriod, blackout_at, blackouts_between
from tests.wake.minutes import MINUTE, WINDOWS, in_blackout, walk

BERLIN = "Europe/Berlin"
NIGHT = RecurringBlackout(start="23:00", end="07:00", label="Nighttime")
TIMES = st.builds("{:02d}:{:02d}".format, st.integers(0, 23), st.sampled_from([0, 1, 15, 30, 45, 59]))
RECURRING = st.builds(
    RecurringBlackout,
    start=TIMES,
    end=TIMES | st.just("24:00"),
    weekdays=st.frozensets(st.sampled_from(Weekday), min_size=1, max_size=4),
)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def end_of(blackouts: list[Blackout], at: str, zone: str = BERLIN) -> str | None:
    """Return when the blackout ends that holds at an instant in UTC, as `day hour:minute` in UTC."""
    span = blackout_at(blackouts, zone, utc(at))
    return None if span is None or span.end is None else f"{span.end:%d %H:%M}"


@pytest.mark.spec("WAKE-42")
@pytest.mark.parametrize(("zone", "start"), WINDOWS.values(), ids=WINDOWS)
@settings(max_examples=8, deadline=None)
@given(recurring=st.lists(RECURRING, max_size=3), data=st.data())
def test_each_minute_is_in_a_blackout_or_not_as_the_clock_shows(
    zone: str, start: str, recurring: list[RecurringBlackout], data: st.DataObject
) -> None:
    over = walk(zone, start)
    places = st.integers(0, len(over.minutes) - 2)
    fixed = [
        OneOffBlackout(start=over.minutes[first], end=over.minutes[first] + length * MINUTE)
        for first, length in data.draw(st.lists(st.tuples(places, st.integers(1, 600)), max_size=2))
    ]
    blackouts: list[Blackout] = [*recurring, *fixed]
    expected = in_blackout(blackouts, over)
    spans = blackouts_between(blackouts, zone, over.start, over.end)
    assert [any(s.start <= at < (s.end or over.end) for s in spans) for at in over.minutes] == expected
    assert all(one.end is not None and one.end < two.start for one, two in pairwise(spans))
    for place in data.draw(st.lists(places, min_size=20, max_size=20)):
        span = blackout_at(blackouts, zone, over.minutes[place])
        assert (span is not None) == expected[place]
        if span is not None:
            free = next((n for n in range(place, len(expected)) if not expected[n]), None)
            assert span.end is None or free is None or span.end == over.minutes[free]
            assert span.start <= over.minutes[place]
            before = next((n for n in range(place, -1, -1) if not expected[n]), None)
            assert before is None or span.start == over.minutes[before + 1]


@pytest.mark.spec("WAKE-42")
@pytest.mark.parametrize(
    ("window", "end", "first", "last"),
    [
        ("half an hour back on Lord Howe", "01:30", "2026-04-04T14:30", "2026-04-04T15:00"),
        ("set back in Berlin", "02:00", "2026-10-25T00:00", "2026-10-25T01:00"),
    ],
)
def test_a_blackout_ends_when_a_clock_that_is_set_back_to_its_end_shows_that_again(
    window: str, end: str, first: str, last: str
) -> None:
    zone, start = WINDOWS[window]
    night = RecurringBlackout(start="23:00", end=end)
    span = blackout_at([night], zone, utc(first))
    assert span is not None
    assert span.end == utc(last)
    over = walk(zone, start)
    held = in_blackout([night], over)
    assert (held[over.minutes.index(utc(first))], held[over.minutes.index(utc(last))]) == (True, False)


@pytest.mark.spec("WAKE-42")
def test_a_blackout_holds_from_its_first_instant_up_to_and_without_its_last() -> None:
    microsecond = timedelta(microseconds=1)
    start, end = utc("2026-06-01T21:00"), utc("2026-06-02T05:00")
    assert blackout_at([NIGHT], BERLIN, start - microsecond) is None
    assert blackout_at([NIGHT], BERLIN, start) == BlackoutPeriod(start=start, end=end, labels=("Nighttime",))
    assert blackout_at([NIGHT], BERLIN, end - microsecond) is not None
    assert blackout_at([NIGHT], BERLIN, end) is None


@pytest.mark.spec("WAKE-42")
def test_a_night_belongs_to_the_weekday_on_which_it_starts() -> None:
    friday_night = RecurringBlackout(start="22:00", end="06:00", weekdays=frozenset({Weekday.FRI}))
    assert end_of([friday_night], "2026-06-05T21:00") == "06 04:00"
    assert end_of([friday_night], "2026-06-06T03:00") == "06 04:00"
    assert end_of([friday_night], "2026-06-06T21:00") is None
    assert end_of([friday_night], "2026-06-05T03:00") is None


@pytest.mark.spec("WAKE-42")
def test_nights_of_clock_changes_are_an_hour_shorter_or_longer() -> None:
    (short,) = blackouts_between([NIGHT], BERLIN, utc("2026-03-28T12:00"), utc("2026-03-29T12:00"))
    (long,) = blackouts_between([NIGHT], BERLIN, utc("2026-10-24T12:00"), utc("2026-10-25T12:00"))
    assert short.end is not None
    assert long.end is not None
    assert (short.end - short.start, long.end - long.start) == (timedelta(hours=7), timedelta(hours=9))


@pytest.mark.spec("WAKE-42")
def test_days_of_23_and_25_hours_are_covered_whole() -> None:
    sunday = RecurringBlackout(start="00:00", end="24:00", weekdays=frozenset({Weekday.SUN}))
    for day, hours in (("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-07", 24)):
        noon = utc(f"{day}T12:00")
        span = blackout_at([sunday], BERLIN, noon)
        assert span is not None
        assert span.end is not None
        assert span.end - span.start == timedelta(hours=hours)


@pytest.mark.spec("WAKE-42")
def test_blackouts_that_overlap_or_touch_end_at_the_first_instant_outside_them_all() -> None:
    morning = RecurringBlackout(start="07:00", end="09:00", label="Stand-up")
    freeze = OneOffBlackout(start=utc("2026-06-02T06:30"), end=utc("2026-06-02T10:00"), label="Freeze")
    span = blackout_at([NIGHT, morning, freeze], BERLIN, utc("2026-06-02T01:00"))
    assert span == BlackoutPeriod(start=utc("2026-06-01T21:00"), end=utc("2026-06-02T10:00"), labels=("Nighttime",))
    assert span is not None
    (whole,) = blackouts_between([NIGHT, morning, freeze], BERLIN, utc("2026-06-01T12:00"), utc("2026-06-02T12:00"))
    assert whole.labels == ("Nighttime", "Stand-up", "Freeze")
    assert (whole.start, whole.end) == (span.start, span.end)


@pytest.mark.spec("WAKE-42")
def test_the_timeline_is_cut_off_at_both_ends() -> None:
    spans = blackouts_between([NIGHT], BERLIN, utc("2026-06-01T23:00"), utc("2026-06-02T22:00"))
    assert [(f"{s.start:%d %H:%M}", f"{s.end:%d %H:%M}") for s in spans if s.end] == [
        ("01 23:00", "02 05:00"),
        ("02 21:00", "02 22:00"),
    ]


@pytest.mark.spec("WAKE-42")
def test_blackouts_that_leave_no_minute_of_the_week_are_refused_and_have_no_end() -> None:
    halves = [RecurringBlackout(start="00:00", end="12:00"), RecurringBlackout(start="12:00", end="00:00")]
    with pytest.raises(InvalidRequest, match="whole week"):
        check_blackouts(halves)
    with pytest.raises(InvalidRequest, match="whole week"):
        check_blackouts([RecurringBlackout(start="09:00", end="09:00")])
    span = blackout_at(halves, BERLIN, utc("2026-06-02T01:00"))
    assert span is not None
    assert span.end is None
    check_blackouts([NIGHT, RecurringBlackout(start="07:01", end="23:00")])
    check_blackouts([])


@pytest.mark.spec("WAKE-42")
@pytest.mark.parametrize("time", ["7:00", "24:01", "23:60", "noon", "", "12:00:00", "１２:00"])
def test_a_time_of_day_that_is_none_is_refused_with_the_form_to_write(time: str) -> None:
    with pytest.raises(InvalidRequest, match="HH:MM"):
        RecurringBlackout(start=time, end="12:00")
    with pytest.raises(InvalidRequest, match="HH:MM"):
        RecurringBlackout(start="12:00", end=time)


@pytest.mark.spec("WAKE-42")
def test_a_blackout_without_length_weekday_or_zone_is_refused() -> None:
    at = utc("2026-06-02T01:00")
    with pytest.raises(InvalidRequest, match="no length"):
        OneOffBlackout(start=at, end=at)
    with pytest.raises(InvalidRequest, match="no zone"):
        OneOffBlackout(start=at.replace(tzinfo=None), end=at)
    with pytest.raises(InvalidRequest, match="no weekdays"):
        RecurringBlackout(start="01:00", end="02:00", weekdays=frozenset())
    with pytest.raises(InvalidRequest, match="cannot start at"):
        RecurringBlackout(start="24:00", end="02:00")
    with pytest.raises(InvalidRequest, match="did you mean 'Europe/Berlin'"):
        blackout_at([NIGHT], "europe/berlin", at)
