"""Views of an event: as JSON, and as a block of server-sent events."""

from datetime import datetime
from typing import Any

import orjson
from pydantic import BaseModel, Field

from circadia.records.event import Event, EventType


class EventView(BaseModel):
    """An event."""

    number: int = Field(description="Ascending number, with gaps.")
    type: EventType = Field(description="Kind of event.")
    at: datetime = Field(description="Time.")
    session: str | None = Field(description="Name of the session.")
    agent: str | None = Field(description="Name of the agent.")
    data: dict[str, Any] = Field(description="Further data.", examples=[{"generation": 4, "cause": "rest"}])


class EventList(BaseModel):
    """A page of events."""

    events: list[EventView] = Field(description="Sorted by number.")
    after: int = Field(description="Value of `after` for the next page.")
    oldest: int = Field(description="Number of the oldest event kept; see `retention.events_days`.")


def event_view(event: Event) -> EventView:
    return EventView(
        number=event.number,
        type=event.type,
        at=event.at,
        session=event.session,
        agent=event.agent,
        data=dict(event.data),
    )


def event_block(event: Event) -> bytes:
    """Encode the event as a block of server-sent events."""
    return b"id: %d\ndata: %s\n\n" % (event.number, orjson.dumps(event_view(event).model_dump(mode="json")))
