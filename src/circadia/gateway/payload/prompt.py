"""What a request says to the model, and where memory can add to it (MEM-13 … MEM-15)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from circadia.gateway.payload import splice
from circadia.gateway.payload.fields import as_list, as_object
from circadia.gateway.payload.splice import InsertionPoint, JsonSpan
from circadia.memory.capture.harness import is_chore, own_words, strip_harness_text
from circadia.records.per_call import per_call

TEXTS: Final = frozenset({"text", "input_text", "output_text"})
"""Types of part that are text."""
BETWEEN: Final = "\n\n"
"""What sets an addition off from what a text says."""


class Side(Enum):
    """Who a message comes from."""

    OPERATOR = "operator"
    USER = "user"
    MODEL = "model"
    TOOL = "tool"


OPENAI_SIDES: Final = {
    "system": Side.OPERATOR,
    "developer": Side.OPERATOR,
    "user": Side.USER,
    "tool": Side.TOOL,
    "function": Side.TOOL,
}
"""Who speaks in which role of OpenAI's chats; all others are the model."""


@per_call
class RequestMessage:
    """One message of a request."""

    side: Side
    """Who it comes from."""
    said: str = ""
    """Its text, without what tools said; a user's also without what programs added (`memory.harness`)."""
    name: str | None = None
    """The name that it gives its speaker."""
    results: Sequence[str] = ()
    """Results of tools that it holds."""
    slot: Callable[[], InsertionPoint | None] | None = None
    """Finds its end, which is wanted of the last one only."""


@per_call
class NewUtterance:
    """One new thing that a request says."""

    text: str
    """What."""
    back: int
    """How far from the end its message stands, from 1."""
    tool: bool
    """Whether a tool said it."""
    name: str | None = None
    """Its speaker's name, if the request tells it."""


@per_call
class RequestPrompt:
    """What a request says."""

    body: str
    """The body."""
    question: str
    """The text of the last user turn; empty if it has none."""
    texts: frozenset[str]
    """What stands in it."""
    heard: Sequence[NewUtterance]
    """What is new since the model last spoke, in order."""
    continues: bool
    """Whether the model has spoken before, so that the chain of its messages stands for this one conversation."""
    chore: bool
    """Whether a program asks it about the conversation, as `is_chore` tells."""
    system: InsertionPoint
    """The end of the system side."""
    user: InsertionPoint | None
    """The end of the last user turn."""

    def with_context(self, stable: str, fitting: str) -> bytes:
        """Return the body with both parts of a context in their places, every other byte as it was."""
        fillings = [(self.system, stable)] if stable else []
        if fitting and self.user is not None:
            fillings.append((self.user, fitting))
        return splice.fill_slots(self.body, *fillings).encode()


def build_prompt(
    body: str, messages: Sequence[RequestMessage], system: InsertionPoint, *, lead: str = "", continues: bool = False
) -> RequestPrompt:
    """Return the prompt that these messages are, with the text that leads them from elsewhere in the body.

    A last message that begins the model's answer for it is no answer yet: what stands before it is new.
    """
    heard: list[NewUtterance] = []
    messages = [
        each
        if each.side is not Side.USER or (said := strip_harness_text(each.said)) == each.said
        else replace(each, said=said)
        for each in messages
    ]
    begun = len(messages) > 1 and messages[-1].side is Side.MODEL and bool(messages[-1].said)
    begun = begun and messages[-2].side is Side.USER
    asked = messages[:-1] if begun else messages
    for back, message in enumerate(reversed(asked), 1 + int(begun)):
        if message.side is Side.MODEL:
            break
        if message.side is Side.USER and message.said:
            heard.append(NewUtterance(text=message.said, back=back, tool=False, name=message.name))
        heard += [NewUtterance(text=text, back=back, tool=True) for text in reversed(message.results)]
    lead = lead or next((each.said for each in messages[:1] if each.side is Side.OPERATOR), "")
    continues = continues or any(each.side is Side.MODEL for each in asked)
    last = next((each for each in reversed(messages) if each.side is Side.USER and each.said), None)
    return RequestPrompt(
        body=body,
        question="" if last is None else last.said,
        texts=frozenset(each.said.strip() for each in messages),
        heard=heard[::-1],
        chore=is_chore(lead, [each.text for each in heard if not each.tool], continues=continues),
        continues=continues,
        system=system,
        user=None if last is None or last.slot is None else last.slot(),
    )


def join_texts(content: object) -> str:
    """Return what the text parts of a content say, and what refuses."""
    return content if isinstance(content, str) else "\n".join(_parts(content))


def text_by_side(side: Side, content: object) -> str:
    """Return what the text parts of a message say; of a user's, those that no program wrote in the person's place."""
    if side is not Side.USER:
        return join_texts(content)
    parts = [content] if isinstance(content, str) else _parts(content)
    return "\n".join(filter(None, map(own_words, parts)))


def _parts(content: object) -> list[str]:
    found: list[object] = []
    for part in map(as_object, as_list(content)):
        kind = part.get("type")
        found.append(part.get("text") if kind in TEXTS else part.get("refusal") if kind == "refusal" else None)
    return [str(each) for each in found if each]


def content_end_slot(text: str, start: int, part_type: str) -> InsertionPoint | None:
    """Return the end of the content of the message that starts there."""
    content = splice.member(text, start, "content")
    return None if content is None else end_slot(text, content, part_type)


def end_slot(text: str, place: JsonSpan, part_type: str) -> InsertionPoint | None:
    """Return the end of a content: of its string, or in one text part more."""
    if isinstance(place.value, str):
        return splice.slot_in_string(place, BETWEEN)
    if isinstance(place.value, list):
        return splice.slot_in_array(text, place, {"type": part_type, "text": "%"})
    return None
