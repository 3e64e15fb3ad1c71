"""Numbers and calendar dates in the digits of a text, in forms that compare across texts and languages.

Nothing here is specific to a language. Numbers compare by their significant digits, so that `1,250`, `1.250`, `١٢٥٠`,
`1.25k` and `一千二百五十` are equal. Only a model compares numbers of one or two digits, often written as words.
"""

import re
import unicodedata
from collections.abc import Iterator
from datetime import date
from typing import Final, NamedTuple

MAX_WORD_DIGITS: Final = 2
"""Significant digits up to which numbers are often written as words."""
_SEPARATORS: Final = ".,'’\u00a0\u202f\u066b\u066c"
_PLAIN: Final = rf"(?<!\d)\d+(?:[{_SEPARATORS}]\d+)*"
_NUMBER: Final = re.compile(rf"(?<!\d)\d{{1,3}}(?: \d{{3}})+(?!\d)|{_PLAIN}")
_PART: Final = re.compile(_PLAIN)
_CLOCK_PARTS: Final = re.compile(r"(?<!\d)\d+(?:[:.]\d+)+")
"""A time, which a claim may write without its colon."""
_IDEOGRAPHS: Final = re.compile("[〇零一二三四五六七八九十百千万萬億亿两]{3,}")
_CLOCK: Final = re.compile(r"(?:[01]?\d|2[0-4])[.,][0-5]\d")
"""A possible time of day, which has two spellings: `19.40`, `7:40`."""
_DATES: Final = tuple(
    re.compile(rf"(?<![\d./-]){pattern}(?![\d/]|[.-]\d)")
    for pattern in (
        r"(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))?",
        r"(?P<year>\d{4})(?P<mark>[./])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
        r"(?P<year>\d{4}) ?[年년] ?(?P<month>\d{1,2}) ?[月월](?: ?(?P<day>\d{1,2}) ?[日일])?",
        r"(?P<day>\d{1,2})(?P<mark>[./-]) ?(?P<month>\d{1,2})(?P=mark) ?(?P<year>\d{4})",
    )
)


class CalendarDate(NamedTuple):
    """A day or a month in the digits of a text."""

    start: int
    end: int
    readings: tuple[tuple[int, int, int | None], ...]
    """Year, month and day; `7/5/2023` has two readings."""


def find_calendar_dates(text: str) -> Iterator[CalendarDate]:
    for pattern in _DATES:
        for match in pattern.finditer(text):
            year, month, day = int(match["year"]), int(match["month"]), int(match["day"]) if match["day"] else None
            both = [
                (year, month, day),
                *([(year, day, month)] if day and match.start("day") < match.start("year") else []),
            ]
            readings = tuple(dict.fromkeys(reading for reading in both if _is_valid_date(*reading)))
            if readings:
                yield CalendarDate(match.start(), match.end(), readings)


def find_numbers(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the positions and significant digits of comparable numbers."""
    for match in _NUMBER.finditer(text):
        digits = _significant_digits(match[0])
        if len(digits) > MAX_WORD_DIGITS and not _CLOCK.fullmatch(match[0]):
            yield match.start(), match.end(), digits


def find_all_numbers(text: str) -> frozenset[str]:
    """Return the significant digits of all numbers that a text can be read to have."""
    digits = {
        _significant_digits(match[0]) for pattern in (_NUMBER, _PART, _CLOCK_PARTS) for match in pattern.finditer(text)
    }
    for match in _IDEOGRAPHS.finditer(text):
        values = [unicodedata.numeric(digit) for digit in match[0]]
        digits.add("".join(str(int(value)) for value in values if value < 10).strip("0"))
    return frozenset(digits)


def _significant_digits(number: str) -> str:
    return re.sub(r"\D", "", number).strip("0")


def _is_valid_date(year: int, month: int, day: int | None) -> bool:
    try:
        date(year, month, day or 1)
    except ValueError:
        return False
    return True
