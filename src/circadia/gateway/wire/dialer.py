"""Opens connections to one provider."""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, Final

from circadia.gateway.wire.base import ConnectFailed, ConnectTimedOut, Origin
from circadia.gateway.wire.connection import ProviderConnection
from circadia.network_errors import explain_unreachable

ADDRESSES_KEPT_SECONDS: Final = 60.0
"""How long a provider's addresses are taken as known."""
HEAD_START_SECONDS: Final = 0.25
"""Head start of each address before the next one is tried beside it (RFC 8305, 8)."""

Address = tuple[socket.AddressFamily, Any]
"""A family, and the address as sockets of it write it."""


def tls_context() -> ssl.SSLContext:
    """Return how providers are checked; reads certificates (`SSL_CERT_FILE` counts), which is work for a thread."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Dialer:
    """Knows how one provider is reached. Its addresses are asked for once a minute, by one question at a time."""

    def __init__(self, origin: Origin, context: ssl.SSLContext | None, timeout_seconds: float) -> None:
        self._origin = origin
        self._context = context
        self._timeout = timeout_seconds
        self._addresses: list[Address] = []
        self._known_until = 0.0
        self._asking: asyncio.Task[list[Address]] | None = None

    async def dial(self, make: Callable[[], ProviderConnection]) -> ProviderConnection:
        """Return a new connection, with its TLS handshake done.

        Raises:
            ConnectFailed: there is none. ConnectTimedOut: it took too long.
        """
        try:
            async with asyncio.timeout(self._timeout):
                return await self._open_connection(make)
        except TimeoutError as error:
            raise ConnectTimedOut(f"no connection within {self._timeout:g} s") from error
        except (OSError, UnicodeError) as error:
            self._known_until = 0.0
            raise ConnectFailed(explain_unreachable(error)) from error

    async def _open_connection(self, make: Callable[[], ProviderConnection]) -> ProviderConnection:
        sock = await first_to_answer(await self._current_addresses())
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _, connection = await asyncio.get_running_loop().create_connection(
                make,
                sock=sock,
                ssl=self._context,
                server_hostname=self._origin.host.rstrip(".") if self._context is not None else None,
            )
        except BaseException:
            sock.close()
            raise
        return connection

    async def _current_addresses(self) -> list[Address]:
        loop = asyncio.get_running_loop()
        if loop.time() < self._known_until:
            return self._addresses
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._query_addresses())
            self._asking.add_done_callback(_consume_failure)
        return await asyncio.shield(self._asking)

    async def _query_addresses(self) -> list[Address]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._origin.host, self._origin.port, type=socket.SOCK_STREAM)
        by_family: dict[socket.AddressFamily, list[Address]] = {}
        for family, _, _, _, address in found:
            by_family.setdefault(family, []).append((family, address))
        alternating = chain.from_iterable(zip_longest(*by_family.values()))
        self._addresses = [each for each in alternating if each is not None]
        self._known_until = loop.time() + ADDRESSES_KEPT_SECONDS
        return self._addresses


async def first_to_answer(addresses: Sequence[Address]) -> socket.socket:
    """Return a socket connected to whichever address answers first, with a head start for the earlier ones."""
    if len(addresses) == 1:
        return await _connect_socket(*addresses[0])
    failure = OSError("a name without addresses")
    left = deque(addresses)
    trying: set[asyncio.Task[socket.socket]] = set()
    try:
        while left or trying:
            if left:
                trying.add(asyncio.create_task(_connect_socket(*left.popleft())))
            wait = HEAD_START_SECONDS if left else None
            done, _ = await asyncio.wait(trying, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                trying.discard(task)
                error = task.exception()
                if error is None:
                    return task.result()
                if not isinstance(error, OSError):
                    raise error
                failure = error
        raise failure
    finally:
        for task in trying:
            task.cancel()
            task.add_done_callback(_close_unneeded_socket)


async def _connect_socket(family: socket.AddressFamily, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _close_unneeded_socket(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def _consume_failure(task: asyncio.Task[list[Address]]) -> None:
    if not task.cancelled():
        task.exception()
