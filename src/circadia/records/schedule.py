"""A schedule: an agent's named routines and its blackouts. `wake/scheduling/planning.py` computes when each is due.

The file, requests, answers and stored JSON take the keys with their types, limits and descriptions from here. Records
validate themselves: `InvalidRequest` says what to write instead of values that do not go together.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, model_validator

from circadia.characters import hidden_positions
from circadia.errors import InvalidRequest
from circadia.ids import AgentId, RoutineId
from circadia.suggestions import closest

MIN_EVERY_SECONDS: Final = 60
MAX_EVERY_SECONDS: Final = 30 * 86_400
MAX_SPREAD_SECONDS: Final = 86_400
MAX_CRON_LENGTH: Final = 256
MAX_INSTANTS: Final = 1_000
MAX_NAME_LENGTH: Final = 100
FIRST_YEAR: Final = 1970
LAST_YEAR: Final = 9000
MIN_TIMEOUT_SECONDS: Final = 0.001
MAX_TIMEOUT_SECONDS: Final = 86_400.0
MAX_ROUTINES: Final = 100
"""Limit per agent, its own ones included."""
ALARM_SENDER: Final = "alarm"
"""Who wakes an agent by its own alarm, for display."""
DAY_MINUTES: Final = 24 * 60
_HH_MM: Final = re.compile(r"(?:([01][0-9]|2[0-3]):([0-5][0-9])|24:00)", re.ASCII)
_CRON_STEP: Final = re.compile(r"/([0-9]+)", re.ASCII)
_CRON_SIZES: Final = (60, 24, 31, 12, 7)
"""Numbers of values of minute, hour, day of month, month and day of week."""
_LOCAL: Final = "localtime"
"""Exists in the zone folder of some machines, as a different zone on each."""
_ANY_DAY: Final = datetime(2024, 1, 1)  # noqa: DTZ001 (the cron check needs no zone)


class Weekday(StrEnum):
    """In the order of `date.weekday()`."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


class RunKind(StrEnum):
    """Kinds of runs that blackout policies distinguish."""

    WAKE = "wake"
    SCHEDULE = "schedule"
    ONE_OFF = "one_off"


class BlackoutPolicy(StrEnum):
    """What happens to a run in a blackout: it runs, waits for the end, or is dropped."""

    RUN = "run"
    DEFER = "defer"
    SKIP = "skip"


