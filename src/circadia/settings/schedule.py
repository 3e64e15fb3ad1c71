"""An agent's schedule in the file: time zone, routines and blackouts.

Dates without an offset are in the agent's time zone.
"""

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from circadia.errors import InvalidRequest
from circadia.records.coordination import ConsecutiveSkips
from circadia.records.schedule import (
    DAY_MINUTES,
    Blackout,
    BlackoutKeys,
    BlackoutPolicies,
    OneOffBlackout,
    Recurrence,
    RecurrenceRule,
    RecurringBlackout,
    RoutineKeys,
    RoutineSpec,
    Weekday,
    check_blackouts,
    check_cron_steps,
    load_zone,
)
from circadia.settings.section import Section

_T = TypeVar("_T")
_DATE = re.compile(r"[0-9]{4}-", re.ASCII)


class RoutineSettings(RecurrenceRule, RoutineKeys, Section):
    """A task that an agent runs by itself, with exactly one of `every_seconds`, `cron` and `at`."""

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        _call_for_file(lambda: self.spec("UTC"))
        _call_for_file(lambda: check_cron_steps(self.cron or ""))
        return self

    def spec(self, zone: str) -> RoutineSpec:
        keys = dict(self)
        keys["anchor"] = None if self.anchor is None else in_zone(self.anchor, zone)
        keys["at"] = tuple(in_zone(instant, zone) for instant in self.at)
        return RoutineSpec(**keys, recurrence=Recurrence(**keys, zone=zone))


class BlackoutSettings(BlackoutKeys, Section):
    """A quiet time of the agent: each week (`start_time`, `end_time`) or once (`start`, `end`)."""

    type: Literal["recurring", "one_off"] | None = Field(
        None, description="`recurring` or `one_off`; by default inferred from the other keys."
    )

    @field_validator("start_time", "end_time", mode="before")
    @classmethod
    def _read_time(cls, value: object) -> object:
        """Return HH:MM for the number that YAML 1.1 makes of an unquoted 23:00 (base 60), and text for a date."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= DAY_MINUTES:
            return f"{value // 60:02d}:{value % 60:02d}"
        text = value.isoformat() if isinstance(value, date) else value
        if isinstance(text, str):
            _parse_date(text)  # so that the error names this key
        return text

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        _call_for_file(lambda: self.record("UTC"))
        return self

    def record(self, zone: str) -> Blackout:
        (start, end), weekdays = self._bounds(), self._stated_weekdays()
        if isinstance(start, datetime) and isinstance(end, datetime):
            if self.type == "recurring" or weekdays is not None:
                raise InvalidRequest("a blackout with dates is one-off; leave out weekdays, or write times as HH:MM")
            return OneOffBlackout(start=in_zone(start, zone), end=in_zone(end, zone), label=self.label)
        if not isinstance(start, str) or not isinstance(end, str):
            raise InvalidRequest("a blackout has two times of day or two dates, not one of each; write both alike")
        if self.type not in {None, "recurring"}:
            raise InvalidRequest("a one-off blackout has dates, such as 2026-12-23T00:00; write them as start and end")
        on = frozenset(Weekday if weekdays is None else weekdays)
        return RecurringBlackout(start=start, end=end, weekdays=on, label=self.label)

    def _bounds(self) -> tuple[str | datetime, str | datetime]:
        """Return both ends; `start_time` and `end_time` may be dates too."""
        times, dates = (self.start_time, self.end_time), (self.start, self.end)
        pairs = [pair for pair in (times, dates) if any(value is not None for value in pair)]
        if len(pairs) != 1 or pairs[0][0] is None or pairs[0][1] is None:
            raise InvalidRequest("a blackout has either start_time and end_time, or start and end; write one pair")
        return _parse_date(pairs[0][0]), _parse_date(pairs[0][1])

    def _stated_weekdays(self) -> tuple[Weekday, ...] | None:
        return self.weekdays


class ScheduleSettings(Section):
    timezone: str = Field("UTC", description="IANA name of the agent's time zone, such as `Europe/Berlin`.")
    routines: tuple[RoutineSettings, ...] = Field((), description="Tasks that it runs by itself.")
    blackouts: tuple[BlackoutSettings, ...] = Field((), description="Times in which it is left alone.")
    blackout_policies: BlackoutPolicies = Field(
        BlackoutPolicies(), description="How each kind of run is handled during a blackout."
    )
    max_consecutive_skips: ConsecutiveSkips = 5

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        _call_for_file(lambda: load_zone(self.timezone))
        _call_for_file(lambda: check_blackouts(self.blackout_records()))
        names = [spec.name for spec in _call_for_file(self.routine_specs)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two routines are named {twice[0]!r}; rename one")
        return self

    def routine_specs(self) -> tuple[RoutineSpec, ...]:
        return tuple(routine.spec(self.timezone) for routine in self.routines)

    def blackout_records(self) -> tuple[Blackout, ...]:
        return tuple(blackout.record(self.timezone) for blackout in self.blackouts)

    def stated_schedule(self) -> dict[str, Any]:
        """Return the part of the coordination that the file states here, ready for JSON."""
        stated: dict[str, Any] = {}
        if "timezone" in self.model_fields_set:
            stated["zone"] = self.timezone
        if "max_consecutive_skips" in self.model_fields_set:
            stated["max_consecutive_skips"] = self.max_consecutive_skips
        if blackouts := self.blackout_records():
            stated["blackouts"] = [blackout.model_dump(mode="json") for blackout in blackouts]
        if "blackout_policies" in self.model_fields_set:
            stated["blackout_policies"] = self.blackout_policies.model_dump(mode="json")
        return stated


def _parse_date(value: str | datetime) -> str | datetime:
    """Return the instant of a text that begins as a date; another value stays. Raises ValueError for no such date."""
    return datetime.fromisoformat(value) if isinstance(value, str) and _DATE.match(value) else value


def in_zone(instant: datetime, zone: str) -> datetime:
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=load_zone(zone))


def _call_for_file(made: Callable[[], _T]) -> _T:
    """Return the result of `made`; turn the record's refusal into an error that pydantic reports with the path."""
    try:
        return made()
    except InvalidRequest as error:
        raise ValueError(error.message) from error
