"""Section `agents`: an agent's policy, and its schedule of routines and blackouts.

DjinnBot's names for a schedule are accepted too: the `pulse_*` keys, and `days_of_week` and `one-off` of a blackout.
Dates without an offset are in the agent's time zone.
"""

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from circadia.errors import InvalidRequest
from circadia.records.agent import DEFAULT_WAKE_EVENTS, AgentPolicy, SleepEvent, WakeEvent
from circadia.records.coordination import ConsecutiveSkips, WakeRules
from circadia.records.hook import HookKeys
from circadia.records.schedule import (
    DAY_MINUTES,
    MAX_EVERY_SECONDS,
    MAX_TIMEOUT_SECONDS,
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
from circadia.records.variable_name import VariableName
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


_PULSE_MINUTES = 30
_FROM_SUNDAY = (Weekday.SUN, *tuple(Weekday)[:6])


class DjinnbotBlackoutSettings(BlackoutSettings):
    """A blackout that may have DjinnBot's names too."""

    days_of_week: tuple[Annotated[int, Field(ge=0, le=6)], ...] | None = Field(
        None, description="In a blackout: `weekdays` in DjinnBot's numbering, where 0 is Sunday."
    )

    @field_validator("type", mode="before")
    @classmethod
    def _accept_hyphen(cls, value: object) -> object:
        return "one_off" if value == "one-off" else value

    def _stated_weekdays(self) -> tuple[Weekday, ...] | None:
        if self.days_of_week is None:
            return self.weekdays
        if self.weekdays is not None:
            raise InvalidRequest("weekdays and days_of_week say the same; leave one out")
        return tuple(_FROM_SUNDAY[day] for day in self.days_of_week)


class DjinnbotScheduleSettings(ScheduleSettings):
    """A schedule that may have DjinnBot's names too."""

    blackouts: tuple[DjinnbotBlackoutSettings, ...] = Field(  # pyright: ignore[reportIncompatibleVariableOverride] frozen
        (), description="Times in which it is left alone; each may have `days_of_week`."
    )
    pulse_enabled: bool | None = Field(
        None, description="Turns the routine `pulse` of the other `pulse_*` keys on or off; on if one of them is set."
    )
    pulse_interval_minutes: int | None = Field(
        None, ge=1, le=MAX_EVERY_SECONDS // 60, description="Interval of the routine `pulse`; 30 by default."
    )
    pulse_offset_minutes: int = Field(0, ge=0, description="Delay of the routine `pulse` after each interval step.")
    pulse_blackouts: tuple[DjinnbotBlackoutSettings, ...] = Field((), description="More blackouts.")
    pulse_one_offs: tuple[datetime, ...] = Field((), description="Single instants of the routine `pulse one-offs`.")
    pulse_max_consecutive_skips: int | None = Field(None, ge=1, description="Overrides `max_consecutive_skips`.")
    pulse_container_timeout_ms: int | None = Field(
        None, gt=0, le=int(MAX_TIMEOUT_SECONDS * 1_000), description="Longest pulse of both routines."
    )

    def routine_specs(self) -> tuple[RoutineSpec, ...]:
        """Return the records of the routines, those of the `pulse_*` keys last."""
        recurring = self.pulse_interval_minutes is not None or self.pulse_offset_minutes > 0
        recurrences: dict[str, Recurrence] = {}
        if recurring or self.pulse_enabled is not None:
            recurrences["pulse"] = Recurrence(
                every_seconds=(self.pulse_interval_minutes or _PULSE_MINUTES) * 60,
                offset_seconds=self.pulse_offset_minutes * 60,
                zone=self.timezone,
            )
        if self.pulse_one_offs:
            instants = tuple(in_zone(instant, self.timezone) for instant in self.pulse_one_offs)
            recurrences["pulse one-offs"] = Recurrence(at=instants, zone=self.timezone)
        timeout = None if self.pulse_container_timeout_ms is None else self.pulse_container_timeout_ms / 1_000
        on = self.pulse_enabled is not False
        pulses = (
            RoutineSpec(name=name, recurrence=recurrence, timeout_seconds=timeout, enabled=on)
            for name, recurrence in recurrences.items()
        )
        return (*super().routine_specs(), *pulses)

    def blackout_records(self) -> tuple[Blackout, ...]:
        return (*super().blackout_records(), *(blackout.record(self.timezone) for blackout in self.pulse_blackouts))

    def stated_schedule(self) -> dict[str, Any]:
        stated = super().stated_schedule()
        if self.pulse_max_consecutive_skips is not None:
            stated["max_consecutive_skips"] = self.pulse_max_consecutive_skips
        return stated


class CoordinationSettings(WakeRules, Section):
    """How the agent may be woken."""


class HookSettings(HookKeys, Section):
    """A signed webhook of a sender outside, such as GitHub or Slack."""


class AgentSettings(AgentPolicy, DjinnbotScheduleSettings):
    """An agent of the session `default` that the file defines."""

    token_env: VariableName | None = Field(
        None, description="Environment variable with its token; without it, `circadia agents token` makes one."
    )
    description: str = Field("", description="Purpose of the agent, shown to other agents.")
    sleep_events: frozenset[SleepEvent] = Field(frozenset(), description="Events that put it to sleep.")
    wake_events: frozenset[WakeEvent] = Field(DEFAULT_WAKE_EVENTS, description="Events that wake it.")
    coordination: CoordinationSettings = Field(CoordinationSettings.model_validate({}), description="Wake settings.")

    def list_policy(self) -> dict[str, object]:
        """Return the values of its policy."""
        return {key: getattr(self, key) for key in AgentPolicy.model_fields}

    def stated_coordination(self) -> dict[str, Any]:
        """Return the coordination that the file states, including zone and blackouts, ready for JSON."""
        return self.coordination.model_dump(mode="json", exclude_unset=True) | self.stated_schedule()
