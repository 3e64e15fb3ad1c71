"""An agent's routines, blackouts and occurrences in answers."""

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field

from circadia.records.schedule import BlackoutKeys, BlackoutPolicy, RecurrenceRule, RoutineKeys
from circadia.schemas.view import SettingsView, View


class RoutineView(RecurrenceRule, RoutineKeys, View):
    """A routine and its state."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    zone: str = Field(description="Time zone of the schedule.", examples=["Europe/Berlin"])
    next_at: datetime | None = Field(description="Next check; null means never.")
    deferred_from: datetime | None = Field(description="Occurrence that waits for the end of a blackout.")
    last_at: datetime | None = Field(description="Last occurrence that ran.")
    skips: int = Field(description="Number of consecutive skipped occurrences.")
    missed: int = Field(description="Number of occurrences that were too late to run.")


class BlackoutView(BlackoutKeys, View):
    """A blackout, with the keys that a change takes."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    type: Literal["recurring", "one_off"] = Field(description="`recurring` repeats each week, `one_off` happens once.")


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


class RoutineRunView(View):
    """An instant at which the agent runs."""

    at: datetime = Field(description="When it runs, guardrails aside.")
    local: str = Field(
        description="The same instant in the agent's zone, with its offset.", examples=["2026-03-29T03:00:00+02:00"]
    )
    routine: str = Field(description="Name of the routine.", examples=["nightly"])
    deferred_from: datetime | None = Field(
        description="Occurrence that waits for the end of a blackout, the last one if several do; else null."
    )


class ScheduleView(SettingsView):
    """An agent's schedule, and its occurrences in a time window."""

    etag: str = Field(description="Entity tag of the schedule, as in the header `ETag`.")
    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    zone: str = Field(description="Time zone of the agent.", examples=["Europe/Berlin"])
    routines: list[RoutineView] = Field(description="Sorted by name.")
    blackouts: list[BlackoutView] = Field(description="Blackouts in the order set.")
    since: datetime = Field(description="Start of the window.")
    until: datetime = Field(description="End of the window.")
    occurrences: list[Occurrence] = Field(description="Occurrences in the window, in order.")
    spans: list[SpanView] = Field(description="Blackouts in the window, in order.")
    complete: bool = Field(description="False if the window has more occurrences than shown.")
    next_runs: list[RoutineRunView] = Field(
        description="The next 10 runs of all enabled routines, in order and regardless of the window. Fewer if no more "
        "are due in 100 years, or if the search ends before: after 1,000 decisions, or fewer with many blackouts."
    )
    never_run: list[str] = Field(
        description="Enabled routines of which the search finds no run: blackouts skip each one.",
        examples=[["nightly"]],
    )
