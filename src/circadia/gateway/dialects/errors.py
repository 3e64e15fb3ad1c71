"""Error bodies and in-band error events in the providers' shapes."""

import re
from collections.abc import Mapping
from typing import Final, cast

import orjson

from circadia.gateway.payload.fields import as_list, as_object

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
_TOO_LONG: Final = re.compile(
    r"(?:prompt|input) is too long|context (?:window|length|limit|size)|input token count|maximum prompt length",
    re.IGNORECASE,
)
"""Messages of Anthropic and Bedrock, OpenAI and compatible servers, Google, xAI; codes of OpenAI and Anthropic."""
_NO_SYSTEM: Final = re.compile(
    r"system role not supported|developer instruction is not enabled|does not support '(?:system|developer)'"
    r"|conversation roles must alternate",
    re.IGNORECASE,
)
"""Messages about a system prompt: chat templates of Gemma and of Mistral, Google, OpenAI."""
_REASONS: Final = ("message", "Message", "detail", "error_description", "error", "errors", "title")
"""Members that hold an error's reason: most providers, AWS, FastAPI, OAuth, Ollama, Cloudflare, RFC 9457."""
_MARKUP: Final = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_LONGEST_READ: Final = 65_536
_LONGEST_REASON: Final = 300


def is_too_long(status: int, body: bytes) -> bool:
    """Return whether an error means that the request exceeds the model's context or the API's size limit."""
    if status not in (400, 413, 422):
        return False
    codes, message = _read_error(body)
    return any(code in _TOO_LONG_CODES for code in codes) or _TOO_LONG.search(message) is not None


def refuses_system_prompt(status: int, body: bytes) -> bool:
    """Return whether an error means that the model takes no system prompt."""
    return status in (400, 422, 500) and _NO_SYSTEM.search(_read_error(body)[1]) is not None


def _read_error(body: bytes) -> tuple[list[str], str]:
    """Return the codes and the message of an error; empty ones of anything else."""
    try:
        whole: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        return [], ""
    whole = next(iter(as_list(whole)), whole)  # Google answers with a list in OpenAI's API
    error = as_object(as_object(whole).get("error", whole))
    return [str(error.get(name) or "") for name in ("code", "type")], str(error.get("message") or "")


class ErrorShape:
    """Errors in the shape of OpenAI, and of the many servers with its API."""

    def body(self, status: int, code: str, message: str) -> bytes:
        return orjson.dumps({"error": self.detail(status, code, message)})

    def event(self, status: int, code: str, message: str) -> bytes:
        """Return the event that the provider's SDKs raise as an APIError in the middle of a stream."""
        return self.wrap(self.detail(status, code, message))

    def event_of(self, status: int, body: bytes, message: str) -> bytes:
        """Return that event with the error of the provider's own body, or `message` if the body has another shape."""
        return self.wrap(self.detail(status, str(status), message) | _own_error(body))

    def detail(self, status: int, code: str, message: str) -> dict[str, object]:
        default = "server_error" if status >= 500 else "invalid_request_error"
        return {"message": message, "type": _OPENAI_TYPES.get(status, default), "param": None, "code": code}

    def wrap(self, detail: dict[str, object]) -> bytes:
        """Return data with a member `error`."""
        return b"data: %b\n\n" % orjson.dumps({"error": detail})


class ResponsesErrorShape(ErrorShape):
    """The `error` event of the responses API: its own members, and the `error` that makes the SDKs raise."""

    def wrap(self, detail: dict[str, object]) -> bytes:
        members = {name: detail.get(name) for name in ("code", "message", "param")}
        event = {"type": "error", **members, "sequence_number": 0, "error": detail}
        return b"event: error\ndata: %b\n\n" % orjson.dumps(event)


class GeminiErrorShape(ErrorShape):
    """Google's, with a gRPC status instead of a code."""

    def detail(self, status: int, code: str, message: str) -> dict[str, object]:
        kind = _GRPC_STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
        return {"code": status, "message": message, "status": kind}

    def wrap(self, detail: dict[str, object]) -> bytes:
        """Return JSON that is no event: Google's SDK for JavaScript takes an event, or what ends like one, for none."""
        return orjson.dumps({"error": detail})


class AnthropicErrorShape(ErrorShape):
    """Anthropic's, which has no field for a code."""

    def body(self, status: int, code: str, message: str) -> bytes:
        return orjson.dumps(self.detail(status, code, message))

    def event_of(self, status: int, body: bytes, message: str) -> bytes:
        whole = _parse(body)
        is_own = whole is not None and whole.get("type") == "error" and _own_error(body)
        return self.wrap(whole if whole is not None and is_own else self.detail(status, "", message))

    def detail(self, status: int, code: str, message: str) -> dict[str, object]:
        kind = _ANTHROPIC_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": None}

    def wrap(self, detail: dict[str, object]) -> bytes:
        return b"event: error\ndata: %b\n\n" % orjson.dumps(detail)


SHAPES: Final[Mapping[str, ErrorShape]] = {
    "openai": ErrorShape(), "anthropic": AnthropicErrorShape(), "gemini": GeminiErrorShape(),
}  # fmt: skip
"""Keyed by an upstream's `api`."""


def error_reason(body: bytes) -> str:
    """Return the first 300 characters of an error's reason, whatever its shape: JSON, a page or plain text."""
    whole = _parse(body)
    if isinstance(whole, dict):
        error = _own_error(body) or whole
        reason = next((error[name] for name in _REASONS if error.get(name)), whole)
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
