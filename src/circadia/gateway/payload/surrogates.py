"""Characters that were cut in two: JSON escapes can contain half an emoji, UTF-8 cannot.

Programs write them when they cut a text within a character, servers when they stream one in pieces.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, cast

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


def load_json(text: bytes, *, pieces: bool = False) -> object:
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
