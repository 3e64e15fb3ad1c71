"""Server-sent events: splitting a byte stream into events, and writing one (WHATWG HTML, 9.2.6)."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import orjson

_LONGEST = 2**20
"""Maximum bytes of an unfinished event that are held back; a longer one is not an event and passes as it comes."""
_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


class WholeEvents:
    """Passes complete events at once and holds back the rest, which no reader could use yet."""

    def __init__(self) -> None:
        self._begun = b""
        self._has_passed_start = False
        """Whether the beginning of the unfinished event is passed."""

    def feed(self, chunk: bytes) -> bytes:
        if not self._begun and chunk.endswith(_ENDS):
            self._has_passed_start = False
            return chunk
        buffer = self._begun + chunk
        end = max((at + len(mark) for mark in _ENDS if (at := buffer.rfind(mark)) >= 0), default=0)
        if end:
            self._has_passed_start = False
        if len(buffer) - end > _LONGEST:
            self._has_passed_start = True
            end = len(buffer)
        self._begun = buffer[end:]
        return buffer[:end]

    def break_off(self) -> bytes:
        """Return what separates an event of our own from the stream, which broke off."""
        self._begun = b""
        return b"\n\n" if self._has_passed_start else b""

    def end(self) -> bytes:
        """Return the rest of a stream that ended well."""
        left, self._begun = self._begun, b""
        return left


# Atomic, so that one CRLF is never taken for two line ends.
_END = re.compile(rb"(?>\r\n?|\n)(?>\r\n?|\n)")


class EventSplitter:
    """Cuts chunks into complete events with their blank lines, and holds the unfinished one."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._tail = b""
        self.held_bytes = 0

    def feed(self, chunk: bytes) -> Sequence[bytes]:
        """Return the events that this chunk completes. All events and the held bytes together are the stream."""
        if self._held:
            # An end may be split over chunks: the last three bytes before this chunk are enough to see it.
            if not _has_end(self._tail + chunk):
                self._hold(chunk)
                return ()
            chunk = self.drain() + chunk
        elif len(chunk) > 2 and chunk.find(b"\n\n") == len(chunk) - 2 and b"\r" not in chunk:
            return (chunk,)
        if b"\r" in chunk or b"\n\n\n" in chunk:
            return self._split_events(chunk)
        end = chunk.rfind(b"\n\n") + 2
        if end < 2:
            self._hold(chunk)
            return ()
        if end < len(chunk):
            self._hold(chunk[end:])
        return [event + b"\n\n" for event in chunk[: end - 2].split(b"\n\n")]

    def drain(self) -> bytes:
        held = b"".join(self._held)
        self._held = []
        self._tail = b""
        self.held_bytes = 0
        return held

    def drain_start(self) -> bytes:
        """Return the beginning of the unfinished event; its last bytes, in which an end may begin, stay."""
        tail = self._tail
        start = self.drain()[: -len(tail)]
        self._hold(tail)
        return start

    def _hold(self, chunk: bytes) -> None:
        self._held.append(chunk)
        self._tail = (self._tail + chunk)[-3:]
        self.held_bytes += len(chunk)

    def _split_events(self, stream: bytes) -> Sequence[bytes]:
        events: list[bytes] = []
        start = 0
        for match in _END.finditer(stream):
            if _may_go_on(stream, match.end()):
                break
            events.append(stream[start : match.end()])
            start = match.end()
        if start < len(stream):
            self._hold(stream[start:])
        return events


def event_data(event: bytes) -> bytes:
    """Return the data of an event, empty without any; white space around it is kept."""
    if b"\r" not in event:
        start = 0 if event.startswith(b"data:") else event.find(b"\ndata:") + 1
        if event.startswith(b"data:", start):
            end = event.find(b"\n", start)
            if end < 0 or not event[end:].strip(b"\n"):
                return event[start + 5 :]
        elif start == 0:
            return b""
    return b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:"))


def format_event(data: Mapping[str, object], name: str | None = None) -> bytes:
    line = b"data: %b\n\n" % orjson.dumps(data)
    return line if name is None else b"event: %b\n%b" % (name.encode(), line)


def _has_end(window: bytes) -> bool:
    """Return whether an event certainly ends here."""
    if b"\r" not in window:
        return b"\n\n" in window
    match = _END.search(window)
    return match is not None and not _may_go_on(window, match.end())


def _may_go_on(stream: bytes, end: int) -> bool:
    """Return whether a final CR might be the first half of a CRLF."""
    return end == len(stream) and stream.endswith(b"\r")
