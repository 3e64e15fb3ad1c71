"""A pool of connections to one provider."""

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from yarl import URL

from circadia.gateway.wire.base import Clearance, ConnectFailed, Origin
from circadia.gateway.wire.connection import ProviderConnection, ProviderResponse
from circadia.gateway.wire.dialer import Dialer

IDLE_SECONDS: Final = 30.0
_BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods whose empty body needs no length (RFC 9110, 8.6)."""

Header = tuple[bytes, bytes]


class ConnectionPool:
    """Sends calls to one provider over at most `max_connections`; further calls wait in order of arrival.

    Made in a running event loop. A call is never sent twice: a kept connection known to be closed is not used, and one
    that turns out closed after the write breaks the call. The caller decides about a retry (RFC 9110, 9.2.2), since it
    knows whether a repeat does harm.
    """

    def __init__(
        self,
        origin: Origin,
        common_headers: Iterable[Header],
        context: ssl.SSLContext | None,
        *,
        max_connections: int,
        connect_timeout_seconds: float,
        answer_timeout_seconds: float,
        idle_seconds: float = IDLE_SECONDS,
        proxy: URL | None = None,
    ) -> None:
        """`common_headers` are the headers of every call; `context` is for TLS, `proxy` a forward proxy on the way.

        Raises ValueError for a bad header.
        """
        self._loop = asyncio.get_running_loop()
        self._dialer = Dialer(origin, context, connect_timeout_seconds, proxy)
        self._answer_timeout_seconds = answer_timeout_seconds
        self._idle_seconds = idle_seconds
        self._max_connections = max_connections
        self._prefix = origin.prefix
        lines = [(b"Host", origin.authority), *common_headers]
        self._common_head = b" HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % line for line in lines)
        self._common_lines = 1 + len(lines)
        _require_lines(self._common_head, self._common_lines)
        self._places_taken = 0
        self._open: set[ProviderConnection] = set()
        self._idle: list[ProviderConnection] = []
        self._waiters: OrderedDict[asyncio.Future[ProviderConnection | None], None] = OrderedDict()
        self._reaper: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    async def send(
        self, method: str, target: str, headers: list[Header], body: bytes, clearance: Clearance | None = None, *,
        fresh: bool = False,
    ) -> ProviderResponse:  # fmt: skip
        """Send a call; return its answer once status and headers have arrived.

        `target` is path and query after the origin's prefix. `headers` are sent unchanged, with Host and the length
        added. Read the answer to its end or `close` it: it keeps its connection until then. Cancelling the caller ends
        the call at any point. The call waits for its turn, for a connection, and for those before it. It is written
        in the step of the event loop in which it is cleared; not at all if that raises. With `fresh` it gets no idle
        connection, which the provider may be about to close.

        Raises:
            ConnectFailed, ConnectTimedOut: no connection; nothing was sent.
            ConnectionBroken, ConnectionStalled: no answer.
            ValueError: a header or the target cannot be sent.
        """
        if " " in target:
            raise ValueError("the target of a call holds a space")
        length = b"Content-Length: %d\r\n" % len(body) if body or method not in _BODILESS else b""
        lines = [b"%b: %b\r\n" % header for header in headers]
        start = method.encode("ascii"), b" ", self._prefix, target.encode("latin-1")
        head = b"".join((*start, self._common_head, length, *lines, b"\r\n"))
        _require_lines(head, self._common_lines + bool(length) + len(lines) + 1)
        while fresh and self._idle:
            self._idle.pop().drop()
        connection = await (self._take() if clearance is None else self._take_when_clear(clearance))
        return await connection.ask(head, body, has_no_body=method == "HEAD").wait_for_head()

    async def close(self) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        if self._open:
            self._emptied = self._loop.create_future()
            for connection in list(self._open):
                connection.drop()
            await self._emptied

    async def _take(self) -> ProviderConnection:
        """Return a connection without a call. The caller must use it without waiting, or it is lost."""
        while True:
            while self._idle:
                connection = self._idle.pop()
                if connection.usable:
                    return connection
            if self._places_taken < self._max_connections:
                self._places_taken += 1
                return await self._dial_connection()
            released = await self._wait_for_connection()
            if released is None:
                return await self._dial_connection()
            if released.usable:
                return released

    async def _take_when_clear(self, clearance: Clearance) -> ProviderConnection:
        await clearance.wait_for_turn()
        while True:
            connection = await self._take()
            try:
                await clearance.wait_to_send()
                if connection.usable:  # else the provider has closed it meanwhile
                    clearance.clear_to_send()
                    return connection
            except BaseException:
                if connection.usable:
                    self._on_connection_released(connection)
                raise

    async def _wait_for_connection(self) -> ProviderConnection | None:
        """Wait for a turn; return a connection, or None to dial a new one."""
        waiter: asyncio.Future[ProviderConnection | None] = self._loop.create_future()
        self._waiters[waiter] = None
        try:
            return await waiter
        except asyncio.CancelledError:
            self._waiters.pop(waiter, None)
            if waiter.done() and not waiter.cancelled():  # granted and cancelled at the same time: pass it on
                connection = waiter.result()
                if connection is None:
                    self._release_place()
                elif connection.usable:
                    self._on_connection_released(connection)
            raise

    async def _dial_connection(self) -> ProviderConnection:
        """Dial a new connection for a place that is already counted."""
        try:
            connection = await self._dialer.dial(self._build_connection)
            if connection.closed:
                raise ConnectFailed("closed at once")
        except BaseException:
            self._release_place()
            raise
        self._open.add(connection)
        if not connection.usable:
            raise ConnectFailed("closed at once")
        return connection

    def _build_connection(self) -> ProviderConnection:
        return ProviderConnection(
            self._on_connection_released, self._on_connection_lost, self._loop, self._answer_timeout_seconds
        )

    def _on_connection_released(self, connection: ProviderConnection) -> None:
        """Give a connection to the longest waiting call, or keep it."""
        waiter = self._next_in_line()
        if waiter is not None:
            waiter.set_result(connection)
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._reaper is None:
            self._reaper = self._loop.call_later(self._idle_seconds, self._reap)

    def _on_connection_lost(self, connection: ProviderConnection) -> None:
        if connection in self._open:
            self._open.discard(connection)
            self._release_place()
            if not self._open and self._emptied is not None and not self._emptied.done():
                self._emptied.set_result(None)

    def _release_place(self) -> None:
        """Give a free place to the longest waiting call."""
        waiter = self._next_in_line()
        if waiter is not None:
            waiter.set_result(None)
        else:
            self._places_taken -= 1

    def _next_in_line(self) -> asyncio.Future[ProviderConnection | None] | None:
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():  # else its caller was cancelled and has not run yet
                return waiter
        return None

    def _reap(self) -> None:
        """Close long idle connections: the first ones, since the last one is always used next."""
        self._reaper = None
        before = self._loop.time() - self._idle_seconds
        old = sum(idle.idle_since <= before for idle in self._idle)
        reaped, self._idle = self._idle[:old], [idle for idle in self._idle[old:] if idle.usable]
        for connection in reaped:
            connection.drop()
        if self._idle:
            self._reaper = self._loop.call_later(self._idle[0].idle_since - before, self._reap)


def _require_lines(head: bytes, lines: int) -> None:
    """Raise ValueError unless the head has exactly these lines: a value must not add a line or a call."""
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
        raise ValueError("a header or the target of a call holds a line break or a NUL")
