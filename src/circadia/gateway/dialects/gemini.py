"""Google's own Gemini API. The path names the model and whether the answer is a stream."""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from circadia.gateway.dialects.base import Meter, ModelRequest
from circadia.gateway.dialects.meters import MAX_TEXT_CHARS, BufferedMeter, MeterState, StreamedMeter
from circadia.gateway.dialects.plain import Plain
from circadia.gateway.payload import fields, splice
from circadia.gateway.payload import hash_chain as hashes
from circadia.gateway.payload.provider_ids import asked_ids
from circadia.gateway.payload.server_sent_events import format_event
from circadia.gateway.payload.surrogates import join_pieces
from circadia.gateway.payload.usage import contents_usage


class GenerateContent(Plain):
    """`POST …/models/{model}:generateContent` and `:streamGenerateContent`."""

    endpoint = "generate_content"
    keep_alive_bytes = keep_alive_event = b"\n"  # Google's SDK for Python takes a comment for JSON

    def __init__(self) -> None:
        super().__init__("gemini")

    def parse_request(self, body: bytes) -> ModelRequest:
        """Parse the body; model and streaming come from the path."""
        request = fields.load(body)
        contents = fields.objects(request, "contents")
        settings = fields.as_object(_json_member(request, "generationConfig"))
        limit = fields.as_count(_json_member(settings, "maxOutputTokens"))
        items = list(map(_normalize_content, contents))
        return ModelRequest(
            model=_model(request),
            input_estimate=fields.input_estimate(body),
            output_limit=fields.product(limit, fields.as_count(_json_member(settings, "candidateCount"))),
            turn=bool(contents) and _is_turn(contents[-1]),
            foreign_ids=asked_ids("gemini", request, body),
            chain=hashes.hash_chain("", items),
            since_answer=hashes.count_since_answer(items),
        )

    def with_line(self, body: bytes, line: str) -> bytes:
        """Add `line` as a part of the last content of role user."""
        try:
            return _add_line(body.decode(), line).encode()
        except ValueError:
            return body

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

    def parse_request(self, body: bytes) -> ModelRequest:
        request = fields.load(body)
        inner = fields.as_object(_json_member(request, "generateContentRequest"))
        counted = super().parse_request(orjson.dumps(inner) if inner else body)
        return replace(counted, output_limit=0, turn=False)

    def with_line(self, body: bytes, line: str) -> bytes:
        """Return the body unchanged: a token count is never held."""
        return body

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        return _CountedContent(())


class _Content(MeterState):
    def __init__(self, head: Sequence[str]) -> None:
        super().__init__(head)
        self._text: list[str] = []
        self._calls: list[object] = []
        self._chars_left = MAX_TEXT_CHARS

    def take(self, answer: dict[str, object]) -> None:
        self.model = fields.as_text(answer.get("modelVersion")) or self.model
        self.usage = contents_usage(answer.get("usageMetadata")) or self.usage
        candidates = [fields.as_object(candidate) for candidate in fields.as_list(answer.get("candidates"))]
        blocked = fields.as_object(answer.get("promptFeedback")).get("blockReason")
        self.complete = self.complete or bool(blocked) or any(candidate.get("finishReason") for candidate in candidates)
        for part in _parts(fields.as_object(candidates[0].get("content"))) if candidates else ():
            text = part.get("text")
            if isinstance(text, str) and not part.get("thought"):
                self._chars_left -= len(text)
                self._text += [text] if self._chars_left >= 0 else []
            elif "functionCall" in part:
                self._calls.append(_normalize_call(part["functionCall"]))

    def hash_answer(self) -> None:
        if self.complete and self._chars_left >= 0:
            self._continue_chain(("model", join_pieces(self._text), self._calls))


class _BufferedContent(BufferedMeter, _Content):
    def end(self) -> bytes:
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


def _model(request: dict[str, object]) -> str | None:
    named = fields.text(request, "model")
    return named and named.removeprefix("models/")


def _parts(content: dict[str, object]) -> list[dict[str, object]]:
    return [fields.as_object(part) for part in fields.as_list(content.get("parts"))]


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


def _normalize_call(call: object) -> object:
    return ("call", fields.as_object(call).get("name"), fields.as_object(call).get("args"))


def _add_line(text: str, line: str) -> str:
    contents = splice.member(text, splice.root_value(text).start, "contents")
    last = None
    for place in splice.elements(text, contents.start) if contents is not None else ():
        if fields.as_object(place.value).get("role") in (None, "user"):
            last = place
    parts = None if last is None else splice.member(text, last.start, "parts")
    if parts is None or not isinstance(parts.value, list):
        return text
    return splice.append_element(text, parts, {"text": line})
