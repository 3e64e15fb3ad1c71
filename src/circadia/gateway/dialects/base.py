"""One endpoint of a provider's API: the base of all dialects, and the endpoints that are passed on without parsing."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import orjson

from circadia.gateway.dialects.errors import SHAPES
from circadia.gateway.dialects.frames import AnswerCodec
from circadia.gateway.dialects.meters import BufferedMeter, Meter, StreamedMeter
from circadia.gateway.payload import fields, server_sent_events
from circadia.gateway.payload.options import MissingUsage
from circadia.gateway.payload.prompt import RequestPrompt
from circadia.gateway.payload.provider_ids import Api, asked_ids, issued_ids
from circadia.records.fast_record import fast_record

_OBJECT: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")


@fast_record
class ModelRequest:
    """The parsed fields of a model call. The body itself is never rebuilt from them."""

    model: str | None
    fallback_models: tuple[str, ...] = ()
    """Models that the provider may use instead."""
    streamed: bool = False
    wants_usage: bool = False
    missing_usage: MissingUsage | None = None
    """What it lacks to get usage in its stream."""
    input_estimate: int = 0
    """Estimated input tokens (bytes of the body over 3, rounded up: an upper guess for text in most languages)."""
    output_limit: int | None = None
    """The request's own limit of output tokens times its number of choices; None without a limit."""
    turn: bool = False
    """Whether the last item is from the user side and not a tool result (GATE-67)."""
    end_user: str | None = None
    """The end user named in the provider's field."""
    conversation: str | None = None
    """The provider's conversation or previous response id."""
    cache_key: str | None = None
    """OpenAI's `prompt_cache_key`, in which a known client may name its conversation."""
    foreign_ids: tuple[str, ...] = ()
    """Provider-side ids in the body that are made by calls alone. They must belong to the caller."""
    shared_ids: tuple[str, ...] = ()
    """Those of things that people make too, beside the gateway: they must not belong to another agent."""
    chain: tuple[str, ...] = ()
    """Rolling hashes: item k hashes messages 0 … k, empty within the leading prompt. The last is the request's."""
    opening: str = ""
    """Hash of what precedes the model's first answer."""
    since_answer: int | None = None
    """Number of items after the model's newest answer; None if the request holds no answer."""
    offers_tools: bool = False
    schema_fields: int | None = None
    """Number of fields of the JSON schema that the answer must fit; None without one."""
    output_tools: frozenset[str] = frozenset()
    """Tools whose call is the answer itself."""


class Dialect(ABC):
    """One endpoint of a provider with errors in the shape of `api`: pure functions over bytes."""

    endpoint: str
    counts_tokens = False
    """Whether it only counts the tokens of a call, including added memory."""
    keep_alive_bytes = b": keep-alive\n\n"
    """Bytes that keep an opened stream alive and that the provider's SDKs ignore."""
    keep_alive_event = keep_alive_bytes
    """The same for callers that count events; SDKs may take it for a part of the answer."""
    answer_codec: AnswerCodec | None = None
    """None if the endpoint takes no questions in text."""

    def __init__(self, api: Api = "openai") -> None:
        self._api: Api = api
        self.errors = SHAPES[api]
        self._done = b"data: [DONE]\n\n" if api == "openai" else b""

    def load(self, body: bytes) -> dict[str, object]:
        """Parse the body. Raises InvalidRequest if it is not a JSON object."""
        return fields.load(body)

    @abstractmethod
    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        """Read a parsed body. Raises InvalidRequest if it is not one of this endpoint."""

    def parse_request(self, body: bytes) -> ModelRequest:
        return self.read_request(self.load(body), body)

    def as_stream(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return an answer as the provider would stream it, with usage if `usage`; None if it is not an answer.

        Without a codec, it is the only event of a stream.
        """
        if self.answer_codec is not None:
            return self.answer_codec.build_events(whole, usage=usage)
        answer = _object(whole.strip())
        return server_sent_events.format_event(answer) + self._done if answer else None

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Return the prompt in the body; None if it is unknown or the endpoint takes no turns."""
        return None

    @abstractmethod
    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        """Return a meter for the answer to a request with the hash chain `chain`.

        `words` keeps the text of a stream, in case it breaks off.
        """


class Plain(Dialect):
    """Any endpoint of a provider that is passed on without parsing."""

    endpoint = "plain"

    def load(self, body: bytes) -> dict[str, object]:
        """Parse the body if it is an object; any body is accepted, even one that is not JSON."""
        return _object(body)

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        return ModelRequest(
            model=fields.as_text(request.get("model")),
            streamed=request.get("stream") is True,
            input_estimate=fields.input_estimate(body),
            shared_ids=asked_ids(self._api, request),
        )

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
