"""Typed access to JSON fields; a wrong type in a request raises an InvalidRequest that says what to send.

Programs cut a text within a character, and servers stream one in pieces: JSON escapes can contain half an emoji, UTF-8
cannot. `join_pieces` and `load_with_halves` mend that.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, cast

import orjson

from circadia.errors import InvalidRequest

_BOM = b"\xef\xbb\xbf"
_MAX_TOKENS = 10**12
"""A larger limit means the same to a budget, and sums must fit a database integer."""

_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""First bytes of gzip (RFC 1952) and zstd (RFC 8878)."""


def load(body: bytes) -> dict[str, object]:
    """Return the JSON object of a request's body, or raise InvalidRequest."""
    try:
        value: object = orjson.loads(body.removeprefix(_BOM))
    except orjson.JSONDecodeError as error:
        if body.startswith(_PACKED):
            raise InvalidRequest("the body is compressed; send it as it is, without content-encoding") from error
        raise InvalidRequest(f"the body is not valid JSON ({error}); send one JSON object in UTF-8") from error
    if not isinstance(value, dict):
        raise InvalidRequest(f"the body is {kind(value)}; send one JSON object")
    return cast("dict[str, object]", value)


def kind(value: object) -> str:
    """Return the JSON name of the value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def text(fields: dict[str, object], key: str) -> str | None:
    """Return a string field; None if it is absent, null or empty. Raises InvalidRequest for another type."""
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value or None
    raise InvalidRequest(f"`{key}` is {kind(value)}; send a string")


def flag(fields: dict[str, object], key: str) -> bool:
    """Return a boolean field; false if it is absent or null. Raises InvalidRequest for another type."""
    value = fields.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidRequest(f"`{key}` is {kind(value)}; send true or false")


def count(fields: dict[str, object], key: str) -> int | None:
    """Return a count; None if absent, null or negative (some servers take -1 for no limit). Raises InvalidRequest."""
    value = fields.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        raise InvalidRequest(f"`{key}` is {value!r}; send a whole number")
    return min(int(value), _MAX_TOKENS) if value >= 0 else None


def product(*factors: int | None) -> int | None:
    """Return the bounded product; None if the first factor is None. A later None or zero counts as one."""
    first, *others = factors
    if first is None:
        return None
    for factor in others:
        first = min(first * (factor or 1), _MAX_TOKENS)
    return first


def objects(fields: dict[str, object], key: str) -> list[dict[str, object]]:
    """Return a list of objects. Raises InvalidRequest if the field is absent or has another type."""
    value = fields.get(key)
    if not isinstance(value, list):
        raise InvalidRequest(f"`{key}` is {kind(value) if key in fields else 'missing'}; send a list of objects")
    items = cast("list[object]", value)
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidRequest(f"`{key}[{index}]` is {kind(item)}; send an object")
    return cast("list[dict[str, object]]", items)


def input_estimate(body: bytes) -> int:
    """Return an upper guess of the tokens in a body: a third of its bytes, rounded up."""
    return -(-len(body) // 3)


def as_object(value: object) -> dict[str, object]:
    """Return the value if it is an object, else an empty one: answers are observed and never refused."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def as_count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else None


_PIECES: Final = frozenset({"content", "refusal", "arguments", "text", "partial_json", "delta"})
"""Keys of text deltas in a streamed event."""


def join_halves(text: str) -> str:
    """Join halves that meet; replace any other half by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def join_pieces(pieces: Iterable[str]) -> str:
    """Join pieces between which a character may be cut in two."""
    return join_halves("".join(pieces))


def load_with_halves(text: bytes, *, pieces: bool = False) -> object:
    """Parse JSON with halves; in `pieces` of a text they stay, to be joined later. Raises ValueError."""
    if b"\\u" not in text:
        raise ValueError("it contains no half of a character")
    try:
        return _mend(json.loads(text), _PIECES if pieces else frozenset(), "")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _mend(value: Any, kept: frozenset[str], key: str) -> object:
    if isinstance(value, str):
        return value if key in kept else join_halves(value)
    if isinstance(value, dict):
        return {join_halves(name): _mend(item, kept, name) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_mend(item, kept, key) for item in cast("list[Any]", value)]
    return value
