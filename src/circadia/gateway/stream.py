"""Streams in whole events, so that a stream which breaks off can still end with one that its reader understands."""

from typing import Final

_LONGEST = 2**20
"""Bytes of an unfinished event that are kept back; a longer one is no event, and passes as it comes."""
_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


class WholeEvents:
    """Passes whole events at once and keeps back what comes behind the last one's end: no reader could use it yet."""

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what may go out."""
        if not self._begun and chunk.endswith(_ENDS):
            return chunk
        seen = self._begun + chunk
        end = max((found + len(mark) for mark in _ENDS if (found := seen.rfind(mark)) >= 0), default=0)
        if len(seen) - end > _LONGEST:
            end = len(seen)
        self._begun = seen[end:]
        return seen[:end]

    def end(self) -> bytes:
        """Return what is left of a stream that ended well."""
        left, self._begun = self._begun, b""
        return left
