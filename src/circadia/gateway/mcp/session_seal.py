"""MCP session ids bound to their token without any state: the id contains its own proof (GATE-35).

An outer id is the inner one (the proxied server's, or a random one of ours) and a MAC over it, the server's name and
the owner's token hash. It survives a restart, cannot be used with another token or at another server, and a
rotated token ends its sessions.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

from circadia.errors import NotFound

_MAC_BYTES = 16


class Seal:
    """Makes session ids with the first key and opens them with any; keys are secrets that survive restarts."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = keys

    def fresh(self, owner: str, server: str) -> str:
        """Return a new session id for a server that issues none."""
        return self.close(owner, server, secrets.token_hex(8))

    def close(self, owner: str, server: str, inner: str) -> str:
        """Return the owner's id for the server's `inner` id; `owner` is a token hash."""
        return f"{inner}.{_mac(self._keys[0], owner, server, inner)}"

    def open(self, owner: str, server: str, outer: str) -> str:
        """Return the inner id. Raises NotFound if it is not this owner's; MCP clients then start a new session."""
        inner, _, mac = outer.rpartition(".")
        macs = [_mac(key, owner, server, inner) for key in self._keys]
        if not inner or not any(hmac.compare_digest(mac.encode(), each.encode()) for each in macs):
            raise NotFound("no such MCP session for this token; initialize again")
        return inner


def _mac(key: bytes, owner: str, server: str, inner: str) -> str:
    text = "\n".join((owner, server, inner)).encode("utf-8", "surrogateescape")
    digest = hmac.digest(key, text, hashlib.sha256)[:_MAC_BYTES]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
