"""Fold texts to one spelling, so that they can be compared however they were written."""

import re
import unicodedata
from typing import Final

MOST: Final = 200_000
"""Maximum length of a folded text, in characters; one input character may expand to eighteen."""
_AT_ONCE: Final = 10_000
"""Chunk size of the normalization, in characters, so that a huge expansion is cut off early."""
_MARKS: Final = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670]"
)
"""Accents, and the points of Hebrew and Arabic, which most people do not write."""
_MANY_MARKS: Final = re.compile(r"([^\w\s\x00-\x7f]{30})[^\w\s\x00-\x7f]+")
"""More marks than a letter can carry (Unicode's UAX 15, Stream-Safe Text): sorting them takes quadratic time."""
_NATIVE_DIGIT: Final = re.compile(r"(?![0-9])\d")


def fold_text(text: str) -> str:
    """Return a text in lower case, without accents, in Unicode normalization form NFKC."""
    if not text.isascii():
        text = _normalize_compatible(_MANY_MARKS.sub(r"\1", text))
    text = text.casefold()
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))
    return text


def to_ascii_digits(text: str) -> str:
    """Return a text of the same length with the digits of all scripts as ASCII digits."""
    return text if text.isascii() else _NATIVE_DIGIT.sub(lambda digit: str(int(digit[0])), text)


def _normalize_compatible(text: str) -> str:
    """Return the first `MOST` characters in NFKC; `fold_text` composes again across the cuts."""
    parts: list[str] = []
    room = MOST
    for start in range(0, len(text), _AT_ONCE):
        parts.append(unicodedata.normalize("NFKC", text[start : start + _AT_ONCE])[:room])
        room -= len(parts[-1])
        if not room:
            break
    return "".join(parts)
