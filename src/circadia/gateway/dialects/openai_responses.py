"""OpenAI's responses."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, cast

from circadia.errors import InvalidRequest
from circadia.gateway.codecs.base import AnswerCodec
from circadia.gateway.codecs.openai_responses import ResponsesAnswerCodec
from circadia.gateway.dialects import errors
from circadia.gateway.dialects.base import AnswerContent, Meter, ModelRequest
from circadia.gateway.dialects.meters import MAX_TEXT_CHARS, BufferedMeter, MeterState, StreamedMeter, TokenCountMeter
from circadia.gateway.dialects.plain import Plain
from circadia.gateway.payload import fields, splice
from circadia.gateway.payload import hash_chain as hashes
from circadia.gateway.payload.output_tools import count_schema_fields, output_tools
from circadia.gateway.payload.prompt import (
    BETWEEN,
    RequestMessage,
    RequestPrompt,
    Side,
    build_prompt,
    content_end_slot,
    join_texts,
    text_by_side,
)
from circadia.gateway.payload.provider_ids import asked_ids
from circadia.gateway.payload.surrogates import join_pieces
from circadia.gateway.payload.usage import responses_usage
from circadia.gateway.payload.user_turn import OPERATOR_ROLES, ends_in_user

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


class Responses(Plain):
    """`POST …/responses`."""

    endpoint = "responses"
    # Before `response.created` the stream helper of the openai SDKs fails with it.
    keep_alive_event = b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n'
    answer_codec: AnswerCodec | None = ResponsesAnswerCodec()

    def parse_request(self, body: bytes) -> ModelRequest:
        request = fields.load(body)
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

    def error_event(self, status: int, code: str, message: str) -> bytes:
        return errors.openai_responses_error_event(status, code, message)

    def event_of_error(self, status: int, body: bytes, message: str) -> bytes:
        return errors.openai_responses_event_of(status, body, message)

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Read the input; memory goes to the end of the instructions."""
        try:
            text = body.decode()
            places = dict(splice.members(text, splice.value_start(text)))
            return _prompt(text, places) if "input" in places else None
        except ValueError:
            return None

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return _StreamedResponse(chain, words=words) if streamed else _BufferedResponse(chain)


class CompactedResponse(Responses):
    """`POST …/responses/compact`: a model summarises a conversation for later requests to continue."""

    endpoint = "compacted_response"
    answer_codec: AnswerCodec | None = None

    def parse_request(self, body: bytes) -> ModelRequest:
        """Parse the body; it has no new turn and does not stream."""
        return replace(super().parse_request(body), streamed=False, turn=False)

    def with_line(self, body: bytes, line: str) -> bytes:
        """Return the body unchanged: the last turn is not answered here."""
        return body

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

    def parse_request(self, body: bytes) -> ModelRequest:
        return replace(super().parse_request(body), streamed=False, output_limit=0, turn=False)

    def with_line(self, body: bytes, line: str) -> bytes:
        """Return the body unchanged: a token count is never held."""
        return body

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return TokenCountMeter(())


class StoredResponse(Plain):
    """`GET …/responses/{id}`: an earlier answer, or one made in the background."""

    endpoint = "stored_response"

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return _StreamedResponse((), words=False) if streamed else _BufferedResponse(())


class _Response(MeterState):
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


def _prompt(text: str, places: dict[str, splice.JsonSpan]) -> RequestPrompt:
    instructions = places.get("instructions")
    if instructions is None:
        end = splice.slot_in_object(text, "instructions")
    elif isinstance(instructions.value, str):
        end = splice.slot_in_string(instructions, BETWEEN)
    else:
        end = splice.slot_replacing(instructions)
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
        messages = [_message(text, place) for place in splice.elements(text, source.start)]
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
