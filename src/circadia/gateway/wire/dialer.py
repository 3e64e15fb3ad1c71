"""Opens connections to one provider."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]  # its tuple has no items

from circadia.gateway.wire.base import ConnectFailed, ConnectTimedOut, Origin
from circadia.gateway.wire.connection import ProviderConnection
from circadia.network_errors import explain_unreachable

ADDRESSES_KEPT_SECONDS: Final = 60.0
HEAD_START_SECONDS: Final = 0.25
"""Head start of each address before the next one is tried beside it (RFC 8305, 8)."""

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
"""Family, type, protocol, canonical name and address, as `getaddrinfo` returns them."""


def tls_context() -> ssl.SSLContext:
    """Return the context for providers. It reads certificates (`SSL_CERT_FILE` counts): call it in a thread."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Dialer:
    """Opens connections to one provider and caches its addresses for a minute."""

    def __init__(self, origin: Origin, context: ssl.SSLContext | None, timeout_seconds: float) -> None:
        self._origin = origin
        self._context = context
        self._timeout = timeout_seconds
        self._addresses: Sequence[AddressInfo] = ()
        self._known_until = 0.0
        self._query: asyncio.Task[Sequence[AddressInfo]] | None = None

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
        sock = await start_connection(await self._current_addresses(), happy_eyeballs_delay=HEAD_START_SECONDS)
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

    async def _current_addresses(self) -> Sequence[AddressInfo]:
        """Return the addresses; callers that need them at the same time share one query."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._known_until:
            return self._addresses
        if self._query is None or self._query.done():
            self._query = loop.create_task(self._query_addresses())
            self._query.add_done_callback(_consume_failure)
        return await asyncio.shield(self._query)

    async def _query_addresses(self) -> Sequence[AddressInfo]:
        loop = asyncio.get_running_loop()
        self._addresses = await loop.getaddrinfo(self._origin.host, self._origin.port, type=socket.SOCK_STREAM)
        if not self._addresses:
            raise OSError("a name without addresses")
        self._known_until = loop.time() + ADDRESSES_KEPT_SECONDS
        return self._addresses


def _consume_failure(task: asyncio.Task[Sequence[AddressInfo]]) -> None:
    if not task.cancelled():
        task.exception()
