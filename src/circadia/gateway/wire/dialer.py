"""Opens connections to one provider."""

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]  # its tuple has no items
from yarl import URL

from circadia.gateway.wire.base import ConnectFailed, ConnectTimedOut, Origin
from circadia.gateway.wire.connection import ProviderConnection
from circadia.network import explain_unreachable

ADDRESSES_KEPT_SECONDS: Final = 60.0
HEAD_START_SECONDS: Final = 0.25
"""Head start of each address before the next one is tried beside it (RFC 8305, 8)."""

_LONGEST_ANSWER: Final = 2**16
"""Maximum bytes of a proxy's answer to CONNECT."""

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
"""Family, type, protocol, canonical name and address, as `getaddrinfo` returns them."""


def tls_context() -> ssl.SSLContext:
    """Return the context for providers. It reads certificates (`SSL_CERT_FILE` counts): call it in a thread."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Dialer:
    """Opens connections to one provider and caches its addresses for a minute."""

    def __init__(
        self, origin: Origin, context: ssl.SSLContext | None, timeout_seconds: float, proxy: URL | None = None
    ) -> None:
        """With a `proxy`, connections are tunnels through it, and only its name is looked up here."""
        self._origin = origin
        self._proxy = proxy
        self._place = (origin.host, origin.port) if proxy is None else (proxy.raw_host or "", proxy.port or 80)
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
            if self._proxy is not None:
                await self._open_tunnel(sock, self._proxy)
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

    async def _open_tunnel(self, sock: socket.socket, proxy: URL) -> None:
        """Ask the proxy for a tunnel (RFC 9110, 9.3.6). The provider sends nothing before TLS begins."""
        host = f"[{self._origin.host}]" if ":" in self._origin.host else self._origin.host
        lines = [f"CONNECT {host}:{self._origin.port} HTTP/1.1", f"Host: {host}:{self._origin.port}"]
        if proxy.user is not None:
            credentials = b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
            lines.append(f"Proxy-Authorization: Basic {credentials}")
        loop, answer = asyncio.get_running_loop(), b""
        await loop.sock_sendall(sock, "\r\n".join((*lines, "", "")).encode("latin-1"))
        while b"\r\n\r\n" not in answer and len(answer) < _LONGEST_ANSWER:
            piece = await loop.sock_recv(sock, 4096)
            if not piece:
                raise ConnectFailed("the proxy in HTTPS_PROXY closed the connection")
            answer += piece
        status = answer[:200].split(b" ", 2)[1:2]
        if not status or not status[0].startswith(b"2"):
            shown = status[0][:3].decode("latin-1") if status else "no HTTP"
            raise ConnectFailed(f"the proxy in HTTPS_PROXY refused the tunnel ({shown})")

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
        self._addresses = await loop.getaddrinfo(*self._place, type=socket.SOCK_STREAM)
        if not self._addresses:
            raise OSError("a name without addresses")
        self._known_until = loop.time() + ADDRESSES_KEPT_SECONDS
        return self._addresses


def _consume_failure(task: asyncio.Task[Sequence[AddressInfo]]) -> None:
    if not task.cancelled():
        task.exception()
