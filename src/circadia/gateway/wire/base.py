"""HTTP/1.1 to model providers: what can go wrong on a connection, and where a provider is.

The gateway's own client: `wire_dial` opens connections, `wire_connection` carries one call at a time over one,
`wire_pool` keeps them and is what callers use. It does what this gateway needs and no more, since each model call pays
for it: one origin, a prepared list of headers, a body in memory, an answer in chunks; no redirects, cookies or
proxies.
"""

from dataclasses import dataclass
from typing import Final, Self

from yarl import URL

_LABELS: Final = 253
"""Longest host name (RFC 1035, 2.3.4)."""


class WireError(Exception):
    """A call did not get its whole answer. The message is a reason in a few words, without headers or addresses."""


class ConnectFailed(WireError):
    """There was no connection (name, network or TLS); nothing of the call was sent."""


class ConnectTimedOut(WireError):
    """A connection took too long; nothing of the call was sent."""


class ConnectionStalled(WireError):
    """The connection stood, and no byte came or went for too long."""


class ConnectionBroken(WireError):
    """The connection ended, or something came that is no answer, before the whole answer was there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a provider is."""

    secure: bool
    """Whether it speaks TLS."""
    host: str
    """Its name as DNS knows it, or its address without brackets."""
    port: int
    """Its port."""
    authority: bytes
    """What the Host header says."""
    prefix: bytes
    """Path in front of every target; empty, or starts with a slash and ends without one."""

    @classmethod
    def from_url(cls, base_url: str) -> Self:
        """Return the origin of a base URL.

        Raises:
            ValueError: it is no http or https URL of a host, or holds more than host, port and path.
        """
        url = URL(base_url)
        if url.scheme not in ("http", "https") or not url.raw_host or len(url.raw_host) > _LABELS or not url.port:
            raise ValueError("must be http:// or https:// with a host")
        if url.raw_user is not None or url.raw_password is not None:
            raise ValueError("must hold no user name or password; a key goes into `key_env`")
        if url.raw_query_string or url.raw_fragment:
            raise ValueError("must end with its path; a query or fragment has no place in it")
        return cls(
            secure=url.scheme == "https",
            host=url.raw_host,
            port=url.port,
            authority=(url.host_port_subcomponent or "").encode("ascii"),
            prefix=url.raw_path.rstrip("/").encode("ascii"),
        )
