"""Anthropic's messages and token counting."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, cast

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
from circadia.gateway.dialects.meters import (
    MAX_TEXT_CHARS,
    AnswerContent,
    BufferedMeter,
    Meter,
    StreamedMeter,
    TokenCountMeter,
)
from circadia.gateway.payload import fields, hash_chain, splice
from circadia.gateway.payload.fields import join_pieces
from circadia.gateway.payload.options import count_schema_fields, output_tools
from circadia.gateway.payload.prompt import (
    RequestMessage,
    RequestPrompt,
    Side,
    build_prompt,
    content_end_slot,
    end_slot,
    ends_in_user,
    join_texts,
    text_by_side,
)
from circadia.gateway.payload.provider_ids import asked_ids, find_ids
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


class MessagesAnswerCodec(AnswerCodec):
    """The codec of `POST …/messages`."""

    kept = _KEPT

    def read_items(self, request: dict[str, object]) -> Sequence[ConversationItem]:
        messages = fields.objects(request, "messages")
        return [ConversationItem(_SIDES.get(str(message.get("role")), Side.MODEL), message) for message in messages]

    def find_exclusions(self, request: dict[str, object]) -> Iterator[AnswerExclusion]:
        if fields.as_object(request.get("tool_choice")).get("type") not in (None, "auto", "none"):
            yield AnswerExclusion("it forces the call of a tool", ahead=False)
        yield from tool_exclusions(request.get("tools"))
        if wants(request, "mcp_servers", []):
            yield AnswerExclusion("the provider calls a remote MCP server for it", ahead=False)
        if wants(request, "container"):
            yield AnswerExclusion("it works in a container", ahead=False)
        if wants(request, "compaction"):
            yield AnswerExclusion("it asks for a summary of what was said", ahead=False)
        if wants(request, "thread"):
            yield AnswerExclusion("the provider keeps its conversation")

    def parse_answer(self, whole: bytes) -> DecodedAnswer | None:
        answer = parse_answer_object(whole)
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
        message = parse_answer_object(whole)
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
        words = split_text(str(block.get("text") or ""))
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


_FILE: Final = frozenset({"file_id"})
_CLAUDE_CODE: Final = re.compile(r"(user_[0-9a-f]{64}_account_[0-9a-f-]*)_session_[0-9a-f-]+")
"""Device and account, then the session."""


class AnthropicMessages(Dialect):
    """`POST …/messages`."""

    endpoint = "messages"
    answer_codec: AnswerCodec | None = MessagesAnswerCodec()

    def __init__(self) -> None:
        super().__init__("anthropic")

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        messages = fields.objects(request, "messages")
        container = _container(request)
        items = list(map(_normalize_message, messages))
        chain = hash_chain.hash_chain("", items)
        return ModelRequest(
            model=fields.text(request, "model"),
            streamed=fields.flag(request, "stream"),
            input_estimate=fields.input_estimate(body),
            output_limit=fields.count(request, "max_tokens"),
            turn=_is_turn(messages),
            end_user=_end_user(request),
            foreign_ids=(container,) if container else (),
            shared_ids=asked_ids("anthropic", request, body),
            chain=chain,
            opening=hash_chain.find_opening(items, chain),
            since_answer=hash_chain.count_since_answer(items),
            offers_tools=bool(request.get("tools")),
            schema_fields=count_schema_fields(request),
            output_tools=output_tools(request),
        )

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Read the messages; memory goes after the system prompt and all its cache marks."""
        try:
            text = body.decode()
            places = dict(splice.members(text, splice.value_start(text), spans="messages"))
            return _prompt(text, places) if "messages" in places else None
        except ValueError:
            return None

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return StreamedMessage(chain) if streamed else BufferedMessage(chain)


class CountTokens(AnthropicMessages):
    """`POST …/messages/count_tokens`: the same request, which generates nothing. Added memory counts too."""

    endpoint = "count_tokens"
    counts_tokens = True
    answer_codec: AnswerCodec | None = None

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        return replace(super().read_request(request, body), streamed=False, output_limit=0, turn=False)

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return TokenCountMeter(())


