"""The state of one caller's reply, and what can still be sent.

A reply is silent, then opened (a 200 and keep-alives, while the call is held or its upstream works), then
answering, then done. The phase decides how an error is sent (GATE-48): with its real status while silent, in band on
an open stream, and by breaking the connection where a buffered answer was opened, since half an answer must never
pass for a whole one. Only a dropped call ends that with the error as its body: SDKs repeat what breaks.
"""

import enum
from collections.abc import Iterable
from typing import Protocol

from starlette.types import Message, Send

from circadia.errors import CircadiaError, MethodNotAllowed, WebSocketRefused

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
