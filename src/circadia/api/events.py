"""Events: list them page by page, or follow them as server-sent events without gaps or duplicates (GATE-80)."""

import asyncio
import logging
import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import Depends, Header, Query, Request
from pydantic import Field
from starlette.responses import StreamingResponse
from starlette.types import Send

from circadia.agents.access import require_operator
from circadia.agents.directory import require_names
from circadia.api.bodies import Body
from circadia.api.context import (
    AgentFilter,
    ApiContext,
    Context,
    LongLimit,
    SessionFilter,
    Who,
    cut_page,
    fetch_page,
    noun_router,
)
from circadia.clock import wait_for_event
from circadia.errors import CircadiaError, InvalidRequest, StorageUnavailable
from circadia.records.agent import MAX_COUNT
from circadia.records.event import Event, EventType
from circadia.records.named_event import NamedEvent
from circadia.records.principal import Principal
from circadia.schemas.events import EventDeliveryView, EventGap, EventList, EventOutcome, EventView

_logger = logging.getLogger(__name__)

PAGE: Final = 500
"""Maximum number of events per read, and in the buffer."""
SWEEP_SECONDS: Final = 1.0
"""Polling interval: a lost signal costs a second."""


def event_block(event: Event) -> bytes:
    """Encode the event as a block of server-sent events."""
    return b"id: %d\ndata: %s\n\n" % (event.number, orjson.dumps(EventView.of(event).model_dump(mode="json")))


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedEvent:
    """An event with its encoded block."""

    event: Event
    block: bytes
    """Encoded once for all followers."""


class EventTail:
    """A buffer of the latest events; one read extends it for all waiting followers.

    A follower that is behind the buffer reads for itself, so that nobody waits for the slowest one. The tail listens
    and polls only while it has followers.
    """

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._kept: list[EncodedEvent] = []
        self._since = 0
        """The buffer holds all events after this number, up to `_upto`."""
        self._upto = 0
        self._news = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._followers = 0
        self._unsubscribe: Callable[[], None] | None = None

    @contextmanager
    def follow(self) -> Generator[None]:
        """Follow events within the block, starting before the first read in it."""
        if not self._followers:
            self._unsubscribe = self._context.signals.listen("event", self._ring)
            self._news.set()
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1
            if not self._followers:
                assert self._unsubscribe is not None
                self._unsubscribe()
                if self._reading is not None:
                    self._reading.cancel()
                    self._reading = None

    async def wait_for_events(self, number: int) -> Sequence[EncodedEvent] | None:
        """Return the events after `number`, waiting up to a second; None if the buffer does not hold all of them."""
        if number >= self._upto:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._fetch_new_events(others_lead=number > self._upto))
            reading = self._reading
            await asyncio.wait((reading,))  # a cancelled follower leaves the read to the others
            reading.result()
        if number < self._since:
            return None
        return self._kept[bisect_right(self._kept, number, key=_event_number) :]

    async def _fetch_new_events(self, *, others_lead: bool) -> None:
        """Wait for a signal or the poll, then read; from the end, if other servers have gone far ahead."""
        if not self._news.is_set():
            await wait_for_event(self._context.clock, self._news, SWEEP_SECONDS)
        self._news.clear()  # before the read, so that no event is missed in between
        try:
            async with self._context.store.begin_read() as tx:
                if others_lead and (last := await tx.events.last_number()) > self._upto + PAGE:
                    self._kept, self._since, self._upto = [], last, last
                events = await tx.events.find_after(self._upto, limit=PAGE)
        except StorageUnavailable as error:
            _logger.warning("cannot read events yet: %s", error)
            return
        if events:
            kept_events = [*self._kept, *(EncodedEvent(event=event, block=event_block(event)) for event in events)]
            dropped = kept_events[:-PAGE]
            self._since = _event_number(dropped[-1]) if dropped else self._since
            self._kept, self._upto = kept_events[-PAGE:], events[-1].number
        if len(events) == PAGE:
            self._news.set()

    def _ring(self, _: str, __: Mapping[str, object]) -> None:
        self._news.set()


def _event_number(encoded: EncodedEvent) -> int:
    return encoded.event.number


router = noun_router("events")