class BufferedMessage(BufferedMeter):
    def __init__(self, hashes: Sequence[str]) -> None:
        super().__init__(hashes)
        self._answer: dict[str, object] = {}

    def answer_so_far(self) -> AnswerContent | None:
        return _answer_content(fields.as_list(self._answer.get("content")), self._answer.get("stop_reason"))

    def read_answer(self, answer: dict[str, object]) -> None:
        self.model = fields.as_text(answer.get("model"))
        self.usage = messages_usage(answer.get("usage")) or Usage()
        self.complete = answer.get("type") == "message"
        self.stop_reason = fields.as_text(answer.get("stop_reason"))
        self._answer = answer
        self.ids.extend(_container_id(answer.get("container")))
        self.ids.extend(_result_files(fields.as_list(answer.get("content"))))
        if self.complete:
            self._continue_chain(("assistant", hash_chain.normalize_content(answer.get("content"))))


class StreamedMessage(StreamedMeter):
    def __init__(self, hashes: Sequence[str]) -> None:
        super().__init__(hashes)
        self._counts: dict[str, object] = {}
        self._blocks: dict[object, dict[str, object]] = {}
        self._pieces: dict[object, list[str]] = {}
        self._chars_left = MAX_TEXT_CHARS if hashes else -1

    def read_event_data(self, frame: dict[str, object]) -> bool:
        """Read an event; none is ever removed."""
        match frame.get("type"):
            case "content_block_delta":
                self._delta(frame)
            case "content_block_start":
                self.ids.extend(_result_files([frame.get("content_block")]))
                if self._chars_left >= 0:
                    index = fields.as_count(frame.get("index"))
                    self._blocks[index] = dict(fields.as_object(frame.get("content_block")))
            case "message_start":
                message = fields.as_object(frame.get("message"))
                self.model = fields.as_text(message.get("model"))
                self._count(message.get("usage"))
                self._add_container_id(message.get("container"))
            case "message_delta":
                delta = fields.as_object(frame.get("delta"))
                self._count(frame.get("usage"))
                self._add_container_id(delta.get("container"))
                self.stop_reason = fields.as_text(delta.get("stop_reason")) or self.stop_reason
                self.complete |= self.stop_reason is not None  # some compatible servers send no `message_stop`
            case "message_stop":
                self.complete = True
            case "error":
                self.complete = False
                self._chars_left = -1
            case _:
                pass
        return False

    def answer_so_far(self) -> AnswerContent | None:
        return _answer_content(self._content(), self.stop_reason)

    def finish(self) -> None:
        if self._chars_left >= 0 and self.complete:
            self._continue_chain(("assistant", hash_chain.normalize_content(self._content())))

    def _content(self) -> list[object]:
        content: list[object] = []
        for index, block in self._blocks.items():
            piece = join_pieces(self._pieces.get(index, ()))
            if block.get("type") == "text":
                content.append({**block, "text": f"{fields.as_text(block.get('text')) or ''}{piece}"})
            else:
                content.append({**block, "input": hash_chain.normalize_arguments(piece)} if piece else block)
        return content

    def _delta(self, frame: dict[str, object]) -> None:
        if self._chars_left < 0:
            return
        delta = fields.as_object(frame.get("delta"))
        piece = delta.get("text") or delta.get("partial_json")
        if isinstance(piece, str):
            self._pieces.setdefault(fields.as_count(frame.get("index")), []).append(piece)
            self._chars_left -= len(piece) + 1
            if self._chars_left < 0:
                self._blocks.clear()
                self._pieces.clear()

    def _count(self, usage: object) -> None:
        """Merge new counts into earlier ones: `message_delta` reports totals, and counts it omits still hold."""
        counts = {key: value for key, value in fields.as_object(usage).items() if value is not None}
        if counts:
            self._counts |= counts
            self.usage = messages_usage(self._counts) or Usage()

    def _add_container_id(self, container: object) -> None:
        self.ids.extend(name for name in _container_id(container) if name not in self.ids)


