"""What a provider's answer says, to keep it as a ready one: its words, and whether it is more than words."""

from typing import Any

import pytest

from circadia.gateway.dialects.base import Dialect
from circadia.gateway.dialects.frames import DecodedAnswer
from circadia.llm.usage import Usage
from tests.gateway.dialects.samples import CHAT, CHAT_USAGE, MESSAGE_CONTENT, MESSAGES, RESPONSES, body

pytestmark = pytest.mark.spec("ANS-01", "ANS-03")


def answered(dialect: Dialect, answer: object) -> DecodedAnswer | None:
    assert dialect.answer_codec is not None
    return dialect.answer_codec.parse_answer(body(answer))


def chat(finish: str | None = "stop", **message: object) -> DecodedAnswer:
    choice = {"index": 0, "message": {"role": "assistant", "content": "It is paid."} | message, "finish_reason": finish}
    found = answered(CHAT, {"object": "chat.completion", "choices": [choice], "usage": CHAT_USAGE})
    assert found is not None
    return found


CHOICE = {"index": 0, "message": {"role": "assistant", "content": "It is paid."}, "finish_reason": "stop"}


def beside(**more: object) -> DecodedAnswer:
    """Return what a chat completion says that has more beside its choices."""
    found = answered(CHAT, {"object": "chat.completion", "choices": [CHOICE], **more})
    assert found is not None
    return found


def message(*blocks: object, stop: str = "end_turn") -> DecodedAnswer:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 3}
    found = answered(MESSAGES, {"type": "message", "content": blocks, "stop_reason": stop, "usage": usage})
    assert found is not None
    return found


def response(*output: object, status: str = "completed", **more: object) -> DecodedAnswer | None:
    usage = {"input_tokens": 10, "output_tokens": 3}
    return answered(RESPONSES, {"object": "response", "status": status, "output": output, "usage": usage, **more})


PART: dict[str, Any] = {"type": "output_text", "text": "It is paid.", "annotations": []}
SAID: dict[str, Any] = {"type": "message", "role": "assistant", "content": [PART]}
TEXT = {"type": "text", "text": "It is paid."}


def test_words_thoughts_and_usage_are_read() -> None:
    used = Usage(input_tokens=20, output_tokens=9, cached_tokens=12, reasoning_tokens=4)
    assert chat() == DecodedAnswer(text="It is paid.", usage=used)
    assert not beside(citations=[], search_results=None).called
    assert chat(reasoning_content="Let me see.").reasoning == "Let me see."
    assert chat(reasoning="Let me see.").reasoning == "Let me see."
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": "s"}
    assert message(thought, {"type": "redacted_thinking", "data": "x"}, TEXT) == DecodedAnswer(
        text="It is paid.", reasoning="Let me see.", usage=Usage(input_tokens=15, output_tokens=3, cached_tokens=5)
    )
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Let me see."}]}
    assert response(summary, SAID) == DecodedAnswer(
        text="It is paid.", reasoning="Let me see.", usage=Usage(input_tokens=10, output_tokens=3)
    )
    shown = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Let me see."}]}
    found = response(shown, SAID)
    assert found is not None
    assert found.reasoning == "Let me see."


@pytest.mark.parametrize(
    "found",
    [
        chat(tool_calls=[{"id": "c", "function": {"name": "look", "arguments": "{}"}}]),
        chat("tool_calls"),
        chat(function_call={"name": "look", "arguments": "{}"}),
        chat(refusal="I will not."),
        chat(annotations=[{"type": "url_citation"}]),
        chat(audio={"id": "a"}),
        chat(executed_tools=[{"type": "search"}]),
        chat(citations=["https://a.example"]),
        beside(citations=["https://a.example"]),
        beside(search_results=[{"title": "A", "url": "https://a.example"}]),
        beside(images=[{"image_url": "https://a.example/a.png"}]),
        beside(choices=[{**CHOICE, "citations": ["https://a.example"]}]),
        message(*MESSAGE_CONTENT, stop="tool_use"),
        message({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, TEXT),
        message({**TEXT, "citations": [{"type": "web_search_result_location"}]}),
        message(TEXT, stop="refusal"),
        message(TEXT, stop="pause_turn"),
        response({"type": "function_call", "name": "look"}, SAID),
        response({"type": "web_search_call"}, SAID),
        response({"type": "mcp_list_tools"}, SAID),
        response({**SAID, "content": [{"type": "refusal", "refusal": "I will not."}]}),
        response({**SAID, "content": [{**PART, "annotations": [{"type": "file_citation"}]}]}),
    ],
)
def test_what_is_more_than_words_says_so(found: DecodedAnswer | None) -> None:
    assert found is not None
    assert found.called is True


@pytest.mark.parametrize(
    "found",
    [
        chat("length"),
        chat("content_filter"),
        chat("error"),
        message(TEXT, stop="max_tokens"),
        message(TEXT, stop="model_context_window_exceeded"),
        message(TEXT, stop="stop_sequence"),
        response(SAID, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    ],
)
def test_what_was_cut_off_says_so(found: DecodedAnswer | None) -> None:
    assert found is not None
    assert (found.cut, found.called) == (True, False)


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [
        (CHAT, {"error": {"message": "no"}, "choices": [{"message": {"content": "x"}}]}),
        (CHAT, {"choices": []}),
        (CHAT, {"choices": [{"delta": {"content": "x"}}]}),
        (MESSAGES, {"type": "error", "error": {"type": "overloaded_error"}}),
        (MESSAGES, {"input_tokens": 5}),
        (RESPONSES, {"object": "response", "status": "queued", "output": []}),
        (RESPONSES, {"object": "response", "status": "failed", "error": {"code": "x"}, "output": [SAID]}),
    ],
)
def test_what_is_no_answer_is_none(dialect: Dialect, answer: object) -> None:
    assert answered(dialect, answer) is None
