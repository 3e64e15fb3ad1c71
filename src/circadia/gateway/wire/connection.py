"""One connection to a provider, and the answer on it."""

import asyncio
import re
from collections.abc import Callable
from typing import Final, Self, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from circadia.gateway.wire.base import ConnectionBroken, ConnectionStalled, WireError
from circadia.gateway.wire.decompression import CODINGS, LARGEST_BYTES, BodyDecompressor

MAX_UNREAD_BYTES: Final = 2**18
"""Unread body bytes after which the connection stops reading."""
MAX_HEAD_BYTES: Final = 2**16
"""Maximum bytes in a row that are not body: a head with earlier interim answers, or trailers."""
SMALL_BYTES: Final = 2**16
"""Bodies up to this size are sent in one piece with the head."""
SLICE_BYTES: Final = 2**17
"""Larger bodies are sent in slices of this size, one per turn of the event loop."""


_EVENTS: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry)?:")
"""A field or a comment, after a byte order mark or blank lines (WHATWG HTML, 9.2.5)."""
_UNDECIDED: Final = re.compile(
    rb"(?:\xef\xbb?|(?:\xef\xbb\xbf)?\s*(?:d(?:a(?:ta?)?)?|e(?:v(?:e(?:nt?)?)?)?|id?|r(?:e(?:t(?:ry?)?)?)?)?)"
)
"""What may become one of these with more bytes."""
_LAST_STATUS: Final = 599
"""RFC 9110, 15: a status of 600 or more is invalid."""


