"""An event as a block of server-sent events."""

import orjson

from circadia.records.event import Event
from circadia.schemas.events import EventView


def event_block(event: Event) -> bytes:
    """Encode the event as a block of server-sent events."""
    return b"id: %d\ndata: %s\n\n" % (event.number, orjson.dumps(EventView.of(event).model_dump(mode="json")))
