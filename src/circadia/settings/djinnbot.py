"""DjinnBot's names for an agent's schedule: the `pulse_*` keys, and `days_of_week` and `one-off` of a blackout."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, field_validator

from circadia.errors import InvalidRequest
from circadia.records.schedule import MAX_EVERY_SECONDS, MAX_TIMEOUT_SECONDS, Blackout, Recurrence, RoutineSpec, Weekday
from circadia.settings.schedule import BlackoutSettings, ScheduleSettings, in_zone

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