class ProviderResponse:
    """A provider's answer to one call: status, headers, then its body as it arrives (`async for chunk in answer`).

    It has one reader; cancelling the reader ends the connection. It is also the parser's target: only httptools calls
    the `on_…` methods, and their errors make the answer broken.
    """

    __slots__ = (
        "_begun", "_connection", "_decompressor", "_error", "_has_no_body", "_parts", "_size", "_until_end", "_waiter",
        "at_end", "head_bytes", "headers", "is_events", "reusable", "status",
    )  # fmt: skip

    def __init__(self, connection: "ProviderConnection", *, has_no_body: bool) -> None:
        self._connection: ProviderConnection | None = connection
        self._has_no_body = has_no_body
        self._parts: list[bytes] = []
        self._size = 0
        self._until_end = True
        self._error: WireError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._decompressor: BodyDecompressor | None = None
        self._begun = b""
        self.is_events = False
        """Whether its first bytes are those of a stream of events, whatever its type says."""
        self.status = 0
        """0 before the head has arrived. Interim answers (100, 103) are not reported."""
        self.headers: list[tuple[bytes, bytes]] = []
        """In order, names in lower case."""
        self.at_end = False
        """Whether it is complete; unread parts can still be read."""
        self.head_bytes = 0
        """Bytes since the last one of the body."""
        self.reusable = False
        """Whether the provider lets the connection serve another call."""

    def header(self, wanted: bytes) -> str | None:
        """Return the first value of a header; `wanted` is in lower case."""
        for name, value in self.headers:
            if name == wanted:
                return value.decode("latin-1")
        return None

    async def wait_for_head(self) -> Self:
        """Wait for status and headers. Raises ConnectionBroken or ConnectionStalled."""
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._wait_for_more()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the decompressed bytes since the last call. Raises ConnectionBroken or ConnectionStalled."""
        if self._begun:
            begun, self._begun = self._begun, b""
            return begun
        if self._decompressor is None:
            return await self._next_data()
        while not (piece := self._decompressor.take()):
            try:
                self._decompressor.put(await self._next_data())
            except StopAsyncIteration:
                self._decompressor.end()
                raise
        if len(piece) >= LARGEST_BYTES:
            await asyncio.sleep(0)  # few bytes may stand for a gigabyte: others get their turn
        return piece

    async def read_kind(self) -> None:
        """Tell by the first bytes whether it is a stream of events; they stay to be read. Raises as a read does."""
        begun = b""
        while _UNDECIDED.fullmatch(begun):
            try:
                begun += await anext(self)
            except StopAsyncIteration:
                break
        self.is_events = _EVENTS.match(begun) is not None
        self._begun = begun

    async def _next_data(self) -> bytes:
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self.at_end:
                raise StopAsyncIteration
            await self._wait_for_more()
        parts = self._parts
        self._parts = []
        self._size = 0
        if self._connection is not None:
            self._connection.read_on()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """End the answer, and the provider's work; a reader gets ConnectionBroken. No effect on a fully read one."""
        if self._parts or not self.at_end:
            self._parts = []
            self._error = self._error or ConnectionBroken("closed by the gateway")
            self.wake()
        if self._connection is not None:
            self._connection.drop()

    @property
    def unread(self) -> int:
        return self._size

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def detach(self) -> None:
        self._connection = None

    def fail(self, error: WireError) -> None:
        if self._error is None and not self.at_end:
            self._error = error
            self.wake()

    def on_connection_lost(self, *, clean: bool) -> None:
        if clean and self.status and self._until_end:
            self.at_end = True
            self.wake()
        else:
            self.fail(ConnectionBroken(f"closed the connection {'within' if self.status else 'before'} its answer"))

    def on_message_begin(self) -> None:
        if self.status:
            raise ConnectionBroken("sent a second answer")
        self.headers.clear()
        self._until_end = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; drop a trailer."""
        if self.status:
            return
        name = name.lower()
        if name == b"transfer-encoding":
            if value.strip().lower() != b"chunked" or not self._until_end:
                raise ConnectionBroken("sent a transfer coding that was not requested")
            self._until_end = False
        elif name == b"content-length":
            self._until_end = False
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Accept the head, unless it is of an interim answer."""
        assert self._connection is not None
        status = self._connection.parsed_status()
        if status < 100 or status == 101:
            raise ConnectionBroken("tried to switch protocols" if status else "sent no status")
        if status > _LAST_STATUS:
            raise ConnectionBroken(f"sent the status {status}, which HTTP does not have")
        if self.head_bytes > MAX_HEAD_BYTES and sum(len(n) + len(v) + 4 for n, v in self.headers) > MAX_HEAD_BYTES:
            raise ConnectionBroken("sent too many headers")
        if status >= 200:
            self.status = status
            self._unpack()
            self.at_end = self._has_no_body  # the parser would wait for a body

    def _unpack(self) -> None:
        """Decompress the body and remove the headers that describe its compressed form."""
        coding = (self.header(b"content-encoding") or "").strip().lower()
        if coding in CODINGS and not self._has_no_body:
            self._decompressor = CODINGS[coding]()
            packed_headers = (b"content-encoding", b"content-length")
            self.headers = [header for header in self.headers if header[0] not in packed_headers]

    def on_body(self, data: bytes) -> None:
        if self.at_end:
            raise ConnectionBroken("sent a body to HEAD")
        self._parts.append(data)
        self._size += len(data)
        self.head_bytes = 0

    def on_message_complete(self) -> None:
        """End, unless it was an interim answer. Only now does the parser know whether the connection may be kept."""
        if self.status:
            assert self._connection is not None
            self.at_end = True
            self.reusable = self._connection.parsed_keep_alive()

    async def _wait_for_more(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._waiter = None


class ProviderConnection(asyncio.Protocol):
    """One connection: idle, or with one call.

    It returns itself with `released` after a complete answer if both sides allow; otherwise it is closed. `lost` is
    called once it is closed, by either side.
    """

    __slots__ = (
        "_answer", "_full", "_held_up", "_last", "_loop", "_lost", "_parser", "_released", "_rest", "_silence",
        "_timer", "_transport", "closed", "idle_since",
    )  # fmt: skip

    def __init__(
        self,
        released: Callable[["ProviderConnection"], None],
        lost: Callable[["ProviderConnection"], None],
        loop: asyncio.AbstractEventLoop,
        silence_seconds: float,
    ) -> None:
        self._released = released
        self._lost = lost
        self._loop = loop
        self._silence = silence_seconds
        self._answer: ProviderResponse | None = None
        self._parser: HttpResponseParser | None = None
        self._rest: memoryview | None = None
        self._full = False
        self._held_up = False
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self.idle_since = 0.0
        """When it became idle, by the event loop's clock."""
        self.closed = False
        """Whether it is closed and `lost` was called."""

    @property
    def usable(self) -> bool:
        """Return whether the connection is open, as far as is known."""
        return not self._transport.is_closing()

    def ask(self, head: bytes, body: bytes, *, has_no_body: bool) -> ProviderResponse:
        """Send a call and return its future answer. With `has_no_body` the answer has only a head."""
        self._answer = answer = ProviderResponse(self, has_no_body=has_no_body)
        # One parser per answer: trailers that httptools holds back would appear in the next answer's headers.
        self._parser = HttpResponseParser(answer)
        self._last = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._silence, self._check_silence)
        if len(body) <= SMALL_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._rest = memoryview(body)
            self._write_on()
        return answer

    def drop(self) -> None:
        """Close it now and break its call, so that no reader waits forever."""
        if self._answer is not None:
            self._answer.fail(ConnectionBroken("closed by the gateway"))
            self._answer.detach()
        self._answer = self._parser = self._rest = None
        self._transport.abort()

    def read_on(self) -> None:
        if self._held_up and self.usable:
            self._held_up = False
            self._last = self._loop.time()
            self._transport.resume_reading()

    def parsed_status(self) -> int:
        assert self._parser is not None
        return self._parser.get_status_code()

    def parsed_keep_alive(self) -> bool:
        assert self._parser is not None
        return self._parser.should_keep_alive()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the answer; an idle connection expects none and is closed."""
        answer, parser = self._answer, self._parser
        if answer is None or parser is None:
            self.drop()
            return
        self._last = self._loop.time()
        answer.head_bytes += len(data)
        flaw: ConnectionBroken | None = None
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            cause = error.__context__
            flaw = (
                cause
                if isinstance(cause, ConnectionBroken)
                else ConnectionBroken("sent something that is not an HTTP answer")
            )
        else:
            if answer.head_bytes > MAX_HEAD_BYTES and not answer.at_end:
                flaw = ConnectionBroken("sent too much before or after the body")
        if flaw is not None:
            answer.fail(flaw)
            self.drop()
        elif answer.at_end:
            self._end_call(answer)
        elif answer.unread > MAX_UNREAD_BYTES and not self._held_up:
            self._held_up = True
            self._transport.pause_reading()
        answer.wake()

    def eof_received(self) -> None:
        """End the call: the provider will send nothing more."""
        if self._answer is not None:
            self._answer.on_connection_lost(clean=True)
        self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._answer is not None:
            self._answer.on_connection_lost(clean=exc is None)
            self._answer.detach()
        self._answer = self._parser = self._rest = None
        self._lost(self)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._write_on()

    def _write_on(self) -> None:
        """Write the next slice. The one after it waits for a turn of the event loop, or until this one has gone out."""
        if self._rest is None or self._full:
            return
        self._last = self._loop.time()
        self._transport.write(self._rest[:SLICE_BYTES])
        self._rest = self._rest[SLICE_BYTES:] if len(self._rest) > SLICE_BYTES else None
        if self._rest is not None and not self._full:
            self._loop.call_soon(self._write_on)

    def _end_call(self, answer: ProviderResponse) -> None:
        """Release the connection, if the provider allows it and has taken the whole request."""
        unsent = self._rest is not None or self._transport.get_write_buffer_size() > 0
        if not answer.reusable or unsent or self._transport.is_closing():
            self.drop()
            return
        self._answer = self._parser = None
        answer.detach()
        self.read_on()
        self._released(self)

    def _check_silence(self) -> None:
        """End a call on which nothing moved for too long; a slow reader does not count as the provider's silence."""
        self._timer = None
        if self._answer is None:
            return
        quiet = 0.0 if self._held_up else self._loop.time() - self._last
        if quiet < self._silence:
            self._timer = self._loop.call_later(self._silence - quiet, self._check_silence)
            return
        self._answer.fail(ConnectionStalled(f"nothing came for {self._silence:g} s"))
        self.drop()
