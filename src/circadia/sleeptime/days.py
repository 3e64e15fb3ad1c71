"""Dates that a text writes out, such as `7 May 2023`, `May 7`, `2023-05`, and those that it may mean."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Final

from circadia.sleeptime.date_phrases import phrases
from circadia.sleeptime.dates import MONTHS, MOST, WEEKDAYS, relative
from circadia.sleeptime.tense import Tense, tense


@dataclass(frozen=True, kw_only=True, slots=True)
class Day:
    """A day, a month or a year, as far as it is told; none is what is not."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def within(self, other: "Day") -> bool:
        """Return whether all that this tells, the other tells too."""
        mine, theirs = (self.year, self.month, self.day), (other.year, other.month, other.day)
        return all(each is None or each == there for each, there in zip(mine, theirs, strict=True))

    @property
    def weekday(self) -> str | None:
        """Return the name of its day of the week, if it is one day."""
        if self.year is None or self.month is None or self.day is None:
            return None
        try:
            return WEEKDAYS[date(self.year, self.month, self.day).weekday()]
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenDate:
    """A date that stands in a text."""

    start: int
    """First character."""
    end: int
    """Character after the last."""
    readings: tuple[Day, ...]
    """What it may mean: `7/5/2023` is read in two ways."""


_NAMES: Final = {name.lower()[:length]: number for number, name in enumerate(MONTHS, 1) for length in (3, 4, len(name))}
_MONTH: Final = rf"(?:{'|'.join(MONTHS)}|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?"
_NUMBER: Final = r"\d{1,2}(?:st|nd|rd|th)?"
_TO: Final = rf"(?:\s?(?:-|–|to|and)\s?(?P<to>{_NUMBER}))?"
_YEAR: Final = r"(?:,? (?:of )?(?P<year>\d{4}))?"
_PATTERNS: Final = tuple(
    re.compile(rf"(?<![\w./-]){pattern}(?![\w/]|[.-]\d)")
    for pattern in (
        r"(?P<year>\d{4})-(?P<number>0[1-9]|1[0-2])(?:-(?P<day>[0-2]\d|3[01]))?(?:T\S*)?",
        r"(?P<one>\d{1,2})(?P<mark>[/.])(?P<other>\d{1,2})(?P=mark)(?P<year>\d{4})",
        rf"(?:the )?(?P<day>{_NUMBER}){_TO}(?: of)? (?P<month>{_MONTH}){_YEAR}",
        rf"(?P<month>{_MONTH}) (?:the )?(?P<day>{_NUMBER})(?!\d){_TO}{_YEAR}",
        rf"(?P<month>{_MONTH}),? (?:of )?(?P<year>\d{{4}})",
    )
)


_DIGIT: Final = re.compile(r"\d")


def written(text: str) -> list[WrittenDate]:
    """Return the dates that a text writes out, with a day or a year at least, in order; of `May 6-7` both days."""
    if not _DIGIT.search(text):
        return []
    found = [match for pattern in _PATTERNS for match in islice(pattern.finditer(text), MOST)]
    found.sort(key=lambda match: (match.start(), -match.end()))
    dates: list[WrittenDate] = []
    for match in found:
        if not dates or match.start() >= dates[-1].end:
            dates += (
                WrittenDate(start=match.start(), end=match.end(), readings=readings) for readings in _readings(match)
            )
    return dates


def meant(text: str, at: datetime) -> Iterator[Day]:
    """Return all days, months and years that a text may mean which was said then, and the day itself."""
    yield day_of(at.date())
    for each in relative(text, at):
        yield day_of(each.first)
        yield day_of(each.last)
    if any((each.unit, each.number) == ("day", 1) for each in phrases(text)):
        yield day_of(at.date() + timedelta(days=1))
    for each in written(text):
        for reading in each.readings:
            yield from (reading,) if reading.year is not None else _with_years(reading, tense(text, each.start), at)
    for month in {match[0] for match in _ALONE.finditer(text)}:
        yield from _with_years(Day(month=MONTHS.index(month) + 1), None, at)


def day_of(day: date) -> Day:
    """Return a day of the calendar."""
    return Day(year=day.year, month=day.month, day=day.day)


_ALONE: Final = re.compile(rf"\b(?:{'|'.join(MONTHS)})\b")


def _readings(match: re.Match[str]) -> list[tuple[Day, ...]]:
    """Return the dates of a match, each with what it may mean."""
    parts = match.groupdict()
    year = int(parts["year"]) if parts.get("year") else None
    if "one" in parts:
        one, other = int(parts["one"]), int(parts["other"])
        both = sorted({(one, other), (other, one)})
        return [tuple(Day(year=year, month=month, day=day) for month, day in both if 0 < month < 13)]
    month = int(parts["number"]) if parts.get("number") else _NAMES[match["month"].rstrip(".").lower()]
    days = [int(parts[key].rstrip("stndrh")) for key in ("day", "to") if parts.get(key)]
    return [(Day(year=year, month=month, day=day),) for day in days or [None]]


def _with_years(day: Day, when: Tense | None, at: datetime) -> Iterator[Day]:
    """Return the last and the next of a day or a month without a year; one of them if the tense is clear."""
    over = (day.month or 0, day.day or 0) <= (at.month, at.day if day.day else 0)
    if when is not Tense.FUTURE:
        yield Day(year=at.year if over or day.month == at.month else at.year - 1, month=day.month, day=day.day)
    if when is not Tense.PAST:
        yield Day(year=at.year + 1 if over and day.month != at.month else at.year, month=day.month, day=day.day)
