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
    kind = _GRPC_STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return orjson.dumps({"error": {"code": status, "message": message, "status": kind}})


def gemini_error_event(status: int, code: str, message: str) -> bytes:
    """Return the event that Google's SDKs raise in the middle of a stream: data with a member `error`."""
    return b"data: %b\n\n" % gemini_error(status, code, message)


def openai_event_of(body: bytes) -> bytes | None:
    """Return a provider's error as an event of a chat completion; None if the body has no error."""
    error = _error_in(body)
    return None if error is None else b"data: %b\n\n" % orjson.dumps({"error": error})


def openai_responses_event_of(body: bytes) -> bytes | None:
    """Return a provider's error as an event of the responses API; None if the body has no error."""
    error = _error_in(body)
    return None if error is None else _responses_event(error)


def anthropic_event_of(body: bytes) -> bytes | None:
    """Return a provider's error as an event of Anthropic's; None if the body has no error."""
    error = _error_in(body)
    return None if error is None else b"event: error\ndata: %b\n\n" % orjson.dumps(orjson.loads(body))


def _error_in(body: bytes) -> dict[str, object] | None:
    try:
        whole: object = orjson.loads(body)
    except ValueError:
        return None
    error = cast("dict[str, object]", whole).get("error") if isinstance(whole, dict) else None
    return cast("dict[str, object]", error) if isinstance(error, dict) else None


def _responses_event(error: Mapping[str, object]) -> bytes:
    members = {name: error.get(name) for name in ("code", "message", "param")}
    return b"event: error\ndata: %b\n\n" % orjson.dumps(
        {"type": "error", **members, "sequence_number": 0, "error": error}
    )


def _openai_detail(status: int, code: str, message: str) -> dict[str, str | None]:
    default = "server_error" if status >= 500 else "invalid_request_error"
    return {"message": message, "type": _OPENAI_TYPES.get(status, default), "param": None, "code": code}


class ErrorShape(NamedTuple):
    body: Callable[[int, str, str], bytes]
    read_event: Callable[[int, str, str], bytes]
    event_of: Callable[[bytes], bytes | None]


SHAPES: Final[Mapping[str, ErrorShape]] = {
    "openai": ErrorShape(openai_error, openai_error_event, openai_event_of),
    "anthropic": ErrorShape(anthropic_error, anthropic_error_event, anthropic_event_of),
    "gemini": ErrorShape(gemini_error, gemini_error_event, openai_event_of),
}
"""Keyed by an upstream's `api`."""
