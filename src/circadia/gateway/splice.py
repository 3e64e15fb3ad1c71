"""Byte-exact edits of JSON text: find where a value stands, insert there, and leave every other byte alone.

Positions are indexes of the decoded text. UTF-8 decodes and encodes without loss, so an edit of the text is an edit
of the bytes. The scanning is done by the standard library's C scanner, from an index and without copies.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_BLANK = re.compile(r"[ \t\n\r]*")
_BLANKS = " \t\n\r"
# Numbers are only passed over: a cheap stand-in saves their conversion, which refuses more than 4,300 digits.
_SCANNER = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=len)


class Place(NamedTuple):
    """A JSON value and where it stands in the text. Numbers in it are not meaningful."""

    start: int
    """Index of its first character."""
    end: int
    """Index after its last character."""
    value: object
    """What it says."""


def root(text: str) -> Place:
    """Return the outermost value.

    Raises:
        ValueError: the text is no JSON, or nested too deeply.
    """
    return _place(text, _skip_blank(text, 1 if text.startswith("\ufeff") else 0))


def members(text: str, start: int) -> Iterator[tuple[str, Place]]:
    """Yield each key with the place of its value, of the object that starts at `start`; duplicates as they come.

    Raises:
        ValueError: there is no object, or it is broken.
    """
    at = _open(text, start, "{")
    if text[at : at + 1] == "}":
        return
    while True:
        key = _place(text, at)
        if not isinstance(key.value, str):
            raise _unexpected(text, at, "a key")
        at = _skip_blank(text, key.end)
        if text[at : at + 1] != ":":
            raise _unexpected(text, at, "a colon")
        place = _place(text, _skip_blank(text, at + 1))
        yield key.value, place
        at = _skip_blank(text, place.end)
        if text[at : at + 1] == "}":
            return
        at = _after_comma(text, at)


def member(text: str, start: int, key: str) -> Place | None:
    """Return the place of the value of `key`; the last one of duplicates, which is what JSON readers keep."""
    found = None
    for name, place in members(text, start):
        if name == key:
            found = place
    return found


def elements(text: str, start: int) -> Iterator[Place]:
    """Yield the place of each element of the array that starts at `start`.

    Raises:
        ValueError: there is no array, or it is broken.
    """
    at = _open(text, start, "[")
    if text[at : at + 1] == "]":
        return
    while True:
        place = _place(text, at)
        yield place
        at = _skip_blank(text, place.end)
        if text[at : at + 1] == "]":
            return
        at = _after_comma(text, at)


def insert_member(text: str, place: Place, key: str, value: object) -> str:
    """Return the text with a member more, at the end of the object at `place`."""
    return _insert_last(text, place, f"{json.dumps(key)}:{_dump(value)}")


def append_element(text: str, place: Place, value: object) -> str:
    """Return the text with an element more, at the end of the array at `place`."""
    return _insert_last(text, place, _dump(value))


def append_text(text: str, place: Place, addition: str) -> str:
    """Return the text with `addition` at the end of the string at `place`."""
    at = place.end - 1
    return f"{text[:at]}{json.dumps(addition)[1:-1]}{text[at:]}"


def replace(text: str, place: Place, value: object) -> str:
    """Return the text with another value at `place`."""
    return f"{text[: place.start]}{_dump(value)}{text[place.end :]}"


def _insert_last(text: str, place: Place, entry: str) -> str:
    at = place.end - 1
    while text[at - 1] in _BLANKS:
        at -= 1
    comma = "" if at == place.start + 1 else ","
    return f"{text[:at]}{comma}{entry}{text[at:]}"


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _place(text: str, start: int) -> Place:
    try:
        value, end = _SCANNER.raw_decode(text, start)
    except RecursionError as error:
        raise ValueError(f"JSON at character {start} is nested too deeply") from error
    return Place(start, end, value)


def _skip_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _open(text: str, start: int, bracket: str) -> int:
    if text[start : start + 1] != bracket:
        raise _unexpected(text, start, bracket)
    return _skip_blank(text, start + 1)


def _after_comma(text: str, at: int) -> int:
    if text[at : at + 1] != ",":
        raise _unexpected(text, at, "a comma")
    return _skip_blank(text, at + 1)


def _unexpected(text: str, at: int, wanted: str) -> ValueError:
    return ValueError(f"expected {wanted} at character {at}, got {text[at : at + 1]!r}")
