"""When recurrences are due: against oracles that walk minute by minute, and however often the plan is made anew."""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circadia.errors import InvalidRequest
from circadia.records.schedule import Recurrence
from circadia.wake.scheduling.recurrence import count_between, last_between, next_after, occurrences
from tests.wake.minutes import WINDOWS, Rule, due_by_cron, walk

MAX_COUNTED = 1_000

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "UTC")
YEAR = datetime(2026, 1, 1, tzinfo=UTC)
NEXT_YEAR = datetime(2027, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
INSTANTS = st.timedeltas(timedelta(0), NEXT_YEAR - YEAR).map(lambda passed: YEAR + passed)
DAY_SECONDS = 86_400
CRON = (
    "30 2 * * *",
    "15 3 * * 0",
    "*/20 1-3 * * *",
    "0 0 * * *",
    "5 */6 * * *",
    "0 9 1,15 * 1-5",
    "0 * * * *",
    "*/30 * * 3,4,10,11 *",
)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(text: str, zone: str = "Europe/Berlin", first: str = "2026-01-01", days: int = 2) -> list[str]:
    """Return when a cron rule is due in the days from `first` on, in UTC."""
    start = utc(first)
    found = occurrences(Recurrence(cron=text, zone=zone), start, start + timedelta(days=days), "s")
    return [f"{at:%dT%H:%M}" for at in found]


@pytest.mark.spec("WAKE-41")
@pytest.mark.parametrize("every", [60, 61, 90, 7 * 60, 3_600, 5_400, DAY_SECONDS, 7 * DAY_SECONDS, 30 * DAY_SECONDS])
def test_an_interval_is_due_at_each_step_from_its_anchor_and_at_no_other_instant(every: int) -> None:
    anchor = datetime(2025, 12, 24, 18, 0, 7, tzinfo=UTC)
    recurrence = Recurrence(every_seconds=every, anchor=anchor, offset_seconds=11, zone="Europe/Berlin")
    expected: list[datetime] = []
    at = anchor + 11 * SECOND
    while at < NEXT_YEAR:
        if at >= YEAR:
            expected.append(at)
        at += every * SECOND
    for day in range(0, 365, 1 if every >= 3_600 else 13):
        start, end = YEAR + timedelta(days=day), YEAR + timedelta(days=day + 1)
        found = list(occurrences(recurrence, start, end, "s"))
        assert found == expected[_place(expected, start) : _place(expected, end)]


def _place(instants: list[datetime], at: datetime) -> int:
    return bisect_right(instants, at - timedelta(microseconds=1))


@pytest.mark.spec("WAKE-41")
@given(
    every=st.integers(60, 30 * DAY_SECONDS),
    zone=st.sampled_from(ZONES),
    anchor=st.none() | INSTANTS,
    after=INSTANTS,
    data=st.data(),
)
def test_two_occurrences_of_an_interval_are_exactly_its_seconds_apart(
    every: int, zone: str, anchor: datetime | None, after: datetime, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, every - 1))
    recurrence = Recurrence(every_seconds=every, zone=zone, anchor=anchor, offset_seconds=offset)
    first = next_after(recurrence, after, seed="s")
    assert first is not None
    assert after < first <= after + every * SECOND
    assert next_after(recurrence, first, seed="s") == first + every * SECOND
    if anchor is not None:
        assert (first - anchor - offset * SECOND) % (every * SECOND) == timedelta(0)


@st.composite
def recurrences(draw: st.DrawFn) -> Recurrence:
    """Draw intervals of some hours to days, and cron rules, with and without jitter and stagger."""
    zone = draw(st.sampled_from(ZONES))
    jitter = draw(st.sampled_from([0, 0, 90, DAY_SECONDS]))
    stagger = draw(st.sampled_from([0, 0, 1_800, DAY_SECONDS]))
    if draw(st.booleans()):
        cron = draw(st.sampled_from(CRON))
        return Recurrence(cron=cron, zone=zone, jitter_seconds=jitter, stagger_seconds=stagger)
    every = draw(st.integers(3 * 3_600, 30 * DAY_SECONDS))
    offset = draw(st.integers(0, every - 1))
    return Recurrence(
        every_seconds=every, offset_seconds=offset, zone=zone, jitter_seconds=jitter, stagger_seconds=stagger
    )


@pytest.mark.spec("WAKE-40", "WAKE-41")
@settings(max_examples=25, deadline=None)
@given(recurrence=recurrences(), seed=st.text(max_size=8), data=st.data())
def test_a_plan_made_anew_at_any_instant_of_a_year_continues_the_same_sequence(
    recurrence: Recurrence, seed: str, data: st.DataObject
) -> None:
    whole = list(occurrences(recurrence, YEAR, NEXT_YEAR, seed))
    assert whole == sorted(set(whole))
    for _ in range(8):
        after = data.draw(INSTANTS)
        if whole and data.draw(st.booleans()):
            after = data.draw(st.sampled_from(whole)) + data.draw(st.integers(-1, 1)) * timedelta(microseconds=1)
        place = bisect_right(whole, after)
        expected = whole[place] if place < len(whole) else None
        found = next_after(recurrence, after, seed=seed)
        assert found == expected or (expected is None and found is not None and found >= NEXT_YEAR)
        earlier = last_between(recurrence, YEAR, after, seed=seed)
        assert earlier == (whole[place - 1] if place else None)
        assert count_between(recurrence, YEAR, after, seed=seed) == min(
            place, place if recurrence.every_seconds else MAX_COUNTED
        )


