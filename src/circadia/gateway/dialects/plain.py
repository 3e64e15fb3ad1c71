"""Endpoints that are passed on without parsing; the base of all other dialects."""

import re
from collections.abc import Sequence
from typing import Final

import orjson

from circadia.gateway.dialects import errors
from circadia.gateway.dialects.base import Meter, ModelRequest
from circadia.gateway.dialects.frames import AnswerCodec
from circadia.gateway.dialects.meters import BufferedMeter, StreamedMeter
from circadia.gateway.payload import fields, server_sent_events
from circadia.gateway.payload.prompt import RequestPrompt
from circadia.gateway.payload.provider_ids import Api, asked_ids, issued_ids

_OBJECT: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")


class Plain:
    """Any endpoint of a provider with errors in the shape of `api`; other dialects override what differs."""

    endpoint = "plain"
    answer_codec: AnswerCodec | None = None

    counts_tokens = False
    keep_alive_bytes = keep_alive_event = b": keep-alive\n\n"

    def __init__(self, api: Api = "openai") -> None:
        self._api: Api = api
        self._shape = errors.SHAPES[api]
        self._done = b"data: [DONE]\n\n" if api == "openai" else b""

    def parse_request(self, body: bytes) -> ModelRequest:
        """Read model and `stream` if the body has them; any body is accepted, even one that is not JSON."""
        request = _object(body)
        return ModelRequest(
            model=fields.as_text(request.get("model")),
            streamed=request.get("stream") is True,
            input_estimate=fields.input_estimate(body),
            shared_ids=asked_ids(self._api, request),
        )

    def error(self, status: int, code: str, message: str) -> bytes:
        return self._shape.body(status, code, message)

    def error_event(self, status: int, code: str, message: str) -> bytes:
        return self._shape.read_event(status, code, message)

    def event_of_error(self, status: int, body: bytes, message: str) -> bytes:
        return self._shape.event_of(status, body, message)

    def as_stream(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return the answer as the provider would stream it; without a codec, as the only event of a stream."""
        if self.answer_codec is not None:
            return self.answer_codec.build_events(whole, usage=usage)
        answer = _object(whole.strip())
        return server_sent_events.format_event(answer) + self._done if answer else None

    def with_line(self, body: bytes, line: str) -> bytes:
        """Return the body with the line at the end of its prompt; unchanged without a known one."""
        prompt = self.prompt(body)
        return body if prompt is None else prompt.with_line(line)

    def prompt(self, body: bytes) -> RequestPrompt | None:
        return None

    def with_usage(self, body: bytes, request: ModelRequest | None = None) -> bytes | None:
        """Return None: usage comes unrequested, or cannot be requested."""
        return None

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        """Return a meter that reads the answer's ids, but no usage."""
        return _StreamedPlain(()) if streamed else _BufferedPlain(self._api)


class _BufferedPlain(BufferedMeter):
    def __init__(self, api: Api) -> None:
        super().__init__(())
        self._api: Api = api

    def end(self) -> bytes:
        rest = super().end()
        self.complete = True
        return rest

    def read_answer(self, answer: dict[str, object]) -> None:
        self.model = fields.as_text(answer.get("model"))
        self.ids += issued_ids(self._api, answer)


class _StreamedPlain(StreamedMeter):
    def read_event_data(self, frame: dict[str, object]) -> bool:
        return False

    def finish(self) -> None:
        self.complete = True


def _object(body: bytes) -> dict[str, object]:
    if _OBJECT.match(body) is None:
        return {}
    try:
        return fields.as_object(orjson.loads(body.removeprefix(b"\xef\xbb\xbf")))
    except orjson.JSONDecodeError:
        return {}
