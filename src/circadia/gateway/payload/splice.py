"""Byte-exact edits of JSON text: find a value, insert there, and leave every other byte unchanged.

Positions are indexes of the decoded text. UTF-8 decodes and encodes without loss, so an edit of the text is an edit
of the bytes. The standard library's C scanner reads from an index, without copies.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

_BLANK = re.compile(r"[ \t\n\r]*")
_BLANKS = " \t\n\r"
_KEY = re.compile(r'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*')
"""A key without escapes, up to the start of its value."""
_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
# Numbers are only passed over: a cheap stand-in saves their conversion, which refuses more than 4,300 digits.
_SCANNER = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=len)
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class JsonSpan(NamedTuple):
    """A JSON value and its place in the text. Numbers in it are not meaningful."""

    start: int
    end: int
    value: object


class InsertionPoint(NamedTuple):
    """A place for a text to be inserted later."""

    start: int
    """Index of the first replaced character; equal to `end` if none is replaced."""
    end: int
    """Index after the last replaced character."""
    head: str
    tail: str
    more: str = ""
    """Where text is replaced: what stands between two additions at this place."""


def slot_in_string(place: JsonSpan, between: str) -> InsertionPoint:
    """Return the slot at the end of the string at `place`, after `between` if the string is not empty."""
    return InsertionPoint(place.end - 1, place.end - 1, _dump(between)[1:-1] if place.value else "", "")


def slot_behind_string(text: str, place: JsonSpan, element: object) -> InsertionPoint:
    """Return the slot in a second element of an array that replaces the string at `place`, which is its first.

    `%` in `element` marks the text.
    """
    head, tail = _dump(element).split('"%"')
    between = f'{tail},{head}"'
    whole = f"[{head}{text[place.start : place.end]}{between}"
    return InsertionPoint(place.start, place.end, whole, f'"{tail}]', f'"{between}')


def slot_in_array(text: str, place: JsonSpan, element: object, *, first: bool = False) -> InsertionPoint:
    """Return the slot in one more element of the array at `place`; `%` in `element` marks the text."""
    head, tail = _dump(element).split('"%"')
    if first:
        return InsertionPoint(place.start + 1, place.start + 1, f'{head}"', f'"{tail}{"," if place.value else ""}')
    at, comma = _end_inside(text, place)
    return InsertionPoint(at, at, f'{comma}{head}"', f'"{tail}')


def slot_behind(place: JsonSpan, element: object) -> InsertionPoint:
    """Return the slot in one more element behind that at `place`; `%` in `element` marks the text."""
    head, tail = _dump(element).split('"%"')
    return InsertionPoint(place.end, place.end, f',{head}"', f'"{tail}')


def slot_beside(text: str, place: JsonSpan, element: object) -> InsertionPoint:
    """Return the slot in the second element of an array that replaces the value at `place`, which is its first.

    `%` in `element` marks the text.
    """
    head, tail = _dump(element).split('"%"')
    between = f',{head}"'
    whole = text[place.start : place.end]
    return InsertionPoint(place.start, place.end, f"[{whole}{between}", f'"{tail}]', f'"{tail}{between}')


def slot_in_object(text: str, key: str, value: object = "%") -> InsertionPoint:
    """Return the slot in one more member of the root object, which must have a member already.

    `%` in its `value` marks the text.
    """
    head, tail = _dump(value).split('"%"')
    at, comma = _end_inside(text, JsonSpan(0, len(text.rstrip(_BLANKS)), None))
    return InsertionPoint(at, at, f'{comma}{_dump(key)}:{head}"', f'"{tail}')


def slot_replacing(place: JsonSpan, value: object = "%") -> InsertionPoint:
    """Return the slot in a value that replaces the one at `place`; `%` in it marks the text."""
    head, tail = _dump(value).split('"%"')
    return InsertionPoint(place.start, place.end, f'{head}"', f'"{tail}')


def fill_slots(text: str, *fillings: tuple[InsertionPoint, str]) -> str:
    """Return the text with every slot filled, at one place in the order given, every other character unchanged."""
    parts, at = list[str](), 0
    for slot, addition in sorted(fillings, key=lambda filling: filling[0].start):
        if slot.start < at:  # one more at a place where text is replaced
            parts[-1:] = slot.more, json.dumps(addition)[1:-1], slot.tail
            continue
        parts += text[at : slot.start], slot.head, json.dumps(addition)[1:-1], slot.tail
        at = slot.end
    return "".join((*parts, text[at:]))


def value_start(text: str) -> int:
    """Return the start of the root value, without reading it."""
    return _skip_blank(text, 1 if text.startswith("\ufeff") else 0)


def members(text: str, start: int, *, spans: str = "") -> Iterator[tuple[str, JsonSpan]]:
    """Yield each key and its value's place in the object at `start`; duplicates too. Raises ValueError.

    An array under the key `spans` has the places of its elements as its value, so that it is read once.
    """
    at = _open(text, start, "{")
    if text[at : at + 1] == "}":
        return
    while True:
        match = _KEY.match(text, at)
        key, at = (match[1], match.end()) if match is not None else _key(text, at)
        place = _place_of_spans(text, at) if key == spans and text[at : at + 1] == "[" else _place(text, at)
        yield key, place
        comma = _COMMA.match(text, place.end)
        if comma is None:
            _close(text, place.end, "}")
            return
        at = comma.end()


def element_spans(place: JsonSpan) -> Sequence[JsonSpan]:
    """Return the places of the elements of an array that `members` has read so. Raises ValueError if it is none."""
    value: object = place.value
    if type(value) is not list:
        raise ValueError("expected an array")
    return cast("list[JsonSpan]", value)


def member(text: str, start: int, key: str) -> JsonSpan | None:
    """Return the place of the value of `key`; of duplicates the last one, as JSON readers do."""
    last = None
    for name, place in members(text, start):
        if name == key:
            last = place
    return last


def elements(text: str, start: int) -> Iterator[JsonSpan]:
    """Yield the place of each element of the array at `start`. Raises ValueError if it is broken."""
    at = _open(text, start, "[")
    if text[at : at + 1] == "]":
        return
    while True:
        place = _place(text, at)
        yield place
        comma = _COMMA.match(text, place.end)
        if comma is None:
            _close(text, place.end, "]")
            return
        at = comma.end()


def insert_member(text: str, place: JsonSpan, key: str, value: object) -> str:
    """Return the text with one more member in the object at `place`; in an object of its own, if there is null."""
    entry = f"{json.dumps(key)}:{_dump(value)}"
    if place.value is None:
        return f"{text[: place.start]}{{{entry}}}{text[place.end :]}"
    at, comma = _end_inside(text, place)
    return f"{text[:at]}{comma}{entry}{text[at:]}"


def _end_inside(text: str, place: JsonSpan) -> tuple[int, str]:
    """Return where one more entry of an array or object goes, and its separator."""
    at = place.end - 1
    while text[at - 1] in _BLANKS:
        at -= 1
    return at, "" if at == place.start + 1 else ","


def _dump(value: object) -> str:
    return _ENCODER.encode(value)


def _place(text: str, start: int) -> JsonSpan:
    try:
        value, end = _SCANNER.raw_decode(text, start)
    except RecursionError as error:
        raise ValueError(f"JSON at character {start} is nested too deeply") from error
    return JsonSpan(start, end, value)


def _place_of_spans(text: str, start: int) -> JsonSpan:
    spans = list(elements(text, start))
    return JsonSpan(start, _skip_blank(text, spans[-1].end if spans else start + 1) + 1, spans)


def _skip_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _key(text: str, at: int) -> tuple[str, int]:
    key = _place(text, at)
    if not isinstance(key.value, str):
        raise _unexpected(text, at, "a key")
    at = _skip_blank(text, key.end)
    if text[at : at + 1] != ":":
        raise _unexpected(text, at, "a colon")
    return key.value, _skip_blank(text, at + 1)


def _open(text: str, start: int, bracket: str) -> int:
    if text[start : start + 1] != bracket:
        raise _unexpected(text, start, bracket)
    return _skip_blank(text, start + 1)


def _close(text: str, at: int, bracket: str) -> None:
    at = _skip_blank(text, at)
    if text[at : at + 1] != bracket:
        raise _unexpected(text, at, f"a comma or {bracket}")


def _unexpected(text: str, at: int, wanted: str) -> ValueError:
    return ValueError(f"expected {wanted} at character {at}, got {text[at : at + 1]!r}")
