"""Numbers, amounts and times of day in a text, in any spelling: `5,000`, `five thousand`, `7 p.m.`, `19:00`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from circadia.sleeptime.dates import SMALL

_UNITS: Final = """
usd $ dollar buck
eur € euro
pound £ gbp quid lb lbs
yen ¥ jpy
% percent
km kilometer kilometre
mile mi
m meter metre
kg kilo kilogram
g gram
h hour hr
min minute
sec second
day
week
month
year yr
degree °
"""
_UNIT: Final = {name: line.split()[0] for line in _UNITS.strip().splitlines() for name in line.split()}
_TENS: Final = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_SCALES: Final = {"dozen": 12, "hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_ORDINALS: Final = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10, "eleventh": 11, "twelfth": 12,
}  # fmt: skip
_HINTS: Final = {"once": 1, "single": 1, "twice": 2, "both": 2, "couple": 2, "pair": 2, "twins": 2}
"""Words that stand for a number in a source, and tell none where they are claimed."""
_VAGUE: Final = frozenset({"one", "first", "second", *_HINTS})
_NUMBERS: Final = {
    **{name: number for number, name in enumerate(SMALL)}, **_TENS, **_SCALES, **_ORDINALS, **_HINTS,
}  # fmt: skip
_SHORT: Final = {"k": 1_000, "K": 1_000, "M": 1_000_000, "bn": 1_000_000_000}

_UNIT_NAMES: Final = "|".join(re.escape(each) for each in sorted(_UNIT, key=len, reverse=True))
_AFTER: Final = rf"(?:[\s-]{{0,2}}(?P<unit>(?i:{_UNIT_NAMES}))(?i:s)?(?![a-zA-Z]))"
_DIGITS: Final = re.compile(
    r"(?P<sign>(?<![\w.,)])[-−]|\b[Mm]inus )?(?P<before>[$€£¥]|\b(?:USD|EUR|GBP) )?"
    r"(?<![\w.,])(?P<number>\d+(?:[.,'\u00a0\u202f]\d+)*)(?P<short>[kKM]\b|bn\b)?(?:(?P<th>st|nd|rd|th)\b|['’]?s\b)?"
    rf"{_AFTER}?"
)
_WORD: Final = re.compile(r"(?<![\w'’])[^\W\d_]+(?![\w'’])")
_LETTERS: Final = re.compile("[a-z]+")
_ONE_OF: Final = re.compile(rf"[Aa](?<![\w'’][Aa])n? (?P<unit>(?i:{_UNIT_NAMES}))s?\b")
"""It begins with what is looked for: with what must not stand before it a search takes ten times as long."""
_DIGIT: Final = re.compile(r"\d")
_UNIT_AFTER: Final = re.compile(_AFTER)
_TIME: Final = re.compile(
    r"(?<![\w:.,])(?P<hour>[01]?\d|2[0-4])(?:[:.](?P<minute>[0-5]\d))?\s?(?P<half>[ap])\.?m\b\.?"
    r"|(?<![\w:.,])(?P<hour24>[01]?\d|2[0-4]):(?P<minute24>[0-5]\d)(?![:\d])",
    re.I,
)
_NOON: Final = re.compile(r"\b(?:[Nn]oon|[Mm]idday|[Mm]idnight)\b")
_DAYTIME: Final = {"noon": 720, "midday": 720, "midnight": 0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A number in a text."""

    start: int
    """First character."""
    end: int
    """Character after the last."""
    values: frozenset[str]
    """What it may stand for: `5.000` is five or five thousand."""
    unit: str | None
    """Of what, in one word for all of its names; none if that is not said."""
    ordinal: bool = False
    """Whether it is one like `3rd`."""
    telling: bool = True
    """Whether it tells a number; `a` and `one` mostly do not."""


