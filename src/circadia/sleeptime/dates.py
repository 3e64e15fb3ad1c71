"""Dates that are told from the day of a message, such as `yesterday`, as days of the calendar (SLEEP-24).

What can be meant in two ways is left as it is: a guess would be remembered as if it had been said. The rules here are
for English; other languages have the wordings of `date_phrases`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from circadia.records.bank import Trust
from circadia.records.episode import Episode
from circadia.sleeptime.date_phrases import phrases
from circadia.sleeptime.tense import Tense, tense

MONTHS: Final[tuple[str, ...]] = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WEEKDAYS: Final[tuple[str, ...]] = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SMALL: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty
"""
_SHORT_WEEKDAYS: Final = tuple(name[:3].lower() for name in WEEKDAYS)
SMALL: Final[tuple[str, ...]] = tuple(_SMALL.split())
"""Names of numbers, by number."""
READ: Final = 20_000
"""Characters of a text that are looked at."""
MOST: Final = 200
"""Dates of one kind in a text that are looked at."""
REMEMBERED: Final = 2_000
"""Texts of which is remembered what they tell: several operations of a page ask the same."""
LONGEST_AGO: Final = 100
"""Years, months, weeks or days that are counted from a message at most."""

UNDATED: Final = frozenset({Trust.TOOL, Trust.EXTERNAL})
"""Texts of these were not written on the day when they were stored."""
_ZONES: Final = ("timezone", "zone", "utc_offset")
"""Names in an episode's metadata under which a zone or an offset such as `+02:00` may stand."""
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)?")
_HEDGED: Final = """
about above almost and approximately around at below fifty first forty half hundred least less like maybe more most
nearly or over perhaps probably roughly some than thirty to twenty under within
"""
_HEDGES: Final = frozenset(_HEDGED.split())
"""Before a number or `last` they say that it is not to be taken at its word."""
_RECURS: Final = re.compile(r"\b(?:every|each|always|usually|often|birthday|anniversary|born|annual\w*|yearly)\b", re.I)
_OTHER: Final = re.compile(r"\b(?:last|next|this|following|previous) (?:week|month|year|time)\b|\bago\b", re.I)
_BESIDE: Final = re.compile(r" \((?:week of )?\d{4}")
"""A date beside its wording."""
_IS_BESIDE: Final = rf"{_BESIDE.pattern}[^)]*\)"
"""The whole of it."""
_NEAR: Final = 300
"""Characters on either side that may say what a date means."""
_LIKE: Final = re.compile(r"\blike (?:just |only |it was (?:just |only )?)?$", re.I)
"""`It feels like yesterday.`"""
_NUMBER: Final = rf"(?P<number>\d{{1,3}}|an?|{'|'.join(SMALL[1:])})"
_UNIT: Final = r"(?P<unit>day|week|month|year)s?"
_MONTH: Final = rf"(?P<month>{'|'.join(MONTHS)})"
_WEEKDAY: Final = rf"(?P<weekday>{'|'.join(WEEKDAYS)}|(?-i:Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)\b\.?)"
_PART: Final = r"(?: (?:morning|afternoon|evening|night))?"
_ORDINAL: Final = r"\d{1,2}(?:st|nd|rd|th)?"
_DAY_OF: Final = rf"(?:{_MONTH} (?P<day>{_ORDINAL})|(?P<of>{_ORDINAL})(?: of)? (?P<in>{'|'.join(MONTHS)}))"
_NOT_ONE: Final = rf"(?! (?:of|or|to)\b)(?! and (?:on )?(?:{'|'.join(WEEKDAYS)}))"
_BEFORE: Final = r"(?<![\w\-./@#])"
_AFTER: Final = r"(?![\w\-/@]|\.\w)"
_NO_YEAR: Final = r"(?!,? (?:of )?(?:the )?['’]?\d)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """A date in a text."""

    start: int
    """First character of its wording."""
    end: int
    """Character after the last."""
    first: date
    """The first day that it may be."""
    last: date
    """The last."""

    @property
    def iso(self) -> str:
        """Return it as a day, a month, a year or a range, as exact as it was told."""
        first, days = self.first.isoformat(), (self.last - self.first).days + 1
        if days == 1:
            return first
        if days == len(WEEKDAYS):
            return f"week of {first}"
        if days > 31:
            return first[:4]
        return first[:7] if days > len(WEEKDAYS) else f"{first} to {self.last.isoformat()}"


def local(episode: Episode) -> datetime:
    """Return when it was said by the clock of whoever said it, as far as that is known; else as it was stored."""
    for name in _ZONES if episode.metadata else ():
        zone = _zone(episode.metadata.get(name))
        if zone is not None:
            return episode.at.astimezone(zone)
    return episode.at


def told(episode: Episode) -> str:
    """Return an episode's text with the dates beside their wording.

    What a tool or a stranger's page says is left as it is.
    """
    if episode.trust in UNDATED:
        return episode.text
    return dated(episode.text, local(episode))


def dated(text: str, at: datetime) -> str:
    """Return a text that was said then with each date that it tells beside the wording: `yesterday (2023-05-07)`."""
    parts, upto = list[str](), 0
    for each in relative(text, at):
        parts += (text[upto : each.end], f" ({each.iso})")
        upto = each.end
    return "".join((*parts, text[upto:]))


def dated_by(text: str, sources: Sequence[tuple[str, datetime]]) -> str:
    """Return what was derived from these, each a text and when it was said, with the dates beside their wording.

    A wording means what it means in the newest source that has it. One that no source has is left as it is, and so is
    a day of a month.
    """
    newest = sorted(sources, key=lambda each: each[1], reverse=True)
    said = [dated(*each) for each in newest]
    parts, upto = list[str](), 0
    for each in relative(text, newest[0][1]) if newest else ():
        if any(month in text[each.start : each.end] for month in MONTHS):
            continue  # `1 July` wants a year only, which its reader has from the time of what says it
        wording = re.compile(re.escape(text[each.start : each.end]) + _IS_BESIDE, re.IGNORECASE)
        meant = next((found[0] for source in said if (found := wording.search(source))), None)
        if meant is not None:
            parts += (text[upto : each.end], meant[each.end - each.start :])
            upto = each.end
    return "".join((*parts, text[upto:]))


def relative(text: str, at: datetime) -> Sequence[Told]:
    """Return the dates that a text tells from the day on which it was said, in order, where there is no doubt.

    `at` is in the zone of whoever said it. Those that have the date beside them already are left out.
    """
    return _relative(text[:READ], at.date())


@lru_cache(maxsize=REMEMBERED)
def _relative(text: str, today: date) -> Sequence[Told]:
    found: list[Told] = []
    lower = text.lower()
    for needed, pattern, resolve in _RULES:
        if not any(map(lower.__contains__, needed)):
            continue
        for match in islice(pattern.finditer(text), MOST):
            if _quoted(text, match) or _BESIDE.match(text, match.end()):
                continue
            try:
                days = resolve(text, match, today)
            except (ValueError, OverflowError):  # no such day, or outside of the calendar
                continue
            if days is not None:
                found.append(Told(start=match.start(), end=match.end(), first=days[0], last=days[1]))
    for match, unit, number in phrases(text):
        days = None if _quoted(text, match) or _BESIDE.match(text, match.end()) else _meant(unit, number, today)
        if days is not None:
            found.append(Told(start=match.start(), end=match.end(), first=days[0], last=days[1]))
    return tuple(_apart(found))


Days = tuple[date, date] | None
_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)


def _near(shift: int) -> Callable[[str, re.Match[str], date], Days]:
    """Return what resolves a word that stands for a day so far from today."""

    def resolve(text: str, match: re.Match[str], today: date) -> Days:
        before = text[max(match.start() - _NEAR, 0) : match.start()]
        return None if _LIKE.search(before) else _only(today + shift * _DAY)

    return resolve


def _counted(text: str, match: re.Match[str], today: date) -> Days:
    """Resolve `two weeks ago`, `in 3 days`."""
    number = _value(match["number"])
    if number is None or not 0 < number <= LONGEST_AGO or _hedged(text, match.start()):
        return None
    ahead = match.re is not _AGO
    if match.re is _IN and not match["sure"] and tense(text, match.start()) is not Tense.FUTURE:
        return None  # `I read it in 3 days`
    return _shifted(today, match["unit"].lower(), number if ahead else -number)


def _period(text: str, match: re.Match[str], today: date) -> Days:
    """Resolve `last week`, `this month`, `next year`."""
    which, past = match["which"].lower(), match["past"] is not None
    before = text[max(match.start() - _NEAR, 0) : match.start()].split()
    if past or (before and before[-1].lower() in ("the", "these", "every", "for")):
        return None  # the time up to now
    return _shifted(today, match["unit"].lower(), {"last": -1, "this": 0, "next": 1}[which])


def _weekend(text: str, match: re.Match[str], today: date) -> Days:
    """Resolve `last weekend`; `this weekend` and `next weekend` where only one can be meant."""
    which, saturday = match["which"].lower(), _monday(today) + 5 * _DAY
    if which == "last" or match["past"]:
        saturday -= _WEEK
    elif which == "next":
        if today < saturday:
            return None
        saturday += _WEEK
    elif today < saturday and tense(text, match.start()) is not Tense.FUTURE:
        return None
    return saturday, saturday + _DAY


def _weekday(text: str, match: re.Match[str], today: date) -> Days:
    """Resolve `last Friday`, `on Monday`; `next` and `this` where only one can be meant."""
    which, day = match["which"].lower(), _SHORT_WEEKDAYS.index(match["weekday"][:3].lower())
    ahead = (day - today.weekday()) % 7
    before = today - ((today.weekday() - day) % 7 or 7) * _DAY
    if which == "last" or (which == "this" and match["past"]):
        return _only(before)
    after = today + (ahead or 7) * _DAY
    if which == "next":
        return _only(after) if _monday(after) > _monday(today) else None
    if which == "this":
        return _only(today + ahead * _DAY) if day >= today.weekday() else None
    if not ahead or _elsewhere(text, match):
        return None
    when = tense(text, match.start())
    return None if when is None else _only(before if when is Tense.PAST else after)


def _month(text: str, match: re.Match[str], today: date) -> Days:
    """Resolve `last March` of the year before, and `in March` by the tense."""
    which, month = match["which"].lower(), MONTHS.index(match["month"]) + 1
    year = None
    if which == "last":
        year = today.year - 1 if month >= today.month else None
    elif which == "next":
        year = today.year + 1 if month <= today.month else None
    elif month == today.month or _elsewhere(text, match):
        return None
    else:
        when = tense(text, match.start())
        if which == "since" or (when is Tense.PAST and which == "in"):
            year = today.year - (month > today.month)
        elif which == "until" or when is Tense.FUTURE:
            year = today.year + (month < today.month)
    return None if year is None else _shifted(date(year, month, 1), "month", 0)


def _day_of_month(text: str, match: re.Match[str], today: date) -> Days:
    """Resolve `March 5th` by the tense."""
    if _elsewhere(text, match):
        return None
    month = MONTHS.index(match["month"] or match["in"]) + 1
    day, when = int((match["day"] or match["of"]).rstrip("stndrh")), tense(text, match.start())
    found = date(today.year, month, day)
    if when is Tense.PAST:
        found = found if found <= today else date(today.year - 1, month, day)
    elif when is Tense.FUTURE:
        found = found if found >= today else date(today.year + 1, month, day)
    else:
        return None
    return _only(found)


def _meant(unit: str, number: int, today: date) -> Days:
    """Resolve a wording of another language; a day of last week where it is the last one of its name, too."""
    if (unit, number) == ("day", 1):
        return None  # in some languages it is the morning, too
    if unit in _SHORT_WEEKDAYS:
        day = _monday(today) - _WEEK + _SHORT_WEEKDAYS.index(unit) * _DAY
        return _only(day) if today - day <= _WEEK else None
    return _shifted(today, unit, number) if abs(number) <= LONGEST_AGO else None


def _only(day: date) -> tuple[date, date]:
    return day, day


def _shifted(today: date, unit: str, number: int) -> tuple[date, date]:
    """Return the day, the week, the month or the year that is so many of them from today."""
    if unit == "day":
        return _only(today + number * _DAY)
    if unit == "week":
        monday = _monday(today) + number * _WEEK
        return monday, monday + 6 * _DAY
    if unit == "month":
        year, month = divmod(today.year * 12 + today.month - 1 + number, 12)
        following = divmod(year * 12 + month + 1, 12)
        return date(year, month + 1, 1), date(following[0], following[1] + 1, 1) - _DAY
    return date(today.year + number, 1, 1), date(today.year + number, 12, 31)


def _monday(day: date) -> date:
    return day - day.weekday() * _DAY


def _value(number: str) -> int | None:
    word = number.lower()
    if word.isdecimal():
        return int(word)
    return 1 if word in ("a", "an") else SMALL.index(word)


def _elsewhere(text: str, match: re.Match[str]) -> bool:
    """Return whether what stands around says that it recurs, or counts from another day."""
    around = text[max(match.start() - _NEAR, 0) : match.end() + _NEAR]
    return _RECURS.search(around) is not None or _OTHER.search(around) is not None


def _hedged(text: str, start: int) -> bool:
    before = text[max(start - _NEAR, 0) : start].split()
    if not before:
        return False
    return before[-1][-1] in "-–/~<>" or before[-1].lower() in _HEDGES or before[-1].isdecimal()


def _quoted(text: str, match: re.Match[str]) -> bool:
    """Return whether it stands alone between marks: a title, not a date."""
    around = text[max(match.start() - 1, 0) : match.start()] + text[match.end() : match.end() + 1]
    return len(around) == 2 and all(each in "\"'“”‘’«»`*_" for each in around)


def _apart(found: list[Told]) -> Iterator[Told]:
    """Return those that do not lie in one before, the longest first where two begin together."""
    end = 0
    for each in sorted(found, key=lambda each: (each.start, -each.end)):
        if each.start >= end:
            end = each.end
            yield each


def _zone(given: object) -> tzinfo | None:
    if not isinstance(given, str) or not given:
        return None
    offset = _OFFSET.fullmatch(given)
    if offset is not None and int(offset[2]) < 24:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(ahead if offset[1] == "+" else -ahead)
    try:
        return ZoneInfo(given)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _rule(pattern: str, *, case: bool = False) -> re.Pattern[str]:
    return re.compile(f"{_BEFORE}(?:{pattern}){_AFTER}", re.NOFLAG if case else re.I)


_AGO: Final = _rule(f"{_NUMBER} {_UNIT} ago")
_IN: Final = _rule(rf"in {_NUMBER} {_UNIT}(?P<sure>['’]? time| from now)?")
_IN_MONTHS: Final = ("uary", "march", "april", "may", "june", "july", "august", "ber")
_RULES: Final[Sequence[tuple[Sequence[str], re.Pattern[str], Callable[[str, re.Match[str], date], Days]]]] = (
    (("before yesterday",), _rule("the day before yesterday"), _near(-2)),
    (("yesterday", "last night"), _rule(rf"yesterday(?:['’]s)?{_PART}|last night(?:['’]s)?"), _near(-1)),
    (("today", "tonight", "this "), _rule("today|tonight|this (?:morning|afternoon|evening)"), _near(0)),
    (("tomorrow",), _rule(rf"tomorrow(?:['’]s)?{_PART}"), _near(1)),
    (("after tomorrow",), _rule("the day after tomorrow"), _near(2)),
    ((" ago",), _AGO, _counted),
    ((" day", " week", " month", " year"), _IN, _counted),
    ((" from ",), _rule(f"{_NUMBER} {_UNIT} from (?:now|today)"), _counted),
    (
        ("last ", "this ", "next "),
        _rule(r"(?P<which>last|this|next) (?P<past>past )?(?P<unit>week|month|year)(?! of\b)(?! and a half)"),
        _period,
    ),
    (("weekend",), _rule(r"(?P<which>last|this|next) (?P<past>past )?weekend"), _weekend),
    (
        _SHORT_WEEKDAYS,
        _rule(rf"(?P<which>last|this|next|on) (?P<past>past )?{_WEEKDAY}{_PART}{_NO_YEAR}{_NOT_ONE}"),
        _weekday,
    ),
    (
        _IN_MONTHS,
        _rule(rf"(?P<which>[Ll]ast|[Nn]ext|[Ii]n|[Ss]ince|[Uu]ntil) {_MONTH}{_NO_YEAR}", case=True),
        _month,
    ),
    (_IN_MONTHS, _rule(rf"(?:on )?(?:the )?{_DAY_OF}{_NO_YEAR}", case=True), _day_of_month),
)
"""What is looked for where one of these parts of words stands, and what resolves it."""
