"""OpenAI's chat completions, and the many servers with the same API."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

import orjson

from circadia.errors import InvalidRequest
from circadia.gateway.dialects.base import Dialect, ModelRequest
from circadia.gateway.dialects.frames import (
    AnswerCodec,
    AnswerExclusion,
    ConversationItem,
    DecodedAnswer,
    FrameFields,
    parse_answer_object,
    split_text,
    tool_exclusions,
    wants,
)
from circadia.gateway.dialects.meters import MAX_TEXT_CHARS, AnswerContent, BufferedMeter, Meter, StreamedMeter
from circadia.gateway.payload import fields, hash_chain, splice
from circadia.gateway.payload.fields import join_pieces
from circadia.gateway.payload.options import count_schema_fields, find_missing_usage, output_tools, wants_usage
from circadia.gateway.payload.prompt import (
    OPENAI_SIDES,
    OPERATOR_ROLES,
    RequestMessage,
    RequestPrompt,
    Side,
    build_prompt,
    content_end_slot,
    ends_in_user,
    join_texts,
    text_by_side,
)
from circadia.gateway.payload.provider_ids import asked_ids
from circadia.gateway.payload.server_sent_events import format_event
from circadia.gateway.payload.usage import completions_usage, only_usage
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


class ChatAnswerCodec(AnswerCodec):
    """The codec of `POST …/chat/completions`."""

    kept = _KEPT

    def read_items(self, request: dict[str, object]) -> Sequence[ConversationItem]:
        messages = fields.objects(request, "messages")
        return [
            ConversationItem(OPENAI_SIDES.get(str(message.get("role")), Side.MODEL), message) for message in messages
        ]

    def find_exclusions(self, request: dict[str, object]) -> Iterator[AnswerExclusion]:
        yield from tool_choice_exclusions(request.get("tool_choice"))
        yield from tool_choice_exclusions(request.get("function_call"))
        yield from tool_exclusions(request.get("tools"))
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

    def parse_answer(self, whole: bytes) -> DecodedAnswer | None:
        answer = parse_answer_object(whole)
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
        answer = parse_answer_object(whole)
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
    for piece in split_text(content) if isinstance(content, str) else ():
        yield {"delta": {"content": piece}}
    calls = map(fields.as_object, fields.as_list(message.pop("tool_calls", None)))
    numbered = [{"index": index, **call} for index, call in enumerate(calls)]
    rest = {name: value for name, value in {**message, "tool_calls": numbered}.items() if value not in ("", [])}
    if rest or not isinstance(content, str | None):
        yield {"delta": rest if isinstance(content, str | None) else {**rest, "content": content}}
    yield {"delta": {}, "logprobs": choice.get("logprobs"), "finish_reason": choice.get("finish_reason")}


_CUT = ("length", "content_filter")


class ChatCompletions(Dialect):
    """`POST …/chat/completions`."""

    endpoint = "chat_completions"
    answer_codec: AnswerCodec | None = ChatAnswerCodec()

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        messages = fields.objects(request, "messages")
        items = list(_normalize_messages(messages))
        chain = hash_chain.hash_chain("", items)
        limit = fields.count(request, "max_completion_tokens")
        if limit is None:
            limit = fields.count(request, "max_tokens")
        return ModelRequest(
            model=fields.text(request, "model"),
            fallback_models=tuple(model for model in fields.as_list(request.get("models")) if isinstance(model, str)),
            streamed=fields.flag(request, "stream"),
            wants_usage=wants_usage(request),
            missing_usage=find_missing_usage(request),
            input_estimate=fields.input_estimate(body),
            output_limit=fields.product(limit, fields.count(request, "n")),
            turn=ends_in_user(messages),
            end_user=fields.text(request, "user") or fields.text(request, "safety_identifier"),
            shared_ids=asked_ids("openai", request, body),
            chain=chain,
            opening=hash_chain.find_opening(items, chain),
            since_answer=hash_chain.count_since_answer(items),
            offers_tools=bool(request.get("tools")),
            schema_fields=count_schema_fields(request),
            output_tools=output_tools(request),
        )

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Read the messages; memory goes to the end of the last leading system message, or into a new one."""
        try:
            text = body.decode()
            places = dict(splice.members(text, splice.value_start(text), spans="messages"))
            listed = places.get("messages")
            return _prompt(text, listed) if listed is not None and listed.value else None
        except ValueError:
            return None

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return StreamedChat(chain, take_out=take_usage_out) if streamed else BufferedChat(chain)


