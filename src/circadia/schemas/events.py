"""Events in answers."""

from datetime import datetime
from typing import Any

from pydantic import Field

from circadia.records.event import EventType
from circadia.schemas.view import View


class EventView(View):
    """An event; the OpenAPI document has the data of each kind."""

    number: int = Field(description="Ascending number, with gaps.")
    type: EventType = Field(description="Kind of event.")
    at: datetime = Field(description="Time.")
    session: str | None = Field(description="Name of the session.")
    agent: str | None = Field(description="Name of the agent.")
    data: dict[str, Any] = Field(description="Further data.", examples=[{"generation": 4, "cause": "rest"}])


class EventGap(View):
    """Events that a follower asked for and that have been deleted."""

    after: int = Field(description="Number of the last event seen.")
    oldest: int = Field(description="Number of the oldest event kept.")


class EventList(View):
    """A page of events."""

    events: list[EventView] = Field(description="Sorted by number.")
    after: int = Field(description="Value of `after` for the next page.")
    oldest: int = Field(description="Number of the oldest event kept; see `retention.events_days`.")
