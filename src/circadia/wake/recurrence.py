"""When a recurrence is due. Pure: the same question has the same answer, whenever and wherever it is asked.

Intervals are elapsed time: `every_seconds: 86400` is due each 86,400 s and so an hour later on the wall clock after
the clocks are set forward. What should keep its wall time is a cron rule.

Cron is wall time in its zone. A time that the clock leaves out is due once, at the end of the gap; a time that it shows
twice is due once, the first time. A rule for each hour of the day (hour field `*`) follows the clock instead, so that
no hour is silent: it is due in both of the hours that are shown twice, and not at the end of a gap. Debian's cron draws
the same line. If neither day field starts with `*`, one of the two is enough; else both must match.

Jitter and stagger only delay. They are drawn from the seed (and, for jitter, the occurrence), so a restart or a plan
made anew gives the same instant.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from cronsim import CronSim

from circadia.records.schedule import Recurrence, aware, zone_named
from circadia.wake.wall import first_instant, instants, wall_at

MAX_COUNTED: Final = 1_000
MICROSECOND: Final = timedelta(microseconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LOOK_BACK: Final = timedelta(minutes=1)
_ANCHOR: Final = datetime(2024, 1, 1)  # noqa: DTZ001 (a Monday's midnight on the wall of each zone)
_DRAWS: Final = 1 << 64


def next_after(recurrence: Recurrence, after: datetime, *, seed: str) -> datetime | None:
    """Return the first occurrence strictly after `after`, in UTC, or none if there is none left.

    Raises:
        InvalidRequest: `after` has no zone.
    """
    after = aware("after", after)
    if recurrence.at:
        place = bisect_right(recurrence.at, after)
        return recurrence.at[place] if place < len(recurrence.at) else None
    shift = _stagger(recurrence, seed)
    try:
        unshifted = after - shift
        if recurrence.jitter_seconds:
            last = _last_base(recurrence, unshifted, timedelta(seconds=recurrence.jitter_seconds))
            if last is not None and (late := _jittered(recurrence, last, seed)) > unshifted:
                return late + shift
        base = _next_base(recurrence, unshifted)
        return None if base is None else _jittered(recurrence, base, seed) + shift
    except OverflowError:  # the year 10000, or before the year 1
        return None


def occurrences(recurrence: Recurrence, start: datetime, end: datetime, seed: str) -> Iterator[datetime]:
    """Yield the occurrences from `start` up to and without `end`, in order."""
    at = next_after(recurrence, aware("start", start) - MICROSECOND, seed=seed)
    while at is not None and at < end:
        yield at
        at = next_after(recurrence, at, seed=seed)


def last_between(recurrence: Recurrence, first: datetime, last: datetime, *, seed: str) -> datetime | None:
    """Return the last occurrence from `first` up to and with `last`, without a walk over all between."""
    if recurrence.at:
        place = bisect_right(recurrence.at, last)
        return recurrence.at[place - 1] if place and recurrence.at[place - 1] >= first else None
    back = _LOOK_BACK
    while True:
        start = max(first, last - back)
        found = None
        for found in occurrences(recurrence, start, last + MICROSECOND, seed):
            pass
        if found is not None or start == first:
            return found
        back *= 2


def count_between(recurrence: Recurrence, first: datetime, last: datetime, *, seed: str) -> int:
    """Return the number of occurrences from `first` up to and with `last`; of cron rules, 1,000 means that or more."""
    if last < first:
        return 0
    if recurrence.at:
        return bisect_right(recurrence.at, last) - bisect_left(recurrence.at, first)
    if recurrence.every_seconds is not None:
        shown = next_after(recurrence, first - MICROSECOND, seed=seed)
        final = last_between(recurrence, first, last, seed=seed)
        if shown is None or final is None:
            return 0
        # Jitter is shorter than an interval, so a rounded down count of intervals is off by at most the part of one.
        every = timedelta(seconds=recurrence.every_seconds)
        phase = _phase(recurrence) + _stagger(recurrence, seed)
        return (final - phase) // every - (shown - phase) // every + 1
    number = 0
    for _ in occurrences(recurrence, first, last + MICROSECOND, seed):
        number += 1
        if number == MAX_COUNTED:
            break
    return number


def _draw(*parts: str) -> int:
    """Return a number below 2**64 that depends on the parts only."""
    return int.from_bytes(hashlib.blake2b("\n".join(parts).encode(), digest_size=8).digest(), "big")


def _share(span: timedelta, draw: int) -> timedelta:
    """Return the drawn share of the span, in whole milliseconds and less than the span."""
    return (span // _MILLISECOND * draw // _DRAWS) * _MILLISECOND


def _stagger(recurrence: Recurrence, seed: str) -> timedelta:
    return _share(timedelta(seconds=recurrence.stagger_seconds), _draw("stagger", seed))


def _jittered(recurrence: Recurrence, base: datetime, seed: str) -> datetime:
    """Return the occurrence of the rule, delayed by its draw and still before the next one."""
    if not recurrence.jitter_seconds:
        return base
    room = timedelta(seconds=recurrence.jitter_seconds)
    following = _next_base(recurrence, base)
    if following is not None:
        room = min(room, following - base)
    return base + _share(room, _draw("jitter", seed, base.isoformat()))


def _next_base(recurrence: Recurrence, after: datetime) -> datetime | None:
    """Return the rule's first occurrence after the instant, before jitter and stagger."""
    if recurrence.every_seconds is not None:
        every, phase = timedelta(seconds=recurrence.every_seconds), _phase(recurrence)
        return phase + ((after - phase) // every + 1) * every
    assert recurrence.cron is not None
    return _next_cron(recurrence.cron, recurrence.zone, after)


def _last_base(recurrence: Recurrence, at: datetime, span: timedelta) -> datetime | None:
    """Return the rule's last occurrence in the `span` that ends with `at`."""
    if recurrence.every_seconds is not None:
        found = _next_base(recurrence, at)
        assert found is not None
        found -= timedelta(seconds=recurrence.every_seconds)
        return found if found > at - span else None
    back, last = _LOOK_BACK, None
    while last is None:
        back = min(back, span)
        base = _next_base(recurrence, at - back)
        while base is not None and base <= at:
            last, base = base, _next_base(recurrence, base)
        if back == span:
            break
        back *= 2
    return last


def _phase(recurrence: Recurrence) -> datetime:
    anchor = recurrence.anchor or first_instant(_ANCHOR, zone_named(recurrence.zone))
    return anchor + timedelta(seconds=recurrence.offset_seconds)


def _next_cron(cron: str, zone_name: str, after: datetime) -> datetime | None:
    """Return the first instant after `after` at which the rule is due on the zone's wall clock.

    The walk over wall times is bounded: 50 years without a match end it (cronsim), and no more times are passed over
    than a gap or a repeated hour holds.
    """
    zone = zone_named(zone_name)
    wall = wall_at(after, zone)
    walls = CronSim(cron, wall)
    if len(walls.hours) < 24:
        return next((at for due in walls if (at := first_instant(due, zone)) > after), None)
    upcoming = next((at for due in walls for at in instants(due, zone) if at > after), None)
    shown = instants(wall, zone)
    if len(shown) == 2 and after == shown[0]:
        # The clock will be set back over times before `wall`, which the walk has behind it.
        for due in CronSim(cron, wall - (shown[1] - shown[0])):
            repeated = instants(due, zone)
            if due > wall:
                break
            if len(repeated) == 2 and repeated[1] > after:
                return repeated[1] if upcoming is None else min(upcoming, repeated[1])
    return upcoming
