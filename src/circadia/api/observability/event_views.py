"""How an event is shown: as JSON, and as a block of server-sent events."""

from datetime import datetime
from typing import Any

import orjson
from pydantic import BaseModel, Field

from circadia.records.event import Event, EventType


class EventView(BaseModel):
    """One thing that happened."""

    number: int = Field(description="Its place in the record; ascending, with gaps.")
    type: EventType = Field(description="What kind of thing.")
    at: datetime = Field(description="When.")
    session: str | None = Field(description="Name of the session it happened in.")
    agent: str | None = Field(description="Name of the agent it happened to.")
    data: dict[str, Any] = Field(description="The rest.", examples=[{"generation": 4, "cause": "rest"}])


class EventList(BaseModel):
    """A page of the record."""

    events: list[EventView] = Field(description="In order.")
    after: int = Field(description="What to send as `after` for the next page.")
    oldest: int = Field(description="Number of the oldest event that is kept; `retention.events_days` says how long.")


def event_view(event: Event) -> EventView:
    """Return the event as it is shown."""
    return EventView(
        number=event.number,
        type=event.type,
        at=event.at,
        session=event.session,
        agent=event.agent,
        data=dict(event.data),
    )


def event_block(event: Event) -> bytes:
    """Return the event as a block of server-sent events."""
    return b"id: %d\ndata: %s\n\n" % (event.number, orjson.dumps(event_view(event).model_dump(mode="json")))
