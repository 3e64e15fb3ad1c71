"""OpenAI's and Anthropic's wire formats for the mock upstream."""

import base64
import hashlib
import re
import struct
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

Json = dict[str, Any]

_DEPLOYMENT = re.compile(r"^/openai/deployments/[^/]+")
"""Azure's replacement for the version in a path."""
_DONE = b"data: [DONE]\n\n"
_OPENAI_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    429: "rate_limit_error",
}
_OPENAI_MODELS = ("mock-1", "mock-1-mini", "mock-embedding")
_DIMENSIONS = 8


class OpenAIApi:
    """OpenAI's API; responses are kept until deleted, so that polls, cancels and `previous_response_id` work."""

    def __init__(self) -> None:
        self._responses: dict[str, Json] = {}

    def answer(self, seen: RecordedRequest, reply: str | ScriptedToolCall, *, usage: bool) -> ScriptedResponse:
        path = _DEPLOYMENT.sub("/v1", seen.path.rstrip("/"))
        if path.startswith("/v1/responses/"):
            return self._answer_stored(seen.method, path.split("/")[3:])
        if path.startswith("/v1/models"):
            return self._answer_models(path.removeprefix("/v1/models").lstrip("/"))
        if seen.method == "POST":
            request: Json = seen.json()
            if path == "/v1/chat/completions":
                return _answer_chat(seen, request, reply, usage)
            if path == "/v1/completions":
                return _answer_completion(seen, request, str(reply), usage)
            if path == "/v1/embeddings":
                return _answer_embeddings(request)
            if path == "/v1/responses":
                return self._answer_response(seen, request, reply, usage)
        return self.error(404, f"Invalid URL ({seen.method} {seen.path})")

    def error(self, status: int, message: str) -> ScriptedResponse:
        kind = _OPENAI_ERRORS.get(status, "server_error" if status >= 500 else "invalid_request_error")
        return build_json_answer({"error": {"message": message, "type": kind, "param": None, "code": None}}, status)

    def _answer_models(self, name: str) -> ScriptedResponse:
        known = [{"id": model, "object": "model", "created": 1, "owned_by": "mock"} for model in _OPENAI_MODELS]
        if not name:
            return build_json_answer({"object": "list", "data": known})
        matching = [model for model in known if model["id"] == name]
        return build_json_answer(matching[0]) if matching else self.error(404, f"The model {name!r} does not exist")

    def _answer_response(
        self, seen: RecordedRequest, request: Json, reply: str | ScriptedToolCall, usage: bool
    ) -> ScriptedResponse:
        previous: str | None = request.get("previous_response_id")
        if previous is not None and previous not in self._responses:
            return self.error(400, f"Previous response with id {previous!r} not found.")
        done = _build_response(seen, request, reply, usage)
        if request.get("store", True):
            self._responses[done["id"]] = done
        if request.get("background"):
            running: Json = done | {"status": "in_progress", "output": [], "usage": None}
            self._responses[done["id"]] = running
            return build_json_answer(running)
        return build_event_answer(_build_response_events(done)) if request.get("stream") else build_json_answer(done)

    def _answer_stored(self, method: str, rest: list[str]) -> ScriptedResponse:
        name, action = rest[0], rest[1] if len(rest) > 1 else ""
        stored = self._responses.get(name)
        if stored is None:
            return self.error(404, f"Response with id {name!r} not found.")
        if method == "GET" and action == "":
            return build_json_answer(stored)
        if method == "GET" and action == "input_items":
            return build_json_answer(
                {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}
            )
        if method == "POST" and action == "cancel":
            self._responses[name] = stored | {"status": "cancelled"}
            return build_json_answer(self._responses[name])
        if method == "DELETE" and action == "":
            del self._responses[name]
            return build_json_answer({"id": name, "object": "response", "deleted": True})
        return self.error(404, f"Invalid URL ({method} on a response)")


def _wants_usage(request: Json) -> bool:
    options: Json = request.get("stream_options") or {}
    return bool(options.get("include_usage"))


