"""Answers in a provider's place: the question and frame of a call, and the answer in the provider's shape.

The frame is everything that an answer depends on, except the conversation and volatile spans of the prompt. What a
program wrote into a user's messages (reminders, the environment) is part of it, in its place around the question.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, cast

import orjson

from circadia.errors import InvalidRequest
from circadia.gateway.payload import fields, hash_chain
from circadia.gateway.payload.prompt import TEXTS, Side, join_texts
from circadia.llm.usage import Usage
from circadia.memory.capture.harness import own_words, strip_harness_text
from circadia.memory.redaction import redact
from circadia.records.answer import AnswerFrame
from circadia.settings.answers import compile_pattern

_MARK: Final = "\0"
MARK: Final = "\0question\0"
"""Stands for the question in a frame's body; no text of a program has it."""
_KEPT: Final = 64
"""Number of system prompts cached without volatile spans; each has about 10 KB."""
_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")


def digest(*parts: object) -> str:
    """Return a digest that ignores the order of keys. Raises orjson.JSONEncodeError if nested too deeply."""
    return blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def without_cache_marks(value: object) -> object:
    """Return an item or tool without its cache marks, which move as a conversation grows."""
    if not isinstance(value, dict):
        return value
    return {key: field for key, field in cast("dict[str, object]", value).items() if key not in _MARKS}


class VolatileSpans:
    """Removes spans of a system prompt that may change without a new frame (`AnswersSettings.volatile`).

    The built-in patterns take a bounded number of steps per character, so a prompt takes linear time.
    """

    def __init__(self, spans: Sequence[str] = ()) -> None:
        # Operator patterns come first: they are written for the original text, and a date may contain a time or an id.
        self._declared = [compile_pattern(span) for span in spans if span not in _KINDS]
        self._kinds = [pattern for kind, pattern in _KINDS.items() if kind in spans]
        self._kept = lru_cache(maxsize=_KEPT)(self._remove_spans)

    def content(self, content: object) -> object:
        """Return the normal form of an operator's content, without volatile spans."""
        normal = hash_chain.normalize_content(content)
        if not (self._declared or self._kinds):
            return normal
        if isinstance(normal, str):
            return self._kept(normal)
        if isinstance(normal, list):
            parts = cast("list[object]", normal)
            return [self._kept(part) if isinstance(part, str) else part for part in parts]
        return normal

    def _remove_spans(self, text: str) -> str:
        for pattern in self._declared:
            text = pattern.sub(_MARK, text)
        pieces: list[str] = []
        at = 0
        for near in _NUMBERS.finditer(text) if self._kinds else ():
            start, end = max(near.start() - _AROUND, 0), near.end() + _AROUND
            span = text[start:end]
            for pattern in self._kinds:
                span = pattern.sub(_MARK, span)
            pieces += (text[at:start], span)
            at = end
        return "".join((*pieces, text[at:]))


