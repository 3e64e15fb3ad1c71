"""Resolves dates relative to the day of a message, such as `yesterday`, to calendar dates (SLEEP-24).

The phrases are those of Unicode's CLDR (`date_phrases`), for all languages alike. Others, such as `on Monday`, are left
to the model, which sees the day of each message and writes calendar dates.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from circadia.memory.date_phrases import WEEKDAYS, Phrase, find_phrases
from circadia.records.bank import Trust
from circadia.records.episode import Episode

MAX_CHARACTERS: Final = 20_000
"""Characters of a text to read."""
CACHED_TEXTS: Final = 2_000
"""Texts whose dates are cached: several operations of a page need the same."""
LONGEST_AGO: Final = 100
"""Maximum distance from a message in years, months, weeks or days."""
TRUST_WITHOUT_DAY: Final = frozenset({Trust.TOOL, Trust.EXTERNAL})
"""Texts of this trust may be older than the day on which they were stored."""
UTC_OFFSET: Final = "utc_offset"
"""Metadata key of the offset of the speaker's clock, such as `+02:00`: times are stored in UTC."""
_ZONES: Final = ("timezone", "zone", UTC_OFFSET)
"""Metadata keys of an episode for the speaker's zone or offset."""
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)?")
_BESIDE: Final = re.compile(r" \((?:week of )?\d{4}")
"""A date in brackets; `week of` is from releases before this one."""
_IS_BESIDE: Final = rf"{_BESIDE.pattern}[^)]*\)"
_MARKS: Final = "\"'“”‘’«»「」『』`*_"
_QUOTATION: Final = re.compile(r"\"[^\"\n]*\"|“[^“”\n]*”|„[^„“”\n]*[“”]|«[^«»\n]*»|「[^「」\n]*」|『[^『』\n]*』")
_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedDate:
    start: int
    end: int
    first: date
    last: date

    @property
    def iso(self) -> str:
        """Return a day, a month, a year or a week, as exact as the phrase."""
        first, days = self.first.isoformat(), (self.last - self.first).days + 1
        if days == 1:
            return first
        if days == len(WEEKDAYS):
            return f"{first} – {self.last.isoformat()}"
        return first[:4] if days > 31 else first[:7]


def local_time(episode: Episode) -> datetime:
    """Return the time by the speaker's clock if the metadata has its zone; else as it was stored or read."""
    zone = _find_zone(episode.metadata)
    return episode.at if zone is None else episode.at.astimezone(zone)


def in_zone(episode: Episode, zone: tzinfo | None) -> Episode:
    """Return an episode with its time in a zone, where the speaker's own is not known."""
    return episode if zone is None else replace(episode, at=episode.at.astimezone(zone))


def keep_offset(metadata: Mapping[str, object], at: datetime | None) -> Mapping[str, object]:
    """Return metadata with the offset that a time has, unless they have a zone already: the time is stored in UTC."""
    offset = None if at is None else at.utcoffset()
    if not offset or UTC_OFFSET in metadata or _find_zone(metadata) is not None:
        return metadata
    return {**metadata, UTC_OFFSET: f"{timezone(offset)}"[3:]}


def episode_text_with_dates(episode: Episode) -> str:
    """Return an episode's text with dates added to its phrases; texts of tools and strangers stay as they are."""
    if episode.trust in TRUST_WITHOUT_DAY:
        return episode.text
    return add_dates(episode.text, local_time(episode))


def add_dates(text: str, at: datetime) -> str:
    """Return a text with the date beside each phrase for the day `at`: `yesterday (2023-05-07)`."""
    parts, upto = list[str](), 0
    for resolved_date in find_relative_dates(text, at):
        parts += (text[upto : resolved_date.end], f" ({resolved_date.iso})")
        upto = resolved_date.end
    return "".join((*parts, text[upto:]))


def add_dates_from_sources(text: str, sources: Sequence[tuple[str, datetime]]) -> str:
    """Return a text derived from sources, each a text and its time, with the dates beside its phrases.

    A phrase means what it means in the newest source that has it; without such a source it stays as it is.
    """
    newest = sorted(sources, key=lambda source: source[1], reverse=True)
    dated = [add_dates(*source) for source in newest]
    parts, upto = list[str](), 0
    for resolved_date in find_relative_dates(text, newest[0][1]) if newest else ():
        wording = re.compile(re.escape(text[resolved_date.start : resolved_date.end]) + _IS_BESIDE, re.IGNORECASE)
        meant = next((date_beside[0] for source in dated if (date_beside := wording.search(source))), None)
        if meant is not None:
            parts += (text[upto : resolved_date.end], meant[resolved_date.end - resolved_date.start :])
            upto = resolved_date.end
    return "".join((*parts, text[upto:]))


def first_open_date(text: str) -> str:
    """Return the first relative date without a calendar date beside it, empty without one; quotations are ignored."""
    plain = _QUOTATION.sub(lambda quoted: "¤" * len(quoted[0]), text[:MAX_CHARACTERS])
    return next((phrase.match[0] for phrase in _find_undated_phrases(plain)), "")


def find_relative_dates(text: str, at: datetime) -> Sequence[ResolvedDate]:
    """Return the unambiguous relative dates without a date beside them; `at` is in the speaker's zone."""
    return _find_relative_dates(text[:MAX_CHARACTERS], at.date())


@lru_cache(maxsize=CACHED_TEXTS)
def _find_relative_dates(text: str, today: date) -> Sequence[ResolvedDate]:
    dates: list[ResolvedDate] = []
    for match, unit, number in _find_undated_phrases(text):
        try:
            days = _day_range(unit, number, today)
        except (ValueError, OverflowError):  # outside of the calendar
            continue
        if days is not None:
            dates.append(ResolvedDate(start=match.start(), end=match.end(), first=days[0], last=days[1]))
    return tuple(_drop_overlaps(dates))


def _find_undated_phrases(text: str) -> Iterator[Phrase]:
    """Yield the relative dates without a date beside them; a phrase alone between quotation marks is a title."""
    for phrase in find_phrases(text):
        start, end = phrase.match.span()
        around = text[max(start - 1, 0) : start] + text[end : end + 1]
        if not _BESIDE.match(text, end) and not (len(around) == 2 and all(mark in _MARKS for mark in around)):
            yield phrase


def _day_range(unit: str, number: int, today: date) -> tuple[date, date] | None:
    """Return the first and last day; for a weekday of last week only if no later one has passed."""
    if unit in WEEKDAYS:
        day = _monday(today) - _WEEK + WEEKDAYS.index(unit) * _DAY
        return (day, day) if today - day <= _WEEK else None
    if abs(number) > LONGEST_AGO:
        return None
    if unit == "day":
        return today + number * _DAY, today + number * _DAY
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


def _drop_overlaps(found: list[ResolvedDate]) -> Iterator[ResolvedDate]:
    """Yield the dates that do not overlap an earlier one, the longest first."""
    end = 0
    for resolved_date in sorted(found, key=lambda resolved_date: (resolved_date.start, -resolved_date.end)):
        if resolved_date.start >= end:
            end = resolved_date.end
            yield resolved_date


def _find_zone(metadata: Mapping[str, object]) -> tzinfo | None:
    found = (parse_zone(metadata.get(name)) for name in _ZONES) if metadata else ()
    return next((zone for zone in found if zone is not None), None)


def parse_zone(given: object) -> tzinfo | None:
    """Return an IANA zone or an offset such as `+02:00`; none if it is neither."""
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
