"""Wall clock of a zone: the instants that show a time of day, on days of 23 and 25 hours too."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from circadia.records.schedule import load_zone

SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


def wall_time(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return the zone's wall time at the instant, naive."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def instants(wall: datetime, zone: ZoneInfo) -> tuple[datetime, ...]:
    """Return the instants at which the zone's clock shows `wall`: one, two where it was set back, none in a gap."""
    early, late = zone.utcoffset(wall), zone.utcoffset(wall.replace(fold=1))
    if early == late:
        return (_to_instant(wall, early),)
    first, second = _to_instant(wall, early), _to_instant(wall, late)
    return (first, second) if first < second else ()


def first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant at which the clock shows `wall`, or the end of the gap that skips it."""
    wall_instants = instants(wall, zone)
    return wall_instants[0] if wall_instants else _end_of_gap(wall, zone)


def last_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the last instant at which the clock shows `wall`, or the end of the gap that skips it."""
    wall_instants = instants(wall, zone)
    return wall_instants[-1] if wall_instants else _end_of_gap(wall, zone)


def day_bounds(zone_name: str, now: datetime) -> tuple[datetime, datetime]:
    """Return start and end of the current day in the zone: 23, 24 or 25 hours (WAKE-15)."""
    if zone_name == "UTC":  # the most common and cheapest case
        start = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return start, start + _DAY
    zone = load_zone(zone_name)
    midnight = wall_time(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return first_instant(midnight, zone), first_instant(midnight + _DAY, zone)


def _to_instant(wall: datetime, offset: timedelta | None) -> datetime:
    assert offset is not None
    return (wall - offset).replace(tzinfo=UTC)


def _end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant at which the clock was set forward over `wall`.

    The two readings of a time that does not exist enclose it (PEP 495): fold 1 reads it by the offset after the gap and
    so lands before it. Changes of an offset are at whole seconds.
    """
    before, after = _to_instant(wall, zone.utcoffset(wall.replace(fold=1))), _to_instant(wall, zone.utcoffset(wall))
    offset = after.astimezone(zone).utcoffset()
    seconds = int((after - before) / SECOND)
    low, high = 0, seconds
    while high - low > 1:
        middle = (low + high) // 2
        if (after - (seconds - middle) * SECOND).astimezone(zone).utcoffset() == offset:
            high = middle
        else:
            low = middle
    return (after - (seconds - high) * SECOND).replace(microsecond=0)
