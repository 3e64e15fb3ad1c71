"""Answer codec for OpenAI's responses."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import orjson

from circadia.errors import InvalidRequest
from circadia.gateway.codecs import framing
from circadia.gateway.codecs.base import DecodedAnswer, FramedCall
from circadia.gateway.codecs.frame import VolatileSpans
from circadia.gateway.codecs.framing import AnswerExclusion, ConversationItem, FrameFields, wants
from circadia.gateway.codecs.openai_chat import OPENAI_UNASKED, OPENAI_UNCHANGING, tool_choice_exclusions
from circadia.gateway.payload import fields
from circadia.gateway.payload.prompt import OPENAI_SIDES, Side, join_texts
from circadia.gateway.payload.server_sent_events import format_event
from circadia.gateway.payload.usage import responses_usage
from circadia.llm.usage import Usage

UNCHANGING: Final = OPENAI_UNCHANGING | {
    "background": "when the answer is fetched",
    "previous_response_id": "what was said before, which is no part of a frame",
    "conversation": "what was said before, which is no part of a frame",
}
_KEPT: Final = FrameFields(
    operators="input",
    system="instructions",
    unchanging=UNCHANGING,
    unasked=OPENAI_UNASKED | {"background", "previous_response_id", "conversation"},
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


class ResponsesAnswerCodec:
    """The codec of `POST …/responses`."""

    def frame_call(self, body: bytes, volatile: VolatileSpans) -> FramedCall | None:
        try:
            request = fields.load(body)
            items = _items(request)
        except InvalidRequest:
            return None
        return framing.build_framed_call(request, items, volatile, _KEPT, _exclusions(request))

    def build_question_body(self, frame_body: str, question: str) -> bytes:
        return framing.add_question(frame_body, "input", question)

    def parse_answer(self, whole: bytes) -> DecodedAnswer | None:
        answer = framing.parse_answer_object(whole)
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
        response = framing.parse_answer_object(whole)
        if response.get("object") != "response":
            return None
        steps = enumerate(_events(response))
        return b"".join(
            [format_event({"type": kind, **more, "sequence_number": number}, kind) for number, (kind, more) in steps]
        )


def _items(request: dict[str, object]) -> list[ConversationItem]:
    """Return the items that count for the request's chain. Raises InvalidRequest for a malformed `input`."""
    input_value = request.get("input")
    if isinstance(input_value, str):
        return [ConversationItem(Side.USER, {"role": "user", "content": input_value})]
    items = [] if input_value is None else fields.objects(request, "input")
    return [ConversationItem(_side(item), item) for item in items if item.get("type") != "reasoning"]


def _side(item: dict[str, object]) -> Side:
    kind = item.get("type")
    if kind in (None, "message"):
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
    for piece in framing.split_text(text):
        yield f"response.{event}.delta", place | {"delta": piece} | more
    yield f"response.{event}.done", place | {name: text} | more
    yield f"response.{kind}.done", place | {"part": part}


def _exclusions(request: dict[str, object]) -> Iterator[AnswerExclusion]:
    yield from tool_choice_exclusions(request.get("tool_choice"))
    yield from framing.tool_exclusions(request.get("tools"))
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
