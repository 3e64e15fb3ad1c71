"""Answer codec for OpenAI's chat completions."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, cast

import orjson

from circadia.errors import InvalidRequest
from circadia.gateway.codecs import framing
from circadia.gateway.codecs.base import DecodedAnswer, FramedCall
from circadia.gateway.codecs.frame import VolatileSpans
from circadia.gateway.codecs.framing import AnswerExclusion, ConversationItem, FrameFields, wants
from circadia.gateway.payload import fields
from circadia.gateway.payload.prompt import OPENAI_SIDES, Side, join_texts
from circadia.gateway.payload.server_sent_events import format_event
from circadia.gateway.payload.usage import completions_usage
from circadia.llm.usage import Usage

OPENAI_UNCHANGING: Final = {
    "stream": "how the answer is sent",
    "stream_options": "how the answer is sent",
    "user": "who asks; the end user is part of the scope",
    "safety_identifier": "who asks; the end user is part of the scope",
    "metadata": "labels in the provider's own lists",
    "store": "whether the provider keeps the answer",
    "prompt_cache_key": "where the provider keeps what it has read",
    "prompt_cache_options": "how the provider keeps what it has read",
    "prompt_cache_retention": "how long the provider keeps what it has read",
    "service_tier": "how soon the answer comes, and its price",
}
"""Keys that never change an answer of OpenAI's, with the reason."""
UNCHANGING: Final = OPENAI_UNCHANGING | {"prediction": "a guess that only makes the answer come sooner"}
OPENAI_UNASKED: Final = frozenset(
    {"stream", "stream_options", "user", "safety_identifier", "metadata", "store", "prompt_cache_options",
     "top_logprobs", "moderation"}
)  # fmt: skip
"""Keys removed from a question asked ahead: they set the form of the answer or its user."""
_KEPT: Final = FrameFields(
    operators="messages", system=None, unchanging=UNCHANGING, unasked=OPENAI_UNASKED | {"prediction", "n", "logprobs"}
)
_NOTHING: Final = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "total_tokens": 0,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
_WHOLE: Final = (None, "stop", "eos")
_CALLED: Final = ("tool_calls", "function_call")
_FOUND: Final = ("citations", "search_results", "annotations", "images", "videos", "executed_tools")
"""Fields of a message, a choice or the answer with results of a provider's search or tool."""
_MORE: Final = ("tool_calls", "function_call", "refusal", "audio")
"""Fields of a message that make it more than text."""


class ChatAnswerCodec:
    """The codec of `POST …/chat/completions`."""

    def frame_call(self, body: bytes, volatile: VolatileSpans) -> FramedCall | None:
        try:
            request = fields.load(body)
            messages = fields.objects(request, "messages")
        except InvalidRequest:
            return None
        items = [
            ConversationItem(OPENAI_SIDES.get(str(message.get("role")), Side.MODEL), message) for message in messages
        ]
        return framing.build_framed_call(request, items, volatile, _KEPT, _exclusions(request))

    def build_question_body(self, frame_body: str, question: str) -> bytes:
        return framing.add_question(frame_body, "messages", question)

    def parse_answer(self, whole: bytes) -> DecodedAnswer | None:
        answer = framing.parse_answer_object(whole)
        choices = fields.as_list(answer.get("choices"))
        choice = fields.as_object(choices[0]) if choices else {}
        message = fields.as_object(choice.get("message"))
        if not message:
            return None
        finished = choice.get("finish_reason")
        return DecodedAnswer(
            text=join_texts(message.get("content")),
            reasoning=fields.as_text(message.get("reasoning_content"))
            or fields.as_text(message.get("reasoning"))
            or "",
            called=finished in _CALLED
            or any(message.get(key) for key in _MORE)
            or any(part.get(key) for part in (answer, choice, message) for key in _FOUND),
            cut=finished not in (*_WHOLE, *_CALLED),
            usage=completions_usage(answer.get("usage")) or Usage(),
        )

    def build_answer(self, text: str, *, id: str, model: str, at: datetime) -> bytes:
        message: dict[str, object] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        head = {"object": "chat.completion", "created": int(at.timestamp()), "model": model}
        return orjson.dumps({"id": f"chatcmpl-{id}", **head, "choices": [choice], "usage": _NOTHING})

    def build_events(self, whole: bytes, *, usage: bool) -> bytes | None:
        answer = framing.parse_answer_object(whole)
        choices = list(map(fields.as_object, fields.as_list(answer.get("choices"))))
        if not choices:
            return None
        head = {**answer, "object": "chat.completion.chunk"}
        counts = head.pop("usage", None)
        counted = {"usage": None} if usage else {}
        stream = [
            format_event({**head, "choices": [{"index": index, "logprobs": None, **step}], **counted})
            for index, choice in enumerate(choices)
            for step in _steps(choice)
        ]
        if usage and counts:
            stream.append(format_event({**head, "choices": [], "usage": counts}))
        return b"".join([*stream, b"data: [DONE]\n\n"])


def tool_choice_exclusions(choice: object) -> Iterator[AnswerExclusion]:
    """Yield reasons not to serve a call with this OpenAI `tool_choice` or `function_call`."""
    if isinstance(choice, dict):  # one tool, or a list of allowed tools
        options = fields.as_object(cast("object", choice))
        free = "auto" in (options.get("mode"), fields.as_object(options.get("allowed_tools")).get("mode"))
    else:
        free = choice in (None, "auto", "none")
    if not free:
        yield AnswerExclusion("it forces the call of a tool", ahead=False)


def _steps(choice: dict[str, object]) -> Iterator[dict[str, object]]:
    """Yield the chunks of a choice: its role, its text in pieces, everything else in one, and its end."""
    message = {name: value for name, value in fields.as_object(choice.get("message")).items() if value is not None}
    yield {"delta": {"role": message.pop("role", "assistant"), "content": "", "refusal": None}}
    content = message.pop("content", None)
    for piece in framing.split_text(content) if isinstance(content, str) else ():
        yield {"delta": {"content": piece}}
    calls = map(fields.as_object, fields.as_list(message.pop("tool_calls", None)))
    numbered = [{"index": index, **call} for index, call in enumerate(calls)]
    rest = {name: value for name, value in {**message, "tool_calls": numbered}.items() if value not in ("", [])}
    if rest or not isinstance(content, str | None):
        yield {"delta": rest if isinstance(content, str | None) else {**rest, "content": content}}
    yield {"delta": {}, "logprobs": choice.get("logprobs"), "finish_reason": choice.get("finish_reason")}


def _exclusions(request: dict[str, object]) -> Iterator[AnswerExclusion]:
    yield from tool_choice_exclusions(request.get("tool_choice"))
    yield from tool_choice_exclusions(request.get("function_call"))
    yield from framing.tool_exclusions(request.get("tools"))
    if wants(request, "audio") or wants(request, "modalities", ["text"]):
        yield AnswerExclusion("it asks for more than text", ahead=False)
    if wants(request, "n", 1):
        yield AnswerExclusion("it asks for several answers")
    if wants(request, "logprobs") or wants(request, "top_logprobs", 0):
        yield AnswerExclusion("it asks for probabilities")
    if wants(request, "prediction"):
        yield AnswerExclusion("it gives a prediction")
    if wants(request, "moderation"):
        yield AnswerExclusion("it asks for moderation")
    if wants(request, "store"):
        yield AnswerExclusion("the provider must keep the answer")
