"""Events: read the record page by page, or follow it as server-sent events without a gap or a double (GATE-80)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import orjson
from fastapi import Header, Query
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse
from starlette.types import Send

from circadia.agents.access import require_operator
from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.policies import MOST_COUNTED
from circadia.errors import InvalidRequest, StorageUnavailable
from circadia.records.event import Event, EventType

_logger = logging.getLogger(__name__)

router = noun_router("events")

PAGE: Final = 500
"""Events that the stream reads at once."""
SWEEP_SECONDS: Final = 1.0
"""Time after which the stream looks without a signal: a lost signal costs a second."""
_MEDIA_TYPE: Final = "text/event-stream"

Session = Annotated[str | None, Query(description="Of this session only.")]
Agent = Annotated[str | None, Query(description="Of agents of this name only.")]
Types = Annotated[list[EventType] | None, Query(alias="type", description="Of these kinds only; may be repeated.")]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    """Which events a caller asked for."""

    session: str | None
    agent: str | None
    types: Collection[EventType] | None


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


@router.get("/events")
async def list_events(
    who: Who,
    parts: Parts,
    after: Annotated[int, Query(ge=0, le=MOST_COUNTED, description="Number of the last event seen.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many at most.")] = 1000,
    session: Session = None,
    agent: Agent = None,
    types: Types = None,
) -> EventList:
    """Read the record. The operator only."""
    require_operator(who)
    async with parts.store.read() as tx:
        found = await tx.events.after(after, limit=limit, session=session, agent=agent, types=types)
    return EventList(events=[event_view(each) for each in found], after=found[-1].number if found else after)


class EventStream(StreamingResponse):
    """Server-sent events; what stands behind them ends with the connection."""

    media_type = _MEDIA_TYPE

    def __init__(self, chunks: AsyncGenerator[bytes]) -> None:
        super().__init__(chunks, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._chunks = chunks

    async def stream_response(self, send: Send) -> None:
        """Send until the end of the events or of the connection."""
        async with aclosing(self._chunks):
            await super().stream_response(send)


@router.get(
    "/events/stream",
    status_code=200,
    response_class=EventStream,
    responses={200: {"content": {_MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
async def follow_events(
    who: Who,
    parts: Parts,
    after: Annotated[
        int | None, Query(ge=0, le=MOST_COUNTED, description="Number of the last event seen; without it, from now on.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(description="The same, as browsers send it when they connect again; it goes before `after`.")
    ] = None,
    session: Session = None,
    agent: Agent = None,
    types: Types = None,
) -> EventStream:
    """Follow the record as server-sent events: `id` is the number, `data` the event. The operator only.

    A comment every `defaults.keep_alive_seconds` (15) keeps the connection; the stream ends when the server stops.
    """
    require_operator(who)
    if last_event_id is not None:
        if not last_event_id.isdecimal() or int(last_event_id) > MOST_COUNTED:
            raise InvalidRequest(f"Last-Event-ID must be the number of an event, got {last_event_id[:80]!r}")
        after = int(last_event_id)
    if after is None:
        async with parts.store.read() as tx:
            after = await tx.events.last_number()
    return EventStream(_follow(parts, after, _Wanted(session=session, agent=agent, types=types)))


async def _follow(parts: ApiParts, cursor: int, wanted: _Wanted) -> AsyncGenerator[bytes]:
    """Yield chunks of the stream: events after `cursor`, and comments where there are none for long."""
    bell = asyncio.Event()

    def ring(session: str, _: Mapping[str, object]) -> None:
        if wanted.session in (None, session):
            bell.set()

    deaf = parts.signals.listen("event", ring)
    spoke = parts.clock.monotonic()
    try:
        yield b"retry: 1000\nid: %d\n\n" % cursor  # so that even a caller who saw nothing resumes where it began
        while not parts.presence.stopping:
            bell.clear()  # before the look, so that nothing is stored unheard in between
            found, cursor = await _read(parts, cursor, wanted)
            if found:
                yield b"".join(map(_chunk, found))
                spoke = parts.clock.monotonic()
            elif parts.clock.monotonic() - spoke >= parts.settings.defaults.keep_alive_seconds:
                yield b": keep-alive\n\n"
                spoke = parts.clock.monotonic()
            if len(found) < PAGE:
                await _rung(parts, bell)
    finally:
        deaf()


async def _read(parts: ApiParts, cursor: int, wanted: _Wanted) -> tuple[Sequence[Event], int]:
    """Return the next events, and the number up to which all wanted ones are now read."""
    try:
        async with parts.store.read() as tx:
            last = await tx.events.last_number()
            if last <= cursor:
                return (), cursor
            found = await tx.events.after(
                cursor, limit=PAGE, session=wanted.session, agent=wanted.agent, types=wanted.types
            )
    except StorageUnavailable as error:
        _logger.warning("cannot read events yet: %s", error)
        return (), cursor
    if len(found) == PAGE:
        return found, found[-1].number
    return found, max(last, found[-1].number if found else 0)


async def _rung(parts: ApiParts, bell: asyncio.Event) -> None:
    """Wait for the bell, or for the sweep."""
    waits = (asyncio.ensure_future(bell.wait()), asyncio.ensure_future(parts.clock.sleep(SWEEP_SECONDS)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


def _chunk(event: Event) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (event.number, orjson.dumps(event_view(event).model_dump(mode="json")))