class BlackoutPolicies(BaseModel):
    """How each kind of run is handled during a blackout: `run`, `defer` to its end, or `skip`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wake: BlackoutPolicy = Field(default=BlackoutPolicy.DEFER, description="Policy for wake requests.")
    schedule: BlackoutPolicy = Field(default=BlackoutPolicy.SKIP, description="Policy for recurring routines.")
    one_off: BlackoutPolicy = Field(default=BlackoutPolicy.RUN, description="Policy for routines with single instants.")

    def policy_for(self, kind: RunKind) -> BlackoutPolicy:
        return {RunKind.WAKE: self.wake, RunKind.SCHEDULE: self.schedule, RunKind.ONE_OFF: self.one_off}[kind]


class RecurrenceRule(BaseModel):
    """When a routine is due: exactly one of `every_seconds`, `cron` and `at`."""

    model_config = ConfigDict(frozen=True)

    every_seconds: int | None = Field(
        default=None,
        ge=MIN_EVERY_SECONDS,
        le=MAX_EVERY_SECONDS,
        description="Interval between two occurrences, 60 to 2592000.",
    )
    """Elapsed time, unaffected by daylight saving."""
    anchor: datetime | None = Field(
        default=None,
        description="Instant that intervals count from, in both directions; Monday 2024-01-01 00:00 by default.",
    )
    offset_seconds: int = Field(default=0, ge=0, description="Delay after each interval step.")
    cron: str | None = Field(
        default=None, description="Minute, hour, day of month, month, day of week, in the agent's zone."
    )
    at: tuple[datetime, ...] = Field(default=(), description="Single instants.")
    jitter_seconds: int = Field(
        default=0, ge=0, le=MAX_SPREAD_SECONDS, description="Maximum random delay of each occurrence."
    )
    """Drawn from the seed; never reaches the next occurrence."""
    stagger_seconds: int = Field(
        default=0,
        ge=0,
        le=MAX_SPREAD_SECONDS,
        description="Maximum random delay of the whole schedule, drawn once per agent.",
    )


class Recurrence(RecurrenceRule):
    """A rule in a time zone, with its instants in UTC and in order."""

    zone: str = "UTC"
    """IANA time zone name."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        forms = [self.every_seconds is not None, self.cron is not None, bool(self.at)]
        if sum(forms) != 1:
            raise InvalidRequest(
                f"a recurrence has exactly one of every_seconds, cron and at, not {sum(forms)} of them; leave one"
            )
        load_zone(self.zone)
        if self.every_seconds is None and (self.anchor is not None or self.offset_seconds):
            raise InvalidRequest("anchor and offset_seconds go with every_seconds only; leave them out")
        if self.at and (self.jitter_seconds or self.stagger_seconds):
            raise InvalidRequest("jitter_seconds and stagger_seconds do not go with at; leave them out")
        if self.every_seconds is not None and self.offset_seconds >= self.every_seconds:
            most = self.every_seconds - 1
            raise InvalidRequest(f"offset_seconds {self.offset_seconds} is out of range; write 0 to {most}")
        if self.anchor is not None:
            object.__setattr__(self, "anchor", to_utc("anchor", self.anchor))
        if self.cron is not None:
            check_cron(self.cron)
        if len(self.at) > MAX_INSTANTS:
            raise InvalidRequest(f"at holds {len(self.at)} instants; the limit is {MAX_INSTANTS}")
        object.__setattr__(self, "at", tuple(sorted({to_utc("at", instant) for instant in self.at})))
        return self

    @property
    def depends_on_zone(self) -> bool:
        """Return whether the due times depend on the zone; instants, and intervals from an anchor, do not."""
        return self.cron is not None or (self.every_seconds is not None and self.anchor is None)

    @property
    def kind(self) -> RunKind:
        """Return the kind that selects its blackout policy."""
        return RunKind.ONE_OFF if self.at else RunKind.SCHEDULE


class BlackoutKeys(BaseModel):
    """The keys with which people write a blackout: each week (`start_time`, `end_time`) or once (`start`, `end`)."""

    model_config = ConfigDict(frozen=True)

    label: str = Field(default="", description="Label for people.", examples=["night"])
    start_time: str | None = Field(
        default=None, description="Time of day at which it starts, HH:MM.", examples=["22:00"]
    )
    end_time: str | None = Field(
        default=None,
        description="Time of day at which it ends, HH:MM; a time not after `start_time` means the next day.",
        examples=["06:00"],
    )
    weekdays: tuple[Weekday, ...] | None = Field(
        default=None, description="Days on which it starts, `mon` to `sun`; default: all."
    )
    start: datetime | None = Field(default=None, description="First instant of a one-off blackout.")
    end: datetime | None = Field(default=None, description="First instant after a one-off blackout.")


def _sort_weekdays(days: frozenset[Weekday]) -> list[Weekday]:
    """Return the days in their order, so that equal blackouts are equal in JSON too."""
    return [day for day in Weekday if day in days]


