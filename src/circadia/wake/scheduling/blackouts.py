"""Blackouts: the times in which an agent is left alone, for engine, API and dashboard.

A blackout is half-open: it includes its start and excludes its end. A recurring one is wall time in the agent's zone:
it begins when the clock first shows `start` and ends when the clock last shows `end`; for a skipped time it uses the
end of the gap. It never lets an agent out early on days with clock changes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from circadia.records.schedule import Blackout, OneOffBlackout, Weekday, load_zone, to_utc
from circadia.wake.scheduling.wall_clock import first_instant, last_instant, wall_time

_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_ENDLESS: Final = timedelta(days=15)
"""Two weeks and a day: recurring blackouts without a gap for this long have none."""
_WEEKDAYS: Final = tuple(Weekday)


@dataclass(frozen=True, kw_only=True, slots=True)
class BlackoutPeriod:
    """Overlapping or adjacent blackouts, as one period."""

    start: datetime
    """In UTC; without a beginning, some instant more than two weeks back."""
    end: datetime | None
    """The first instant after it outside any blackout, in UTC; None if there is none."""
    labels: tuple[str, ...]
    """Names of the blackouts at the requested instant, or of all in the period."""


def blackout_at(blackouts: Sequence[Blackout], zone: str, at: datetime) -> BlackoutPeriod | None:
    """Return the period of blackouts at `at`, or None. Raises InvalidRequest if `at` has no zone."""
    at = to_utc("at", at)
    ranges = _ranges(blackouts, zone, at, at + _MICROSECOND)
    if not ranges:
        return None
    start, end = min(r.start for r in ranges), max(r.end for r in ranges)
    fixed = [b for b in blackouts if isinstance(b, OneOffBlackout)]
    last = max([at, *(b.end for b in fixed)]) + _ENDLESS
    first = min([at, *(b.start for b in fixed)]) - _ENDLESS
    while end <= last and (further := _ranges(blackouts, zone, end, end + _MICROSECOND)):
        end = max(r.end for r in further)
    while start >= first and (earlier := _ranges(blackouts, zone, start - _MICROSECOND, start)):
        start = min(r.start for r in earlier)
    return BlackoutPeriod(start=start, end=end if end <= last else None, labels=_labels(ranges))


def blackouts_between(
    blackouts: Sequence[Blackout], zone: str, start: datetime, end: datetime
) -> tuple[BlackoutPeriod, ...]:
    """Return the periods of blackouts from `start` to before `end`, clipped to both, in order.

    Raises:
        InvalidRequest: `start` or `end` has no zone, or `zone` is unknown.
    """
    start, end = to_utc("start", start), to_utc("end", end)
    merged: list[list[_Range]] = []
    reach = start
    for span in sorted(_ranges(blackouts, zone, start, end), key=lambda r: (r.start, r.end)):
        if merged and span.start <= reach:
            merged[-1].append(span)
        else:
            merged.append([span])
            reach = span.end
        reach = max(reach, span.end)
    return tuple(
        BlackoutPeriod(
            start=max(start, min(r.start for r in parts)),
            end=min(end, max(r.end for r in parts)),
            labels=_labels(parts),
        )
        for parts in merged
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Range:
    """One occurrence of one blackout."""

    start: datetime
    end: datetime
    label: str


def _labels(ranges: Iterable[_Range]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(r.label for r in ranges if r.label))


def _ranges(blackouts: Sequence[Blackout], zone_name: str, start: datetime, end: datetime) -> list[_Range]:
    """Return each occurrence of a blackout that overlaps the time from `start` to before `end`."""
    near = _ranges_around(blackouts, zone_name, start, end)
    return [span for span in near if span.start < span.end and span.start < end and span.end > start]


def _ranges_around(blackouts: Sequence[Blackout], zone_name: str, start: datetime, end: datetime) -> Iterator[_Range]:
    """Yield the occurrences of the days around, one day more on each side for nights and for skipped days."""
    zone = load_zone(zone_name)
    first = wall_time(start, zone).replace(hour=0, minute=0, second=0, microsecond=0) - 2 * _DAY
    days = (wall_time(end, zone) - first) // _DAY + 2
    for blackout in blackouts:
        if isinstance(blackout, OneOffBlackout):
            yield _Range(start=blackout.start, end=blackout.end, label=blackout.label)
            continue
        opens, closes = blackout.minutes
        for midnight in (first + n * _DAY for n in range(days)):
            if _WEEKDAYS[midnight.weekday()] in blackout.weekdays:
                yield _Range(
                    start=first_instant(midnight + timedelta(minutes=opens), zone),
                    end=last_instant(midnight + timedelta(minutes=closes), zone),
                    label=blackout.label,
                )
