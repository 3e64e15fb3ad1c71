"""Error bodies and in-band error events in the providers' shapes."""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, cast

import orjson

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_GRPC_STATUSES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_TOO_LONG_CODES: Final = ("context_length_exceeded", "request_too_large")
_TOO_LONG: Final = re.compile(r"prompt is too long|context (?:window|length|limit|size)", re.IGNORECASE)
"""Messages of Anthropic, OpenAI and compatible servers; the codes are those of OpenAI and Anthropic."""
_REASONS: Final = ("message", "Message", "detail", "error_description", "error", "errors", "title")
"""Members that hold an error's reason: most providers, AWS, FastAPI, OAuth, Ollama, Cloudflare, RFC 9457."""
_MARKUP: Final = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_LONGEST_READ: Final = 65_536
_LONGEST_REASON: Final = 300


def is_too_long(status: int, body: bytes) -> bool:
    """Return whether an error means that the request exceeds the model's context or the API's size limit."""
    if status not in (400, 413, 422):
        return False
    try:
        whole = orjson.loads(body)
        error = whole.get("error", whole)
        codes = [str(error.get(name) or "") for name in ("code", "type")]
        return any(code in _TOO_LONG_CODES for code in codes) or bool(_TOO_LONG.search(str(error.get("message") or "")))
    except (ValueError, AttributeError):
        return False


def openai_error(status: int, code: str, message: str) -> bytes:
    return orjson.dumps({"error": _openai_detail(status, code, message)})


def openai_error_event(status: int, code: str, message: str) -> bytes:
    """Return the event that OpenAI's SDKs raise in the middle of a chat completion: data with a member `error`."""
    return b"data: %b\n\n" % openai_error(status, code, message)


def openai_responses_error_event(status: int, code: str, message: str) -> bytes:
    """Return the `error` event of the responses API: its own members, and the `error` that makes the SDKs raise."""
    return _responses_event(_openai_detail(status, code, message))


def anthropic_error(status: int, code: str, message: str) -> bytes:
    """Return Anthropic's error body, which has no field for a code."""
    default = "api_error" if status >= 500 else "invalid_request_error"
    kind = _ANTHROPIC_TYPES.get(status, default)
    return orjson.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": None})


def anthropic_error_event(status: int, code: str, message: str) -> bytes:
    """Return the `error` event that Anthropic's SDKs raise in the middle of a stream."""
    return b"event: error\ndata: %b\n\n" % anthropic_error(status, code, message)


def gemini_error(status: int, code: str, message: str) -> bytes:
    """Return Google's error body, which has a gRPC status instead of a code."""
    return orjson.dumps({"error": _gemini_detail(status, message)})


def gemini_error_event(status: int, code: str, message: str) -> bytes:
    """Return the event that Google's SDKs raise in the middle of a stream: data with a member `error`."""
    return b"data: %b\n\n" % gemini_error(status, code, message)


def openai_event_of(status: int, body: bytes, message: str) -> bytes:
    """Return a provider's error as an event of a chat completion; one in another shape is told by `message`."""
    return b"data: %b\n\n" % orjson.dumps({"error": _openai_detail(status, str(status), message) | _own_error(body)})


def openai_responses_event_of(status: int, body: bytes, message: str) -> bytes:
    """Return a provider's error as an event of the responses API; one in another shape is told by `message`."""
    return _responses_event(_openai_detail(status, str(status), message) | _own_error(body))


def anthropic_event_of(status: int, body: bytes, message: str) -> bytes:
    """Return a provider's error as an event of Anthropic's; one in another shape is told by `message`."""
    whole = _parse(body)
    is_own = isinstance(whole, dict) and whole.get("type") == "error" and _own_error(body)
    return b"event: error\ndata: %b\n\n" % (orjson.dumps(whole) if is_own else anthropic_error(status, "", message))


def gemini_event_of(status: int, body: bytes, message: str) -> bytes:
    """Return a provider's error as an event of Google's; one in another shape is told by `message`."""
    return b"data: %b\n\n" % orjson.dumps({"error": _gemini_detail(status, message) | _own_error(body)})


def error_reason(body: bytes) -> str:
    """Return the first 300 characters of an error's reason, whatever its shape: JSON, a page or plain text."""
    whole = _parse(body)
    if isinstance(whole, dict):
        told = _own_error(body) or whole
        reason = next((told[name] for name in _REASONS if told.get(name)), whole)
        text = reason if isinstance(reason, str) else orjson.dumps(reason).decode()
    else:
        text = _MARKUP.sub(" ", body[:_LONGEST_READ].decode("utf-8", "replace"))
    return " ".join(text.split())[:_LONGEST_REASON]


def _own_error(body: bytes) -> dict[str, object]:
    """Return the object under `error`; empty if there is none."""
    whole = _parse(body)
    error = whole.get("error") if isinstance(whole, dict) else None
    return cast("dict[str, object]", error) if isinstance(error, dict) else {}


def _parse(body: bytes) -> dict[str, object] | None:
    """Parse a JSON object, or the only one of a list, as Google sends it."""
    try:
        whole: object = orjson.loads(body)
    except ValueError:
        return None
    if isinstance(whole, list) and len(cast("list[object]", whole)) == 1:
        whole = cast("list[object]", whole)[0]
    return cast("dict[str, object]", whole) if isinstance(whole, dict) else None


def _responses_event(error: Mapping[str, object]) -> bytes:
    members = {name: error.get(name) for name in ("code", "message", "param")}
    return b"event: error\ndata: %b\n\n" % orjson.dumps(
        {"type": "error", **members, "sequence_number": 0, "error": error}
    )


def _openai_detail(status: int, code: str, message: str) -> dict[str, object]:
    default = "server_error" if status >= 500 else "invalid_request_error"
    return {"message": message, "type": _OPENAI_TYPES.get(status, default), "param": None, "code": code}


def _gemini_detail(status: int, message: str) -> dict[str, object]:
    kind = _GRPC_STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"code": status, "message": message, "status": kind}


class ErrorShape(NamedTuple):
    body: Callable[[int, str, str], bytes]
    read_event: Callable[[int, str, str], bytes]
    event_of: Callable[[int, bytes, str], bytes]


SHAPES: Final[Mapping[str, ErrorShape]] = {
    "openai": ErrorShape(openai_error, openai_error_event, openai_event_of),
    "anthropic": ErrorShape(anthropic_error, anthropic_error_event, anthropic_event_of),
    "gemini": ErrorShape(gemini_error, gemini_error_event, gemini_event_of),
}
"""Keyed by an upstream's `api`."""