def _build_usage(prompt: object, text: str) -> Json:
    prompt_tokens, completion_tokens = count_tokens(prompt), len(split_words(text))
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _answer_chat(seen: RecordedRequest, request: Json, reply: str | ScriptedToolCall, usage: bool) -> ScriptedResponse:
    text = str(reply)
    if isinstance(reply, str):
        finish, said = "stop", {"content": text}
        deltas: list[Json] = [{"content": word} for word in split_words(text)]
    else:
        call = {
            "id": f"call_mock{seen.number}",
            "type": "function",
            "function": {"name": reply.name, "arguments": text},
        }
        finish, said = "tool_calls", {"content": None, "tool_calls": [call]}
        deltas = [{"tool_calls": [{"index": 0, **call}]}]
    head: Json = {
        "id": f"chatcmpl-mock{seen.number}",
        "created": int(seen.arrived_at.timestamp()),
        "model": request.get("model", _OPENAI_MODELS[0]),
    }
    counted = _build_usage(request.get("messages"), text)
    if not request.get("stream"):
        message = {"role": "assistant", "refusal": None, **said}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        whole = head | {"object": "chat.completion", "choices": [choice]}
        return build_json_answer(whole | {"usage": counted} if usage else whole)
    adds_usage = usage and _wants_usage(request)
    chunk: Json = head | {"object": "chat.completion.chunk"} | ({"usage": None} if adds_usage else {})

    def encode_piece(delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return encode_event(chunk | {"choices": [choice]})

    pieces = [encode_piece({"role": "assistant", "content": ""})]
    pieces += [encode_piece(delta) for delta in deltas]
    pieces.append(encode_piece({}, finish))
    if adds_usage:
        pieces.append(encode_event({**chunk, "choices": [], "usage": counted}))
    return build_event_answer([*pieces, _DONE])


def _answer_completion(seen: RecordedRequest, request: Json, text: str, usage: bool) -> ScriptedResponse:
    head: Json = {
        "id": f"cmpl-mock{seen.number}",
        "object": "text_completion",
        "created": int(seen.arrived_at.timestamp()),
        "model": request.get("model", _OPENAI_MODELS[0]),
    }
    counted = _build_usage(request.get("prompt"), text)
    if not request.get("stream"):
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}
        whole = head | {"choices": [choice]}
        return build_json_answer(whole | {"usage": counted} if usage else whole)
    pieces: list[bytes] = []
    for word in split_words(text):
        choice = {"index": 0, "text": word, "logprobs": None, "finish_reason": None}
        pieces.append(encode_event(head | {"choices": [choice]}))
    last = {"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}
    pieces.append(encode_event(head | {"choices": [last]}))
    if usage and _wants_usage(request):
        pieces.append(encode_event({**head, "choices": [], "usage": counted}))
    return build_event_answer([*pieces, _DONE])


def _answer_embeddings(request: Json) -> ScriptedResponse:
    raw = request.get("input")
    inputs: list[Any] = raw if isinstance(raw, list) else [raw]  # pyright: ignore[reportUnknownVariableType]
    dimensions = int(request.get("dimensions") or _DIMENSIONS)
    rows: list[Json] = []
    for index, item in enumerate(inputs):
        vector: object = _build_vector(str(item), dimensions)
        if request.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{dimensions}f", *_build_vector(str(item), dimensions))).decode()
        rows.append({"object": "embedding", "index": index, "embedding": vector})
    prompt_tokens = count_tokens(inputs)
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}
    return build_json_answer(
        {"object": "list", "data": rows, "model": request.get("model", "mock-embedding"), "usage": usage}
    )


def _build_vector(text: str, dimensions: int) -> list[float]:
    """Return numbers in [-1, 1) that depend only on the text."""
    digest = hashlib.shake_256(text.encode()).digest(2 * dimensions)
    return [number / 32768 for (number,) in struct.iter_unpack("<h", digest)]


def _build_item(seen: RecordedRequest, reply: str | ScriptedToolCall) -> Json:
    if isinstance(reply, str):
        part: Json = {"type": "output_text", "text": reply, "annotations": [], "logprobs": []}
        kind: Json = {"id": f"msg_mock{seen.number}", "type": "message", "role": "assistant", "content": [part]}
    else:
        call = {"call_id": f"call_mock{seen.number}", "name": reply.name, "arguments": str(reply)}
        kind = {"id": f"fc_mock{seen.number}", "type": "function_call", **call}
    return kind | {"status": "completed"}


def _build_response(seen: RecordedRequest, request: Json, reply: str | ScriptedToolCall, usage: bool) -> Json:
    inputs, outputs = count_tokens([request.get("instructions"), request.get("input")]), len(split_words(str(reply)))
    counted = {
        "input_tokens": inputs,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": outputs,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": inputs + outputs,
    }
    return {
        "id": f"resp_mock{seen.number}",
        "object": "response",
        "created_at": int(seen.arrived_at.timestamp()),
        "status": "completed",
        "background": bool(request.get("background")),
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "metadata": request.get("metadata") or {},
        "model": request.get("model", _OPENAI_MODELS[0]),
        "output": [_build_item(seen, reply)],
        "parallel_tool_calls": True,
        "previous_response_id": request.get("previous_response_id"),
        "store": request.get("store", True),
        "tool_choice": "auto",
        "tools": request.get("tools") or [],
        "usage": counted if usage else None,
    }


def _build_response_events(done: Json) -> list[bytes]:
    """Return the events of a streamed response, numbered as OpenAI does."""
    item: Json = done["output"][0]
    running: Json = done | {"status": "in_progress", "output": [], "usage": None}
    place: Json = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "message":
        part: Json = item["content"][0]
        place |= {"content_index": 0}
        empty: Json = {"content": []}
        middle: list[tuple[str, Json]] = [
            ("response.content_part.added", place | {"part": part | {"text": ""}}),
            *(
                ("response.output_text.delta", place | {"delta": word, "logprobs": []})
                for word in split_words(part["text"])
            ),
            ("response.output_text.done", place | {"text": part["text"], "logprobs": []}),
            ("response.content_part.done", place | {"part": part}),
        ]
    else:
        empty = {"arguments": ""}
        kind = "response.function_call_arguments"
        middle = [(f"{kind}.delta", place | {"delta": word}) for word in split_words(item["arguments"])]
        middle.append((f"{kind}.done", place | {"name": item["name"], "arguments": item["arguments"]}))
    steps: list[tuple[str, Json]] = [
        ("response.created", {"response": running}),
        ("response.in_progress", {"response": running}),
        ("response.output_item.added", {"output_index": 0, "item": item | {"status": "in_progress"} | empty}),
        *middle,
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": done}),
    ]
    return [
        encode_event({"type": name, "sequence_number": number} | fields, name)
        for number, (name, fields) in enumerate(steps)
    ]


_ANTHROPIC_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_ANTHROPIC_MODELS = ("mock-1", "mock-1-mini")


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
        kind = _ANTHROPIC_ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
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
            for model in _ANTHROPIC_MODELS
        ]
        if not name:
            return build_json_answer(
                {"data": known, "has_more": False, "first_id": _ANTHROPIC_MODELS[0], "last_id": _ANTHROPIC_MODELS[-1]}
            )
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
        "model": request.get("model", _ANTHROPIC_MODELS[0]),
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
