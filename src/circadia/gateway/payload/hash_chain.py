"""Rolling hashes over the messages of a conversation, independent of how a client writes a message.

Clients send an answer back with different fields (refusal, annotations, item ids, cache marks). So only what the
model reads is hashed: role, text, tool calls with ids, names and arguments, tool results, and other parts as they
are. One text part equals the plain string. The leading prompt is not hashed: clients put search results, the time or
the state of a folder there, and the conversation continues.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, cast

import orjson

from circadia.errors import InvalidRequest

_TEXTS = frozenset({"text", "input_text", "output_text"})
_UNSENT = frozenset({"refusal", "thinking", "redacted_thinking", "reasoning", "compaction"})
"""Types of parts that clients may leave out when they send an answer back."""
_PROVIDER_TOOLS = ("_tool_use", "_tool_result")
"""Ends of the types of parts in which a provider ran a tool of its own; clients may leave them out or shorten them."""
_MARKS = ("cache_control", "citations", "annotations")
_ANSWERS = frozenset({"assistant", "model", "function_call", "item_reference"})
"""Roles and types of the items that come from a model; so does what a provider's tool does (`web_search_call`)."""
_SPEAKERS = ("assistant", "model")

_THOUGHTS: Final = re.compile(r"\s*<think>.*?</think>", re.S)
"""The thoughts of a model whose server leaves them in its text."""


KEPT: Final = 256
"""Hashes kept per chain, those of the newest items: a held call keeps them for hours, at 90 bytes each."""


def hash_chain(head: str, items: Iterable[object]) -> tuple[str, ...]:
    """Return the end of the hash chain of all normalised items.

    A None item does not change the chain.

    Raises:
        InvalidRequest: an item is nested too deeply.
    """
    chain: deque[str] = deque(maxlen=KEPT)
    try:
        for item in items:
            if item is not None:
                text = orjson.dumps(_trim_answer(item), option=orjson.OPT_SORT_KEYS)
                head = blake2b(head.encode() + text, digest_size=16).hexdigest()
            chain.append(head)
    except orjson.JSONEncodeError as error:
        raise InvalidRequest("a message is nested too deeply; send at most 250 levels") from error
    return tuple(chain)


def _trim_answer(item: object) -> object:
    """Return the item; of a model's text only what clients send back: trimmed, without the thoughts before it."""
    parts = cast("tuple[object, ...]", item) if isinstance(item, tuple) else ()
    if len(parts) < 2 or parts[0] not in _SPEAKERS or not isinstance(parts[1], str):
        return cast("object", item)
    thoughts = _THOUGHTS.match(parts[1])
    return (parts[0], parts[1][0 if thoughts is None else thoughts.end() :].strip(), *parts[2:])


def count_since_answer(items: Sequence[object]) -> int | None:
    """Return the number of normalised items after the newest one that a model wrote; None without one."""
    return next((number for number, item in enumerate(reversed(items)) if _is_answer(item)), None)


def find_opening(items: Sequence[object], chain: Sequence[str]) -> str:
    """Return the hash of what precedes the model's first answer: the same in each call of a conversation.

    `chain` is `hash_chain("", items)`.
    """
    number = next((number for number, item in enumerate(items) if _is_answer(item)), len(items))
    place = number - 1 - (len(items) - len(chain))
    if place < 0:  # its hash is no longer kept
        return hash_chain("", items[:number])[-1] if number else ""
    return chain[place]


def _is_answer(item: object) -> bool:
    if isinstance(item, tuple):
        kind = cast("tuple[object, ...]", item)[0]
    else:
        kind = cast("dict[str, object]", item).get("type") if isinstance(item, dict) else None
    return isinstance(kind, str) and (kind in _ANSWERS or kind.endswith("_call"))


def normalize_content(value: object, *, inner: bool = False) -> object:
    """Return the normal form of a content: its text, or a list of texts and other parts. Tool results are `inner`."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if not isinstance(value, list):
        return value
    parts: list[object] = []
    run: list[str] = []
    for part in cast("list[object]", value):
        text = _text(part)
        if text is not None:
            run.append(text)
            continue
        other = _normalize_part(part, inner)
        if other is None:
            continue
        if run:
            parts.append("".join(run))
            run = []
        parts.append(other)
    if not parts:
        return "".join(run)
    if run:
        parts.append("".join(run))
    return parts


def normalize_arguments(value: object) -> object:
    """Return the normal form of a tool call's arguments, which clients decode and encode differently."""
    if not isinstance(value, str):
        return value
    try:
        return cast("object", orjson.loads(value)) if value else {}
    except orjson.JSONDecodeError:
        return value


def _text(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        fields = cast("dict[str, object]", part)
        text = fields.get("text")
        if fields.get("type") in _TEXTS and isinstance(text, str):
            return text
    return None


def _normalize_part(part: object, inner: bool) -> object:
    """Return the normal form of a part that is not text; None if it does not count."""
    if not isinstance(part, dict):
        return part
    fields = cast("dict[str, object]", part)
    kind = fields.get("type")
    if kind == "tool_use":
        return ("tool_use", fields.get("id"), fields.get("name"), fields.get("input"))
    if kind == "tool_result" and not inner:
        return ("tool_result", fields.get("tool_use_id"), normalize_content(fields.get("content"), inner=True))
    if isinstance(kind, str) and (kind in _UNSENT or kind.endswith(_PROVIDER_TOOLS)):
        return None
    if any(mark in fields for mark in _MARKS) or None in fields.values():
        return {key: value for key, value in fields.items() if key not in _MARKS and value is not None}
    return fields
