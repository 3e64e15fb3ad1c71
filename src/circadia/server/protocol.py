"""uvicorn's HTTP protocol, with a disconnect for every request of a lost connection, and its configuration.

A hold takes 13.6 KiB (`python -m benchmarks holds`, 2,000 holds); each saving below is measured with it.
"""

import asyncio
from collections import deque
from typing import Any, Final, cast

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from circadia.errors import InvalidRequest
from circadia.gateway.hold.reply import DISCONNECT_KEY, Disconnect
from circadia.server.front import build_problem

END_SECONDS: Final = 1
"""How long requests may still write after the drain; then they are cancelled."""
HEAD_SECONDS: Final = 30.0
"""Time for the head of a connection's first request; later heads have the keep-alive time."""
MAX_HEAD_BYTES: Final = 65_536
"""Bytes of a request's URL and headers; providers and proxies allow 8 to 32 KiB."""
_NO_HTTP: Final = "this is no valid HTTP/1.1 request; send it with an HTTP client, without TLS unless a proxy takes it"
_LONG_HEAD: Final = f"the URL or the headers are over {MAX_HEAD_BYTES} bytes; shorten them"
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_INTERIM: Final = b"HTTP/1.1 100"
_LENGTH: Final = b"\r\ncontent-length: "
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"


class _Pipeline(list[Any]):
    """Requests queued behind the running one, nearly always none; saves 0.8 KiB per hold over an empty deque."""

    def appendleft(self, value: Any) -> None:
        self.insert(0, value)


class _SlimEvent:
    """The part of `asyncio.Event` that uvicorn uses, twice per connection; saves 2.0 KiB per hold."""

    __slots__ = ("_set", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        self._set = is_set
        self._waiting: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, None
        for future in waiting or ():
            if not future.done():
                future.set_result(None)

    def clear(self) -> None:
        self._set = False

    async def wait(self) -> bool:
        while not self._set:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting = [*(self._waiting or ()), future]
            await future
        return True


class _BufferedTransport:
    """A transport that sends a head together with what follows it: one packet, not two, as TCP_NODELAY is on.

    It saves no measurable CPU (`python -m benchmarks proxy`). It also answers HTTP/1.0 without chunks. Anything else
    goes out at once: waiting for the end of a turn of the event loop would cost another turn.
    """

    __slots__ = ("_begun", "_drops_chunk_heads", "_head", "_loop", "_transport", "knows_chunks")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.knows_chunks = True
        """Whether the caller speaks HTTP/1.1; else a body of unknown length ends with the connection."""
        self._drops_chunk_heads = False
        self._transport = transport
        self._loop = loop
        self._begun = False
        self._head = b""

    def write(self, data: bytes) -> None:
        """Send data; hold a head until its body comes, or to the end of this turn if it states no length."""
        if self._drops_chunk_heads:
            data = _without_chunks(data)
        elif not self._begun and not self.knows_chunks and _CHUNKED in data:
            data, self._drops_chunk_heads = data.replace(_CHUNKED, b""), True
        if self._begun:
            data, self._head = self._head + data, b""
            if not self._transport.is_closing():
                self._transport.write(data)
            return
        self._begun = not data.startswith(_INTERIM)
        self._head += data
        if not self._begun or _LENGTH not in data:  # else its body follows at once
            self._loop.call_soon(self._flush)

    def end(self) -> None:
        self._flush()
        self._begun = False

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)


def _without_chunks(data: bytes) -> bytes:
    """Return the content of one write of a chunked body; uvicorn writes at most one chunk that is not empty."""
    size, _, rest = data.partition(b"\r\n")
    return rest[: int(size, 16)] if size else b""


