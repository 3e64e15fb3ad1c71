"""An agent's routines, blackouts and occurrences in answers."""

from datetime import datetime
from typing import Literal

from pydantic import AliasChoices, Field

from circadia.records.schedule import BlackoutPolicy, Weekday
from circadia.schemas.view import View


class RoutineView(View):
    """A routine and its state."""

    name: str = Field(description="Name.", examples=["nightly"])
    instructions: str = Field(description="Instructions for the agent; if empty, it handles its inbox.")
    every_seconds: int | None = Field(description="Interval between two occurrences.")
    anchor: datetime | None = Field(description="Instant that intervals count from.")
    offset_seconds: int = Field(description="Delay after each interval step.")
    cron: str | None = Field(description="Minute, hour, day of month, month and day of week.")
    at: list[datetime] = Field(description="Single instants.")
    zone: str = Field(description="Time zone of the schedule.", examples=["Europe/Berlin"])
    jitter_seconds: int = Field(description="Maximum random delay of each occurrence.")
    stagger_seconds: int = Field(description="Maximum random delay of the whole schedule.")
    timeout_seconds: float | None = Field(description="Longest pulse; null means the agent's limit.")
    enabled: bool = Field(description="Whether the routine runs when it is due.")
    blackout_policy: BlackoutPolicy | None = Field(
        description="How a blackout affects it; null means the value in the agent's `blackout_policies`."
    )
    misfire_grace_seconds: int | None = Field(description="Maximum delay of a run; null means no limit.")
    next_at: datetime | None = Field(description="Next check; null means never.")
    deferred_from: datetime | None = Field(description="Occurrence that waits for the end of a blackout.")
    last_at: datetime | None = Field(description="Last occurrence that ran.")
    skips: int = Field(description="Number of consecutive skipped occurrences.")
    missed: int = Field(description="Number of occurrences that were too late to run.")


class BlackoutView(View):
    """A blackout, with the keys that a change takes."""

    type: Literal["recurring", "one_off"] = Field(
        validation_alias=AliasChoices("type", "kind"),
        description="`recurring` repeats each week, `one_off` happens once.",
    )
    label: str = Field(description="Label for people.", examples=["night"])
    start_time: str | None = Field(description="Start, as a time of day; null for `one_off`.", examples=["22:00"])
    end_time: str | None = Field(description="End, as a time of day; null for `one_off`.", examples=["06:00"])
    weekdays: list[Weekday] | None = Field(description="Days on which it starts.")
    start: datetime | None = Field(description="First instant; null for `recurring`.")
    end: datetime | None = Field(description="First instant after the blackout; null for `recurring`.")


class Occurrence(View):
    """A time at which a routine is due."""

    at: datetime = Field(description="When the routine is due.")
    routine: str = Field(description="Name of the routine.", examples=["nightly"])
    policy: BlackoutPolicy = Field(description="Whether it runs, waits for the end of a blackout, or is skipped.")
    runs_at: datetime | None = Field(description="When it runs, guardrails aside; null if it is skipped.")


class SpanView(View):
    """A time span of overlapping or adjacent blackouts."""

    start: datetime = Field(description="First instant, clipped to the window.")
    end: datetime = Field(description="First instant after it, clipped to the window.")
    labels: list[str] = Field(description="Labels of the blackouts.")


class ScheduleView(View):
    """An agent's schedule, and its occurrences in a time window."""

    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    zone: str = Field(description="Time zone of the agent.", examples=["Europe/Berlin"])
    routines: list[RoutineView] = Field(description="Sorted by name.")
    blackouts: list[BlackoutView] = Field(description="Blackouts in the order set.")
    since: datetime = Field(description="Start of the window.")
    until: datetime = Field(description="End of the window.")
    occurrences: list[Occurrence] = Field(description="Occurrences in the window, in order.")
    spans: list[SpanView] = Field(description="Blackouts in the window, in order.")
    complete: bool = Field(description="False if the window has more occurrences than shown.")
