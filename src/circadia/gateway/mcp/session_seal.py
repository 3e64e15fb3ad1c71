"""MCP session ids bound to their token without any state: the id contains its own proof (GATE-35).

An outer id is the inner one (the proxied server's, or a random one of ours) and a MAC over it, the server's name and
the owner's token hash. It survives a restart, cannot be used with another token or at another server, and a
rotated token ends its sessions.
"""

import base64
import hashlib
import hmac
import secrets

from circadia.errors import NotFound

_MAC_BYTES = 16


class Seal:
    """Makes and opens session ids; `key` is a secret of this server that survives restarts."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def fresh(self, owner: str, server: str) -> str:
        """Return a new session id for a server that issues none."""
        return self.close(owner, server, secrets.token_hex(8))

    def close(self, owner: str, server: str, inner: str) -> str:
        """Return the owner's id for the server's `inner` id; `owner` is a token hash."""
        return f"{inner}.{self._mac(owner, server, inner)}"

    def open(self, owner: str, server: str, outer: str) -> str:
        """Return the inner id. Raises NotFound if it is not this owner's; MCP clients then start a new session."""
        inner, _, mac = outer.rpartition(".")
        if not inner or not hmac.compare_digest(mac.encode(), self._mac(owner, server, inner).encode()):
            raise NotFound("no such MCP session for this token; initialize again")
        return inner

    def _mac(self, owner: str, server: str, inner: str) -> str:
        text = "\n".join((owner, server, inner)).encode("utf-8", "surrogateescape")
        digest = hmac.digest(self._key, text, hashlib.sha256)[:_MAC_BYTES]
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