def _prompt(text: str, places: dict[str, splice.JsonSpan]) -> RequestPrompt | None:
    system = places.get("system")
    if system is None:
        end = splice.slot_in_object(text, "system")
    else:
        end = splice.slot_replacing(system) if system.value is None else end_slot(text, system, "text")
    if end is None:
        return None
    messages: list[RequestMessage] = []
    for place in splice.element_spans(places["messages"]):
        message = fields.as_object(place.value)
        content = message.get("content")
        if message.get("role") != "user":
            side = Side.OPERATOR if message.get("role") == "system" else Side.MODEL
            messages.append(RequestMessage(side=side, text=join_texts(content)))
            continue
        words = text_by_side(Side.USER, content)
        parts = [fields.as_object(part) for part in fields.as_list(content)]
        results = [join_texts(part.get("content")) for part in parts if part.get("type") == "tool_result"]
        slot = partial(content_end_slot, text, place.start, "text", as_parts=True)
        messages.append(RequestMessage(side=Side.USER, text=words, results=list(filter(None, results)), slot=slot))
    return build_prompt(text, messages, end, lead="" if system is None else join_texts(system.value))


def _answer_content(content: Sequence[object], stopped: object) -> AnswerContent | None:
    blocks = [fields.as_object(block) for block in content]
    calls = [
        f"{block.get('name')}({orjson.dumps(block.get('input')).decode()})"
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    text = join_texts(blocks)
    return AnswerContent(text=text, calls=tuple(calls), cut=stopped == "max_tokens") if text or calls else None


def _normalize_message(message: dict[str, object]) -> object:
    role = message.get("role")
    if not isinstance(role, str):
        raise InvalidRequest(f"a message's `role` is {fields.kind(role)}; send a string")
    return (role, hash_chain.normalize_content(message.get("content")))


def _is_turn(messages: list[dict[str, object]]) -> bool:
    """Return whether the last message is the user's and contains more than tool results."""
    if not ends_in_user(messages):
        return False
    contents = [message.get("content") for message in messages if message.get("role") == "user"]
    parts = fields.as_list(contents[-1]) if contents else []
    return not parts or any(fields.as_object(part).get("type") != "tool_result" for part in parts)


def _end_user(request: dict[str, object]) -> str | None:
    metadata = request.get("metadata")
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise InvalidRequest(f"`metadata` is {fields.kind(metadata)}; send an object")
    user_id = cast("dict[str, object]", metadata).get("user_id")
    if isinstance(user_id, dict):  # the string form as an object, sent by Claude Code
        return _person(orjson.dumps(cast("dict[str, object]", user_id)).decode())
    return _person(fields.text(cast("dict[str, object]", metadata), "user_id"))


def _person(user_id: str | None) -> str | None:
    """Return the end user; both forms of Claude Code's id also contain a session, which is removed."""
    user = user_id or ""
    if user.startswith("{"):
        with suppress(orjson.JSONDecodeError):
            ids = fields.as_object(orjson.loads(user))
            account, session = ids.get("account_uuid") or "", ids.get("session_id")
            user = f"user_{ids.get('device_id')}_account_{account}_session_{session}"
    match = _CLAUDE_CODE.fullmatch(user)
    return user_id if match is None else match[1]


def _container(request: dict[str, object]) -> str | None:
    container = request.get("container")
    if isinstance(container, dict):
        return fields.text(cast("dict[str, object]", container), "id")
    return fields.text(request, "container")


def _result_files(blocks: Sequence[object]) -> Iterator[str]:
    """Yield the files that tools of the provider made."""
    for block in map(fields.as_object, blocks):
        if str(block.get("type")).endswith("_tool_result"):
            yield from find_ids(block, _FILE)


def _container_id(container: object) -> tuple[str, ...]:
    name = fields.as_text(fields.as_object(container).get("id"))
    return (name,) if name else ()
