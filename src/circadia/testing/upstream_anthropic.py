"""Anthropic's wire format for the mock upstream."""

from typing import Any

from circadia.testing.upstream_script import (
    RecordedRequest,
    ScriptedResponse,
    ScriptedToolCall,
    build_event_answer,
    build_json_answer,
    count_tokens,
    encode_event,
    split_words,
)

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_MODELS = ("mock-1", "mock-1-mini")


class AnthropicApi:
    def answer(self, seen: RecordedRequest, reply: str | ScriptedToolCall, *, usage: bool) -> ScriptedResponse:
        path = seen.path.rstrip("/")
        if path.startswith("/v1/models"):
            return self._answer_models(path.removeprefix("/v1/models").lstrip("/"))
        if seen.method == "POST" and path == "/v1/messages/count_tokens":
            return build_json_answer({"input_tokens": _count_input_tokens(seen.json())})
        if seen.method == "POST" and path == "/v1/messages":
            return _answer_message(seen, seen.json(), reply, usage)
        return self.error(404, f"Not found: {seen.method} {seen.path}")

    def error(self, status: int, message: str) -> ScriptedResponse:
        kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return build_json_answer(
            {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_mock"}, status
        )

    def _answer_models(self, name: str) -> ScriptedResponse:
        known = [
            {
                "type": "model",
                "id": model,
                "display_name": model,
                "created_at": "2026-01-01T00:00:00Z",
                "lifecycle": "active",
            }
            for model in _MODELS
        ]
        if not name:
            return build_json_answer({"data": known, "has_more": False, "first_id": _MODELS[0], "last_id": _MODELS[-1]})
        matching = [model for model in known if model["id"] == name]
        return build_json_answer(matching[0]) if matching else self.error(404, f"model: {name}")


def _count_input_tokens(request: dict[str, Any]) -> int:
    return count_tokens([request.get("system"), request.get("messages")])


def _answer_message(
    seen: RecordedRequest, request: dict[str, Any], reply: str | ScriptedToolCall, usage: bool
) -> ScriptedResponse:
    pieces = split_words(str(reply))
    if isinstance(reply, str):
        empty: dict[str, Any] = {"type": "text", "text": ""}
        stop_reason, full = "end_turn", {"text": reply}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    else:
        stop_reason, full = "tool_use", {"input": reply.arguments}
        empty = {"type": "tool_use", "id": f"toolu_mock{seen.number}", "name": reply.name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    counted = {"input_tokens": _count_input_tokens(request), "output_tokens": len(pieces)} | cached
    message: dict[str, Any] = {
        "id": f"msg_mock{seen.number}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", _MODELS[0]),
        "content": [empty | full],
        "stop_reason": stop_reason,
        "stop_sequence": None,
    }
    if not request.get("stream"):
        return build_json_answer(message | {"usage": counted} if usage else message)
    start: dict[str, Any] = message | {"content": [], "stop_reason": None}
    delta: dict[str, Any] = {"type": "message_delta", "delta": {"stop_reason": stop_reason, "stop_sequence": None}}
    if usage:
        start["usage"] = counted | {"output_tokens": 1}
        delta["usage"] = {"output_tokens": counted["output_tokens"]}
    steps: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": each} for each in deltas),
        {"type": "content_block_stop", "index": 0},
        delta,
        {"type": "message_stop"},
    ]
    return build_event_answer([encode_event(step, step["type"]) for step in steps])
