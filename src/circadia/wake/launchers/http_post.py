"""One HTTP request to a configured URL, with errors that say whether something may have run."""

import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final
from zlib import MAX_WBITS, decompressobj
from zlib import error as ZlibError

import aiohttp
from yarl import URL

from circadia.network import explain_unreachable, tls_hint

_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")


AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]


class AddressRefused(OSError):
    """Connections to the host's address are forbidden."""


class AddressGuard:
    """Creates the sockets for one request, to allowed addresses only."""

    def __init__(self, allowed_networks: Sequence[str], *, encrypted: bool) -> None:
        """Allow the networks and, on an encrypted connection, public addresses."""
        self._networks = [ip_network(network) for network in allowed_networks]
        self._encrypted = encrypted
        self.refused: AddressRefused | None = None
        """The last refusal; after several addresses, callers see only one error."""

    def socket_for(self, info: AddressInfo) -> socket.socket:
        """Return a socket for an allowed address, or raise AddressRefused."""
        family, kind, protocol, _, address = info
        try:
            self.check(str(address[0]))
        except AddressRefused as error:
            self.refused = error
            raise
        return socket.socket(family, kind, protocol)

    def check(self, address: str) -> None:
        """Check the address. Raise AddressRefused if it is neither allowed nor, on an encrypted connection, public."""
        # RFC 6890 lists what is not public; an IPv6 address can contain an IPv4 one, which then decides.
        target = _embedded_ipv4(ip_address(address.partition("%")[0]))
        if any(target in network for network in self._networks):
            return
        if not is_public(target):
            raise AddressRefused(f"{address} is not a public address; if it is meant, add it to `allowed_networks`")
        if not self._encrypted:
            raise AddressRefused(f"{address} is public, and http would show the token to all on the way; use https")


_NOWHERE: Final = tuple(
    ip_network(network)
    for network in (
        "fec0::/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24", "203.0.113.0/24",
        "2001:db8::/32", "3fff::/20",
    )
)  # fmt: skip
"""Site-local addresses (RFC 3879), protocol assignments (RFC 6890), relays of 6to4 (RFC 7526), and those for
documentation (RFC 5737, 3849, 9637)."""


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether the address belongs to one machine on the open internet."""
    if isinstance(address, IPv6Address) and (address.teredo or address.sixtofour or address in _LOCAL_NAT64):
        return False  # a tunnel to an unknown target
    if any(address in network for network in _NOWHERE):
        return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    )


def _embedded_ipv4(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


ANSWER_BYTES: Final = 2**16
_PIECE_BYTES: Final = 2**16
_RETRIABLE: Final = (429, 503)


class PostNotSent(Exception):
    """Nobody was reached; a retry may succeed."""


class PostRejected(Exception):
    """The request cannot or must not be sent, now or later."""


class PostAnswerLost(Exception):
    """The request was sent at least in part, and its outcome is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PostResponse:
    status: int
    text: str
    """The start of the body."""
    retry_after_seconds: float | None
    """From a 429 or 503 with `Retry-After`; the request was not accepted."""


def _do_nothing() -> None:
    """Ignore the call."""


class HttpPoster:
    """Posts to one URL: no proxy, no redirects, no kept connections, only to allowed addresses."""

    def __init__(self, url: str, *, allowed_networks: Sequence[str], connect_timeout_seconds: float) -> None:
        self._url = URL(url)
        self._allowed_networks = tuple(allowed_networks)
        self._connect_timeout_seconds = connect_timeout_seconds
        self.shown = str(self._url.with_query(None).with_fragment(None))
        """The URL without its query and fragment, which may be secret."""

    async def send(
        self,
        headers: Mapping[str, str],
        body: bytes,
        answer_seconds: float,
        *,
        written: Callable[[], None] = _do_nothing,
    ) -> PostResponse:
        """Post the body; call `written` once all of it is sent. Raises PostNotSent, PostRejected or PostAnswerLost."""
        guard = AddressGuard(self._allowed_networks, encrypted=self._url.scheme == "https")
        connector = aiohttp.TCPConnector(
            socket_factory=guard.socket_for, force_close=True, use_dns_cache=False, limit=1
        )
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._connect_timeout_seconds, sock_read=answer_seconds
        )
        sized = {**headers, "content-length": str(len(body)), "accept-encoding": "identity"}
        try:
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    timeout=timeout,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=False,  # a few bytes can expand to a gigabyte
                ) as http,
                http.post(
                    self._url, data=_body_pieces(body, written), headers=sized, allow_redirects=False
                ) as response,
            ):
                text = self._decode_body(await _read_start(response), response.headers.get("Content-Encoding", ""))
                return PostResponse(
                    status=response.status, text=text, retry_after_seconds=_retry_after_seconds(response)
                )
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            raise PostRejected(f"{self.shown} cannot be posted to: {explain_unreachable(error)}") from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            if guard.refused is not None:
                raise PostRejected(f"{self.shown}: {guard.refused}") from error
            raise PostNotSent(f"{self.shown} cannot be reached: {explain_unreachable(error)}") from error
        except aiohttp.InvalidURL as error:
            raise PostRejected(f"{self.shown} is not a URL to post to") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            how = f"{type(error).__name__}{tls_hint(self.shown)}"
            raise PostAnswerLost(f"{self.shown} took the request but sent no complete answer: {how}") from error

    def _decode_body(self, content: bytes, encoding: str) -> str:
        """Return the start of the body as text, decompressing no more than is kept."""
        if encoding.lower() in ("gzip", "x-gzip", "deflate"):
            try:
                content = decompressobj(MAX_WBITS | 32).decompress(content, ANSWER_BYTES)
            except ZlibError as error:
                raise PostAnswerLost(f"{self.shown} sent an answer that cannot be decoded ({encoding!r})") from error
        elif encoding.lower() not in ("", "identity"):
            raise PostAnswerLost(
                f"{self.shown} sent an answer that cannot be decoded ({encoding!r}); it must not compress"
            )
        return content.decode("utf-8-sig", "replace").strip()


async def _body_pieces(body: bytes, written: Callable[[], None]) -> AsyncIterator[bytes]:
    for first in range(0, len(body), _PIECE_BYTES):
        yield body[first : first + _PIECE_BYTES]
    written()


async def _read_start(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    while len(content) < ANSWER_BYTES and (chunk := await response.content.read(ANSWER_BYTES - len(content))):
        content += chunk
    return bytes(content)


def _retry_after_seconds(response: aiohttp.ClientResponse) -> float | None:
    """Return the header's seconds; ignore its other form, a date (RFC 9110, 10.2.3)."""
    value = response.headers.get("Retry-After", "").strip()
    if response.status not in _RETRIABLE or not (value.isascii() and value.isdigit()):
        return None
    return float(value)
