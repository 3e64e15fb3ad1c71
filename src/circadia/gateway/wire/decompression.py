"""Decompresses a body that a provider, or a proxy, compressed although the gateway requested none."""

import zlib
from typing import Final

from circadia.gateway.wire.base import ConnectionBroken

CODINGS: Final = frozenset({"gzip", "x-gzip", "deflate"})
"""Codings that Python decompresses without another package (RFC 9110, 8.4.1)."""
LARGEST_BYTES: Final = 2**18
"""Maximum size of a piece; a few compressed bytes can stand for a gigabyte."""
_DEFLATED: Final = 8
"""First byte of a zlib header (RFC 1950, 2.2); some servers send `deflate` without it."""


class BodyDecompressor:
    """One body in progress: `put` received bytes, then `take` until nothing is left."""

    def __init__(self) -> None:
        self._packed = b""
        self._inflating = None
        self._ended = False

    def put(self, packed: bytes) -> None:
        self._packed += packed

    def take(self) -> bytes:
        """Return the next piece; empty if it needs more input. Raises ConnectionBroken for corrupt data."""
        while self._packed and not self._ended:
            if self._inflating is None:
                bare = self._packed[0] & 0x0F != _DEFLATED and self._packed[0] != 0x1F
                self._inflating = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
            try:
                piece = self._inflating.decompress(self._packed, LARGEST_BYTES)
            except zlib.error as error:
                raise ConnectionBroken("sent a body that is not compressed as declared") from error
            self._packed = self._inflating.unconsumed_tail
            if self._inflating.eof:
                self._packed = self._inflating.unused_data
                self._inflating = None
                self._ended = not self._packed.startswith(b"\x1f\x8b")  # else another member (RFC 1952, 2.2)
            if piece:
                return piece
        return b""

    def end(self) -> None:
        """Raise ConnectionBroken if the body ends too early."""
        if self._inflating is not None:
            raise ConnectionBroken("ended within its compressed body")
