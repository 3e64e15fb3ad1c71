"""What the gateway must know of a provider's API: one Dialect per endpoint, pure functions over bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from circadia.gateway.codecs.base import AnswerCodec
from circadia.gateway.payload.prompt import RequestPrompt
from circadia.llm.usage import Usage
from circadia.records.per_call import per_call


@per_call
class ModelRequest:
    """What the gateway reads from the body of a model call; the body itself is never re-written from this."""

    model: str | None
    """Model that it names."""
    instead: tuple[str, ...] = ()
    """Models that it names besides, which the provider may take in its place."""
    streamed: bool = False
    """Whether the answer is asked for as a stream."""
    wants_usage: bool = False
    """Whether it asks that a stream tells its usage."""
    input_estimate: int = 0
    """Estimated input tokens (bytes of the body over 3, rounded up: an upper guess for text in most languages)."""
    output_limit: int | None = None
    """The request's own limit of output tokens, times its number of choices; none if it sets none."""
    turn: bool = False
    """Whether the last item is from the user side and not a tool result (GATE-67)."""
    end_user: str | None = None
    """The person for whom the agent works, as the provider's field names them."""
    conversation: str | None = None
    """The provider's conversation or previous response id."""
    foreign_ids: tuple[str, ...] = ()
    """Provider-side ids that the body refers to and that must belong to the caller."""
    chain: tuple[str, ...] = ()
    """Rolling hashes of the messages: item k hashes messages 0 … k, and is empty where only the prompt that leads them
    has come; the last one stands for the whole request."""
    output_tools: frozenset[str] = frozenset()
    """Tools whose call is the answer itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerContent:
    """What an answer says."""

    text: str
    """Its words."""
    calls: tuple[str, ...] = ()
    """The calls of tools that it asks its caller for, each as `name(arguments)`."""
    cut: bool = False
    """Whether it ends where a limit cut it off."""
    handle: str | None = None
    """The provider's id of an answer that is made in the background: it may have no words yet, and is fetched later."""


class Meter(Protocol):
    """Watches one answer go by.

    `feed` takes each chunk as it came and returns what the caller gets: the same bytes, but for an event that the
    gateway itself asked for. It holds back no more than an unfinished event, and only where it may have to take one
    out. `end` returns what was held back. After `end`, the rest is known.
    """

    usage: Usage
    """What the provider told so far."""
    model: str | None
    """Model that the answer names."""
    ids: list[str]
    """Provider-side ids that the answer hands out, known as soon as they went by: they belong to the caller now."""
    handle: str | None
    """Of these, the one by which a next request may continue this answer (OpenAI's response id)."""
    complete: bool
    """Whether the whole answer came."""
    answer_hashes: list[str]
    """The request's chain continued with the answer, one hash for each way to send it back, the likeliest last."""

    def feed(self, chunk: bytes) -> bytes: ...

    def end(self) -> bytes: ...

    def answer_so_far(self) -> AnswerContent | None:
        """Return what the answer says so far; none if it says nothing, or nothing that this can read."""
        ...


class Dialect(Protocol):
    """One endpoint of a provider's API."""

    endpoint: str
    counts_tokens: bool
    """Whether it only counts the tokens of a call, as they would be with what memory adds."""
    keep_alive_bytes: bytes
    """What keeps an opened stream alive and says nothing to the provider's SDKs."""
    answer_codec: AnswerCodec | None
    """Answers in the provider's place; none where nobody asks in words."""

    def parse_request(self, body: bytes) -> ModelRequest:
        """Return what the body says.

        Raises:
            InvalidRequest: the body is not a JSON object of this endpoint; says what is wrong.
        """
        ...

    def error(self, status: int, code: str, message: str) -> bytes:
        """Return an error body in the provider's shape."""
        ...

    def error_event(self, status: int, code: str, message: str) -> bytes:
        """Return the in-band event that the provider's SDKs raise as an APIError in the middle of a stream."""
        ...

    def event_of_error(self, body: bytes) -> bytes | None:
        """Return the same event with the provider's own error, from the body of an answer; none if that has none."""
        ...

    def as_stream(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return a whole answer as the provider would stream it; none if it is no answer of this endpoint.

        `usage` says whether the call asked for usage in the stream.
        """
        ...

    def with_line(self, body: bytes, line: str) -> bytes:
        """Return the body with `line` as the end of the last user turn, every other byte as it was.

        The same body if there is no user turn to put it in.
        """
        ...

    def with_usage(self, body: bytes) -> bytes | None:
        """Return the body asking for usage in the stream, every other byte as it was; none if nothing is to add."""
        ...

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Return what the body says to the model; none where that is not known, or where no turn is taken."""
        ...

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        """Return a watcher for the answer to a request whose chain of hashes was `chain`.

        `words` says whether it will be asked for what a stream said before that broke off.
        """
        ...
