"""Characters that were cut in two: JSON can say the two halves of an emoji apart, as escapes, and UTF-8 cannot.

Programs write such where they cut a text within a character, servers where they stream one piece by piece.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, cast

_PIECES: Final = frozenset({"content", "refusal", "arguments", "text", "partial_json", "delta"})
"""Keys of what a streamed event adds to a text."""


def join_halves(text: str) -> str:
    """Return the text with halves that meet joined, and U+FFFD for any other."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def join_pieces(pieces: Iterable[str]) -> str:
    """Return the text of pieces in which a character may be cut in two."""
    return join_halves("".join(pieces))


def load_json(text: bytes, *, pieces: bool = False) -> object:
    """Return what JSON says that has halves in it; in `pieces` of a text they stay, to be joined.

    Raises:
        ValueError: it is no JSON all the same, has no halves, or is nested too deeply.
    """
    if b"\\u" not in text:
        raise ValueError("there is no half of a character in it")
    try:
        return _mend(json.loads(text), _PIECES if pieces else frozenset(), "")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _mend(value: Any, kept: frozenset[str], key: str) -> object:
    if isinstance(value, str):
        return value if key in kept else join_halves(value)
    if isinstance(value, dict):
        return {join_halves(name): _mend(each, kept, name) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_mend(each, kept, key) for each in cast("list[Any]", value)]
    return value