class GatewayHttpProtocol(HttpToolsProtocol):
    """Notifies the running request of a disconnect, even if a pipelined request is queued behind it.

    uvicorn notifies only the newest one: a held call with another behind it would wait, and go upstream, for nobody.
    """

    # uvicorn's attributes and ours; saves 1.2 KiB per hold over a dict. An attribute that is not listed lives in the
    # dict, as without slots.
    __slots__ = (
        "_again", "_framing", "_head_bytes", "_running", "_unread_bytes", "access_log", "access_logger", "app",
        "app_state", "client", "config", "connections", "cycle", "default_headers", "expect_100_continue", "flow",
        "headers", "limit_concurrency", "logger", "loop", "parser", "pipeline", "root_path", "scheme", "scope",
        "server", "server_state", "tasks", "timeout_keep_alive", "timeout_keep_alive_task", "transport", "url",
        "ws_protocol_class",
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pipeline = cast("deque[Any]", _Pipeline())
        self._running: RequestResponseCycle | None = None
        self._head_bytes = 0
        # Bytes since the parser last passed something on: what it may have collected, as of a header without end.
        self._unread_bytes = 0
        self._framing = b""
        self._again = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(cast("asyncio.Transport", _BufferedTransport(transport, self.loop)))
        self.flow._is_writable_event = cast("asyncio.Event", _SlimEvent(is_set=True))  # pyright: ignore[reportPrivateUsage]
        self.timeout_keep_alive_task = self.loop.call_later(HEAD_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; a request to upgrade is answered as if it had not asked (RFC 9110, 7.8)."""
        rest = memoryview(data)
        while rest:
            self._unread_bytes += len(rest)
            try:
                self.parser.feed_data(rest)
                if self._unread_bytes > MAX_HEAD_BYTES:
                    self._refuse(431, _LONG_HEAD)
                return
            except httptools.HttpParserUpgrade as stopped:
                rest = rest[stopped.args[0] :]
                self._begin_body()
            except httptools.HttpParserError:
                self._refuse(400, _NO_HTTP)
                return

    def _refuse(self, status: int, message: str) -> None:
        """Close the connection, with an error if no answer is on its way."""
        if self.transport.is_closing():
            return
        running = self._running
        if running is None or running.response_complete or not running.response_started:
            self.logger.warning(message)
            answer = build_problem(InvalidRequest(message), "", status=status)
            headers = (*self.server_state.default_headers, *answer.raw_headers, (b"connection", b"close"))
            lines = [b"%b: %b\r\n" % header for header in headers]
            self.transport.write(b"".join((STATUS_LINE[status], *lines, b"\r\n", answer.body)))
        self.transport.close()

    def on_message_begin(self) -> None:
        self._head_bytes = self._unread_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._unread_bytes = 0
        self._head_bytes += len(url)
        if self._head_bytes >= MAX_HEAD_BYTES:  # httptools takes no URL of this length
            self._refuse(414, _LONG_HEAD)
            raise httptools.HttpParserCallbackError("the URL is too long")
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._unread_bytes = 0
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, _LONG_HEAD)
            raise httptools.HttpParserCallbackError("the head is too large")
        name = name.lower()
        if name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue" or self.expect_100_continue
        self.headers.append((name, value))  # the same as uvicorn, without one more call per header

    def on_headers_complete(self) -> None:
        """Start the request, and drop its trailers, which are no headers of it (RFC 9110, 6.5.1)."""
        if self._again:
            return
        super().on_headers_complete()
        if self.parser.get_http_version() == "1.0":
            cast("_BufferedTransport", self.transport).knows_chunks = False
            self.cycle.keep_alive = False
        if self.limit_concurrency is not None and 2 * len(self.connections) > self.limit_concurrency:
            self.cycle.keep_alive = False  # an idle connection would keep others out
        if self.parser.should_upgrade():
            self._framing = b"".join(b"%b: %b\r\n" % header for header in self.headers if header[0] in _FRAMING)
        self.headers = []

    def on_body(self, body: bytes) -> None:
        self._unread_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._framing:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        cast("_BufferedTransport", self.transport).end()
        super().on_response_complete()

    def _unset_keepalive_if_required(self) -> None:
        """Keep the timer running: only a whole request stops it, so no caller holds a connection with single bytes."""

    def _begin_body(self) -> None:
        """Let the body of an upgrade request be read, if there is one.

        httptools ends such a request at its head, so it gets a head of the same framing without the upgrade; and a new
        parser, as one that has read `Connection: close` accepts nothing more.
        """
        if self._framing:
            self.parser = httptools.HttpRequestParser(self)
            framing, self._framing, self._again = self._framing, b"", True
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % framing)
            self._again = False

    def _stop_timer(self) -> None:
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._stop_timer()
        self._running = cycle
        if not cycle.message_event.is_set():  # else the body is there already
            cycle.message_event = cast("asyncio.Event", _SlimEvent())
        cast("dict[str, Any]", cycle.scope)[DISCONNECT_KEY] = Disconnect()  # saves 1.4 KiB per hold over a task
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Disconnect the running request, and drop the queued ones."""
        self.pipeline.clear()
        self._stop_timer()
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
            cast("dict[str, Disconnect]", running.scope)[DISCONNECT_KEY].notify()
        super().connection_lost(exc)


def build_http_config(app: ASGIApp, *, max_requests: int | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="none",
        http=GatewayHttpProtocol,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=[("x-content-type-options", "nosniff")],
        proxy_headers=False,
        backlog=4096,
        limit_concurrency=max_requests,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=END_SECONDS,
    )
