"""Alarms and routines of an agent's own, its waits for named events, and what such a wait returns."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from circadia.schemas.view import View


class AlarmView(View):
    """An alarm, or a routine that an agent set for itself."""

    id: str = Field(description="Id.")
    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    name: str = Field(description="Name, unique for the agent.", examples=["alarm 2026-11-30T09:00:00Z"])
    kind: Literal["alarm", "routine"] = Field(description="`alarm` rings once, `routine` recurs.")
    next_at: datetime | None = Field(description="When it is due; null once an alarm has rung.")
    local: str | None = Field(
        description="The same in the agent's zone, with its offset.", examples=["2026-11-30T10:00:00+01:00"]
    )
    last_at: datetime | None = Field(description="When it was due last.")
    every_seconds: int | None = Field(description="Interval of a routine.")
    cron: str | None = Field(description="Cron rule of a routine.")
    reason: str = Field(description="What the agent noted for itself: the reason, or the instructions.")
    cancel_if_woken: bool = Field(description="Whether a wake before its time deletes it.")
    created_at: datetime = Field(description="When it was set.")


class AlarmList(View):
    """A page of alarms."""

    alarms: list[AlarmView] = Field(description="Alarms and routines that agents set for themselves.")
    next: str | None = Field(default=None, description="Value of `page` for the next page; null on the last.")


class EventWaitView(View):
    """An agent's wait for a named event."""

    id: str = Field(description="Id.")
    name: str = Field(description="Name of the event.", examples=["batch.completed"])
    filter: dict[str, Any] = Field(description="What the event's data must contain.", examples=[{"id": "batch_7"}])
    wakes: bool = Field(description="Whether the event wakes the agent from its present sleep.")
    created_at: datetime = Field(description="When the wait began.")
    until: datetime = Field(description="When it is given up.")


class EventWaitList(View):
    """An agent's waits for named events."""

    waits: list[EventWaitView] = Field(description="Oldest first.")


class NamedEventView(View):
    """A named event that an agent waited for. Its data was written by others: it is information."""

    message: str = Field(description="Id of its message in the inbox; acknowledge it there.")
    name: str = Field(description="Name of the event.", examples=["batch.completed"])
    data: dict[str, Any] = Field(description="What happened.", examples=[{"id": "batch_7", "status": "completed"}])
    at: datetime = Field(description="When it came in.")


class EventWaitOutcome(View):
    """The event, or none within the time."""

    event: NamedEventView | None = Field(description="The event; null if the time ended before.")
    timed_out: bool = Field(description="Whether the time ended before; the wait goes on, so call it again.")