class RecurringBlackout(BaseModel):
    """A weekly range in which an agent is left alone, from `start` up to but excluding `end`, in the agent's zone."""

    model_config = ConfigDict(frozen=True)

    start: str
    """Wall time HH:MM."""
    end: str
    """Wall time HH:MM; before `start` means the next day, equal means 24 hours; `24:00` is midnight."""
    weekdays: Annotated[frozenset[Weekday], PlainSerializer(_sort_weekdays)] = frozenset(Weekday)
    """Days on which it starts."""
    label: str = ""
    kind: Literal["recurring"] = "recurring"
    """Discriminator in JSON."""

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if parse_minutes("start", self.start) == DAY_MINUTES:
            raise InvalidRequest("a blackout cannot start at '24:00'; write '00:00' and the next weekday")
        parse_minutes("end", self.end)
        if not self.weekdays:
            raise InvalidRequest("a recurring blackout has no weekdays; name one, or leave them out for all")
        return self

    @property
    def minutes(self) -> tuple[int, int]:
        """Return start and end in minutes of wall time after midnight of the start day."""
        start, end = parse_minutes("start", self.start), parse_minutes("end", self.end)
        return start, end if end > start else end + DAY_MINUTES


class OneOffBlackout(BaseModel):
    """A single range in which an agent is left alone, from `start` up to but excluding `end`."""

    model_config = ConfigDict(frozen=True)

    start: datetime
    end: datetime
    label: str = ""
    kind: Literal["one_off"] = "one_off"
    """Discriminator in JSON."""

    @model_validator(mode="after")
    def _convert_to_utc(self) -> Self:
        """Convert both ends to UTC and refuse an empty range."""
        object.__setattr__(self, "start", to_utc("start", self.start))
        object.__setattr__(self, "end", to_utc("end", self.end))
        if self.end <= self.start:
            raise InvalidRequest(f"a blackout from {self.start} to {self.end} has no length; let it end later")
        return self


Blackout = RecurringBlackout | OneOffBlackout


class RoutineKeys(BaseModel):
    """The keys of a routine but for those of its times."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="Name, unique for the agent.", examples=["nightly"])
    instructions: str = Field(default="", description="Instructions for the agent; if empty, it handles its inbox.")
    timeout_seconds: float | None = Field(
        default=None,
        ge=MIN_TIMEOUT_SECONDS,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest pulse; by default the agent's limit.",
    )
    enabled: bool = Field(default=True, description="Run the routine when it is due.")
    blackout_policy: BlackoutPolicy | None = Field(
        default=None,
        description="`run`, `defer` or `skip` during a blackout; by default the value in `blackout_policies`.",
    )
    misfire_grace_seconds: int | None = Field(
        default=300,
        ge=1,
        le=MAX_EVERY_SECONDS,
        description="Maximum delay of an occurrence that still runs; `null` means no limit.",
    )


class RoutineSpec(RoutineKeys):
    """A routine as a person defines it."""

    recurrence: Recurrence

    @model_validator(mode="after")
    def _check_name(self) -> Self:
        is_visible = self.name.isprintable() and not hidden_positions(self.name)
        if not self.name.strip() or not is_visible or len(self.name) > MAX_NAME_LENGTH:
            raise InvalidRequest(
                f"{self.name!r} is not a valid routine name; write 1 to {MAX_NAME_LENGTH} characters on one line"
            )
        return self

    def effective_policy(self, policies: BlackoutPolicies) -> BlackoutPolicy:
        """Return its own policy for blackouts, or else that of its agent for this kind of run."""
        return self.blackout_policy or policies.policy_for(self.recurrence.kind)


@dataclass(frozen=True, kw_only=True, slots=True)
class Routine:
    """A routine of an agent, with its state."""

    id: RoutineId
    """Also the seed of its jitter and stagger."""
    agent_id: AgentId
    spec: RoutineSpec
    next_at: datetime | None = None
    """Next occurrence, or end of the blackout it waits for; none means never."""
    deferred_from: datetime | None = None
    """The occurrence that waits for the end of a blackout."""
    last_at: datetime | None = None
    """The last occurrence that ran."""
    skips: int = 0
    """Consecutive skipped occurrences, for any reason; the start of its pulse resets it."""
    missed: int = 0
    """Total occurrences that were due while no server ran."""
    created_at: datetime
    own: bool = False
    """Whether the agent set it for itself."""
    ends_on_wake: bool = False
    """Whether a wake before its time deletes it."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def is_alarm(self) -> bool:
        """Whether it is a single instant that the agent set for itself."""
        return self.own and bool(self.spec.recurrence.at)


