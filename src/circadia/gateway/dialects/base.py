"""The interface to a provider's API: one Dialect per endpoint, pure functions over bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from circadia.gateway.dialects.frames import AnswerCodec
from circadia.gateway.payload.prompt import RequestPrompt
from circadia.llm.usage import Usage
from circadia.records.per_call import per_call


@per_call
class ModelRequest:
    """The parsed fields of a model call. The body itself is never rebuilt from them."""

    model: str | None
    instead: tuple[str, ...] = ()
    """Fallback models that the provider may use instead."""
    streamed: bool = False
    wants_usage: bool = False
    lacks_usage: bool = False
    """Whether it streams and says nothing of usage, so that it can be added without a parse."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerContent:
    text: str
    calls: tuple[str, ...] = ()
    """Tool calls for the caller, each as `name(arguments)`."""
    cut: bool = False
    handle: str | None = None
    """The provider's id of a background answer, which is fetched later and may have no text yet."""


class Meter(Protocol):
    """Reads one answer as it passes.

    `feed` takes each chunk and returns the caller's bytes: the same, without an event that only the gateway requested.
    It holds back at most one unfinished event, and only if it may have to remove one. `end` returns what was held back;
    after it, all fields are final.
    """

    usage: Usage
    model: str | None
    ids: list[str]
    """Provider-side ids issued in the answer so far. They now belong to the caller."""
    handle: str | None
    """The id among them with which a next request may continue this answer (OpenAI's response id)."""
    complete: bool
    answer_hashes: list[str]
    """The request's chain continued with the answer: one hash for each way to send it back, the likeliest last."""

    def feed(self, chunk: bytes) -> bytes: ...

    def end(self) -> bytes: ...

    def answer_so_far(self) -> AnswerContent | None:
        """Return the answer so far; None if it is empty or cannot be read."""
        ...


class Dialect(Protocol):
    """One endpoint of a provider's API."""

    endpoint: str
    counts_tokens: bool
    """Whether it only counts the tokens of a call, including added memory."""
    keep_alive_bytes: bytes
    """Bytes that keep an opened stream alive and that the provider's SDKs ignore."""
    keep_alive_event: bytes
    """The same for callers that count events; SDKs may take it for a part of the answer."""
    answer_codec: AnswerCodec | None
    """None if the endpoint takes no questions in text."""

    def parse_request(self, body: bytes) -> ModelRequest:
        """Parse the body. Raises InvalidRequest if it is not a JSON object of this endpoint."""
        ...

    def error(self, status: int, code: str, message: str) -> bytes: ...

    def error_event(self, status: int, code: str, message: str) -> bytes:
        """Return the event that the provider's SDKs raise as an APIError in the middle of a stream."""
        ...

    def event_of_error(self, status: int, body: bytes, message: str) -> bytes:
        """Return that event with the error of the provider's own body, or `message` if the body has another shape."""
        ...

    def as_stream(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return an answer as the provider would stream it, with usage if `usage`; None if it is not an answer."""
        ...

    def with_line(self, body: bytes, line: str) -> bytes:
        """Add `line` at the end of the prompt; every other byte stays. Without a user turn the body is unchanged."""
        ...

    def with_usage(self, body: bytes, request: ModelRequest | None = None) -> bytes | None:
        """Add a request for usage in the stream, every other byte unchanged; None if there is nothing to add.

        The parsed `request` spares a second parse.
        """
        ...

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Return the prompt in the body; None if it is unknown or the endpoint takes no turns."""
        ...

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        """Return a meter for the answer to a request with the hash chain `chain`.

        `words` keeps the text of a stream, in case it breaks off.
        """
        ...
