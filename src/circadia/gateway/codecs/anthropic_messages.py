"""Answer codec for Anthropic's messages."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import orjson

from circadia.errors import InvalidRequest
from circadia.gateway.codecs import framing
from circadia.gateway.codecs.base import DecodedAnswer, FramedCall
from circadia.gateway.codecs.frame import VolatileSpans
from circadia.gateway.codecs.framing import AnswerExclusion, ConversationItem, FrameFields, wants
from circadia.gateway.payload import fields
from circadia.gateway.payload.prompt import Side, join_texts
from circadia.gateway.payload.server_sent_events import format_event
from circadia.gateway.payload.usage import messages_usage
from circadia.llm.usage import Usage

UNCHANGING: Final = {
    "stream": "how the answer is sent",
    "metadata": "who asks; the end user is part of the scope",
    "service_tier": "how soon the answer comes, and its price",
    "billing_policy": "who pays",
    "cache_control": "what the provider keeps of what it has read",
    "diagnostics": "why the provider had to read something anew",
    "fallback_credit_token": "what an earlier refusal paid for",
    "thread": "what was said before, which is no part of a frame",
}
"""Keys that never change an answer of Anthropic's, with the reason."""
_KEPT: Final = FrameFields(
    operators="messages",
    system="system",
    unchanging=UNCHANGING,
    unasked=frozenset({"stream", "metadata", "diagnostics", "fallback_credit_token", "thread"}),
)
_SIDES: Final = {"user": Side.USER, "system": Side.OPERATOR}
_NOTHING: Final = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}
_WHOLE: Final = "end_turn"
_CALLED: Final = ("tool_use", "pause_turn", "refusal")
_WORDS: Final = ("text", "thinking", "redacted_thinking")


class MessagesAnswerCodec:
    """The codec of `POST …/messages`."""

    def frame_call(self, body: bytes, volatile: VolatileSpans) -> FramedCall | None:
        try:
            request = fields.load(body)
            messages = fields.objects(request, "messages")
        except InvalidRequest:
            return None
        items = [ConversationItem(_SIDES.get(str(message.get("role")), Side.MODEL), message) for message in messages]
        return framing.build_framed_call(request, items, volatile, _KEPT, _exclusions(request))

    def build_question_body(self, frame_body: str, question: str) -> bytes:
        return framing.add_question(frame_body, "messages", question)

    def parse_answer(self, whole: bytes) -> DecodedAnswer | None:
        answer = framing.parse_answer_object(whole)
        if answer.get("type") != "message":
            return None
        blocks = [fields.as_object(block) for block in fields.as_list(answer.get("content"))]
        stopped = answer.get("stop_reason")
        thoughts = [fields.as_text(block.get("thinking")) for block in blocks if block.get("type") == "thinking"]
        return DecodedAnswer(
            text=join_texts(blocks),
            reasoning="\n\n".join(filter(None, thoughts)),
            called=stopped in _CALLED
            or any(block.get("type") not in _WORDS or bool(block.get("citations")) for block in blocks),
            cut=stopped != _WHOLE and stopped not in _CALLED,
            usage=messages_usage(answer.get("usage")) or Usage(),
        )

    def build_answer(self, text: str, *, id: str, model: str, at: datetime) -> bytes:
        content = [{"type": "text", "text": text}]
        return orjson.dumps(_message(id, model) | {"content": content, "stop_reason": _WHOLE})

    def build_events(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return the events of a message; these always contain the usage."""
        message = framing.parse_answer_object(whole)
        if message.get("type") != "message":
            return None
        return b"".join([format_event({"type": kind, **more}, kind) for kind, more in _events(message)])


def _message(id: str, model: str) -> dict[str, object]:
    return {
        "id": f"msg_{id}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _NOTHING,
    }


def _events(message: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    usage = fields.as_object(message.get("usage"))
    start_fields: dict[str, object] = {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage | {"output_tokens": 0},
    }
    yield "message_start", {"message": message | start_fields}
    for index, block in enumerate(map(fields.as_object, fields.as_list(message.get("content")))):
        empty, deltas = _deltas(block)
        yield "content_block_start", {"index": index, "content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    stopped = {name: message.get(name) for name in ("stop_reason", "stop_sequence")}
    yield "message_delta", {"delta": stopped, "usage": {"output_tokens": usage.get("output_tokens", 0)}}
    yield "message_stop", {}


def _deltas(block: dict[str, object]) -> tuple[dict[str, object], list[dict[str, object]]]:
    empty_block = dict(block)
    deltas: list[dict[str, object]] = []
    if "input" in block:
        empty_block["input"] = dict[str, object]()
        deltas.append({"type": "input_json_delta", "partial_json": orjson.dumps(block["input"]).decode()})
    elif block.get("type") == "text":
        empty_block["text"] = ""
        words = framing.split_text(str(block.get("text") or ""))
        deltas.extend({"type": "text_delta", "text": piece} for piece in words)
        if "citations" in block:
            empty_block["citations"] = list[object]()
            cited = fields.as_list(block["citations"])
            deltas.extend({"type": "citations_delta", "citation": citation} for citation in cited)
    elif block.get("type") == "thinking":
        empty_block |= {"thinking": "", "signature": ""}
        deltas.append({"type": "thinking_delta", "thinking": block.get("thinking")})
        if block.get("signature"):
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return empty_block, deltas


def _exclusions(request: dict[str, object]) -> Iterator[AnswerExclusion]:
    if fields.as_object(request.get("tool_choice")).get("type") not in (None, "auto", "none"):
        yield AnswerExclusion("it forces the call of a tool", ahead=False)
    yield from framing.tool_exclusions(request.get("tools"))
    if wants(request, "mcp_servers", []):
        yield AnswerExclusion("the provider calls a remote MCP server for it", ahead=False)
    if wants(request, "container"):
        yield AnswerExclusion("it works in a container", ahead=False)
    if wants(request, "compaction"):
        yield AnswerExclusion("it asks for a summary of what was said", ahead=False)
    if wants(request, "thread"):
        yield AnswerExclusion("the provider keeps its conversation")