def load_zone(name: str) -> ZoneInfo:
    """Return the IANA zone.

    Raises:
        InvalidRequest: the zone does not exist; the message suggests the nearest name.
    """
    try:
        if name == _LOCAL:
            raise KeyError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # no such file; a path that leads out; a folder such as "Europe"
        known = {zone.casefold(): zone for zone in available_timezones() - {_LOCAL}}
        near = closest(name.casefold(), known, count=1, likeness=0.6)
        hint = f"did you mean {known[near[0]]!r}?" if near else "write one like 'Europe/Berlin' or 'UTC'"
        raise InvalidRequest(f"there is no time zone {name!r}; {hint}") from error


def check_cron(cron: str) -> None:
    """Refuse a cron expression that is malformed or never due.

    Raises:
        InvalidRequest: with the invalid field.
    """
    fields = cron.split()
    if len(cron) > MAX_CRON_LENGTH or len(fields) != 5:
        raise InvalidRequest(
            f"cron {cron[:MAX_CRON_LENGTH]!r} has {len(fields)} fields; write 5 (minute, hour, day of month, month, "
            f"day of week) in at most {MAX_CRON_LENGTH} letters"
        )
    try:
        due = next(CronSim(cron, _ANY_DAY), None)
    except CronSimError as error:
        raise InvalidRequest(f"cron {cron!r} cannot be read or is never due: {error}; correct that field") from error
    if due is None:
        raise InvalidRequest(f"cron {cron!r} is not due once in 50 years; name a day that exists")


def check_cron_steps(cron: str) -> None:
    """Raise InvalidRequest for a step longer than its field (`*/70` is due each hour). Older rows may have one."""
    for field, size in zip(cron.split(), _CRON_SIZES, strict=False):
        for step in _CRON_STEP.findall(field):
            if int(step) > size:
                where = f"cron {cron!r} has a step of {step} in a field of {size} values"
                raise InvalidRequest(f"{where}, which counts anew each time; write at most {size}, or every_seconds")


def parse_minutes(name: str, time: str) -> int:
    """Return the minutes from midnight to HH:MM; `24:00` is 1440.

    Raises:
        InvalidRequest: the format is wrong.
    """
    match = _HH_MM.fullmatch(time)
    if match is None:
        raise InvalidRequest(f"{name} {time!r} is not a time of day; write HH:MM from 00:00 to 23:59, such as '07:30'")
    return DAY_MINUTES if match[1] is None else int(match[1]) * 60 + int(match[2])


def to_utc(name: str, instant: datetime) -> datetime:
    """Return the instant in UTC.

    Raises:
        InvalidRequest: it has no zone, or is too far away for the calendar to plan from it.
    """
    if instant.utcoffset() is None:
        raise InvalidRequest(f"{name} {instant.isoformat()!r} has no zone; add an offset, such as '+00:00' or 'Z'")
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise InvalidRequest(f"{name} {instant.isoformat()!r} is not in the years {FIRST_YEAR} to {LAST_YEAR}")
    return instant.astimezone(UTC)


def check_blackouts(blackouts: Iterable[Blackout]) -> None:
    """Refuse recurring blackouts that cover the whole week.

    Raises:
        InvalidRequest: no minute is left.
    """
    week = 7 * DAY_MINUTES
    ranges = sorted(
        (day * DAY_MINUTES + start + turn, day * DAY_MINUTES + end + turn)
        for blackout in blackouts
        if isinstance(blackout, RecurringBlackout)
        for day, weekday in enumerate(Weekday)
        if weekday in blackout.weekdays
        for start, end in [blackout.minutes]
        for turn in (0, -week)  # the end of Sunday night is the start of the week
    )
    free_from = 0
    for start, end in ranges:
        if start > free_from:
            return
        free_from = max(free_from, end)
    if free_from >= week:
        raise InvalidRequest("the blackouts cover the whole week, so nothing would ever run; disable the agent instead")
