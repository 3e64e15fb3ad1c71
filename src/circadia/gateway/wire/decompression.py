"""Unpacks a body that a provider, or a proxy before it, has compressed although it was asked not to."""

import zlib
from typing import Final

from circadia.gateway.wire.base import ConnectionBroken

CODINGS: Final = frozenset({"gzip", "x-gzip", "deflate"})
"""What Python unpacks without a further package (RFC 9110, 8.4.1)."""
LARGEST_BYTES: Final = 2**18
"""Of a piece; a few packed bytes can stand for a gigabyte."""
_DEFLATED: Final = 8
"""How the header of zlib begins (RFC 1950, 2.2); some servers send `deflate` without it."""


class BodyDecompressor:
    """One body on its way: `put` what comes of it, then `take` until nothing is left."""

    def __init__(self) -> None:
        self._packed = b""
        self._inflating = None
        self._ended = False

    def put(self, packed: bytes) -> None:
        """Add what came."""
        self._packed += packed

    def take(self) -> bytes:
        """Return the next piece; empty if more must come for it.

        Raises:
            ConnectionBroken: it is not packed as was said.
        """
        while self._packed and not self._ended:
            if self._inflating is None:
                bare = self._packed[0] & 0x0F != _DEFLATED and self._packed[0] != 0x1F
                self._inflating = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
            try:
                piece = self._inflating.decompress(self._packed, LARGEST_BYTES)
            except zlib.error as error:
                raise ConnectionBroken("sent a body that is not compressed as it says") from error
            self._packed = self._inflating.unconsumed_tail
            if self._inflating.eof:
                self._packed = self._inflating.unused_data
                self._inflating = None
                self._ended = not self._packed.startswith(b"\x1f\x8b")  # else a further member (RFC 1952, 2.2)
            if piece:
                return piece
        return b""

    def end(self) -> None:
        """Raise Broken if the body ends too early."""
        if self._inflating is not None:
            raise ConnectionBroken("ended within its compressed body")