class BufferedChat(BufferedMeter):
    def __init__(self, hashes: Sequence[str]) -> None:
        super().__init__(hashes)
        self._first: dict[str, object] = {}

    def answer_so_far(self) -> AnswerContent | None:
        message = fields.as_object(self._first.get("message"))
        return _answer_content(message, self._first.get("finish_reason")) if message else None

    def read_answer(self, answer: dict[str, object]) -> None:
        self.model = fields.as_text(answer.get("model"))
        self.usage = completions_usage(answer.get("usage")) or Usage()
        choices = fields.as_list(answer.get("choices"))
        self.complete = bool(choices)
        self._first = fields.as_object(choices[0]) if choices else {}
        self.stop_reason = fields.as_text(self._first.get("finish_reason"))
        for choice in choices:
            message = fields.as_object(fields.as_object(choice).get("message"))
            if message:
                self._continue_chain(_normalize_message({**message, "role": "assistant"}))


class StreamedChat(StreamedMeter):
    def __init__(self, hashes: Sequence[str], *, take_out: bool) -> None:
        super().__init__(hashes, take_out=take_out)
        self._choices: dict[object, _Choice] = {}
        self._chars_left = MAX_TEXT_CHARS if hashes else -1

    def read_event_data(self, frame: dict[str, Any]) -> bool:
        """Read usage, model and text of a chunk; the chunk to remove is one that holds only usage."""
        if frame.get("error"):
            self._chars_left = -1
            return False
        if self.model is None:
            self.model = fields.as_text(frame.get("model"))
        counts = frame.get("usage")
        usage = completions_usage(counts) if counts else None
        if usage is not None:
            self.usage = usage
        choices: list[dict[str, Any]] | None = frame.get("choices")
        if type(choices) is not list:
            return False
        for choice in choices:
            if type(choice) is dict:
                self._delta(choice)
        return usage is not None and not choices and only_usage(frame)

    def answer_so_far(self) -> AnswerContent | None:
        choice = self._choices.get(0)
        return None if choice is None else _answer_content(choice.message(), choice.finished)

    def finish(self) -> None:
        if self._chars_left < 0 or not self.complete:
            return
        for choice in self._choices.values():
            self._continue_chain(_normalize_message(choice.message()))

    def _delta(self, choice: dict[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if reason:
            self.complete, self.stop_reason = True, self.stop_reason or fields.as_text(reason)
            self._set_finish_reason(choice.get("index"), reason)
        delta: dict[str, Any] | None = choice.get("delta")
        if self._chars_left < 0 or type(delta) is not dict or not delta:
            return
        index: object = choice.get("index")
        whole = self._choices.get(index) if isinstance(index, int) else None
        if whole is None:
            whole = self._choices[index if isinstance(index, int) else 0] = _Choice()
        self._chars_left -= whole.add(delta)
        if self._chars_left < 0:
            self._choices.clear()

    def _set_finish_reason(self, index: object, reason: object) -> None:
        whole = self._choices.get(index if isinstance(index, int) else 0)
        if whole is not None:
            whole.finished = reason


class _Choice:
    def __init__(self) -> None:
        self.text: list[str] = []
        self.refused: list[str] = []
        self.calls: dict[int, tuple[list[str], list[str], list[str]]] = {}
        self.finished: object = None

    def add(self, delta: dict[str, object]) -> int:
        """Add a delta; return the number of characters kept."""
        content = delta.get("content")
        length = 1
        if isinstance(content, str):
            self.text.append(content)
            length += len(content)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self.refused.append(refusal)
            length += len(refusal)
        if "tool_calls" in delta:
            for part in fields.as_list(delta["tool_calls"]):
                length += self._add_call(fields.as_object(part))
        return length

    def message(self) -> dict[str, object]:
        calls = [
            {"id": "".join(ids), "function": {"name": "".join(names), "arguments": join_pieces(arguments)}}
            for _, (ids, names, arguments) in sorted(self.calls.items())
        ]
        texts = {"content": join_pieces(self.text), "refusal": join_pieces(self.refused)}
        return {"role": "assistant", **texts, "tool_calls": calls}

    def _add_call(self, part: dict[str, object]) -> int:
        index = fields.as_count(part.get("index")) or 0
        ids, names, arguments = self.calls.setdefault(index, ([], [], []))
        function = fields.as_object(part.get("function"))
        length = 1
        for value, to in ((part.get("id"), ids), (function.get("name"), names), (function.get("arguments"), arguments)):
            # Some servers repeat id and name in each delta.
            if isinstance(value, str) and value and not (to is not arguments and to):
                to.append(value)
                length += len(value)
        return length


def _prompt(text: str, listed: splice.JsonSpan) -> RequestPrompt:
    messages: list[RequestMessage] = []
    system: splice.InsertionPoint | None = None
    leading, has_marks = True, '"cache_control"' in text
    for place in splice.element_spans(listed):
        message = fields.as_object(place.value)
        side = OPENAI_SIDES.get(str(message.get("role")), Side.MODEL)
        leading = leading and side is Side.OPERATOR
        words = text_by_side(side, message.get("content"))
        slot = partial(content_end_slot, text, place.start, "text", as_parts=has_marks and side is Side.USER)
        if leading:
            system = slot() or system
        if side is Side.TOOL:
            messages.append(RequestMessage(side=side, results=(words,) if words else (), slot=slot))
        else:
            messages.append(RequestMessage(side=side, text=words, name=fields.as_text(message.get("name")), slot=slot))
    if system is None:
        system = splice.slot_in_array(text, listed, {"role": "system", "content": "%"}, first=True)
    return build_prompt(text, messages, system)


def _answer_content(message: dict[str, object], finished: object) -> AnswerContent | None:
    calls = [fields.as_object(call) for call in fields.as_list(message.get("tool_calls"))]
    if not calls and message.get("function_call"):
        calls = [{"function": message["function_call"]}]
    text = join_texts(message.get("content")) or fields.as_text(message.get("refusal")) or ""
    if not text and not calls:
        return None
    return AnswerContent(text=text, calls=tuple(map(_format_call, calls)), cut=finished in _CUT)


def _format_call(call: dict[str, object]) -> str:
    function = fields.as_object(call.get("function")) or fields.as_object(call.get("custom"))
    arguments = function.get("arguments") if "arguments" in function else function.get("input")
    return f"{function.get('name')}({arguments})"


def _normalize_messages(messages: Sequence[dict[str, object]]) -> Iterator[object]:
    """Yield the hashed form of each message; None within the leading prompt."""
    leads = True
    for message in messages:
        leads = leads and message.get("role") in OPERATOR_ROLES
        yield None if leads else _normalize_message(message)


def _normalize_message(message: dict[str, object]) -> object:
    role = message.get("role")
    if not isinstance(role, str):
        raise InvalidRequest(f"a message's `role` is {fields.kind(role)}; send a string")
    content = message.get("content")
    if len(message) == 2 and isinstance(content, str):
        return (role, content)
    content = hash_chain.normalize_content(content)
    if role == "tool":
        return (role, content, message.get("tool_call_id"))
    calls = fields.as_list(message.get("tool_calls"))
    if calls:
        return (role, content, [_normalize_call(fields.as_object(call)) for call in calls])
    function = message.get("function_call")
    if function:
        return (role, content, [_normalize_call({"function": function})])
    return (role, content)


def _normalize_call(call: dict[str, object]) -> object:
    function = fields.as_object(call.get("function")) or fields.as_object(call.get("custom"))
    arguments = function.get("arguments") if "arguments" in function else function.get("input")
    return (call.get("id"), function.get("name"), hash_chain.normalize_arguments(arguments))
