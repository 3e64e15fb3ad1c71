"""Decompresses a body that a provider, or a proxy, compressed although the gateway requested none."""

import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import brotli

from circadia.gateway.wire.base import ConnectionBroken

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_CORRUPT: Final = "sent a body that is not compressed as declared"
_CUT: Final = "ended within its compressed body"
LARGEST_BYTES: Final = 2**18
"""Maximum size of a piece; a few compressed bytes can stand for a gigabyte."""
_DEFLATED: Final = 8
"""First byte of a zlib header (RFC 1950, 2.2); some servers send `deflate` without it."""


class BodyDecompressor(Protocol):
    """One body in progress: `put` received bytes, then `take` until nothing is left."""

    def put(self, packed: bytes) -> None: ...

    def take(self) -> bytes:
        """Return the next piece; empty if it needs more input. Raises ConnectionBroken for corrupt data."""
        ...

    def end(self) -> None:
        """Raise ConnectionBroken if the body ends too early."""
        ...


class ZlibBody:
    """Gzip of any number of members, or deflate with or without a header."""

    def __init__(self) -> None:
        self._packed = b""
        self._inflating = None
        self._ended = False

    def put(self, packed: bytes) -> None:
        self._packed += packed

    def take(self) -> bytes:
        while self._packed and not self._ended:
            if self._inflating is None:
                is_raw = self._packed[0] & 0x0F != _DEFLATED and self._packed[0] != 0x1F
                self._inflating = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS | 32)
            try:
                piece = self._inflating.decompress(self._packed, LARGEST_BYTES)
            except zlib.error as error:
                raise ConnectionBroken(_CORRUPT) from error
            self._packed = self._inflating.unconsumed_tail
            if self._inflating.eof:
                self._packed = self._inflating.unused_data
                self._inflating = None
                self._ended = not self._packed.startswith(b"\x1f\x8b")  # else another member (RFC 1952, 2.2)
            if piece:
                return piece
        return b""

    def end(self) -> None:
        if self._inflating is not None:
            raise ConnectionBroken(_CUT)


class _BrotliDecompressor(Protocol):
    def process(self, data: bytes, output_buffer_limit: int) -> bytes: ...
    def can_accept_more_data(self) -> bool: ...
    def is_finished(self) -> bool: ...


class BrotliBody:
    def __init__(self) -> None:
        self._packed = b""
        self._begun = False
        self._inflating: _BrotliDecompressor = brotli.Decompressor()  # pyright: ignore[reportUnknownMemberType]

    def put(self, packed: bytes) -> None:
        self._packed += packed
        self._begun = True

    def take(self) -> bytes:
        packed, self._packed = self._packed, b""
        if not packed and self._inflating.can_accept_more_data():
            return b""
        try:
            return self._inflating.process(packed, output_buffer_limit=LARGEST_BYTES)
        except brotli.error as error:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            raise ConnectionBroken(_CORRUPT) from error

    def end(self) -> None:
        if self._begun and not self._inflating.is_finished():
            raise ConnectionBroken(_CUT)


class ZstdBody:
    """Zstandard of any number of frames."""

    def __init__(self) -> None:
        self._packed = b""
        self._inflating: zstd.ZstdDecompressor | None = None

    def put(self, packed: bytes) -> None:
        self._packed += packed

    def take(self) -> bytes:
        while self._packed or (self._inflating is not None and not self._inflating.needs_input):
            packed, self._packed = self._packed, b""
            if self._inflating is None:
                self._inflating = zstd.ZstdDecompressor()
            try:
                piece = self._inflating.decompress(packed, LARGEST_BYTES)
            except zstd.ZstdError as error:
                raise ConnectionBroken(_CORRUPT) from error
            if self._inflating.eof:
                self._packed = self._inflating.unused_data
                self._inflating = None
            if piece:
                return piece
        return b""

    def end(self) -> None:
        if self._inflating is not None:
            raise ConnectionBroken(_CUT)


CODINGS: Final[Mapping[str, Callable[[], BodyDecompressor]]] = {
    "gzip": ZlibBody, "x-gzip": ZlibBody, "deflate": ZlibBody, "br": BrotliBody, "zstd": ZstdBody,
}  # fmt: skip
"""By the name of the coding (RFC 9110, 8.4.1; RFC 7932; RFC 8878)."""