def figures(text: str) -> Iterator[Figure]:
    """Return the numbers of a text, but for those that are part of a word such as `A4`."""
    for match in _DIGITS.finditer(text) if _DIGIT.search(text) else ():
        unit = _UNIT.get((match["before"] or "").strip().lower()) or _UNIT.get((match["unit"] or "").lower())
        values = frozenset(_values(match["number"], _SHORT.get(match["short"] or "", 1), bool(match["sign"])))
        yield Figure(start=match.start(), end=match.end(), values=values, unit=unit, ordinal=match["th"] is not None)
    for start, end, words in _spelled(text):
        unit = _UNIT_AFTER.match(text, end)
        telling = not (len(words) == 1 and words[0] in _VAGUE)
        yield Figure(
            start=start, end=end, values=frozenset((str(_counted(words)),)), ordinal=words[-1] in _ORDINALS,
            telling=telling, unit=None if unit is None else _UNIT[unit["unit"].lower()],
        )  # fmt: skip
    for match in _ONE_OF.finditer(text):
        unit = _UNIT[match["unit"].lower()]
        yield Figure(start=match.start(), end=match.end(), values=frozenset("1"), unit=unit, telling=False)


def is_number(word: str) -> bool:
    """Return whether a word is a number."""
    return word in _NUMBERS


def times(text: str) -> Iterator[tuple[int, int, frozenset[int]]]:
    """Return where times of day stand, and the minutes since midnight that each may mean."""
    for match in _TIME.finditer(text) if _DIGIT.search(text) else ():
        if match["hour"]:
            hour = int(match["hour"]) % 12 + (12 if match["half"].lower() == "p" else 0)
            minutes = {hour * 60 + int(match["minute"] or 0)}
        else:
            hour, minute = int(match["hour24"]), int(match["minute24"])
            minutes = {hour % 24 * 60 + minute, *([(hour + 12) * 60 + minute] if hour < 12 else [])}
        yield match.start(), match.end(), frozenset(minutes)
    small = text.lower()
    for match in _NOON.finditer(text) if any(each in small for each in _DAYTIME) else ():
        yield match.start(), match.end(), frozenset({_DAYTIME[match[0].lower()]})


def _values(number: str, times_: int, negative: bool) -> Iterator[str]:
    """Return what digits with separators may stand for, in plain form; what is no number stands for itself."""
    groups = re.split(r"[.,'\u00a0\u202f]", number)
    readings = [number]
    if len(groups) > 1:
        whole = len(groups[0]) <= 3 and all(len(each) == 3 for each in groups[1:])
        marks = re.sub(r"\d", "", number)
        readings = ["".join(groups)] if whole else []
        if (len(marks) == 1 and (not whole or marks == ".")) or (len(set(marks)) == 2 and len(groups[-1]) != 3):
            readings.append(f"{''.join(groups[:-1])}.{groups[-1]}")
    for each in readings or [number]:
        try:
            value = Decimal(each) * times_
        except InvalidOperation:
            yield each
            continue
        plain = f"{value.normalize():f}" if value else "0"
        yield f"-{plain}" if negative else plain


def _spelled(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Return where numbers stand in words, with the words of each."""
    if _NUMBERS.keys().isdisjoint(_LETTERS.findall(text.lower())):
        return  # at once: most texts have none
    start, end, words = 0, 0, list[str]()
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word not in _NUMBERS:
            continue
        between = text[end : match.start()]
        near = between in (" ", "-") or (between == " and " and words[-1:] and words[-1] in _SCALES)
        if words and near and _joins(words[-1], word):
            words.append(word)
        else:
            if words:
                yield start, end, words
            start, words = match.start(), [word]
        end = match.end()
    if words:
        yield start, end, words


def _joins(before: str, word: str) -> bool:
    """Return whether two words belong to one number: `twenty two`, but not `first two`."""
    if before in _ORDINALS or word in _HINTS:
        return False
    return word in _SCALES or before in _SCALES or (before in _TENS and 0 < _NUMBERS[word] < 10)


def _counted(words: list[str]) -> int:
    total, part = 0, 0
    for word in words:
        if word not in _SCALES:
            part += _NUMBERS[word]
            continue
        part = max(part, 1) * _SCALES[word]
        if part >= 1_000:
            total, part = total + part, 0
    return total + part
