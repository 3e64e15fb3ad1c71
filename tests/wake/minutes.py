"""Naive oracles: they walk over every minute of a stretch of time and look at the zone's clock."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from circadia.records.schedule import Blackout, OneOffBlackout, Weekday

MINUTE = timedelta(minutes=1)
WINDOWS: Mapping[str, tuple[str, str]] = {
    "set forward in Berlin": ("Europe/Berlin", "2026-03-27T12:00"),
    "set back in Berlin": ("Europe/Berlin", "2026-10-23T12:00"),
    "set forward in New York": ("America/New_York", "2026-03-06T12:00"),
    "set back in New York": ("America/New_York", "2026-10-30T12:00"),
    "half an hour forward on Lord Howe": ("Australia/Lord_Howe", "2026-10-01T12:00"),
    "half an hour back on Lord Howe": ("Australia/Lord_Howe", "2026-04-02T12:00"),
    "never set in Kolkata": ("Asia/Kolkata", "2026-03-27T12:00"),
    "a day left out in Apia": ("Pacific/Apia", "2011-12-28T12:00"),
    "set back over midnight in St. John's": ("America/St_Johns", "2010-11-05T12:00"),
    "set forward at midnight in Beirut": ("Asia/Beirut", "2026-03-26T12:00"),
}
"""Stretches of four days around each kind of change of the clock."""
WINDOW_DAYS = 4


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Each minute of a stretch with what the zone's clock shows."""

    zone: str
    minutes: list[datetime]
    walls: list[datetime]

    @property
    def start(self) -> datetime:
        return self.minutes[0]

    @property
    def end(self) -> datetime:
        return self.minutes[-1] + MINUTE


@cache
def walk(zone: str, start: str) -> Walk:
    first = datetime.fromisoformat(start).replace(tzinfo=UTC)
    minutes = [first + n * MINUTE for n in range(WINDOW_DAYS * 1440)]
    info = ZoneInfo(zone)
    return Walk(zone=zone, minutes=minutes, walls=[m.astimezone(info).replace(tzinfo=None, fold=0) for m in minutes])


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A cron rule as sets; none is `*`."""

    minutes: frozenset[int]
    hours: frozenset[int] | None
    days: frozenset[int] | None = None
    weekdays: frozenset[int] | None = None
    """0 is Sunday, as in cron."""

    @property
    def cron(self) -> str:
        return f"{_field(self.minutes)} {_field(self.hours)} {_field(self.days)} * {_field(self.weekdays)}"

    def matches(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or (self.hours is not None and wall.hour not in self.hours):
            return False
        of_month = None if self.days is None else wall.day in self.days
        of_week = None if self.weekdays is None else wall.isoweekday() % 7 in self.weekdays
        given = [match for match in (of_month, of_week) if match is not None]
        return any(given) if given else True


def _field(values: frozenset[int] | None) -> str:
    return "*" if values is None else ",".join(map(str, sorted(values)))


def due_by_cron(rule: Rule, over: Walk) -> list[datetime]:
    """Return the instants at which the rule is due, by a look at each minute."""
    if rule.hours is None:
        return [at for at, wall in zip(over.minutes, over.walls, strict=True) if rule.matches(wall)]
    shown: dict[datetime, datetime] = {}
    for at, wall in zip(over.minutes, over.walls, strict=True):
        shown.setdefault(wall, at)
    found: set[datetime] = set()
    wall = over.walls[0]
    while wall <= over.walls[-1]:
        if rule.matches(wall):
            found.add(shown[wall] if wall in shown else next(shown[later] for later in shown if later > wall))
        wall += MINUTE
    return sorted(found)


def in_blackout(blackouts: list[Blackout], over: Walk) -> list[bool]:
    """Return for each minute whether a blackout holds.

    From the first minute at which the clock has shown the start or more, up to the last at which it shows the end, or
    has not come so far.
    """
    highest = list(_running(over.walls, max))
    lowest = list(reversed(list(_running(list(reversed(over.walls)), min))))
    later = [*lowest[1:], over.walls[-1] + timedelta(days=99)]
    held = [False] * len(over.minutes)
    for blackout in blackouts:
        if isinstance(blackout, OneOffBlackout):
            held = [h or blackout.start <= at < blackout.end for h, at in zip(held, over.minutes, strict=True)]
            continue
        for start, end in _nights(blackout.start, blackout.end, blackout.weekdays, over):
            held = [
                h or (top >= start and (low < end or then <= end))
                for h, top, low, then in zip(held, highest, lowest, later, strict=True)
            ]
    return held


def _running(walls: list[datetime], choose: object) -> Iterator[datetime]:
    best = walls[0]
    for wall in walls:
        best = max(best, wall) if choose is max else min(best, wall)
        yield best


def _nights(start: str, end: str, weekdays: frozenset[Weekday], over: Walk) -> Iterator[tuple[datetime, datetime]]:
    day = over.walls[0].replace(hour=0, minute=0) - timedelta(days=3)
    while day < over.walls[-1] + timedelta(days=3):
        opens = day + timedelta(hours=int(start[:2]), minutes=int(start[3:]))
        closes = day + timedelta(hours=int(end[:2]), minutes=int(end[3:]))
        if f"{day:%a}".lower() in weekdays:
            yield opens, closes if closes > opens else closes + timedelta(days=1)
        day += timedelta(days=1)
