"""Dates that are told from the day of a message are resolved by its own time and zone, where that is sure."""

import re
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.records.bank import Trust
from circadia.sleeptime.dates import WEEKDAYS, dated, relative, told
from tests.sleeptime.told import said

FRIDAY = datetime(2023, 5, 12, 15, 30, tzinfo=UTC)
pytestmark = pytest.mark.spec("SLEEP-24")


def dates(text: str, at: datetime = FRIDAY) -> list[str]:
    return [each.iso for each in relative(text, at)]


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("I went to the dentist yesterday.", "2023-05-11"),
        ("The boiler broke the day before yesterday.", "2023-05-10"),
        ("Yesterday's match was wild.", "2023-05-11"),
        ("I slept badly last night.", "2023-05-11"),
        ("The plumber comes tomorrow morning.", "2023-05-13"),
        ("We sign the day after tomorrow.", "2023-05-14"),
        ("Tonight I cook.", "2023-05-12"),
        ("This morning the post came.", "2023-05-12"),
        ("I sold the bike 3 days ago.", "2023-05-09"),
        ("I sold the bike ten days ago.", "2023-05-02"),
        ("We met two weeks ago.", "week of 2023-04-24"),
        ("We met a month ago.", "2023-04"),
        ("We met five months ago.", "2022-12"),
        ("She moved four years ago.", "2019"),
        ("The exam is in 3 days.", "2023-05-15"),
        ("We will fly in two weeks.", "week of 2023-05-22"),
        ("Ten days from now I am free.", "2023-05-22"),
        ("Call me in a month's time.", None),
        ("Last week it rained.", "week of 2023-05-01"),
        ("I start next week.", "week of 2023-05-15"),
        ("We hiked last weekend.", "2023-05-06 to 2023-05-07"),
        ("We hiked this past weekend.", "2023-05-06 to 2023-05-07"),
        ("I am going to hike this weekend.", "2023-05-13 to 2023-05-14"),
        ("I quit last month.", "2023-04"),
        ("Rent goes up next month.", "2023-06"),
        ("We married last year.", "2022"),
        ("The road opens next year.", "2024"),
        ("I ran a race last Saturday.", "2023-05-06"),
        ("I ran a race last Saturday and won.", "2023-05-06"),
        ("Last week and the one before were hard.", "week of 2023-05-01"),
        ("i ran a race last saturday", "2023-05-06"),
        ("I ran a race last Sat. It was long.", "2023-05-06"),
        ("We met last Tues, in the rain.", "2023-05-09"),
        ("I ran a race last Friday.", "2023-05-05"),
        ("On Monday I bought a lamp.", "2023-05-08"),
        ("I will see her on Monday.", "2023-05-15"),
        ("We are moving next Tuesday.", "2023-05-16"),
        ("She was in Oslo in March.", "2023-03"),
        ("She was in Oslo in October.", "2022-10"),
        ("She will be in Oslo in October.", "2023-10"),
        ("I have lived here since February.", "2023-02"),
        ("He left last December.", "2022-12"),
        ("We moved in on March 3rd.", "2023-03-03"),
        ("We moved in on the 20th of December.", "2022-12-20"),
        ("I was there on Friday, May 5.", "2023-05-05"),
        ("The deadline is 2 June.", "2023-06-02"),
    ],
)
def test_a_relative_date_is_a_day_or_as_vague_as_it_was_told(text: str, iso: str | None) -> None:
    assert dates(text) == ([iso] if iso else [])


