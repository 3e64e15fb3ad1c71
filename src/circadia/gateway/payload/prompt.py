"""The prompt of a request, and the places where memory can be added (MEM-13 … MEM-15)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from hashlib import blake2b
from itertools import takewhile
from typing import Final

from circadia.gateway.payload import splice
from circadia.gateway.payload.fields import as_list, as_object
from circadia.gateway.payload.splice import InsertionPoint, JsonSpan
from circadia.memory.capture.harness import find_chore, own_words, strip_harness_text
from circadia.records.episode import PASSAGE
from circadia.records.fast_record import fast_record

TEXTS: Final = frozenset({"text", "input_text", "output_text"})
BETWEEN: Final = "\n\n"
"""Separator between a text and an addition."""


_MARKED_CHARS: Final = 2_000
"""Characters at each end of a text by which it is known again."""


class Side(Enum):
    OPERATOR = "operator"
    USER = "user"
    MODEL = "model"
    TOOL = "tool"


_HEARD: Final = (Side.USER, Side.TOOL)
_SAID: Final = (Side.USER, Side.MODEL)
OPENAI_SIDES: Final = {
    "system": Side.OPERATOR,
    "developer": Side.OPERATOR,
    "user": Side.USER,
    "tool": Side.TOOL,
    "function": Side.TOOL,
}
"""The side of message role in OpenAI's chats; all others are the model."""


@fast_record
class RequestMessage:
    side: Side
    text: str = ""
    """Its text, without tool results; a user's also without what programs added (`memory.harness`)."""
    name: str | None = None
    results: Sequence[str] = ()
    slot: Callable[[], InsertionPoint | None] | None = None
    """Finds its end, which is needed only where something is added."""

    @property
    def mark(self) -> str:
        """Return a short hash of its ends, by which a later call's message is known to be the same."""
        parts = [self.side.value]
        for text in (self.text, *self.results):
            parts += str(len(text)), text[:_MARKED_CHARS], text[-_MARKED_CHARS:]
        return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


@fast_record
class NewUtterance:
    text: str
    back: int
    """Distance of its message from the end, from 1."""
    tool: bool
    name: str | None = None


@fast_record
class RequestPrompt:
    body: str
    messages: Sequence[RequestMessage]
    turn: int
    """Index of the last message with words of the user; -1 without one."""
    question: str
    """The text of the last user turn; empty without one."""
    texts: frozenset[str]
    heard: Sequence[NewUtterance]
    """What was said since the model last spoke, in order."""
    continues: bool
    """Whether the model has spoken before, so that the hash chain identifies this one conversation."""
    chore: str
    """Why a program asks, as `find_chore` decides; empty if a person asks."""
    system: InsertionPoint

    @property
    def user(self) -> InsertionPoint | None:
        return self.slot(self.turn)

    @property
    def exchange(self) -> str:
        """Return the beginnings of what the user and the model said last before the question; empty without it."""
        earlier = [message for message in self.messages[: max(self.turn, 0)] if message.text.strip()]
        said = (next((each.text for each in reversed(earlier) if each.side is side), "") for side in _SAID)
        return "\n".join(text[:PASSAGE] for text in said if text)

    @property
    def end(self) -> int:
        """Index of the last message of a user or tool to which something can be added; -1 without one."""
        places = reversed(range(len(self.messages)))
        return next((at for at in places if self.messages[at].side in _HEARD and self.slot(at) is not None), -1)

    def slot(self, index: int) -> InsertionPoint | None:
        """Return the end of a message; None if nothing can be added to it."""
        find = self.messages[index].slot if 0 <= index < len(self.messages) else None
        return None if find is None else find()

    def size_from(self, place: InsertionPoint | None) -> int:
        """Return the bytes of the body from this place on; 0 without one."""
        return 0 if place is None else len(self.body[place.start :].encode())

    def with_context(self, stable: str, fitting: str) -> bytes:
        """Return the body with both parts of a context inserted, every other byte unchanged."""
        return self.with_additions(stable, [(self.turn, fitting)])

    def with_line(self, line: str) -> bytes:
        """Return the body with the line at the end of the prompt, behind the last user turn or tool result."""
        return self.with_additions("", [(self.end, line)])

    def with_additions(self, stable: str, additions: Iterable[tuple[int, str]]) -> bytes:
        """Return the body with the text of the system side and those behind messages, every other byte unchanged."""
        fillings = [(self.system, stable)] if stable else []
        for index, text in additions:
            slot = self.slot(index) if text else None
            if slot is not None:
                fillings.append((slot, text))
        return splice.fill_slots(self.body, *fillings).encode()


