"""Shared by all meters: keeping a buffered answer, and reading the events of a stream."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from circadia.errors import InvalidRequest
from circadia.gateway.payload import fields, hash_chain
from circadia.gateway.payload.server_sent_events import EventSplitter, event_data
from circadia.llm.usage import Usage

_NO_USAGE: Final = Usage()
MAX_KEPT_BYTES = 8 * 1024 * 1024
"""Longer answers, and longer single events of a stream, pass unread; such an answer's usage is unknown."""
MAX_TEXT_CHARS = 1024 * 1024
"""Longer streamed answers get no hash."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerContent:
    text: str
    calls: tuple[str, ...] = ()
    """Tool calls for the caller, each as `name(arguments)`."""
    cut: bool = False
    handle: str | None = None
    """The provider's id of a background answer, which is fetched later and may have no text yet."""


class Meter(ABC):
    """Reads one answer as it passes.

    `feed` takes each chunk and returns the caller's bytes: the same, without an event that only the gateway requested.
    It holds back at most one unfinished event, and only if it may have to remove one. `end` returns what was held back;
    after it, all fields are final.
    """

    def __init__(self, hashes: Sequence[str]) -> None:
        self.usage = _NO_USAGE
        self.model: str | None = None
        self.ids: list[str] = []
        """Provider-side ids issued in the answer so far. They now belong to the caller."""
        self.handle: str | None = None
        """The id among them with which a next request may continue this answer (OpenAI's response id)."""
        self.complete = False
        self.stop_reason: str | None = None
        """Why the model stopped, in the provider's word."""
        self.answer_hashes: list[str] = []
        """The request's chain continued with the answer: one hash for each way to send it back, the likeliest last."""
        self._head = hashes[-1] if hashes else None

    @abstractmethod
    def feed(self, chunk: bytes) -> bytes: ...

    @abstractmethod
    def end(self) -> bytes: ...

    def answer_so_far(self) -> AnswerContent | None:
        """Return the answer so far; None if it is empty, cannot be read, or has no text."""
        return None

    def _continue_chain(self, *items: object) -> None:
        """Record the hash of the request's chain continued with these normalised items."""
        if self._head is None or not items:
            return
        try:
            last = hash_chain.hash_chain(self._head, items)[-1]
        except InvalidRequest:
            return
        if last not in self.answer_hashes:
            self.answer_hashes.append(last)


class BufferedMeter(Meter):
    """Keeps a buffered answer up to a limit and reads it at its end. Passes every byte."""

    def __init__(self, hashes: Sequence[str]) -> None:
        super().__init__(hashes)
        self._kept: list[bytes] = []
        self._kept_bytes = 0

    def feed(self, chunk: bytes) -> bytes:
        self._kept_bytes += len(chunk)
        if self._kept_bytes <= MAX_KEPT_BYTES:
            self._kept.append(chunk)
        else:
            self._kept.clear()
        return chunk

    def end(self) -> bytes:
        if self._kept_bytes > MAX_KEPT_BYTES:
            self.complete = True  # it came whole, only unread
            return b""
        body, self._kept = b"".join(self._kept), []
        answer = _parse(body)
        if answer is not None and not answer.get("error"):
            self.read_answer(answer)
        return b""

    @abstractmethod
    def read_answer(self, answer: dict[str, object]) -> None:
        """Read the whole answer."""


class TokenCountMeter(BufferedMeter):
    def read_answer(self, answer: dict[str, object]) -> None:
        self.complete = "input_tokens" in answer


class StreamedMeter(Meter):
    """Reads each event of a stream and, with `take_out`, removes those that only the gateway requested."""

    def __init__(self, hashes: Sequence[str], *, take_out: bool = False) -> None:
        super().__init__(hashes)
        self._take_out = take_out
        self._events = EventSplitter()
        self._skips = False
        """Whether the beginning of the unfinished event has passed unread."""
        self._has_error = False

    def feed(self, chunk: bytes) -> bytes:
        """Return the caller's bytes: the chunk, or all finished events that are not removed."""
        events = self._events.feed(chunk)
        skipped = b""
        if self._skips and events:
            skipped, *events = events
            self._skips = False
        if not self._take_out:
            for event in events:
                self.read_event(event)
            out = chunk
        elif len(events) == 1:
            out = b"" if self.read_event(events[0]) else events[0]
        else:
            out = b"".join([event for event in events if not self.read_event(event)])
        if skipped and self._take_out:
            out = skipped + out
        if self._events.held_bytes > MAX_KEPT_BYTES:
            self._skips = True
            passed = self._events.drain_start()
            return out + passed if self._take_out else out
        return out

    def end(self) -> bytes:
        """Return the unfinished event, unless it is one to remove."""
        held = self._events.drain()
        is_gateway_event = bool(held) and not self._skips and self.read_event(held)
        self.finish()
        if self._has_error:
            self.complete = False
        return held if self._take_out and not is_gateway_event else b""

    def read_event(self, event: bytes) -> bool:
        """Read a whole event; return whether only the gateway requested it."""
        # Most events are one line of data; with more lines, this is not JSON.
        frame = _parse(event[5:]) if event.startswith(b"data: {") else None
        if frame is None:
            data = event_data(event)
            if data.strip() == b"[DONE]":
                self.mark_done()
                return False
            frame = _parse(data)
        if frame is None:
            return False
        if frame.get("error"):
            self._has_error = True
        return self.read_event_data(frame)

    @abstractmethod
    def read_event_data(self, frame: dict[str, object]) -> bool:
        """Read an event's data; return whether only the gateway requested it."""

    def mark_done(self) -> None:
        self.complete = True

    def finish(self) -> None:
        """Compute what needs the whole stream."""


def _parse(text: bytes) -> dict[str, Any] | None:
    """Parse a JSON object; None for anything else: a provider's answer is observed, never rejected."""
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = fields.load_with_halves(text, pieces=b'"delta"' in text)
        except ValueError:
            return None
    return cast("dict[str, Any]", value) if type(value) is dict and value else None