_MEDIA_TYPE: Final = "text/event-stream"
_MESSAGE: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Number of the event; the value of `Last-Event-ID` to resume."},
        "event": {"const": "gap", "type": "string", "description": "Present if unseen events have been deleted."},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {
                "anyOf": [{"$ref": "#/components/schemas/EventView"}, {"$ref": "#/components/schemas/EventGap"}]
            },
        },
        "retry": {"type": "integer", "description": "Milliseconds to wait before a reconnect."},
    },
}
"""A server-sent event, as FastAPI describes one."""
_NUMBER: Final = re.compile(r"[0-9]{1,19}")

Types = Annotated[list[EventType] | None, Query(alias="type", description="Only of this type; may be repeated.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class _EventFilter:
    session: str | None
    agent: str | None
    types: Collection[EventType] | None

    def matches(self, event: Event) -> bool:
        return (
            self.session in (None, event.session)
            and self.agent in (None, event.agent)
            and (self.types is None or event.type in self.types)
        )


@router.get("/events")
async def list_events(
    who: Who,
    context: Context,
    after: Annotated[int, Query(ge=0, le=MAX_COUNT, description="Number of the last event seen.")] = 0,
    limit: LongLimit = 1000,
    order: Annotated[
        Literal["oldest", "newest"], Query(description="Oldest first, after `after`; or the newest, newest first.")
    ] = "oldest",
    session: SessionFilter = None,
    agent: AgentFilter = None,
    types: Types = None,
) -> EventList:
    """List events. Operator only."""
    require_operator(who)
    if context.sequencer is not None:
        await context.sequencer.number_events()
    async with context.store.begin_read() as tx:
        await require_names(tx, who, session, agent)
        oldest = await tx.events.first_number()
        if order == "newest":
            seen = await tx.events.last_number()
            newest = await tx.events.find_newest(
                limit=limit, session=session, agent=agent, types=types, only_numbered=True
            )
            events = cut_page(newest)
        else:
            events, _ = await fetch_page(
                lambda last, most: tx.events.find_after(
                    after if last is None else last.number, limit=most, session=session, agent=agent, types=types
                ),
                limit,
            )
            seen = events[-1].number if events else min(after, await tx.events.last_number())
    return EventList(events=[EventView.of(event) for event in events], after=seen, oldest=oldest)


class NamedEventBody(Body):
    """A named event."""

    data: dict[str, Any] = Field({}, description="What happened, as JSON.", examples=[{"id": "batch_7"}])
    key: str | None = Field(
        None, max_length=200, description="Idempotency key: a repeat with it reaches no agent twice."
    )


@router.post("/events/{event}")
async def emit_event(event: str, body: NamedEventBody, who: Who, context: Context) -> EventOutcome:
    """Report a named event to the agents that wait for it.

    Each of them gets it as a message, and wakes if it sleeps over it and its guardrails allow it. Access: the operator,
    and agents, whose events reach agents that they may address.
    """
    async with context.store.begin_write() as tx:
        deliveries = await context.wake.named_events.emit(
            tx, NamedEvent(name=event, data=body.data, key=body.key), by=who.name, principal=who
        )
    return EventOutcome(
        name=event,
        deliveries=[
            EventDeliveryView(
                agent=each.agent.reference,
                message=each.message.id,
                wake=None if each.wake is None else each.wake.id,
                decision=None if each.wake is None else each.wake.decision,
            )
            for each in deliveries
        ],
    )


async def _tail(request: Request) -> EventTail:
    tail: EventTail = request.app.state.tail
    return tail


class EventStream(StreamingResponse):
    """Server-sent events; the generator ends with the connection."""

    media_type = _MEDIA_TYPE

    def __init__(self, chunks: AsyncGenerator[bytes]) -> None:
        super().__init__(chunks, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._chunks = chunks

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self._chunks):
            await super().stream_response(send)


@router.get(
    "/events/stream",
    status_code=200,
    response_class=EventStream,
    responses={200: {"content": {_MEDIA_TYPE: {"schema": {"type": "string"}, "x-itemSchema": _MESSAGE}}}},
)
async def follow_events(
    who: Who,
    context: Context,
    tail: Annotated[EventTail, Depends(_tail)],
    after: Annotated[
        int | None,
        Query(ge=0, le=MAX_COUNT, description="Number of the last event seen; by default the stream starts now."),
    ] = None,
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", description="The same, as browsers send it on reconnect; overrides `after`."),
    ] = None,
    session: SessionFilter = None,
    agent: AgentFilter = None,
    types: Types = None,
) -> EventStream:
    """Follow events as server-sent events: `id` is the number, `data` the event. Operator only.

    A comment every `defaults.keep_alive_seconds` (15) keeps the connection alive; the stream ends when the server
    stops. If events after `after` have been deleted (`retention.events_days`), the stream begins with an event `gap`,
    whose data holds the `oldest` number kept.
    """
    require_operator(who)
    if last_event_id is not None:
        if _NUMBER.fullmatch(last_event_id) is None or int(last_event_id) > MAX_COUNT:
            raise InvalidRequest(f"Last-Event-ID must be the number of an event, got {last_event_id[:80]!r}")
        after = int(last_event_id)
    async with context.store.begin_read() as tx:
        await require_names(tx, who, session, agent)
        oldest = await tx.events.first_number()
        last = await tx.events.last_number()
        after = last if after is None else min(after, last)  # a restored log may end before what the caller saw
    gap = b""
    if 0 < after < oldest - 1:
        gap = b"event: gap\ndata: %s\n\n" % EventGap(after=after, oldest=oldest).model_dump_json().encode()
    wanted = _EventFilter(session=session, agent=agent, types=types)
    return EventStream(_follow(context, who, tail, after, wanted, gap))


async def _follow(
    context: ApiContext, who: Principal, tail: EventTail, cursor: int, wanted: _EventFilter, gap: bytes
) -> AsyncGenerator[bytes]:
    """Yield chunks of the stream: events after `cursor`, and keep-alive comments.

    A follower that is behind reads filtered pages; at the end of the record it uses the shared tail.
    """
    spoke = context.clock.monotonic()
    behind = True
    with tail.follow():
        yield b"retry: 1000\nid: %d\n\n" % cursor + gap  # so that a caller without events resumes at the same place
        while not context.presence.is_stopping:
            if behind:
                events, cursor, behind = await _page(context, cursor, wanted)
                blocks = [event_block(event) for event in events]
            elif (latest := await tail.wait_for_events(cursor)) is None:
                behind = True
                continue
            else:
                events = [encoded_event.event for encoded_event in latest]
                blocks = [encoded_event.block for encoded_event in latest if wanted.matches(encoded_event.event)]
                cursor = latest[-1].event.number if latest else cursor
            if await _is_revoked(context, who, events):
                return
            if blocks:
                yield b"".join(blocks)
                spoke = context.clock.monotonic()
            elif context.clock.monotonic() - spoke >= context.settings.defaults.keep_alive_seconds:
                yield b": keep-alive\n\n"
                spoke = context.clock.monotonic()


async def _is_revoked(context: ApiContext, who: Principal, events: Sequence[Event]) -> bool:
    """Return whether a person's token has been revoked since the stream began; it is asked for often and cached.

    The next events may say so before the cache knows.
    """
    if who.access is None:
        return False
    if any(event.type is EventType.ACCESS_REVOKED and event.data["name"] == who.access.name for event in events):
        return True
    try:
        await context.identity.authenticate_hash(who.access.token_hash)
    except StorageUnavailable:
        return False  # there are no events to send either
    except CircadiaError:
        return True
    return False


async def _page(context: ApiContext, cursor: int, wanted: _EventFilter) -> tuple[Sequence[Event], int, bool]:
    """Return the next events, the number up to which matching events are read, and whether there may be more."""
    try:
        async with context.store.begin_read() as tx:
            last = await tx.events.last_number()
            events = await tx.events.find_after(
                cursor, limit=PAGE, session=wanted.session, agent=wanted.agent, types=wanted.types
            )
    except StorageUnavailable as error:
        _logger.warning("cannot read events yet: %s", error)
        await context.clock.sleep(SWEEP_SECONDS)
        return (), cursor, True
    if len(events) == PAGE:
        return events, events[-1].number, True
    return events, max(cursor, last, events[-1].number if events else 0), False
