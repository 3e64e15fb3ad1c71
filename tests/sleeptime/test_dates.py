"""Relative dates are resolved by each message's own time and zone, by the wordings of Unicode's CLDR."""

import re
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.memory.relative_dates import (
    add_dates,
    add_dates_from_sources,
    episode_text_with_dates,
    find_relative_dates,
    first_open_date,
)
from circadia.records.bank import Trust
from circadia.sleeptime.operations.consolidate import Consolidate
from tests.sleeptime.episode_builders import said
from tests.sleeptime.night import Night, answering, writing
from tests.sleeptime.stand import Stand

FRIDAY = datetime(2023, 5, 12, 15, 30, tzinfo=UTC)
pytestmark = pytest.mark.spec("SLEEP-24")


def dates(text: str, at: datetime = FRIDAY) -> list[str]:
    return [each.iso for each in find_relative_dates(text, at)]


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("I went to the dentist yesterday.", "2023-05-11"),
        ("The plumber comes tomorrow morning.", "2023-05-13"),
        ("I sold the bike 3 days ago.", "2023-05-09"),
        ("We met 2 weeks ago in the park.", "2023-04-24 – 2023-04-30"),
        ("We met 1 month ago in the park.", "2023-04"),
        ("Our season opener is next week.", "2023-05-15 – 2023-05-21"),
        ("Rent goes up next month.", "2023-06"),
        ("We got married last year.", "2022"),
        ("I ran a race last Saturday.", "2023-05-06"),
        ("Gestern war ich beim Zahnarzt.", "2023-05-11"),
        ("Nächste Woche fliegen wir nach Porto.", "2023-05-15 – 2023-05-21"),
        ("Hier, je suis allé chez le dentiste.", "2023-05-11"),
        ("La semana pasada estuve en el dentista.", "2023-05-01 – 2023-05-07"),
        ("我昨天去看了牙医。", "2023-05-11"),
        ("来週、歯医者に行きます。", "2023-05-15 – 2023-05-21"),
        ("كنت أمس عند طبيب الأسنان.", "2023-05-11"),
        ("Я был у зубного врача вчера.", "2023-05-11"),
    ],
)
def test_a_relative_date_is_a_day_or_as_vague_as_it_was_told(text: str, iso: str) -> None:
    assert dates(text) == [iso]
    assert first_open_date(text)
    assert first_open_date(add_dates(text, FRIDAY)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "We sang 'Yesterday' for hours.",
        "Ich komme morgen, am Morgen.",
        "Lo haré mañana por la mañana.",
        "Some years ago, 200 years ago even.",
        "I was in Oslo in March, on Monday and for 3 days.",
    ],
)
def test_what_can_be_meant_in_two_ways_is_left_to_the_model(text: str) -> None:
    assert dates(text) == []
    assert add_dates(text, FRIDAY) == text


def test_the_wording_is_kept_and_the_date_stands_beside_it() -> None:
    text = "I saw Mia yesterday, and last week we had lunch."
    assert add_dates(text, FRIDAY) == (
        "I saw Mia yesterday (2023-05-11), and last week (2023-05-01 – 2023-05-07) we had lunch."
    )
    assert add_dates_from_sources("Ann saw Mia yesterday.", [(text, FRIDAY)]) == "Ann saw Mia yesterday (2023-05-11)."
    assert add_dates_from_sources("Ann saw Mia yesterday.", [("I saw Mia.", FRIDAY)]) == "Ann saw Mia yesterday."


def test_a_quotation_keeps_its_relative_dates() -> None:
    assert first_open_date("The opener is next week (week of 2023-05-15).") == "", (
        "as releases before this one wrote it"
    )
    assert first_open_date('Ann said on 2023-05-12: "See you next week."') == ""
    assert first_open_date("Ann said “see you” and comes next week.") == "next week"


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Pacific/Auckland", "2023-05-12"), ("America/Los_Angeles", "2023-05-11"), ("+09:00", "2023-05-12"),
        ("-0930", "2023-05-11"), ("nowhere", "2023-05-11"), (7, "2023-05-11"), ("../etc/passwd", "2023-05-11"),
    ],
)  # fmt: skip
def test_a_day_counts_from_that_of_whoever_says_it(zone: object, day: str) -> None:
    episode = said("I quit my job yesterday.", metadata={"timezone": zone}, at=datetime(2023, 5, 12, 20, tzinfo=UTC))
    assert episode_text_with_dates(episode) == f"I quit my job yesterday ({day})."


def test_the_offset_of_the_time_counts_where_there_is_no_zone() -> None:
    late = datetime.fromisoformat("2023-05-12T00:30:00+02:00")
    assert episode_text_with_dates(said("I quit my job yesterday.", at=late)) == "I quit my job yesterday (2023-05-11)."


async def test_every_prompt_says_which_day_it_is_by_the_clock_of_who_spoke_last(stand: Stand) -> None:
    west = datetime.fromisoformat("2025-12-31T16:01:00-08:00")
    night = Night(stand, operations=[Consolidate()])
    for at, today in ((west, "2025-12-31"), (west.astimezone(UTC), "2026-01-01")):
        night.mind = mind = answering(writing("Ann quit her job yesterday."))
        await night.said(f"I quit my job yesterday, {today}.", at=at)
        await night.run()
        assert len(mind.asked) == 2
        assert all(f"Today is {today}." in each.rules for each in mind.asked)


def test_what_a_tool_or_a_stranger_says_is_not_dated_by_when_it_was_stored() -> None:
    for trust in (Trust.TOOL, Trust.EXTERNAL):
        assert (
            episode_text_with_dates(said("The minister resigned yesterday.", trust=trust))
            == "The minister resigned yesterday."
        )


@given(st.dates(date(1900, 1, 1), date(2100, 12, 31)), st.integers(1, 100))
def test_days_ago_are_counted_exactly(day: date, number: int) -> None:
    at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    assert dates(f"I left the old house {number} days ago.", at) == [(day - timedelta(days=number)).isoformat()]


WORDS = "I was will be last next this week month year Monday 3 days day ago yesterday tomorrow's . , gestern hier le"


@given(st.datetimes(timezones=st.just(UTC)), st.lists(st.sampled_from(WORDS.split())))
def test_whatever_is_said_nothing_but_dates_is_added_and_none_twice(at: datetime, parts: list[str]) -> None:
    text = " ".join(parts)
    once = add_dates(text, at)
    pattern = r" \(\d{4}(?:-\d\d){0,2}(?: – \d{4}(?:-\d\d){2})?\)"
    assert re.sub(pattern, "", once) == text
    assert len(re.findall(pattern, once)) == len(find_relative_dates(text, at))
