"""What the mock upstream saw, and what a test tells it to do."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, cast

import orjson


@dataclass(frozen=True, kw_only=True)
class RecordedRequest:
    """One request exactly as it arrived."""

    number: int
    """Position among all requests of this upstream, from 1."""
    method: str
    path: str
    """Path as sent, without the query string, not decoded."""
    query: str
    """Query string as sent, without the question mark."""
    headers: tuple[tuple[str, str], ...]
    """Names and values in the order and spelling of the wire."""
    body: bytes
    arrived_at: datetime
    """Wall clock at which the body was complete."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, whatever the case of its name, or None."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    def json(self) -> Any:
        """Return the parsed body; an empty body is an empty object.

        Raises:
            orjson.JSONDecodeError: the body is not JSON.
        """
        return orjson.loads(self.body) if self.body else {}


@dataclass(frozen=True, kw_only=True)
class ResponseScript:
    """How one request is to be answered. The defaults answer it as a healthy provider does."""

    path: str | None = None
    """Only a request whose path ends with this takes the script; None: any request."""
    text: str | None = None
    """The model's words; None: the upstream's `reply`."""
    status: int | None = None
    """HTTP status; from 400 on the body is the provider's error object unless `body` is given."""
    body: bytes | None = None
    """Sent in place of the model's answer, byte for byte."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to the answer's headers, or put in their place."""
    usage: bool = True
    """False: the provider reports no usage."""
    delay: asyncio.Event | None = None
    """Nothing is sent before this is set."""
    pause_after_chunks: int | None = None
    """After so many chunks (0: right after the headers) wait for `resume`."""
    resume: asyncio.Event | None = None
    """Ends the pause; None: the pause lasts until the client goes away."""
    die_after_chunks: int | None = None
    """After so many chunks (0: right after the headers) the connection is aborted."""
    garbage: bool = False
    """A 200 whose body is not what its content type says."""
    hang: bool = False
    """Nothing is ever sent."""
    reset: bool = False
    """The connection is reset before the status."""


@dataclass(frozen=True, kw_only=True)
class ScriptedResponse:
    """An HTTP answer in the pieces in which it goes out."""

    status: int = 200
    content_type: str = "application/json"
    pieces: tuple[bytes, ...]
    streamed: bool = False
    """True: chunked transfer, one chunk for each piece."""


class ProviderApi(Protocol):
    """One provider's wire format. Implementations keep what the provider would keep (stored responses)."""

    def answer(self, seen: RecordedRequest, text: str, *, usage: bool) -> ScriptedResponse:
        """Answer a request with `text` as the model's words; an unknown path is a 404."""
        ...

    def error(self, status: int, message: str) -> ScriptedResponse:
        """Return an error in the provider's shape."""
        ...


def build_json_answer(document: object, status: int = 200) -> ScriptedResponse:
    """Return a buffered JSON answer."""
    return ScriptedResponse(status=status, pieces=(orjson.dumps(document),))


def build_event_answer(pieces: list[bytes]) -> ScriptedResponse:
    """Return a streamed answer of server-sent events."""
    return ScriptedResponse(content_type="text/event-stream; charset=utf-8", pieces=tuple(pieces), streamed=True)


def encode_event(document: object, name: str | None = None) -> bytes:
    """Return one server-sent event."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + orjson.dumps(document) + b"\n\n"


def split_words(text: str) -> list[str]:
    """Split text into words that join to the same text: the chunks of a stream, and its tokens."""
    return re.findall(r"\S+\s*|\s+", text)


def collect_texts(node: object) -> list[str]:
    """Return the texts of a string, a content part or any list of them, in order."""
    if isinstance(node, str):
        return [node]
    if isinstance(node, list):
        return [text for part in cast(list[object], node) for text in collect_texts(part)]
    if isinstance(node, dict):
        parts = cast(dict[str, object], node)
        return [text for key in ("text", "content", "input") for text in collect_texts(parts.get(key))]
    return []


def count_tokens(node: object) -> int:
    """Return the mock's token count: words."""
    return sum(len(split_words(text)) for text in collect_texts(node))


def find_last_user_text(messages: object) -> str:
    """Return the words of the last user message, or of a plain prompt."""
    if isinstance(messages, list):
        listed = cast(list[object], messages)
        said = [cast(dict[str, object], message) for message in listed if isinstance(message, dict)]
        asked = [message for message in said if message.get("role") == "user"]
        return " ".join(collect_texts(asked[-1].get("content") if asked else listed))
    return " ".join(collect_texts(messages))
