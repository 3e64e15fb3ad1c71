"""Which times an agent is left alone in. The engine, the API and the dashboard ask here.

A blackout is half-open: its first instant is in, its last is not. A recurring one is wall time in the agent's zone: it
begins when the clock first shows `start` and ends when the clock last shows `end`; where the clock leaves a time out,
the end of the gap stands for it. On a day without clock changes that is what it says; on the others it never lets an
agent out early.
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
"""Two weeks and a day: recurring blackouts that leave no gap for so long leave none."""
_WEEKDAYS: Final = tuple(Weekday)


@dataclass(frozen=True, kw_only=True, slots=True)
class BlackoutPeriod:
    """A stretch of blackouts that overlap or touch."""

    start: datetime
    """Its first instant, in UTC; of one without a beginning, some instant more than two weeks back."""
    end: datetime | None
    """The first instant after it that is in no blackout, in UTC; none if there is no such instant."""
    labels: tuple[str, ...]
    """What people call the blackouts: those that hold at the instant asked for, or all in the stretch."""


def blackout_at(blackouts: Sequence[Blackout], zone: str, at: datetime) -> BlackoutPeriod | None:
    """Return the stretch of blackouts that holds at `at`, or none.

    Raises:
        InvalidRequest: `at` or the zone is none.
    """
    at = to_utc("at", at)
    held = _ranges(blackouts, zone, at, at + _MICROSECOND)
    if not held:
        return None
    start, end = min(r.start for r in held), max(r.end for r in held)
    fixed = [b for b in blackouts if isinstance(b, OneOffBlackout)]
    last = max([at, *(b.end for b in fixed)]) + _ENDLESS
    first = min([at, *(b.start for b in fixed)]) - _ENDLESS
    while end <= last and (further := _ranges(blackouts, zone, end, end + _MICROSECOND)):
        end = max(r.end for r in further)
    while start >= first and (earlier := _ranges(blackouts, zone, start - _MICROSECOND, start)):
        start = min(r.start for r in earlier)
    return BlackoutPeriod(start=start, end=end if end <= last else None, labels=_labels(held))


def blackouts_between(
    blackouts: Sequence[Blackout], zone: str, start: datetime, end: datetime
) -> tuple[BlackoutPeriod, ...]:
    """Return the stretches of blackouts from `start` up to and without `end`, cut off at both, in order.

    Raises:
        InvalidRequest: `start`, `end` or the zone is none.
    """
    start, end = to_utc("start", start), to_utc("end", end)
    merged: list[list[_Range]] = []
    reach = start
    for held in sorted(_ranges(blackouts, zone, start, end), key=lambda r: (r.start, r.end)):
        if merged and held.start <= reach:
            merged[-1].append(held)
        else:
            merged.append([held])
            reach = held.end
        reach = max(reach, held.end)
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
    """One blackout, once."""

    start: datetime
    end: datetime
    label: str


def _labels(ranges: Iterable[_Range]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(r.label for r in ranges if r.label))


def _ranges(blackouts: Sequence[Blackout], zone_name: str, start: datetime, end: datetime) -> list[_Range]:
    """Return each blackout, as often as it overlaps the time from `start` up to and without `end`."""
    near = _ranges_around(blackouts, zone_name, start, end)
    return [found for found in near if found.start < found.end and found.start < end and found.end > start]


def _ranges_around(blackouts: Sequence[Blackout], zone_name: str, start: datetime, end: datetime) -> Iterator[_Range]:
    """Yield the ranges of the days around, a day more on each side for nights and for days that a clock leaves out."""
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
