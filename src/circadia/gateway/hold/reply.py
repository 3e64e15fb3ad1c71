"""The state of one caller's reply: what can still be sent, its keep-alives, and its end by a disconnect or an error.

A reply is silent, then opened (a 200 and keep-alives, while the call is held or its upstream works), then
answering, then done. The phase decides how an error is sent (GATE-48): with its real status while silent, in band on
an open stream, and by breaking the connection where a buffered answer was opened, since half an answer must never
pass for a whole one. Only a dropped call ends that with the error as its body: SDKs repeat what breaks.
"""

import asyncio
import enum
import heapq
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

from starlette.types import Message, Receive, Scope, Send

from circadia.clock import Clock, wait_for_event
from circadia.errors import CircadiaError, MethodNotAllowed, TargetGone, UpstreamFailed, WebSocketRefused
from circadia.gateway.hold.bodies import CallerGone

_logger = logging.getLogger(__name__)

Headers = Iterable[tuple[bytes, bytes]]

OPENED_STREAM: list[tuple[bytes, bytes]] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
"""Headers of a stream that Circadia opens; the last one keeps nginx from buffering it."""

OPENED_JSON: list[tuple[bytes, bytes]] = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
"""Headers of a buffered answer that Circadia opens; its body starts with spaces, which JSON allows (RFC 8259, 2)."""


_SHORTEST_INTERVAL_SECONDS = 0.5
"""Shortest interval between keep-alives, however impatient the caller."""


