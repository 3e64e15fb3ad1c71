"""Occurrences of a recurrence. Pure: the same arguments give the same answer, anywhere and at any time.

Intervals are elapsed time: `every_seconds: 86400` is due each 86,400 s, so an hour later on the wall clock after the
clocks go forward. Use a cron rule to keep a wall time.

Cron is wall time in its zone. A time that the clock skips is due once, at the end of the gap; a repeated time is due
once, the first time. A rule for every hour (hour field `*`) follows the clock instead, so that no hour is silent: it is
due in both repeated hours, and not at the end of a gap. Debian's cron does the same. If neither day field starts with
`*`, one of the two is enough; else both must match.

Jitter and stagger only delay. They are drawn from the seed (and, for jitter, the occurrence), so a restart or a new
plan gives the same instant.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from cronsim import CronSim

from circadia.records.schedule import Recurrence, load_zone, to_utc
from circadia.wake.scheduling.wall_clock import first_instant, instants, wall_time

MAX_COUNTED: Final = 1_000
MICROSECOND: Final = timedelta(microseconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LOOK_BACK: Final = timedelta(minutes=1)
_ANCHOR: Final = datetime(2024, 1, 1)  # noqa: DTZ001 (a Monday's midnight on the wall of each zone)
_DRAWS: Final = 1 << 64
_HOURS: Final = 24


def next_after(recurrence: Recurrence, after: datetime, *, seed: str) -> datetime | None:
    """Return the first occurrence strictly after `after`, in UTC, or None. Raises InvalidRequest without a zone."""
    return next(_occurrences_after(recurrence, to_utc("after", after), seed), None)


def occurrences(recurrence: Recurrence, start: datetime, end: datetime, seed: str) -> Iterator[datetime]:
    """Yield the occurrences from `start` to before `end`, in order. Raises InvalidRequest without a zone."""
    end = to_utc("end", end)
    return takewhile(lambda at: at < end, _occurrences_after(recurrence, to_utc("start", start) - MICROSECOND, seed))


def last_between(recurrence: Recurrence, first: datetime, last: datetime, *, seed: str) -> datetime | None:
    """Return the last occurrence from `first` to `last`, both included, without iterating over all."""
    if recurrence.at:
        place = bisect_right(recurrence.at, last)
        return recurrence.at[place - 1] if place and recurrence.at[place - 1] >= first else None
    back = _LOOK_BACK
    while True:
        start = max(first, last - back)
        due = [*occurrences(recurrence, start, last + MICROSECOND, seed)]
        if due or start == first:
            return due[-1] if due else None
        back *= 2


def count_between(recurrence: Recurrence, first: datetime, last: datetime, *, seed: str) -> int:
    """Return the number of occurrences from `first` to `last`, both included; for cron rules it stops at 1,000."""
    if last < first:
        return 0
    if recurrence.at:
        return bisect_right(recurrence.at, last) - bisect_left(recurrence.at, first)
    if recurrence.every_seconds is not None:
        initial = next_after(recurrence, first - MICROSECOND, seed=seed)
        final = last_between(recurrence, first, last, seed=seed)
        if initial is None or final is None:
            return 0
        # Jitter is shorter than an interval, so the rounded count of intervals is off by less than one.
        every = timedelta(seconds=recurrence.every_seconds)
        phase = _first_base(recurrence) + _stagger(recurrence, seed)
        return (final - phase) // every - (initial - phase) // every + 1
    number = 0
    for _ in occurrences(recurrence, first, last + MICROSECOND, seed):
        number += 1
        if number == MAX_COUNTED:
            break
    return number


def _draw(*parts: str) -> int:
    """Return a number below 2**64 that depends only on the parts."""
    return int.from_bytes(hashlib.blake2b("\n".join(parts).encode(), digest_size=8).digest(), "big")


def _share(span: timedelta, draw: int) -> timedelta:
    """Return the drawn share of the span, in whole milliseconds and less than the span."""
    return (span // _MILLISECOND * draw // _DRAWS) * _MILLISECOND


def _stagger(recurrence: Recurrence, seed: str) -> timedelta:
    return _share(timedelta(seconds=recurrence.stagger_seconds), _draw("stagger", seed))


def _occurrences_after(recurrence: Recurrence, after: datetime, seed: str) -> Iterator[datetime]:
    if recurrence.at:
        yield from recurrence.at[bisect_right(recurrence.at, after) :]
        return
    shift = _stagger(recurrence, seed)
    unshifted = after - shift
    jitter = timedelta(seconds=recurrence.jitter_seconds)
    if not jitter:
        yield from (base + shift for base in _bases(recurrence, unshifted))
        return
    # The previous one may be delayed so much that it is still to come.
    last = _last_base(recurrence, unshifted, jitter)
    bases = _bases(recurrence, unshifted if last is None else last - MICROSECOND)
    base = next(bases, None)
    while base is not None:
        following = next(bases, None)
        room = jitter if following is None else min(jitter, following - base)
        late = base + _share(room, _draw("jitter", seed, base.isoformat()))
        if late > unshifted:
            yield late + shift
        base = following


def _bases(recurrence: Recurrence, after: datetime) -> Iterator[datetime]:
    """Yield the rule's occurrences after the instant, before jitter and stagger."""
    if recurrence.every_seconds is None:
        assert recurrence.cron is not None
        yield from _cron_instants(recurrence.cron, recurrence.zone, after)
        return
    every, phase = timedelta(seconds=recurrence.every_seconds), _first_base(recurrence)
    base = phase + ((after - phase) // every + 1) * every
    while True:
        yield base
        base += every


def _last_base(recurrence: Recurrence, at: datetime, span: timedelta) -> datetime | None:
    """Return the rule's last occurrence in the `span` that ends with `at`."""
    if recurrence.every_seconds is not None:
        last = next(_bases(recurrence, at)) - timedelta(seconds=recurrence.every_seconds)
        return last if last > at - span else None
    back = min(_LOOK_BACK, span)
    while True:
        bases = [*takewhile(lambda base: base <= at, _bases(recurrence, at - back))]
        if bases or back == span:
            return bases[-1] if bases else None
        back = min(2 * back, span)


def _first_base(recurrence: Recurrence) -> datetime:
    anchor = recurrence.anchor or first_instant(_ANCHOR, load_zone(recurrence.zone))
    return anchor + timedelta(seconds=recurrence.offset_seconds)


def _cron_instants(cron: str, zone_name: str, after: datetime) -> Iterator[datetime]:
    """Yield the instants after `after` at which the rule is due on the zone's wall clock.

    It ends after 50 years without a match (cronsim), and skips at most the times of one gap or repeated hour.
    """
    zone = load_zone(zone_name)
    wall = wall_time(after, zone)
    walls = CronSim(cron, wall)
    if len(walls.hours) < _HOURS:
        for due in walls:
            if (at := first_instant(due, zone)) > after:
                yield at
                after = at
        return
    wall_instants = instants(wall, zone)
    if len(wall_instants) > 1:  # the repeated hour may have begun before this wall time
        walls = CronSim(cron, wall - (wall_instants[-1] - wall_instants[0]))
    again: list[datetime] = []
    for due in walls:
        wall_instants = instants(due, zone)
        if len(wall_instants) == 1:
            yield from (at for at in again if at > after)
            again.clear()
        again += wall_instants[1:]
        yield from (at for at in wall_instants[:1] if at > after)
    yield from (at for at in again if at > after)
