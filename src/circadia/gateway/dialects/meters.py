"""What the watchers of all endpoints share: keeping a buffered answer, and seeing a stream's events go by."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, cast

import orjson

from circadia.errors import InvalidRequest
from circadia.gateway.dialects.base import AnswerContent
from circadia.gateway.payload import hash_chain, surrogates
from circadia.gateway.payload.server_sent_events import EventSplitter, event_data
from circadia.llm.usage import Usage

_NO_USAGE: Final = Usage()
MAX_KEPT_BYTES = 8 * 1024 * 1024
"""A longer answer, or a longer single event of a stream, is not watched: its usage is unknown."""
MAX_TEXT_CHARS = 1024 * 1024
"""A longer streamed answer gets no hash."""


class MeterState:
    """What is known of one answer so far; the results half of a Meter."""

    def __init__(self, hashes: Sequence[str]) -> None:
        self.usage = _NO_USAGE
        self.model: str | None = None
        self.ids: list[str] = []
        self.handle: str | None = None
        self.complete = False
        self.answer_hashes: list[str] = []
        self._head = hashes[-1] if hashes else None

    def answer_so_far(self) -> AnswerContent | None:
        """Return none: what this endpoint answers is nobody's words."""
        return None

    def _continue_chain(self, *items: object) -> None:
        """Note the hash of the request's chain continued with these normalised items."""
        if self._head is None or not items:
            return
        try:
            last = hash_chain.hash_chain(self._head, items)[-1]
        except InvalidRequest:
            return
        if last not in self.answer_hashes:
            self.answer_hashes.append(last)


class BufferedMeter(MeterState, ABC):
    """Keeps a buffered answer up to a limit and reads it at its end. Passes every byte."""

    def __init__(self, hashes: Sequence[str]) -> None:
        super().__init__(hashes)
        self._kept: list[bytes] = []
        self._kept_bytes = 0

    def feed(self, chunk: bytes) -> bytes:
        """Return the chunk."""
        self._kept_bytes += len(chunk)
        if self._kept_bytes <= MAX_KEPT_BYTES:
            self._kept.append(chunk)
        else:
            self._kept.clear()
        return chunk

    def end(self) -> bytes:
        """Read what was kept; nothing was held back."""
        kept, self._kept = b"".join(self._kept), []
        answer = _parse(kept)
        if answer is not None and not answer.get("error"):
            self.read_answer(answer)
        return b""

    @abstractmethod
    def read_answer(self, answer: dict[str, object]) -> None:
        """Take from the whole answer what is to be known."""


class TokenCountMeter(BufferedMeter):
    """Reads an answer that counts the tokens of a request."""

    def read_answer(self, answer: dict[str, object]) -> None:
        """Note that it is whole."""
        self.complete = "input_tokens" in answer


class StreamedMeter(MeterState, ABC):
    """Sees each event of a stream, and takes out those that the caller did not ask for if told so."""

    def __init__(self, hashes: Sequence[str], *, take_out: bool = False) -> None:
        super().__init__(hashes)
        self._take_out = take_out
        self._events = EventSplitter()
        self._blind = False

    def feed(self, chunk: bytes) -> bytes:
        """Return what the caller gets: the chunk, or all finished events but those taken out."""
        if self._blind:
            return chunk
        events = self._events.feed(chunk)
        if not self._take_out:
            for event in events:
                self.read_event(event)
            out = chunk
        elif len(events) == 1:
            out = b"" if self.read_event(events[0]) else events[0]
        else:
            out = b"".join([event for event in events if not self.read_event(event)])
        if self._events.held_bytes > MAX_KEPT_BYTES:
            self._blind = True
            held = self._events.drain()
            return out + held if self._take_out else out
        return out

    def end(self) -> bytes:
        """Return what was held back: an unfinished event, if it is not one to take out."""
        held = self._events.drain()
        taken = bool(held) and self.read_event(held)
        self.finish()
        return held if self._take_out and not taken else b""

    def read_event(self, event: bytes) -> bool:
        """Look at a whole event; return whether it is one that only the gateway asked for."""
        # Most events are one line of data; where more follows, this is no JSON.
        frame = _parse(event[5:]) if event.startswith(b"data: {") else None
        if frame is None:
            data = event_data(event)
            if data.strip() == b"[DONE]":
                self.mark_done()
                return False
            frame = _parse(data)
        return frame is not None and self.read_event_data(frame)

    @abstractmethod
    def read_event_data(self, frame: dict[str, object]) -> bool:
        """Take from an event's data what is to be known; return whether it is one that only the gateway asked for."""

    def mark_done(self) -> None:
        """The stream said `[DONE]`."""
        self.complete = True

    def finish(self) -> None:
        """Work out what needs the whole stream."""


def _parse(text: bytes) -> dict[str, Any] | None:
    """Return a JSON object, none if the text is something else: what a provider sends is watched, not judged."""
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = surrogates.load_json(text, pieces=b'"delta"' in text)
        except ValueError:
            return None
    return cast("dict[str, Any]", value) if type(value) is dict and value else None
