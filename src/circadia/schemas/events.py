"""Events in answers."""

from datetime import datetime
from typing import Any

from pydantic import Field

from circadia.records.event import EventType
from circadia.records.wake import Decision
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


class EventDeliveryView(View):
    """A named event in an agent's inbox."""

    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    message: str = Field(description="Id of the message.")
    wake: str | None = Field(description="Id of the wake request, if the agent sleeps over the event.")
    decision: Decision | None = Field(description="Decision on the wake request.")


class EventOutcome(View):
    """The agents that a named event has reached."""

    name: str = Field(description="Name of the event.", examples=["batch.completed"])
    deliveries: list[EventDeliveryView] = Field(description="One for each agent that waited for it.")
