"""Real shapes of requests and answers, cut short, and ways to cut a stream."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise

from hypothesis import strategies as st

from circadia.errors import InvalidRequest
from circadia.gateway.dialects.base import Dialect
from circadia.gateway.dialects.meters import Meter
from circadia.gateway.dialects.registry import build_dialects
from circadia.gateway.payload.options import add_usage_option, find_missing_usage

OPENAI = build_dialects("openai")
ANTHROPIC = build_dialects("anthropic")
CHAT = OPENAI["chat_completions"]
COMPLETIONS = OPENAI["completions"]
EMBEDDINGS = OPENAI["embeddings"]
RESPONSES = OPENAI["responses"]
MESSAGES = ANTHROPIC["messages"]
COUNT_TOKENS = ANTHROPIC["count_tokens"]
ALL: Sequence[Dialect] = (*OPENAI.values(), ANTHROPIC["plain"])


def body(value: object) -> bytes:
    """The bytes that the Python SDKs send."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def with_line(dialect: Dialect, content: bytes, line: str) -> bytes:
    """The body with the line at the end of its prompt, as a held call gets it; unchanged without a known prompt."""
    prompt = dialect.prompt(content)
    return content if prompt is None else prompt.with_line(line)


def with_usage(dialect: Dialect, content: bytes) -> bytes | None:
    """The body with a request for usage in its stream; None if it is no request, or has nothing to add."""
    try:
        request = dialect.load(content)
        is_asked = dialect in (CHAT, COMPLETIONS)  # for these, whatever else the request lacks
        missing = find_missing_usage(request) if is_asked else dialect.read_request(request, content).missing_usage
    except InvalidRequest:
        return None
    return None if missing is None else add_usage_option(content, missing)


def sse(*frames: object, end: str = "\n", named: bool = False, done: bool = False) -> bytes:
    """A stream of events with one frame each."""
    text = ""
    for frame in frames:
        assert isinstance(frame, dict)
        if named:
            text += f"event: {frame['type']}{end}"
        text += f"data: {json.dumps(frame, ensure_ascii=False)}{end}{end}"
    return (text + (f"data: [DONE]{end}{end}" if done else "")).encode()


def chat_chunk(delta: object, finish: str | None = None, **more: object) -> dict[str, object]:
    """One chunk of a streamed chat completion, as sent when usage is asked for."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [choice],
        "usage": None,
        **more,
    }


CHAT_USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 9,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 12, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
USAGE_CHUNK = chat_chunk({}, choices=[], usage=CHAT_USAGE)

MESSAGE_EVENTS: list[dict[str, object]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "content": [],
            "stop_reason": None,
            "usage": {
                "input_tokens": 10,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 1000,
                "cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 600},
                "output_tokens": 1,
            },
        },
    },
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Grüße, "}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "😀"}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"a": 1, '}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"b": 2}'}},
    {"type": "content_block_stop", "index": 2},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "container": {"id": "container_1", "expires_at": "x"}},
        "usage": {"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 7}},
    },
    {"type": "message_stop"},
]
MESSAGE_CONTENT: list[dict[str, object]] = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "text", "text": "Grüße, 😀", "citations": None},
    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"b": 2, "a": 1}},
]


def run(meter: Meter, chunks: Iterable[bytes]) -> bytes:
    """What the caller gets."""
    return b"".join([*(meter.feed(chunk) for chunk in chunks), meter.end()])


def bytewise(stream: bytes) -> list[bytes]:
    """The stream in chunks of one byte."""
    return [stream[at : at + 1] for at in range(len(stream))]


@st.composite
def cuts(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    """The stream in any chunks."""
    at = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    bounds = [0, *at, len(stream)]
    return [stream[start:end] for start, end in pairwise(bounds)]
