"""Google's own Gemini API. The path names the model and whether the answer is a stream."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import orjson

from circadia.gateway.dialects.base import Dialect, ModelRequest
from circadia.gateway.dialects.meters import MAX_TEXT_CHARS, AnswerContent, BufferedMeter, Meter, StreamedMeter
from circadia.gateway.payload import fields, splice
from circadia.gateway.payload import hash_chain as hashes
from circadia.gateway.payload.fields import join_pieces
from circadia.gateway.payload.prompt import RequestMessage, RequestPrompt, Side, build_prompt, join_texts, text_by_side
from circadia.gateway.payload.provider_ids import asked_ids
from circadia.gateway.payload.server_sent_events import format_event
from circadia.gateway.payload.usage import contents_usage

_ADDED_PART: Final = {"text": "%"}
_ADDED_CONTENT: Final = {"parts": [_ADDED_PART]}


class GenerateContent(Dialect):
    """`POST …/models/{model}:generateContent` and `:streamGenerateContent`."""

    endpoint = "generate_content"
    keep_alive_bytes = keep_alive_event = b"\n"  # Google's SDK for Python takes a comment for JSON

    def __init__(self) -> None:
        super().__init__("gemini")

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        """Read the body; model and streaming come from the path."""
        one = request.get("contents")
        contents = fields.objects({"contents": [one]} if isinstance(one, dict) else request, "contents")
        settings = fields.as_object(_json_member(request, "generationConfig"))
        limit = fields.as_count(_json_member(settings, "maxOutputTokens"))
        items = list(map(_normalize_content, contents))
        chain = hashes.hash_chain("", items)
        return ModelRequest(
            model=_model(request),
            input_estimate=fields.input_estimate(body),
            output_limit=fields.product(limit, fields.as_count(_json_member(settings, "candidateCount"))),
            turn=bool(contents) and _is_turn(contents[-1]),
            foreign_ids=asked_ids("gemini", request, body),
            chain=chain,
            opening=hashes.find_opening(items, chain),
            since_answer=hashes.count_since_answer(items),
            offers_tools=bool(request.get("tools")),
            schema_fields=_count_schema_fields(settings),
        )

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Read the contents; memory goes behind the system instruction, or before the contents behind a cache."""
        try:
            text = body.decode()
            return _prompt(text, dict(splice.members(text, splice.value_start(text), spans="contents")))
        except ValueError:
            return None

    def as_stream(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return the answer as the only event of a stream; a list as one event per item."""
        answers = _answers(whole)
        return b"".join(map(format_event, answers)) if answers else None

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return _StreamedContent(chain) if streamed else _BufferedContent(chain)


class CountContentTokens(GenerateContent):
    """`POST …/models/{model}:countTokens`, of contents or of a whole request."""

    endpoint = "count_content_tokens"
    counts_tokens = True

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        inner = fields.as_object(_json_member(request, "generateContentRequest"))
        counted = super().read_request(inner or request, body)
        return replace(counted, output_limit=0, turn=False)

    def prompt(self, body: bytes) -> RequestPrompt | None:
        """Return None: a count of contents alone has no place for a system instruction."""
        return None

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return _CountedContent(())


class _Content(Meter):
    def __init__(self, head: Sequence[str]) -> None:
        super().__init__(head)
        self._text: list[str] = []
        self._calls: list[tuple[str, object, object]] = []
        self._is_cut = False
        self._chars_left = MAX_TEXT_CHARS

    def take(self, answer: dict[str, object]) -> None:
        self.model = fields.as_text(answer.get("modelVersion")) or self.model
        self.usage = contents_usage(answer.get("usageMetadata")) or self.usage
        candidates = [fields.as_object(candidate) for candidate in fields.as_list(answer.get("candidates"))]
        blocked = fields.as_object(answer.get("promptFeedback")).get("blockReason")
        reasons = (blocked, *(candidate.get("finishReason") for candidate in candidates))
        self.stop_reason = next(filter(None, map(fields.as_text, reasons)), self.stop_reason)
        self.complete = self.complete or any(reasons)
        self._is_cut |= any(candidate.get("finishReason") == "MAX_TOKENS" for candidate in candidates[:1])
        for part in _parts(fields.as_object(candidates[0].get("content"))) if candidates else ():
            text = part.get("text")
            if isinstance(text, str) and not part.get("thought"):
                self._chars_left -= len(text)
                self._text += [text] if self._chars_left >= 0 else []
            elif "functionCall" in part:
                self._calls.append(_normalize_call(part["functionCall"]))

    def answer_so_far(self) -> AnswerContent | None:
        text = join_pieces(self._text)
        calls = tuple(f"{name}({orjson.dumps(arguments or {}).decode()})" for _, name, arguments in self._calls)
        is_known = self._chars_left >= 0 and (text or calls)
        return AnswerContent(text=text, calls=calls, cut=self._is_cut) if is_known else None

    def hash_answer(self) -> None:
        if self.complete and self._chars_left >= 0:
            self._continue_chain(("model", join_pieces(self._text), self._calls))


class _BufferedContent(BufferedMeter, _Content):
    def end(self) -> bytes:
        if not self._kept:
            return super().end()
        for answer in _answers(b"".join(self._kept)):
            self.take(answer)
        self.hash_answer()
        self._kept.clear()
        return b""

    def read_answer(self, answer: dict[str, object]) -> None:
        self.take(answer)


class _StreamedContent(StreamedMeter, _Content):
    def read_event_data(self, frame: dict[str, object]) -> bool:
        self.take(frame)
        return False

    def finish(self) -> None:
        self.hash_answer()


class _CountedContent(BufferedMeter):
    def read_answer(self, answer: dict[str, object]) -> None:
        self.complete = "totalTokens" in answer


def _answers(whole: bytes) -> list[dict[str, object]]:
    """Return the answers of a body: one, or the list that a stream without `alt=sse` is."""
    try:
        value: object = orjson.loads(whole)
    except orjson.JSONDecodeError:
        return []
    return [answer for item in (value, *fields.as_list(value)) if (answer := fields.as_object(item))]


def _json_member(request: dict[str, object], name: str) -> object:
    """Return a member by its JSON name or its proto name; Google's API accepts both."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return request.get(name, request.get(snake))


def _count_schema_fields(settings: dict[str, object]) -> int | None:
    """Return the number of fields of the schema that the answer must fit; None without one."""
    for name in ("responseJsonSchema", "responseSchema"):
        schema = fields.as_object(_json_member(settings, name))
        if "properties" in schema:
            return len(fields.as_object(schema["properties"]))
    return None


def _model(request: dict[str, object]) -> str | None:
    named = fields.text(request, "model")
    return named and named.removeprefix("models/")


def _parts(content: dict[str, object]) -> list[dict[str, object]]:
    """Return the parts of a content; Google takes an object for a list of one."""
    parts = content.get("parts")
    one = fields.as_object(parts)
    return [one] if one else [fields.as_object(part) for part in fields.as_list(parts)]


def _is_turn(content: dict[str, object]) -> bool:
    results = any(_json_member(part, "functionResponse") is not None for part in _parts(content))
    return content.get("role") in (None, "user") and not results


def _normalize_content(content: dict[str, object]) -> object:
    """Return the hashed form of a content, the same for an answer and for its copy in a later request."""
    texts: list[str] = []
    rest: list[object] = []
    for part in _parts(content):
        text, call = part.get("text"), _json_member(part, "functionCall")
        if isinstance(text, str):
            texts += () if part.get("thought") else (text,)
        else:
            rest.append(part if call is None else _normalize_call(call))
    return (content.get("role") or "user", join_pieces(texts), rest)


def _normalize_call(call: object) -> tuple[str, object, object]:
    return ("call", fields.as_object(call).get("name"), fields.as_object(call).get("args"))


def _prompt(text: str, places: dict[str, splice.JsonSpan]) -> RequestPrompt | None:
    if "contents" not in places:
        return None
    listed = places["contents"]
    contents = [listed] if isinstance(listed.value, dict) else splice.element_spans(listed)
    system = places.get("systemInstruction", places.get("system_instruction"))
    slot = _system_slot(text, system)
    if places.keys() & {"cachedContent", "cached_content"}:  # which has the only system instruction
        slot = _part_slot(text, contents[0].start, first=True) if contents else None
    if slot is None:
        return None
    messages = [_read_content(text, place) for place in contents]
    lead = "" if system is None else join_texts(_texts(fields.as_object(system.value)))
    return build_prompt(text, messages, slot, lead=lead)


def _read_content(text: str, place: splice.JsonSpan) -> RequestMessage:
    content = fields.as_object(place.value)
    if content.get("role") == "model":
        return RequestMessage(side=Side.MODEL, text=join_texts(_texts(content)))
    results: list[str] = []
    if any(_json_member(part, "functionResponse") is not None for part in _parts(content)):
        whole = fields.as_object(json.loads(text[place.start : place.end]))  # the place has no numbers
        responses = (fields.as_object(_json_member(part, "functionResponse")).get("response") for part in _parts(whole))
        results = [json.dumps(response, ensure_ascii=False) for response in responses if response]
    return RequestMessage(
        side=Side.USER, text=text_by_side(Side.USER, _texts(content)), results=results,
        slot=partial(_part_slot, text, place.start),
    )  # fmt: skip


def _texts(content: dict[str, object]) -> list[dict[str, object]]:
    """Return the texts of a content, without thoughts, as typed parts."""
    parts = (part for part in _parts(content) if not part.get("thought"))
    return [{"type": "text", "text": part["text"]} for part in parts if isinstance(part.get("text"), str)]


def _system_slot(text: str, system: splice.JsonSpan | None) -> splice.InsertionPoint | None:
    """Return the slot at the end of the system instruction; None if that has another form."""
    if system is None:
        return splice.slot_in_object(text, "systemInstruction", _ADDED_CONTENT)
    content = system.value
    if content is None or (isinstance(content, dict) and "parts" not in content):
        return splice.slot_replacing(system, _ADDED_CONTENT)
    return _part_slot(text, system.start) if isinstance(content, dict) else None


def _part_slot(text: str, start: int, *, first: bool = False) -> splice.InsertionPoint | None:
    """Return the slot at the end, or the beginning, of the parts of the content at `start`."""
    parts = splice.member(text, start, "parts")
    if parts is not None and isinstance(parts.value, dict):
        return None if first else splice.slot_beside(text, parts, _ADDED_PART)
    if parts is None or not isinstance(parts.value, list):
        return None
    return splice.slot_in_array(text, parts, _ADDED_PART, first=first)