def method_headers(error: CircadiaError) -> list[tuple[bytes, bytes]]:
    """Return the headers that HTTP demands of a 405 and a 426 (RFC 9110, 15.5.6 and 15.5.22)."""
    if isinstance(error, MethodNotAllowed):
        return [(b"allow", ", ".join(error.allow).encode())]
    if isinstance(error, WebSocketRefused):
        return [(b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade")]
    return []


class Phase(enum.IntEnum):
    SILENT = 0
    OPENED = 1
    ANSWERING = 2
    DONE = 3


class ReplyBroken(Exception):
    """The reply can only be ended by breaking the connection."""


class ReplyFormat(Protocol):
    """The protocol-specific parts of a reply."""

    opening: list[tuple[bytes, bytes]]
    """Headers of the 200 that opens a reply before its answer exists."""

    def build_keep_alive(self) -> bytes:
        """Return bytes without meaning that keep the connection alive."""
        ...

    def error_response(self, error: CircadiaError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Return status, headers and body for an error before anything was sent."""
        ...

    def in_band_error(self, error: CircadiaError) -> bytes | None:
        """Return the error as a part of an opened reply; None if nothing can be sent in band."""
        ...


class Reply:
    """The only sender of a request's answer. `tick` never waits; the other methods wait for a slow reader."""

    __slots__ = ("_interval_seconds", "_send", "phase", "reply_format", "slot")

    def __init__(self, send: Send, reply_format: ReplyFormat, interval_seconds: float) -> None:
        self._send = send
        self.reply_format = reply_format
        self._interval_seconds = interval_seconds
        self.phase = Phase.SILENT
        self.slot = -1

    def replace_send(self, send: Send) -> Send:
        """Send by another function from now on; return the former one."""
        former, self._send = self._send, send
        return former

    def keep_alive_at_least_every(self, seconds: float) -> None:
        """Shorten the keep-alive interval for an impatient caller."""
        self._interval_seconds = min(self._interval_seconds, max(seconds, _SHORTEST_INTERVAL_SECONDS))

    def tick(self, now: float) -> float | None:
        """Open the reply, or send a keep-alive."""
        start: Message = {"type": "http.response.start", "status": 200, "headers": self.reply_format.opening}
        if self.phase is Phase.SILENT and self._try_send(start):
            self.phase = Phase.OPENED
        if self.phase is Phase.OPENED:
            self._try_send(
                {"type": "http.response.body", "body": self.reply_format.build_keep_alive(), "more_body": True}
            )
            return now + self._interval_seconds
        return None

    async def start(self, status: int, headers: Headers) -> None:
        """Begin the answer; an opened reply has already sent its status and headers."""
        opened = self.phase is Phase.OPENED
        self.phase = Phase.ANSWERING
        if not opened:
            await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def write(self, body: bytes) -> None:
        if body:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def finish(self, body: bytes = b"") -> None:
        self.phase = Phase.DONE
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def send_whole(self, status: int, headers: Headers, body: bytes) -> None:
        bodiless = status in (204, 304)  # these have no length (RFC 9110, 8.6)
        length = [(b"content-length", b"%d" % len(body))] if self.phase is Phase.SILENT and not bodiless else []
        await self.start(status, [*headers, *length])
        await self.finish(body)

    async def end(self) -> None:
        """End without an answer, when the caller no longer waits for one."""
        if self.phase is Phase.SILENT:
            await self.start(200, self.reply_format.opening)
        if self.phase is not Phase.DONE:
            await self.finish()

    def can_tell(self, error: CircadiaError) -> bool:
        """Return whether the caller would get this error, and not a broken connection."""
        if self.phase is Phase.SILENT:
            return True
        return self.phase is not Phase.DONE and self.reply_format.in_band_error(error) is not None

    async def send_error(self, error: CircadiaError) -> None:
        """Send an error as the phase allows. Raises ReplyBroken if the server must break the connection."""
        if self.phase is Phase.DONE:
            return
        if self.phase is Phase.SILENT:
            await self.send_whole(*self.reply_format.error_response(error))
            return
        body = self.reply_format.in_band_error(error)
        if body is None:
            self.phase = Phase.DONE
            raise ReplyBroken(error.message) from error
        self.phase = Phase.ANSWERING
        await self.finish(body)

    def _try_send(self, message: Message) -> bool:
        """Send without waiting; return whether the message was taken.

        The server's `send` waits only while the caller does not read, before it has any effect. Such a caller needs no
        keep-alive now: its buffers are full of them.
        """
        sending = self._send(message)
        step = sending.__await__()
        try:
            next(step)
        except StopIteration:
            return True
        step.close()
        return False


RESOLUTION_SECONDS: Final = 0.05
"""Width of a slot. Keep-alives are seconds apart, so 50 ms do not matter, and idle wake-ups are rare."""


class Tickable(Protocol):
    """Something with a due time. `slot` belongs to the ticker; -1 means not waiting."""

    slot: int

    def tick(self, now: float) -> float | None:
        """Act without waiting; return the monotonic time of the next tick, or None to stop."""
        ...


class Ticker:
    """A timing wheel that sends keep-alives to all waiting callers from one task: 10,000 holds need no 10,000 timers.

    A caller waits in the slot of its next due time, rounded up to the wheel's resolution. Adding and dropping take one
    dictionary operation each; the task sleeps until the first occupied slot.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[int, dict[Tickable, None]] = {}
        self._order: list[int] = []
        self._sooner = asyncio.Event()

    def add(self, ticking: Tickable, due: float) -> None:
        """Schedule a tick at the monotonic time `due` or up to one slot later."""
        self.drop(ticking)
        slot = ticking.slot = math.ceil(due / RESOLUTION_SECONDS)
        if slot not in self._slots:
            self._slots[slot] = {}
            heapq.heappush(self._order, slot)
            if self._order[0] == slot:
                self._sooner.set()
        self._slots[slot][ticking] = None

    def drop(self, ticking: Tickable) -> None:
        waiting = self._slots.get(ticking.slot)
        if waiting is not None:
            waiting.pop(ticking, None)
        ticking.slot = -1

    @property
    def waiting(self) -> int:
        return sum(len(slot) for slot in self._slots.values())

    async def run(self) -> None:
        while True:
            self._sooner.clear()
            if not self._order:
                await self._sooner.wait()
                continue
            wait = self._order[0] * RESOLUTION_SECONDS - self._clock.monotonic()
            if wait > 0:
                await wait_for_event(self._clock, self._sooner, wait)
                continue
            for ticking in self._slots.pop(heapq.heappop(self._order)):
                self._tick(ticking)

    def _tick(self, ticking: Tickable) -> None:
        ticking.slot = -1
        try:
            due = ticking.tick(self._clock.monotonic())
        except Exception:  # one failing caller must not end the keep-alives of all
            _logger.exception("a keep-alive failed; its caller is left alone")
            return
        if due is not None:
            self.add(ticking, due)


class Alarm:
    """Calls a function once at its due time."""

    __slots__ = ("_call", "slot")

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.slot = -1

    def tick(self, now: float) -> float | None:
        self._call()
        return None


class Disconnect:
    """Ends a request when its caller disconnects. The HTTP server puts one into the scope under `DISCONNECT_KEY`."""

    __slots__ = ("_gone", "_reply", "_task", "ended")

    def __init__(self) -> None:
        self._gone = False
        self._task: asyncio.Task[Any] | None = None
        self._reply: Reply | None = None
        self.ended = False

    def notify(self) -> None:
        self._gone = True
        if self._task is not None and self._reply is not None and self._reply.phase is not Phase.DONE:
            self.ended = True
            self._task.cancel()

    def watch(self, task: asyncio.Task[Any], reply: Reply) -> None:
        """Cancel `task` if the caller disconnects before the reply is done, or now if it already has."""
        self._task, self._reply = task, reply
        if self._gone:
            self.notify()

    def forget(self) -> None:
        self._task = self._reply = None


DISCONNECT_KEY: Final = "circadia.disconnect"


async def run_until_disconnect(scope: Scope, receive: Receive, reply: Reply, work: Awaitable[None]) -> None:
    """Do the work; cancel it at once if the caller disconnects.

    Servers that do not provide a `Disconnect` need a task that waits for `http.disconnect`, at a higher cost.

    Raises:
        CallerGone: the caller disconnected, and the work has ended.
    """
    task = asyncio.current_task()
    assert task is not None
    disconnect: Disconnect | None = scope.get(DISCONNECT_KEY)
    watcher: asyncio.Task[None] | None = None
    if disconnect is None:
        disconnect = Disconnect()
        watcher = asyncio.create_task(_watch_for_disconnect(receive, disconnect))
    disconnect.watch(task, reply)
    try:
        await work
    except asyncio.CancelledError:
        if not disconnect.ended:
            raise
        task.uncancel()
        raise CallerGone from None
    finally:
        disconnect.forget()
        if watcher is not None:
            watcher.cancel()


async def _watch_for_disconnect(receive: Receive, disconnect: Disconnect) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnect.notify()


async def send_error(reply: Reply, error: BaseException) -> None:
    """Send the caller the error that ended its request, expected or not, as the phase allows.

    Called from the door's own `except`, since a wrapper would cost each held call a frame.

    Raises:
        ReplyBroken: nothing more can be sent; the server must break the connection.
    """
    if isinstance(error, CallerGone):
        return
    if isinstance(error, asyncio.CancelledError):  # not the caller: the server's shutdown time is over
        error = TargetGone("the server has stopped before the answer was there; send it again")
    if isinstance(error, CircadiaError):
        await reply.send_error(error)
        return
    if isinstance(error, ReplyBroken) or not isinstance(error, Exception):
        raise error
    _logger.error("a door failed", exc_info=error)
    failed = UpstreamFailed("the gateway failed on this call; the server's log says why")
    failed.__cause__ = error
    await reply.send_error(failed)