@pytest.mark.spec("WAKE-40")
@pytest.mark.parametrize(("zone", "start"), WINDOWS.values(), ids=WINDOWS)
@settings(max_examples=15, deadline=None)
@given(
    rule=st.builds(
        Rule,
        minutes=st.frozensets(st.integers(0, 59), min_size=1, max_size=4),
        hours=st.none() | st.frozensets(st.integers(0, 23), min_size=1, max_size=23),
        days=st.none() | st.frozensets(st.integers(1, 31), min_size=1),
        weekdays=st.none() | st.frozensets(st.integers(0, 6), min_size=1),
    )
)
def test_a_cron_rule_is_due_as_a_look_at_the_clock_each_minute_says(zone: str, start: str, rule: Rule) -> None:
    over = walk(zone, start)
    expected = due_by_cron(rule, over)
    found = list(occurrences(Recurrence(cron=rule.cron, zone=zone), over.start, over.end, "s"))
    assert found == expected


@pytest.mark.spec("WAKE-40")
def test_a_wall_time_that_the_clock_leaves_out_is_due_once_right_after_the_gap() -> None:
    assert local("30 2 * * *", first="2026-03-28", days=3) == ["28T01:30", "29T01:00", "30T00:30"]
    assert local("*/15 2 * * *", first="2026-03-29", days=1) == ["29T01:00"]
    assert local("10 2 * * *", "Australia/Lord_Howe", "2026-10-03", 1) == ["03T15:30"]
    assert local("0 12 * * *", "Pacific/Apia", "2011-12-29") == ["29T22:00", "30T10:00", "30T22:00"]


@pytest.mark.spec("WAKE-40")
def test_a_wall_time_that_the_clock_shows_twice_is_due_once() -> None:
    assert local("30 2 * * *", first="2026-10-24", days=3) == ["24T00:30", "25T00:30", "26T01:30"]


@pytest.mark.spec("WAKE-40")
def test_a_rule_for_each_hour_is_silent_in_none_of_25_and_has_nothing_extra_in_23() -> None:
    assert local("20 * * * *", first="2026-10-24T22:00", days=1)[:4] == ["24T22:20", "24T23:20", "25T00:20", "25T01:20"]
    start = datetime.fromisoformat("2026-03-28T23:00").replace(tzinfo=UTC)
    day = Recurrence(cron="5 * * * *", zone="Europe/Berlin")
    assert len(list(occurrences(day, start, start + timedelta(hours=23), "s"))) == 23


@pytest.mark.spec("WAKE-41")
def test_an_interval_of_a_day_is_elapsed_time_and_moves_on_the_wall_clock() -> None:
    daily = Recurrence(every_seconds=DAY_SECONDS, zone="Europe/Berlin")
    found = list(occurrences(daily, utc("2026-03-28"), utc("2026-03-31"), "s"))
    assert [f"{at:%dT%H:%M}" for at in found] == ["28T23:00", "29T23:00", "30T23:00"]


@pytest.mark.spec("WAKE-40")
@pytest.mark.parametrize("zone", ZONES)
def test_intervals_count_from_a_mondays_midnight_on_the_zones_clock(zone: str) -> None:
    half_hourly = Recurrence(every_seconds=3_600, offset_seconds=300, zone=zone)
    at = next_after(half_hourly, utc("2026-01-01"), seed="s")
    assert at is not None
    minute = 35 if zone == "Asia/Kolkata" else 5
    assert at.minute == minute


@pytest.mark.spec("WAKE-40")
def test_one_off_instants_are_due_once_each_and_then_never() -> None:
    single = Recurrence(at=(utc("2026-03-02T10:00"), utc("2026-03-01T10:00"), utc("2026-03-02T10:00")))
    assert list(occurrences(single, YEAR, NEXT_YEAR, "s")) == [utc("2026-03-01T10:00"), utc("2026-03-02T10:00")]
    assert next_after(single, utc("2026-03-02T10:00"), seed="s") is None
    assert count_between(single, YEAR, NEXT_YEAR, seed="s") == 2


@pytest.mark.spec("WAKE-40")
@given(seed=st.text(), jitter=st.integers(1, DAY_SECONDS), cron=st.sampled_from(("*/10 * * * *", "0 3 * * *")))
@settings(max_examples=25, deadline=None)
def test_jitter_delays_by_less_than_its_seconds_and_never_past_the_next_occurrence(
    seed: str, jitter: int, cron: str
) -> None:
    plain = Recurrence(cron=cron, zone="America/New_York")
    shaken = Recurrence(cron=cron, zone="America/New_York", jitter_seconds=jitter)
    start, end = utc("2026-03-07"), utc("2026-03-09")
    bases = list(occurrences(plain, start, end, seed))
    late = list(occurrences(shaken, bases[0], end + timedelta(days=3), seed))
    for (base, following), moved in zip(pairwise(bases), [at for at in late if at >= bases[0]], strict=False):
        assert base <= moved < min(following, base + jitter * SECOND)


@pytest.mark.spec("WAKE-40")
def test_stagger_spreads_agents_with_the_same_schedule_and_keeps_each_at_its_place() -> None:
    hourly = Recurrence(every_seconds=3_600, stagger_seconds=3_600)
    firsts = {seed: next_after(hourly, YEAR, seed=seed) for seed in map(str, range(200))}
    quarters = [0, 0, 0, 0]
    for seed, first in firsts.items():
        assert first is not None
        assert next_after(hourly, first, seed=seed) == first + 3_600 * SECOND
        quarters[first.minute // 15] += 1
    assert min(quarters) > 25
    plain = Recurrence(every_seconds=3_600)
    assert next_after(plain, YEAR, seed="a") == next_after(plain, YEAR, seed="b")


@pytest.mark.spec("WAKE-40")
def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no zone"):
        next_after(Recurrence(every_seconds=60), YEAR.replace(tzinfo=None), seed="s")