def build_prompt(
    body: str, messages: Sequence[RequestMessage], system: InsertionPoint, *, lead: str = "", continues: bool = False
) -> RequestPrompt:
    """Return the prompt of these messages, with the leading text from elsewhere in the body.

    A last message that begins the model's answer is not an answer yet: everything before it is new.
    """
    utterances: list[NewUtterance] = []
    messages = [
        replace(message, text=strip_harness_text(message.text)) if message.side is Side.USER else message
        for message in messages
    ]
    is_reply = len(messages) > 1 and messages[-1].side is Side.MODEL and bool(messages[-1].text)
    is_reply = is_reply and messages[-2].side is Side.USER
    asked_messages = messages[:-1] if is_reply else messages
    for back, message in enumerate(reversed(asked_messages), 1 + int(is_reply)):
        if message.side is Side.MODEL:
            break
        if message.side is Side.USER and message.text:
            utterances.append(NewUtterance(text=message.text, back=back, tool=False, name=message.name))
        utterances += [NewUtterance(text=text, back=back, tool=True) for text in reversed(message.results)]
    leading = takewhile(lambda message: message.side is Side.OPERATOR, messages)
    lead = lead or next((message.text for message in leading if message.text), "")
    continues = continues or any(message.side is Side.MODEL for message in asked_messages)
    turns = (index for index, message in enumerate(messages) if message.side is Side.USER and message.text)
    turn = max(turns, default=-1)
    question = "" if turn < 0 else messages[turn].text
    return RequestPrompt(
        body=body,
        messages=messages,
        turn=turn,
        question=question,
        texts=frozenset(message.text.strip() for message in messages),
        heard=utterances[::-1],
        chore=find_chore(lead, question),
        continues=continues,
        system=system,
    )


def join_texts(content: object) -> str:
    """Return the text and refusal parts of a content."""
    return content if isinstance(content, str) else "\n".join(_parts(content))


def text_by_side(side: Side, content: object) -> str:
    """Return the text of a message; for a user, without what programs wrote in the person's place."""
    if side is not Side.USER:
        return join_texts(content)
    parts = [content] if isinstance(content, str) else _parts(content)
    return "\n".join(filter(None, map(own_words, parts)))


def _parts(content: object) -> list[str]:
    texts: list[object] = []
    for part in map(as_object, as_list(content)):
        kind = part.get("type")
        texts.append(part.get("text") if kind in TEXTS else part.get("refusal") if kind == "refusal" else None)
    return [str(text) for text in texts if text]


def content_end_slot(text: str, start: int, part_type: str, *, as_parts: bool = False) -> InsertionPoint | None:
    """Return the end of a message's content; `as_parts` keeps a string apart from what is added.

    A client that marks its newest messages for the cache sends their strings as parts, and later as strings again.
    """
    content = splice.member(text, start, "content")
    if content is not None and as_parts and content.value and isinstance(content.value, str):
        return splice.slot_behind_string(text, content, {"type": part_type, "text": "%"})
    return None if content is None else end_slot(text, content, part_type)


def end_slot(text: str, place: JsonSpan, part_type: str) -> InsertionPoint | None:
    """Return the end of a content: of its string, or in one more text part."""
    if isinstance(place.value, str):
        return splice.slot_in_string(place, BETWEEN)
    if isinstance(place.value, list):
        return splice.slot_in_array(text, place, {"type": part_type, "text": "%"})
    return None


OPERATOR_ROLES = ("system", "developer")


def ends_in_user(items: Sequence[dict[str, object]]) -> bool:
    """Return whether the last item is the user's, ignoring operator items; operator items alone count too."""
    for item in reversed(items):
        role = item.get("role")
        if role not in OPERATOR_ROLES:
            return role == "user"
    return bool(items)
