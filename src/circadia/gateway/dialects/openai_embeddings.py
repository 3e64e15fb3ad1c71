"""OpenAI's embeddings."""

from collections.abc import Sequence

import orjson

from circadia.gateway.dialects.base import Dialect, ModelRequest
from circadia.gateway.dialects.meters import Meter
from circadia.gateway.payload import fields
from circadia.gateway.payload.usage import completions_usage
from circadia.llm.usage import Usage

_EDGE_BYTES = 4096


class Embeddings(Dialect):
    """`POST …/embeddings`."""

    endpoint = "embeddings"

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        return ModelRequest(
            model=fields.text(request, "model"),
            input_estimate=fields.input_estimate(body),
            output_limit=0,
            end_user=fields.text(request, "user"),
        )

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return _EmbeddingsMeter()


class _EmbeddingsMeter(Meter):
    """Keeps both ends of the answer: usage is before or after the vectors, which can be tens of megabytes."""

    def __init__(self) -> None:
        super().__init__(())
        self._start = b""
        self._end = b""

    def feed(self, chunk: bytes) -> bytes:
        if len(self._start) < _EDGE_BYTES:
            self._start += chunk[:_EDGE_BYTES]
        self._end = (self._end + chunk)[-_EDGE_BYTES:] if len(chunk) < _EDGE_BYTES else chunk[-_EDGE_BYTES:]
        return chunk

    def end(self) -> bytes:
        usage = _object_after(self._end, b'"usage"') or _object_after(self._start, b'"usage"')
        self.usage = completions_usage(usage) or Usage()
        model = _string_after(self._end, b'"model"') or _string_after(self._start, b'"model"')
        self.model = fields.as_text(model)
        self.complete = self._end.rstrip().endswith(b"}") and b'"error"' not in self._start
        return b""


def _object_after(text: bytes, key: bytes) -> object:
    return _value_after(text, key, b"{", b"}")


def _string_after(text: bytes, key: bytes) -> object:
    return _value_after(text, key, b'"', b'"')


def _value_after(text: bytes, key: bytes, first: bytes, last: bytes) -> object:
    """Return the last value of `key` in a part of a JSON text; tries each possible end."""
    at = text.rfind(key)
    if at < 0:
        return None
    rest = text[at + len(key) :].lstrip(b" \t\r\n:")
    if not rest.startswith(first):
        return None
    end = rest.find(last, 1)
    while end > 0:
        try:
            return orjson.loads(rest[: end + 1])
        except orjson.JSONDecodeError:
            end = rest.find(last, end + 1)
    return None
