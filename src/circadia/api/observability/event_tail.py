"""The end of the record, read once for all who follow it in this process."""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from circadia.api.observability.event_views import event_block
from circadia.api.parts import ApiParts
from circadia.errors import StorageUnavailable
from circadia.records.event import Event

_logger = logging.getLogger(__name__)

PAGE: Final = 500
"""Events that are read at once, and that are kept."""
SWEEP_SECONDS: Final = 1.0
"""Time after which it looks without a signal: a lost signal costs a second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedEvent:
    """An event, with the block that tells it."""

    event: Event
    """What happened."""
    block: bytes
    """Made once, however many follow."""


class EventTail:
    """The last events of the record, which grow by one read for all who wait at the end.

    Whoever is behind what is kept reads for himself, so nobody waits for the slowest, nor is anything kept for him. It
    listens, looks and sweeps only while somebody follows.
    """

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
        self._kept: list[EncodedEvent] = []
        self._since = 0
        """All events after this number are kept, up to `_upto`."""
        self._upto = 0
        self._bell = asyncio.Event()
        self._look: asyncio.Task[None] | None = None
        self._followers = 0
        self._deaf: Callable[[], None] | None = None

    @contextmanager
    def follow(self) -> Generator[None]:
        """Hear of what happens within the block, from before the first read in it."""
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
        """Return what happened after an event, waiting a second at most; None where not all of it is kept."""
        if number >= self._upto:
            if self._look is None or self._look.done():
                self._look = asyncio.create_task(self._fetch_new_events(ahead=number > self._upto))
            look = self._look
            await asyncio.wait((look,))  # which leaves the look to the others when one of them goes
            look.result()
        if number < self._since:
            return None
        return self._kept[bisect_right(self._kept, number, key=_event_number) :]

    async def _fetch_new_events(self, *, ahead: bool) -> None:
        """Wait for the bell or the sweep, then read on; from the end, if others have gone far ahead meanwhile."""
        await self._wait_for_bell()
        self._bell.clear()  # before the look, so that nothing is stored unheard in between
        try:
            async with self._parts.store.begin_read() as tx:
                if ahead and (last := await tx.events.last_number()) > self._upto + PAGE:
                    self._kept, self._since, self._upto = [], last, last
                found = await tx.events.find_after(self._upto, limit=PAGE)
        except StorageUnavailable as error:
            _logger.warning("cannot read events yet: %s", error)
            return
        if found:
            kept = [*self._kept, *(EncodedEvent(event=event, block=event_block(event)) for event in found)]
            dropped = kept[:-PAGE]
            self._since = _event_number(dropped[-1]) if dropped else self._since
            self._kept, self._upto = kept[-PAGE:], found[-1].number
        if len(found) == PAGE:
            self._bell.set()

    async def _wait_for_bell(self) -> None:
        if self._bell.is_set():
            return
        waits = (
            asyncio.ensure_future(self._bell.wait()),
            asyncio.ensure_future(self._parts.clock.sleep(SWEEP_SECONDS)),
        )
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    def _ring(self, _: str, __: Mapping[str, object]) -> None:
        self._bell.set()


def _event_number(told: EncodedEvent) -> int:
    return told.event.number
