"""Shared by the codecs: which turn is the question, and the frame around it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

import orjson

from circadia.gateway.codecs.base import FramedCall
from circadia.gateway.codecs.frame import VolatileSpans, digest, without_cache_marks
from circadia.gateway.payload import fields
from circadia.gateway.payload.prompt import TEXTS, Side, join_texts

_FORMAL: Final = frozenset({"role", "content", "type", "id", "status", "cache_control"})
"""A user message with fields beside these contains more than text."""

_PIECE: Final = 80
"""Maximum characters per streamed piece; its event is about three times as long."""


class ConversationItem(NamedTuple):
    side: Side
    fields: dict[str, object]


class AnswerExclusion(NamedTuple):
    why: str
    """In words; `it` is the call."""
    ahead: bool = True
    """Whether its frame may still be asked ahead for a hint."""


class FrameFields(NamedTuple):
    operators: str
    """Key of the operator's messages in the frame."""
    system: str | None
    """Key of the system prompt outside the messages."""
    unchanging: Mapping[str, str]
    """Keys that never change an answer, each with the reason."""
    unasked: frozenset[str]
    """Keys removed from a question asked ahead."""
    fixed: Mapping[str, object] = {}
    """Fields that replace them."""


class _LastTurn(NamedTuple):
    question: str
    bar: str
    behind: int


def build_framed_call(
    request: dict[str, object],
    items: Sequence[ConversationItem],
    volatile: VolatileSpans,
    kept: FrameFields,
    bars: Iterable[AnswerExclusion],
) -> FramedCall | None:
    """Return the call in its frame; None if the frame is nested too deeply to be read."""
    operators = [item.fields for item in items if item.side is Side.OPERATOR]
    turn, barred = _find_last_turn(items), list(bars)
    why = turn.bar or next((bar.why for bar in barred), "")
    body = {key: value for key, value in request.items() if key not in kept.unasked}
    body |= {**kept.fixed, kept.operators: operators}
    try:
        return FramedCall(
            digest=_digest(request, operators, volatile, kept),
            body=orjson.dumps(body).decode() if all(bar.ahead for bar in barred) else "",
            question=turn.question,
            plain=not turn.bar,
            behind=turn.behind,
            servable=not why,
            why_not=why,
        )
    except orjson.JSONEncodeError:
        return None


def add_question(frame_body: str, key: str, question: str) -> bytes:
    """Return a frame's body with one more user message. Raises InvalidRequest if it is not the body of a frame."""
    request = fields.load(frame_body.encode())
    operators = fields.objects(request, key)
    return orjson.dumps(request | {key: [*operators, {"role": "user", "content": question}]})


def parse_answer_object(whole: bytes) -> dict[str, object]:
    """Parse a provider's answer; an empty object if it is not one or contains an error."""
    try:
        answer = fields.as_object(orjson.loads(whole))
    except orjson.JSONDecodeError:
        return {}
    return {} if answer.get("error") else answer


def split_text(text: str) -> Iterator[str]:
    """Yield the pieces of a streamed text, cut after a space if there is one."""
    start = 0
    while start < len(text):
        end = start + _PIECE
        space = text.rfind(" ", start, end) if end < len(text) else -1
        end = end if space < 0 else space + 1
        yield text[start:end]
        start = end


def tool_exclusions(tools: object) -> Iterable[AnswerExclusion]:
    """Yield reasons not to serve a call with these tools: those that act unobserved."""
    for tool in map(fields.as_object, fields.as_list(tools)):
        if tool.get("type") == "mcp" or "server_url" in tool:
            yield AnswerExclusion("the provider calls a remote MCP server for it", ahead=False)
        elif isinstance(tool.get("container"), str) or "container_id" in fields.as_object(tool.get("environment")):
            yield AnswerExclusion("it works in a container", ahead=False)


def wants(request: Mapping[str, object], key: str, *but: object) -> bool:
    """Return whether a field has a value other than these, null and false."""
    value = request.get(key)
    return not (value is None or value is False or value in but)


def _digest(
    request: Mapping[str, object], operators: Sequence[dict[str, object]], volatile: VolatileSpans, kept: FrameFields
) -> str:
    left_out = {*kept.unchanging, kept.operators, kept.system, "tools"}
    return digest(
        {key: value for key, value in request.items() if key not in left_out},
        volatile.content(request.get(kept.system)) if kept.system else None,
        [_operator(item, volatile) for item in operators],
        [without_cache_marks(tool) for tool in cast("list[object]", tools)]
        if isinstance(tools := request.get("tools"), list)
        else tools,
    )


def _operator(item: dict[str, object], volatile: VolatileSpans) -> object:
    rest = {key: value for key, value in item.items() if key not in _FORMAL}
    return (item.get("role"), volatile.content(item.get("content")), rest)


def _find_last_turn(items: Sequence[ConversationItem]) -> _LastTurn:
    """Return the user's last question and what prevents a ready answer to it."""
    spoken = [at for at, item in enumerate(items) if item.side is not Side.OPERATOR]
    if not spoken or items[spoken[-1]].side is not Side.USER:
        return _LastTurn("", "the last word is not the user's", 0)
    at = spoken[-1]
    message = items[at].fields
    question = join_texts(message.get("content"))
    bar = ""
    if not question.strip():
        bar = "it asks nothing in words"
    elif not _is_text(message.get("content")):
        bar = "what is asked is more than text"
    elif message.keys() - _FORMAL:
        bar = "what is asked is more than text: its message has other fields"
    elif at + 1 < len(items):
        bar = "the operator speaks after the question"
    elif len(spoken) > 1 and items[spoken[-2]].side is not Side.MODEL:
        bar = "more than the question was said since the model last spoke"
    return _LastTurn(question, bar, len(items) - at if len(spoken) > 1 else 0)


def _is_text(content: object) -> bool:
    if isinstance(content, str):
        return True
    parts = [fields.as_object(part) for part in fields.as_list(content)]
    return all(part.get("type") in TEXTS and isinstance(part.get("text"), str) for part in parts)
