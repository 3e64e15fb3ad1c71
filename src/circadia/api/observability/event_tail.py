"""The latest events, read once for all followers in this process."""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import orjson

from circadia.api.parts import ApiParts
from circadia.clock import wait_for_event
from circadia.errors import StorageUnavailable
from circadia.records.event import Event
from circadia.schemas.events import EventView

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

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
        self._kept: list[EncodedEvent] = []
        self._since = 0
        """The buffer holds all events after this number, up to `_upto`."""
        self._upto = 0
        self._bell = asyncio.Event()
        self._look: asyncio.Task[None] | None = None
        self._followers = 0
        self._deaf: Callable[[], None] | None = None

    @contextmanager
    def follow(self) -> Generator[None]:
        """Follow events within the block, starting before the first read in it."""
        if not self._followers:
            self._deaf = self._parts.signals.listen("event", self._ring)
            self._bell.set()
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1
            if not self._followers:
                assert self._deaf is not None
                self._deaf()
                if self._look is not None:
                    self._look.cancel()
                    self._look = None

    async def wait_for_events(self, number: int) -> Sequence[EncodedEvent] | None:
        """Return the events after `number`, waiting up to a second; None if the buffer does not hold all of them."""
        if number >= self._upto:
            if self._look is None or self._look.done():
                self._look = asyncio.create_task(self._fetch_new_events(ahead=number > self._upto))
            running_look = self._look
            await asyncio.wait((running_look,))  # a cancelled follower leaves the read to the others
            running_look.result()
        if number < self._since:
            return None
        return self._kept[bisect_right(self._kept, number, key=_event_number) :]

    async def _fetch_new_events(self, *, ahead: bool) -> None:
        """Wait for a signal or the poll, then read; from the end, if other servers have gone far ahead."""
        if not self._bell.is_set():
            await wait_for_event(self._parts.clock, self._bell, SWEEP_SECONDS)
        self._bell.clear()  # before the read, so that no event is missed in between
        try:
            async with self._parts.store.begin_read() as tx:
                if ahead and (last := await tx.events.last_number()) > self._upto + PAGE:
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
            self._bell.set()

    def _ring(self, _: str, __: Mapping[str, object]) -> None:
        self._bell.set()


def _event_number(told: EncodedEvent) -> int:
    return told.event.number