@pytest.mark.parametrize(
    "text",
    [
        "I read it in 3 days.",
        "About two weeks ago it broke.",
        "It was two or three days ago.",
        "2-3 days ago it was fine.",
        "Half a year ago I left.",
        "A few days ago I left.",
        "It took the last week of my life.",
        "I was ill for the last month.",
        "On Mondays I was at the gym.",
        "We always met on Monday.",
        "On Monday.",
        "I was there on Friday.",  # it is Friday
        "Next Sunday is good.",  # in two days or in nine
        "She was in Oslo in March 2021.",
        "It was in May.",  # it is May
        "My birthday is on March 3rd.",
        "He left last March.",  # of this year or of the one before
        "It feels like just yesterday.",
        "We sang 'Yesterday' for hours.",
        "See last-week.csv and /tmp/yesterday.log",
        "We march on.",
        "February 30 was not a day.",
        "It took a year and a half, last year and a half in fact.",
        "We were there on Monday and Tuesday.",
        "It was the last sun of the year, and we sat on sun chairs.",
        "The last Monday of the month was quiet, on Monday or Tuesday.",
        "Some years ago, 200 years ago even.",
    ],
)
def test_what_can_be_meant_in_two_ways_is_left_as_it_is(text: str) -> None:
    assert dates(text) == []
    assert dated(text, FRIDAY) == text


def test_the_wording_is_kept_and_the_date_stands_beside_it() -> None:
    text = "I saw Mia yesterday, and last week we had lunch. Tomorrow's plan: rest."
    assert dated(text, FRIDAY) == (
        "I saw Mia yesterday (2023-05-11), and last week (week of 2023-05-01) we had lunch. "
        "Tomorrow's (2023-05-13) plan: rest."
    )


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Pacific/Auckland", "2023-05-13"), ("America/Los_Angeles", "2023-05-12"), ("+09:00", "2023-05-13"),
        ("-0930", "2023-05-12"), ("nowhere", "2023-05-12"), (7, "2023-05-12"), ("../etc/passwd", "2023-05-12"),
    ],
)  # fmt: skip
def test_today_is_the_day_of_whoever_says_it(zone: object, day: str) -> None:
    episode = said("I quit today.", metadata={"timezone": zone}, at=datetime(2023, 5, 12, 20, tzinfo=UTC))
    assert told(episode) == f"I quit today ({day})."


def test_the_offset_of_the_time_counts_where_there_is_no_zone() -> None:
    late = datetime.fromisoformat("2023-05-12T00:30:00+02:00")
    assert told(said("I quit yesterday.", at=late)) == "I quit yesterday (2023-05-11)."


def test_what_a_tool_or_a_stranger_says_is_not_dated_by_when_it_was_stored() -> None:
    for trust in (Trust.TOOL, Trust.EXTERNAL):
        assert told(said("The minister resigned yesterday.", trust=trust)) == "The minister resigned yesterday."


@given(st.dates(date(1900, 1, 1), date(2100, 12, 31)), st.integers(1, 100))
def test_days_ago_and_days_ahead_are_counted_exactly(day: date, number: int) -> None:
    at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    plural = "s" if number > 1 else ""
    assert dates(f"I left {number} day{plural} ago.", at) == [(day - timedelta(days=number)).isoformat()]
    assert dates(f"I will leave in {number} day{plural}.", at) == [(day + timedelta(days=number)).isoformat()]


@given(st.dates(), st.sampled_from(WEEKDAYS))
def test_the_last_of_a_weekday_is_within_a_week(day: date, weekday: str) -> None:
    at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    for iso in dates(f"It was last {weekday}.", at):
        found = date.fromisoformat(iso)
        assert WEEKDAYS[found.weekday()] == weekday
        assert 1 <= (day - found).days <= 7


WORDS = """
I was will be last next this week month year weekend on in since Monday Friday's 3 days day ago yesterday tomorrow's . ,
May March 5th of the it's
"""


@given(st.datetimes(timezones=st.just(UTC)), st.lists(st.sampled_from(WORDS.split())))
def test_whatever_is_said_nothing_but_dates_is_added_and_none_twice(at: datetime, parts: list[str]) -> None:
    text = " ".join(parts)
    once = dated(text, at)
    pattern = r" \((?:week of )?\d{4}(?:-\d\d){0,2}(?: to \d{4}-\d\d-\d\d)?\)"
    assert re.sub(pattern, "", once) == text
    assert len(re.findall(pattern, once)) == len(relative(text, at))
    assert dated(once, at) == once
