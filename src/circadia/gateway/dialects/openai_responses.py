"""OpenAI's responses."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, cast

import orjson

from circadia.errors import InvalidRequest
from circadia.gateway.dialects.base import Dialect, ModelRequest, Plain
from circadia.gateway.dialects.errors import ResponsesErrorShape
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
from circadia.gateway.dialects.openai_chat import OPENAI_UNASKED, OPENAI_UNCHANGING, tool_choice_exclusions
from circadia.gateway.payload import fields, splice
from circadia.gateway.payload import hash_chain as hashes
from circadia.gateway.payload.fields import join_pieces
from circadia.gateway.payload.options import count_schema_fields, output_tools
from circadia.gateway.payload.prompt import (
    BETWEEN,
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
from circadia.gateway.payload.usage import responses_usage
from circadia.llm.usage import Usage

UNCHANGING: Final = OPENAI_UNCHANGING | {
    "background": "when the answer is fetched",
    "previous_response_id": "what was said before, which is no part of a frame",
    "conversation": "what was said before, which is no part of a frame",
    "client_metadata": "which program calls, and for which of its turns",
}
_KEPT: Final = FrameFields(
    operators="input",
    system="instructions",
    unchanging=UNCHANGING,
    unasked=OPENAI_UNASKED | {"background", "client_metadata", "previous_response_id", "conversation"},
    # A question that no user asked must not appear among the provider's stored responses.
    fixed={"store": False},
)
_NOTHING: Final = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}
_ENDS: Final = ("completed", "incomplete", "failed")
_WRITTEN: Final = {"arguments": "function_call_arguments", "input": "custom_tool_call_input"}
"""Item fields that are streamed in pieces, and the name of their events."""
_PROBABILITIES: Final = "message.output_text.logprobs"


class ResponsesAnswerCodec(AnswerCodec):
    """The codec of `POST …/responses`."""

    kept = _KEPT

    def read_items(self, request: dict[str, object]) -> Sequence[ConversationItem]:
        input_value = request.get("input")
        if isinstance(input_value, str):
            return [ConversationItem(Side.USER, {"role": "user", "content": input_value})]
        items = [] if input_value is None else fields.objects(request, "input")
        return [ConversationItem(_side(item), item) for item in items if item.get("type") != "reasoning"]

    def find_exclusions(self, request: dict[str, object]) -> Iterator[AnswerExclusion]:
        yield from tool_choice_exclusions(request.get("tool_choice"))
        yield from tool_exclusions(request.get("tools"))
        for item in map(fields.as_object, fields.as_list(request.get("input"))):
            if item.get("type") == _TOOLS:
                yield from tool_exclusions(item.get("tools"))
        if fields.as_object(request.get("prompt")).get("variables"):
            yield AnswerExclusion("it fills a stored prompt template with variables", ahead=False)
        if wants(request, "previous_response_id") or wants(request, "conversation"):
            yield AnswerExclusion("the provider keeps its conversation")
        if request.get("store") is not False:
            yield AnswerExclusion("the provider must keep the answer")
        if wants(request, "background"):
            yield AnswerExclusion("it is answered in the background")
        if wants(request, "top_logprobs", 0) or _PROBABILITIES in fields.as_list(request.get("include")):
            yield AnswerExclusion("it asks for probabilities")
        if wants(request, "moderation"):
            yield AnswerExclusion("it asks for moderation")

    def parse_answer(self, whole: bytes) -> DecodedAnswer | None:
        answer = parse_answer_object(whole)
        status = answer.get("status")
        if answer.get("object") != "response" or status not in ("completed", "incomplete"):
            return None
        output = [fields.as_object(item) for item in fields.as_list(answer.get("output"))]
        messages = [item for item in output if item.get("type") == "message"]
        thoughts = [item for item in output if item.get("type") == "reasoning"]
        texts = [join_texts(item.get("content")) for item in messages]
        return DecodedAnswer(
            text="\n\n".join(filter(None, texts)),
            reasoning="\n\n".join(filter(None, map(_reasoning_text, thoughts))),
            called=len(messages) + len(thoughts) < len(output) or any(map(_is_more, messages)),
            cut=status == "incomplete",
            usage=responses_usage(answer.get("usage")) or Usage(),
        )

    def build_answer(self, text: str, *, id: str, model: str, at: datetime) -> bytes:
        """Return a response that the provider does not store."""
        return orjson.dumps(_completed_response(text, id, model, int(at.timestamp())))

    def build_events(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return the events of a response; these always contain the usage."""
        response = parse_answer_object(whole)
        if response.get("object") != "response":
            return None
        steps = enumerate(_events(response))
        return b"".join(
            [format_event({"type": kind, **more, "sequence_number": number}, kind) for number, (kind, more) in steps]
        )


