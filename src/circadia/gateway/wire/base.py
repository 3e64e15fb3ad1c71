"""HTTP/1.1 to model providers: connection errors and origins.

The gateway's own client: `dialer` opens connections, `connection` carries one call at a time, and `pool`, the
callers' entry, keeps connections. It does only what this gateway needs, since each model call pays for it: one
origin, prepared headers, a body in memory, an answer in chunks; no redirects and no cookies.
"""

from dataclasses import dataclass
from typing import Final, Protocol, Self

from yarl import URL

_LABELS: Final = 253
"""Longest host name (RFC 1035, 2.3.4)."""


class WireError(Exception):
    """A call did not get its whole answer. The message is a short reason, without headers or addresses."""


class ConnectFailed(WireError):
    """The connection could not be made (name, network or TLS); nothing of the call was sent."""


class ConnectTimedOut(WireError):
    """The connection was not made in time; nothing of the call was sent."""


class ConnectionStalled(WireError):
    """No byte came or went for too long on an open connection."""


class ConnectionBroken(WireError):
    """The connection ended, or invalid data came, before the answer was complete."""


class Clearance(Protocol):
    """What a call waits for, and asks once more directly before it is written."""

    async def wait_for_turn(self) -> None:
        """Return when it may take a connection."""
        ...

    async def wait_to_send(self) -> None:
        """Return when those that took theirs before are sent."""
        ...

    def clear_to_send(self) -> None:
        """Raise if the call must not be written now; else it is written in this step of the event loop."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    secure: bool
    host: str
    """DNS name, or an address without brackets."""
    port: int
    authority: bytes
    prefix: bytes
    """Path before every target; empty, or starts with a slash and ends without one."""

    @classmethod
    def from_url(cls, base_url: str) -> Self:
        """Return the origin of an http(s) URL with host, port and path only. Raises ValueError for any other."""
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