_AROUND: Final = 40
"""Characters around a digit that are searched: every built-in kind contains digits."""
_NUMBERS: Final = re.compile(rf"[0-9](?:[^0-9]{{0,{2 * _AROUND}}}+[0-9])*+")
"""Runs of digits whose surroundings overlap."""
_IDS = r"""
    (?<![0-9A-Za-z])
    (?: [0-9a-fA-F]{8} - (?:[0-9a-fA-F]{4}-){3} [0-9a-fA-F]{12} | (?:0x)? [0-9a-fA-F]{16,}+ )
    (?![0-9A-Za-z])
"""
_HALF = r"[ ]? (?: [ap]m | [ap]\.m\.? | [AP]M | [AP]\.M\.? ) (?![A-Za-z])"
_TIMES = rf"""
    (?: (?<=\d)T | (?<![0-9A-Za-z:.]) )
    (?: (?:2[0-4]|[01]?\d) : [0-5]\d (?: :[0-6]\d (?:[.,]\d{{1,9}})? )? (?:{_HALF})?
      | (?:1[0-2]|0?[1-9]) (?:{_HALF} | [ ]?o['’]clock)
      | (?<=\dT) \d{{4}} (?:\d\d)? (?:[.,]\d{{1,9}})? )
    (?: [ ]? (?: Z | UTC | GMT | [ECMP][SD]?T | CES?T | BST | IST | JST ) (?![A-Za-z]) )?
    (?: [ ]? [+-]\d\d:?\d\d )?
    (?![0-9A-Za-z:])
"""
_MONTH = (
    "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_WEEKDAY = "(?:Mon|Tue(?:s)?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_DAY = "(?:[12][0-9]|3[01]|0?[1-9])(?:st|nd|rd|th)?(?![0-9])"
_YEAR = "(?:19|20)[0-9]{2}"
_DATES = rf"""
    (?<![0-9A-Za-z./-])
    (?: {_WEEKDAY} [.,]? [ ] (?:the[ ])? )?
    (?: {_YEAR} (?: (?P<sign>[-/.])\d{{1,2}}(?P=sign)\d{{1,2}} | -W\d\d(?:-[1-7])? )
      | {_YEAR} \d{{4}} (?= T\d | {_MARK} )
      | \d{{1,2}} (?P<mark>[-/.]) \d{{1,2}} (?P=mark) {_YEAR}
      | \d{{1,2}} / \d{{1,2}} / \d\d
      | {_DAY} (?:[ ]of)? [ -] {_MONTH} (?: ,?[ -] {_YEAR} )?
      | {_MONTH} [ ]{{1,2}} {_DAY} (?: (?:,|[ ]{_MARK})? [ ]? {_YEAR} )?
      | {_MONTH} ,?[ ] {_YEAR} )
    (?: (?=T\d) | (?![0-9A-Za-z]|[-/.]\d) )
    (?: [ ,(]{{1,2}} {_WEEKDAY} \b \)? )?
"""
_KINDS: Final = {
    "ids": re.compile(_IDS, re.VERBOSE),
    "times": re.compile(_TIMES, re.VERBOSE),
    "dates": re.compile(_DATES, re.VERBOSE),
}
"""In the order of removal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FramedCall:
    """A call as ready answers see it: its question and everything else that determines the answer."""

    digest: str
    """Hash of everything that determines the answer, except the conversation and declared volatile spans."""
    body: str
    """The call without what a person or the model said, with a mark in the question's place, not streamed; empty if it
    must not be asked ahead."""
    why_not_ahead: str = ""
    """The reason in words."""
    question: str = ""
    """The user's question; empty if the last message is not the user's or is not text."""
    plain: bool = False
    """Whether only this question followed the model's last message: text, no files and no tool results."""
    behind: int = 0
    """Number of items in the request's chain from the question on; 0 if only the operator spoke before."""
    servable: bool
    """Whether a ready answer may be served; otherwise it is only a hint."""
    why_not: str = ""
    """The reason in words; empty if `servable`."""

    def conversation(self, chain: Sequence[str]) -> str | None:
        """Return the hash (`Meter.answer_hashes`) of everything before the question; None if there is nothing."""
        return chain[-self.behind - 1] if 0 < self.behind < len(chain) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodedAnswer:
    text: str
    reasoning: str = ""
    called: bool = False
    """Whether it is more than text: a tool call, work of a provider's tool, or a refusal."""
    cut: bool = False
    """Whether a limit, a stop sequence or a filter cut it off."""
    usage: Usage


_FORMAL: Final = frozenset({"role", "content", "type", "id", "status", "cache_control"})
"""A user message with fields beside these contains more than text."""

_TYPED: Final = re.compile(r"<(?:bash-input|command-args|user-memory-input|user_shell_command)\b")
"""Elements in which a program repeats what a person typed."""

_PIECE: Final = 80
"""Maximum characters per streamed piece; its event is about three times as long."""


class ConversationItem(NamedTuple):
    side: Side
    fields: dict[str, object]


class AnswerExclusion(NamedTuple):
    reason: str
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


class _SplitMessage(NamedTuple):
    """A message, as far as it belongs to the frame."""

    framed: dict[str, object] | None
    """An operator's message, or what a program wrote into a user's; None for anything else."""
    words: str = ""
    """What the person said in it."""
    template: dict[str, object] | None = None
    """The user's message with a mark in place of these words; None if they have no single place."""


class _LastTurn(NamedTuple):
    question: str
    exclusion: str
    at: int = 0
    behind: int = 0
    template: dict[str, object] | None = None


class AnswerCodec(ABC):
    """Reads and writes calls and answers of one endpoint. Pure functions; no input makes them raise."""

    kept: FrameFields

    @abstractmethod
    def read_items(self, request: dict[str, object]) -> Sequence[ConversationItem]:
        """Return what was said. Raises InvalidRequest if this is not a call of this endpoint."""

    @abstractmethod
    def find_exclusions(self, request: dict[str, object]) -> Iterable[AnswerExclusion]:
        """Yield what keeps a ready answer from being served."""

    @abstractmethod
    def parse_answer(self, whole: bytes) -> DecodedAnswer | None:
        """Parse an answer that is not streamed; None if it is not an answer."""

    @abstractmethod
    def build_answer(self, text: str, *, id: str, model: str, at: datetime) -> bytes:
        """Return the answer as the provider would send it, with zero usage. `id` gets the provider's prefix."""

    @abstractmethod
    def build_events(self, whole: bytes, *, usage: bool) -> bytes | None:
        """Return an answer as the provider's stream, with usage if `usage`; None if it is not an answer."""

    def frame_call(self, request: dict[str, object], volatile: VolatileSpans) -> FramedCall | None:
        """Return the question and frame of a parsed call.

        None if it is not a call of this endpoint, or its frame is nested too deeply to be read.
        """
        try:
            items = self.read_items(request)
        except InvalidRequest:
            return None
        kept, exclusions = self.kept, list(self.find_exclusions(request))
        said = [_split_message(item) for item in items]
        turn = _find_last_turn(items, said)
        framed = [each.framed for each in said]
        reason = turn.exclusion or next((each.reason for each in exclusions), "")
        body = {key: value for key, value in request.items() if key not in kept.unasked}
        messages = [*framed[: turn.at], turn.template, *framed[turn.at + 1 :]] if turn.template else framed
        body |= {**kept.fixed, kept.operators: [message for message in messages if message is not None]}
        closed = next((each.reason for each in exclusions if not each.ahead), "")
        try:
            return FramedCall(
                digest=_digest(request, [message for message in framed if message is not None], volatile, kept),
                body="" if closed else orjson.dumps(body).decode(),
                why_not_ahead=closed,
                question=turn.question,
                plain=not turn.exclusion,
                behind=turn.behind,
                servable=not reason,
                why_not=reason,
            )
        except orjson.JSONEncodeError:
            return None

    def build_question_body(self, frame_body: str, question: str) -> bytes:
        """Return a body that asks only `question` in the frame of a `FramedCall.body`.

        Raises InvalidRequest if that is not the body of a frame.
        """
        request = fields.load(frame_body.encode())
        messages = fields.objects(request, self.kept.operators)
        at = next(
            (at for at, message in enumerate(messages) if message.get("role") == "user" and _has_mark(message)), None
        )
        if at is None:
            messages = [*messages, {"role": "user", "content": question}]
        else:
            messages[at] = {**messages[at], "content": _fill_mark(messages[at].get("content"), question)}
        return orjson.dumps(request | {self.kept.operators: messages})


def without_private_body(frame: AnswerFrame, may_keep: bool) -> AnswerFrame:
    """Return the frame; closed, if a program added a secret to a user's messages, or what may not be kept to them."""
    request = fields.as_object(orjson.loads(frame.body)) if frame.body else {}
    items = [fields.as_object(item) for key in ("messages", "input") for item in fields.as_list(request.get(key))]
    added = "\n".join(join_texts(item.get("content")) for item in items if item.get("role") == "user")
    if redact(added) == added and (may_keep or _TYPED.search(added) is None):
        return frame
    why_not = "what a program adds to the question has a secret in it, or may not be kept"
    return replace(frame, body="", headers=(), why_not=why_not)


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


def _split_message(item: ConversationItem) -> _SplitMessage:
    message = item.fields
    if item.side is not Side.USER:
        return _SplitMessage(message if item.side is Side.OPERATOR else None)
    content = message.get("content")
    if not _is_text(content) or message.keys() - _FORMAL:
        return _SplitMessage(None, join_texts(content))
    parts = [content] if isinstance(content, str) else [fields.as_object(part) for part in fields.as_list(content)]
    framed, template, words = list[object](), list[object](), list[str]()
    whole = True
    for part in parts:
        text = _part_text(part)
        own = strip_harness_text(text)
        if not own.strip():
            framed += [part] if text.strip() else []
            template.append(part)
            continue
        is_single = text.count(own) == 1
        rest = text.replace(own, "") if is_single else ""
        if rest.strip():
            framed.append(_with_text(part, rest))
        if rest.strip() or not words:
            template.append(_with_text(part, text.replace(own, "" if words else MARK)))
        whole = whole and is_single
        words.append(own)
    own_text = isinstance(content, str)
    return _SplitMessage(
        {**message, "content": framed[0] if own_text else framed} if framed else None,
        "\n".join(words),
        {**message, "content": template[0] if own_text else template} if words and whole else None,
    )


def _part_text(part: object) -> str:
    return part if isinstance(part, str) else str(fields.as_object(part).get("text") or "")


def _with_text(part: object, text: str) -> object:
    return text if isinstance(part, str) else {**fields.as_object(part), "text": text}


def _has_mark(message: Mapping[str, object]) -> bool:
    return MARK in join_texts(message.get("content"))


def _fill_mark(content: object, question: str) -> object:
    if isinstance(content, str):
        return content.replace(MARK, question)
    return [_with_text(part, _part_text(part).replace(MARK, question)) for part in fields.as_list(content)]


def _find_last_turn(items: Sequence[ConversationItem], said: Sequence[_SplitMessage]) -> _LastTurn:
    """Return the user's last question and what prevents a ready answer to it."""
    spoken = [
        at
        for at, item in enumerate(items)
        if item.side is not Side.OPERATOR and (said[at].framed is None or said[at].words)
    ]
    if not spoken or items[spoken[-1]].side is not Side.USER:
        return _LastTurn("", "the last word is not the user's")
    at = spoken[-1]
    message, question = items[at].fields, said[at].words
    exclusion = ""
    if not own_words(question).strip():
        exclusion = "it asks nothing in words"
    elif not _is_text(message.get("content")):
        exclusion = "what is asked is more than text"
    elif message.keys() - _FORMAL:
        exclusion = "what is asked is more than text: its message has other fields"
    elif said[at].template is None:
        exclusion = "what is asked stands in several places"
    elif len(spoken) > 1 and items[spoken[-2]].side is not Side.MODEL:
        exclusion = "more than the question was said since the model last spoke"
    return _LastTurn(question, exclusion, at, len(items) - at if len(spoken) > 1 else 0, said[at].template)


def _is_text(content: object) -> bool:
    if isinstance(content, str):
        return True
    parts = [fields.as_object(part) for part in fields.as_list(content)]
    return all(part.get("type") in TEXTS and isinstance(part.get("text"), str) for part in parts)