def _side(item: dict[str, object]) -> Side:
    kind = item.get("type")
    if kind in (None, "message") or item.get("role") in OPERATOR_ROLES:  # Codex offers its tools in an item
        return OPENAI_SIDES.get(str(item.get("role")), Side.MODEL)
    from_tool = str(kind).endswith("_output") or kind == "mcp_approval_response"
    return Side.TOOL if from_tool else Side.MODEL


def _reasoning_text(item: dict[str, object]) -> str:
    """Return the text of a reasoning item: the full reasoning if the provider shows it, else the summary."""
    parts = fields.as_list(item.get("content")) or fields.as_list(item.get("summary"))
    return "\n\n".join([str(text) for part in parts if (text := fields.as_object(part).get("text"))])


def _is_more(message: dict[str, object]) -> bool:
    """Return whether a message is more than text: a refusal, or text that cites tool results."""
    parts = [fields.as_object(part) for part in fields.as_list(message.get("content"))]
    return any(part.get("type") != "output_text" or bool(part.get("annotations")) for part in parts)


def _response(id: str, model: str, created: int) -> dict[str, object]:
    return {
        "id": f"resp_{id}",
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        "user": None,
    }


def _part(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(id: str, text: str) -> dict[str, object]:
    base = {"id": f"msg_{id}", "type": "message", "role": "assistant"}
    return {**base, "status": "completed", "content": [_part(text)]}


def _completed_response(text: str, id: str, model: str, created: int) -> dict[str, object]:
    done = {"status": "completed", "completed_at": created, "output": [_item(id, text)], "usage": _NOTHING}
    return _response(id, model, created) | done


def _events(response: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    opening = {name: value for name, value in response.items() if name != "completed_at"}
    opening |= {"status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None}
    yield "response.created", {"response": opening}
    yield "response.in_progress", {"response": opening}
    for index, item in enumerate(map(fields.as_object, fields.as_list(response.get("output")))):
        empty: dict[str, object] = {name: [] for name in ("content", "summary") if item.get(name)}
        empty |= {name: "" for name in _WRITTEN if name in item}
        added = item | empty | ({"status": "in_progress"} if "status" in item else {})
        yield "response.output_item.added", {"output_index": index, "item": added}
        yield from _item_events(item, {"item_id": item.get("id"), "output_index": index})
        yield "response.output_item.done", {"output_index": index, "item": item}
    if response.get("status") in _ENDS:
        yield f"response.{response['status']}", {"response": response}


def _item_events(item: dict[str, object], where: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the events that fill an output item: the text of its parts, or the arguments of its call."""
    for name, count in (("summary", "summary_index"), ("content", "content_index")):
        for index, part in enumerate(map(fields.as_object, fields.as_list(item.get(name)))):
            place = where | {count: index}
            yield from _part_events(part, place, "reasoning_summary_part" if name == "summary" else "content_part")
    for name, event in _WRITTEN.items():
        written_text = item.get(name)
        if isinstance(written_text, str):
            yield f"response.{event}.delta", where | {"delta": written_text}
            yield f"response.{event}.done", where | {name: written_text}


def _part_events(
    part: dict[str, object], place: dict[str, object], kind: str
) -> Iterator[tuple[str, dict[str, object]]]:
    name = "refusal" if "refusal" in part else "text"
    text = str(part.get(name) or "")
    event = "reasoning_summary_text" if part.get("type") == "summary_text" else str(part.get("type"))
    more: dict[str, object] = {"logprobs": []} if event == "output_text" else {}
    empty_part: dict[str, object] = part | {name: ""}
    empty_part |= {field: [] for field in ("annotations", "logprobs") if field in part}
    yield f"response.{kind}.added", place | {"part": empty_part}
    for piece in split_text(text):
        yield f"response.{event}.delta", place | {"delta": piece} | more
    yield f"response.{event}.done", place | {name: text} | more
    yield f"response.{kind}.done", place | {"part": part}


_MESSAGE_TYPES = (None, "message")
_CALLS = ("function_call", "custom_tool_call")
_REFERENCE = "item_reference"
_TOOLS = "additional_tools"
"""An item in which Codex offers its tools, before the prompt."""
_UNSENT = ("reasoning", "mcp_list_tools", "tool_search_output")
"""Types of items that clients may leave out when they send an answer back."""
_ADDED_ITEM: Final = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "%"}]}
"""What is added behind a tool's output, which is not text alone."""
_SIDES = {"system": Side.OPERATOR, "developer": Side.OPERATOR, "user": Side.USER}


class Responses(Dialect):
    """`POST …/responses`."""

    endpoint = "responses"
    # Before `response.created` the stream helper of the openai SDKs fails with it.
    keep_alive_event = b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n'
    answer_codec: AnswerCodec | None = ResponsesAnswerCodec()

    def __init__(self) -> None:
        super().__init__()
        self.errors = ResponsesErrorShape()

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        items = _items(request)
        previous = fields.text(request, "previous_response_id")
        conversation = _conversation(request)
        continued = conversation or previous
        hashed = list(_normalize_items(items, leads=continued is None))
        chain = _chain(hashed, continued)
        return ModelRequest(
            model=fields.text(request, "model"),
            streamed=fields.flag(request, "stream"),
            input_estimate=fields.input_estimate(body),
            output_limit=fields.count(request, "max_output_tokens"),
            turn=bool(items) and _is_message(items[-1]) and ends_in_user(items),
            end_user=fields.text(request, "user") or fields.text(request, "safety_identifier"),
            conversation=continued,
            foreign_ids=tuple(
                name for name in (conversation, previous, _comparison_id(request), *_referenced_ids(items)) if name
            ),
            shared_ids=asked_ids("openai", request, body),
            cache_key=fields.as_text(request.get("prompt_cache_key")),
            chain=chain,
            opening=hashes.find_opening(hashed, chain),
            since_answer=hashes.count_since_answer(hashed),
            offers_tools=bool(request.get("tools")) or any(item.get("type") == _TOOLS for item in items),
            schema_fields=count_schema_fields(request),
            output_tools=output_tools(request),
        )

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Read the input; memory goes to the end of the instructions."""
        try:
            text = body.decode()
            places = dict(splice.members(text, splice.value_start(text), spans="input"))
            return _prompt(text, places) if "input" in places else None
        except ValueError:
            return None

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return _StreamedResponse(chain, words=words) if streamed else _BufferedResponse(chain)


class CompactedResponse(Responses):
    """`POST …/responses/compact`: a model summarises a conversation for later requests to continue."""

    endpoint = "compacted_response"
    answer_codec: AnswerCodec | None = None

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        """Read the body; it has no new turn and does not stream."""
        return replace(super().read_request(request, body), streamed=False, turn=False)

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Return None: memory does not belong in a summary of the conversation."""
        return None

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return _CompactedMeter(())


class InputTokens(Responses):
    """`POST …/responses/input_tokens`: the same request, which generates nothing. Added memory counts too."""

    endpoint = "input_tokens"
    counts_tokens = True
    answer_codec: AnswerCodec | None = None

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        return replace(super().read_request(request, body), streamed=False, output_limit=0, turn=False)

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return TokenCountMeter(())


class StoredResponse(Plain):
    """`GET …/responses/{id}`: an earlier answer, or one made in the background."""

    endpoint = "stored_response"

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return _StreamedResponse((), words=False) if streamed else _BufferedResponse(())


class _Response(Meter):
    def __init__(self, hashes: Sequence[str]) -> None:
        super().__init__(hashes)
        self._content: AnswerContent | None = None
        self._background_id: str | None = None
        """Its id if it is made in the background."""

    def answer_so_far(self) -> AnswerContent | None:
        """Return the response's content; of an unfinished background response only the handle."""
        return (
            AnswerContent(text="", handle=self._background_id)
            if self._content is None and self._background_id
            else self._content
        )

    def take(self, response: dict[str, object]) -> None:
        self.model = fields.as_text(response.get("model")) or self.model
        self.usage = responses_usage(response.get("usage")) or self.usage
        if response.get("background") is True:
            self._background_id = fields.as_text(response.get("id"))
        output = [fields.as_object(item) for item in fields.as_list(response.get("output"))]
        # A response that the provider does not store can never be referred to, nor can its items.
        if response.get("store") is not False:
            self.handle = fields.as_text(response.get("id"))
            for name in (self.handle, *(item.get("id") for item in output)):
                self._add_id(name)
        for item in output:
            self._add_id(item.get("container_id"))
            for part in fields.as_list(item.get("content")):
                for note in map(fields.as_object, fields.as_list(fields.as_object(part).get("annotations"))):
                    if note.get("type") == "container_file_citation":
                        self._add_id(note.get("file_id"))
        conversation = response.get("conversation")
        self._add_id(fields.as_object(conversation).get("id") or conversation)
        if response.get("status") in ("completed", "incomplete"):
            self.complete = True
            why = fields.as_object(response.get("incomplete_details")).get("reason") or response["status"]
            self.stop_reason = fields.as_text(why)
            self._content = _answer_content(
                output, cut=response.get("status") == "incomplete", handle=self._background_id
            )
            messages = [item for item in output if item.get("type") == "message"]
            referring = [
                {"type": _REFERENCE, "id": item.get("id")} if item.get("type") == "message" else item
                for item in output
                if item.get("type") == "message" or item.get("call_id")
            ]
            # Some clients send references to messages back, some messages alone, most everything: the likeliest comes
            # last.
            for items in (referring, messages, output):
                self._continue_chain(*_normalize_items(items, role="assistant"))

    def _add_id(self, name: object) -> None:
        if isinstance(name, str) and name and name not in self.ids:
            self.ids.append(name)


class _BufferedResponse(BufferedMeter, _Response):
    def read_answer(self, answer: dict[str, object]) -> None:
        self.take(answer)
        # A background response is answered before it is done; no later call reports its usage.
        self.complete = self.complete or answer.get("status") in ("queued", "in_progress")


class _CompactedMeter(BufferedMeter, _Response):
    def read_answer(self, answer: dict[str, object]) -> None:
        self.take(answer)
        self.complete = bool(answer.get("output"))


class _StreamedResponse(StreamedMeter, _Response):
    def __init__(self, chain: Sequence[str], *, words: bool) -> None:
        super().__init__(chain)
        self._words = words
        self._pieces: list[str] = []
        self._chars_left = MAX_TEXT_CHARS

    def read_event(self, event: bytes) -> bool:
        # Deltas hold no response object, and inside a JSON string its quotes would be escaped.
        relevant = b'"response"' in event or (self._words and b'"response.output_text.delta"' in event)
        return relevant and super().read_event(event)

    def read_event_data(self, frame: dict[str, object]) -> bool:
        delta = frame.get("delta")
        if isinstance(delta, str):
            self._chars_left -= len(delta)
            if self._chars_left >= 0:
                self._pieces.append(delta)
            return False
        self.take(fields.as_object(frame.get("response")))
        return False

    def answer_so_far(self) -> AnswerContent | None:
        """Return the response's content; the text so far if it broke off."""
        broken = self._content is None and self._pieces
        return (
            AnswerContent(text=join_pieces(self._pieces), handle=self._background_id)
            if broken
            else super().answer_so_far()
        )


def _prompt(text: str, places: dict[str, splice.JsonSpan]) -> RequestPrompt | None:
    instructions = places.get("instructions")
    if instructions is None:
        end = splice.slot_in_object(text, "instructions")
    elif isinstance(instructions.value, str):
        end = splice.slot_in_string(instructions, BETWEEN)
    elif instructions.value is None:
        end = splice.slot_replacing(instructions)
    else:
        return None
    source = places["input"]
    if isinstance(source.value, str):
        messages = [
            RequestMessage(
                side=Side.USER,
                text=text_by_side(Side.USER, source.value),
                slot=partial(splice.slot_in_string, source, BETWEEN),
            )
        ]
    else:
        messages = [_message(text, place) for place in splice.element_spans(source)]
    previous = places.get("previous_response_id")
    lead = "" if instructions is None else join_texts(instructions.value)
    return build_prompt(text, messages, end, lead=lead, continues=previous is not None and bool(previous.value))


def _message(text: str, place: splice.JsonSpan) -> RequestMessage:
    item = fields.as_object(place.value)
    if not _is_message(item):
        if not str(item.get("type")).endswith("_call_output"):
            return RequestMessage(side=Side.OPERATOR if item.get("type") == _TOOLS else Side.MODEL)
        result = join_texts(item.get("output"))
        slot = partial(splice.slot_behind, place, _ADDED_ITEM)
        return RequestMessage(side=Side.TOOL, results=(result,) if result else (), slot=slot)
    side = _SIDES.get(str(item.get("role")), Side.MODEL)
    slot = partial(content_end_slot, text, place.start, "input_text")
    return RequestMessage(side=side, text=text_by_side(side, item.get("content")), slot=slot)


def _answer_content(output: Sequence[dict[str, object]], *, cut: bool, handle: str | None) -> AnswerContent | None:
    texts = [join_texts(item.get("content")) for item in output if item.get("type") == "message"]
    text = "\n\n".join([part for part in texts if part])
    calls = tuple(
        f"{item.get('name')}({item.get('arguments') or item.get('input')})"
        for item in output
        if item.get("type") in _CALLS
    )
    return AnswerContent(text=text, calls=calls, cut=cut, handle=handle) if text or calls else None


def _items(request: dict[str, object]) -> list[dict[str, object]]:
    source = request.get("input")
    if source is None:
        return []
    if isinstance(source, str):
        return [{"role": "user", "content": source}]
    items = fields.objects(request, "input")
    for item in items:
        if _is_message(item) and not isinstance(item.get("role"), str):
            raise InvalidRequest(f"an input item's `role` is {fields.kind(item.get('role'))}; send a string")
    return items


def _is_message(item: dict[str, object]) -> bool:
    return item.get("type") in _MESSAGE_TYPES


def _conversation(request: dict[str, object]) -> str | None:
    conversation = request.get("conversation")
    if isinstance(conversation, dict):
        return fields.text(cast("dict[str, object]", conversation), "id")
    return fields.text(request, "conversation")


def _comparison_id(request: dict[str, object]) -> str | None:
    """Return the response id that the provider is asked to compare this one with."""
    return fields.text(fields.as_object(request.get("prompt_cache_options")), "comparison_response_id")


def _referenced_ids(items: Sequence[dict[str, object]]) -> Iterator[str | None]:
    """Yield ids of items that the provider must look up: references, and images by id."""
    for item in items:
        if item.get("type") == _REFERENCE or (item.get("type") == "image_generation_call" and not item.get("result")):
            yield fields.text(item, "id")


def _chain(items: Sequence[object], conversation: str | None) -> tuple[str, ...]:
    """Return the chain; the id of a continued conversation replaces its items, which are not in the request."""
    head = "" if conversation is None else hashes.hash_chain("", (("conversation", conversation),))[0]
    return hashes.hash_chain(head, items)


def _normalize_items(
    items: Sequence[dict[str, object]], *, leads: bool = False, role: str | None = None
) -> Iterator[object]:
    """Yield the hashed form of each item, None for a prompt that `leads` it. `role` is that of messages without one.

    Reasoning and what the provider's own tools did are left out: clients shorten it or do not send it back.
    """
    for item in items:
        kind = item.get("type")
        leads = leads and _is_message(item) and item.get("role") in OPERATOR_ROLES
        if leads:
            yield None
        elif _is_message(item):
            yield (item.get("role") or role, hashes.normalize_content(item.get("content")))
        elif isinstance(kind, str) and kind.endswith("_call"):
            if call_id := item.get("call_id"):  # of the caller's own tool
                arguments = item.get("arguments") if "arguments" in item else item.get("input")
                yield (kind, call_id, item.get("name"), hashes.normalize_arguments(arguments))
        elif isinstance(kind, str) and kind.endswith("_call_output"):
            call_id = item.get("call_id") or item.get("id")
            yield (kind, call_id, hashes.normalize_content(item.get("output")))
        elif kind == _REFERENCE:
            # References to messages count as the message; those to reasoning and provider calls may be left out.
            name = item.get("id")
            if isinstance(name, str) and name.startswith("msg"):
                yield (kind, name)
        elif kind not in _UNSENT:
            # Id and status of an item are the provider's; clients drop them.
            yield {key: value for key, value in item.items() if key not in ("id", "status") and value is not None}
