"""Endpoints that are passed on without being understood, and what all others have in common with them."""

from collections.abc import Sequence
from typing import Literal

import orjson

from circadia.gateway.codecs.base import AnswerCodec
from circadia.gateway.dialects import errors
from circadia.gateway.dialects.base import Meter, ModelRequest
from circadia.gateway.dialects.meters import BufferedMeter, StreamedMeter
from circadia.gateway.payload import fields, server_sent_events
from circadia.gateway.payload.prompt import RequestPrompt


class Plain:
    """Any endpoint of a provider whose errors look like those of `api`; one that is understood states what differs."""

    endpoint = "plain"
    answer_codec: AnswerCodec | None = None

    counts_tokens = False
    keep_alive_bytes = b": keep-alive\n\n"

    def __init__(self, api: Literal["openai", "anthropic", "gemini"] = "openai") -> None:
        self._shape = errors.SHAPES[api]
        self._done = b"data: [DONE]\n\n" if api == "openai" else b""

    def parse_request(self, body: bytes) -> ModelRequest:
        """Return the model and whether a stream is asked for, if the body says so; it may be anything, even no JSON."""
        request = _object(body)
        return ModelRequest(
            model=fields.as_text(request.get("model")),
            streamed=request.get("stream") is True,
            input_estimate=fields.input_estimate(body),
        )

    def error(self, status: int, code: str, message: str) -> bytes:
        """Return an error body of the provider's API."""
        return self._shape.body(status, code, message)

    def error_event(self, status: int, code: str, message: str) -> bytes:
        """Return an error event of the provider's API."""
        return self._shape.read_event(status, code, message)

    def event_of_error(self, body: bytes) -> bytes | None:
        """Return an error event of the provider's API with this error in it."""
        return self._shape.event_of(body)

    def as_stream(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return the answer as the provider would stream it; where nobody knows how, as the one event of a stream."""
        if self.answer_codec is not None:
            return self.answer_codec.build_events(whole, usage=usage)
        answer = _object(whole.strip())
        return server_sent_events.format_event(answer) + self._done if answer else None

    def with_line(self, body: bytes, line: str) -> bytes:
        """Return the body: it has no user turn, or nobody knows where."""
        return body

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Return none: nobody takes a turn here."""
        return None

    def with_usage(self, body: bytes) -> bytes | None:
        """Return none: usage comes unasked, or nobody knows how to ask."""
        return None

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        """Return a watcher that knows no usage, but the id of what the answer is about."""
        return _StreamedPlain(()) if streamed else _BufferedPlain(())


class _BufferedPlain(BufferedMeter):
    def end(self) -> bytes:
        rest = super().end()
        self.complete = True
        return rest

    def read_answer(self, answer: dict[str, object]) -> None:
        self.model = fields.as_text(answer.get("model"))
        name = fields.as_text(answer.get("id"))
        if name:
            self.ids.append(name)


class _StreamedPlain(StreamedMeter):
    def read_event_data(self, frame: dict[str, object]) -> bool:
        return False

    def finish(self) -> None:
        self.complete = True


def _object(body: bytes) -> dict[str, object]:
    if not body.startswith(b"{"):
        return {}
    try:
        return fields.as_object(orjson.loads(body))
    except orjson.JSONDecodeError:
        return {}
