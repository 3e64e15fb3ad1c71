"""The requests that the mock upstream receives, and the scripts for its answers."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import orjson


@dataclass(frozen=True, kw_only=True)
class RecordedRequest:
    number: int
    """Position among the upstream's requests, from 1."""
    method: str
    path: str
    """As sent: not decoded, without the query string."""
    query: str
    """As sent, without the question mark."""
    headers: tuple[tuple[str, str], ...]
    """In the order and spelling of the wire."""
    body: bytes
    arrived_at: datetime
    """When the body was complete."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, ignoring case, or None."""
        lower_name = name.lower()
        return next((value for key, value in self.headers if key.lower() == lower_name), None)

    def json(self) -> Any:
        """Return the parsed body, {} if it is empty. Raises orjson.JSONDecodeError."""
        return orjson.loads(self.body) if self.body else {}


@dataclass(frozen=True, kw_only=True)
class ResponseScript:
    """How to answer one request; the defaults are a healthy provider's answer."""

    path: str | None = None
    """End of the path of a matching request; None matches all."""
    text: str | None = None
    """The model's answer; None is the upstream's `reply`."""
    status: int | None = None
    """HTTP status; from 400 on, the body is the provider's error object unless `body` is set."""
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to the answer's headers, or replacing them."""
    usage: bool = True
    delay: asyncio.Event | None = None
    """The answer waits for this event."""
    pause_after_chunks: int | None = None
    """Number of chunks after which the answer waits for `resume`; 0 is right after the headers."""
    resume: asyncio.Event | None = None
    """Ends the pause; None pauses until the client disconnects."""
    die_after_chunks: int | None = None
    """Number of chunks after which the connection is aborted; 0 is right after the headers."""
    garbage: bool = False
    """A 200 with a body that does not match its content type."""
    hang: bool = False
    reset: bool = False
    """Reset the connection before the status."""


@dataclass(frozen=True, kw_only=True)
class ScriptedToolCall:
    """The model's answer is a call of one tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        """Return the arguments as the model writes them: JSON."""
        return orjson.dumps(self.arguments).decode()


@dataclass(frozen=True, kw_only=True)
class ScriptedResponse:
    status: int = 200
    content_type: str = "application/json"
    pieces: tuple[bytes, ...]
    streamed: bool = False
    """Whether to use chunked transfer, with one chunk for each piece."""


def build_json_answer(document: object, status: int = 200) -> ScriptedResponse:
    return ScriptedResponse(status=status, pieces=(orjson.dumps(document),))


def build_event_answer(pieces: list[bytes]) -> ScriptedResponse:
    return ScriptedResponse(content_type="text/event-stream; charset=utf-8", pieces=tuple(pieces), streamed=True)


def encode_event(document: object, name: str | None = None) -> bytes:
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + orjson.dumps(document) + b"\n\n"


def split_words(text: str) -> list[str]:
    """Split a text into words that join to the same text; they are the chunks of a stream, and its tokens."""
    return re.findall(r"\S+\s*|\s+", text)


def collect_texts(node: object) -> list[str]:
    """Return the texts in a string, content part or list of them, in order."""
    if isinstance(node, str):
        return [node]
    if isinstance(node, list):
        return [text for part in cast(list[object], node) for text in collect_texts(part)]
    if isinstance(node, dict):
        parts = cast(dict[str, object], node)
        return [text for key in ("text", "content", "input") for text in collect_texts(parts.get(key))]
    return []


def count_tokens(node: object) -> int:
    return sum(len(split_words(text)) for text in collect_texts(node))


def find_last_user_text(messages: object) -> str:
    if isinstance(messages, list):
        listed = cast(list[object], messages)
        turns = [cast(dict[str, object], message) for message in listed if isinstance(message, dict)]
        user_turns = [message for message in turns if message.get("role") == "user"]
        return " ".join(collect_texts(user_turns[-1].get("content") if user_turns else listed))
    return " ".join(collect_texts(messages))
