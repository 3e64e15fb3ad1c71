"""Fold texts to one spelling to compare them, and find characters that a model reads and a person cannot see."""

import re
import unicodedata
from typing import Final

MAX_FOLDED_CHARACTERS: Final = 200_000
"""Maximum length of a folded text, in characters; one input character may expand to eighteen."""
_CHUNK_CHARACTERS: Final = 10_000
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
    """Return the first `MAX_FOLDED_CHARACTERS` characters in NFKC; `fold_text` composes again across the cuts."""
    parts: list[str] = []
    room = MAX_FOLDED_CHARACTERS
    for start in range(0, len(text), _CHUNK_CHARACTERS):
        parts.append(unicodedata.normalize("NFKC", text[start : start + _CHUNK_CHARACTERS])[:room])
        room -= len(parts[-1])
        if not room:
            break
    return "".join(parts)


_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode's general categories of controls, formats, surrogates, private use and unassigned code points."""
_BLANK: Final = re.compile(
    # Default_Ignorable_Code_Point (Unicode 16, DerivedCoreProperties.txt)
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # Fillers and signs without ink: Braille's blank, a null notehead, Khitan's filler, Egyptian blanks
    "\u2800\U0001d159\U00016fe4\U00013441\U00013442]"
)
_STYLES: Final = "\ufe0e\ufe0f"
"""Variation selectors that draw an emoji as text or in colour."""
_KEYCAP: Final = "\u20e3"
_STYLED: Final = frozenset("\u203c\u2049\u2139\u2194\u25fb\u25fc\u25fd\u25fe\u2934\u2935\u3030")
"""Emoji outside the category So that have both styles (Unicode 16, emoji-variation-sequences.txt)."""


def hidden_positions(text: str) -> list[int]:
    """Return the positions of invisible characters, except line ends, tabs and emoji styles."""
    if text.replace("\n", "").replace("\t", "").isprintable() and not (_BLANK.search(text) and not text.isascii()):
        return []
    return [at for at, letter in enumerate(text) if letter not in "\n\t" and _is_hidden(text, at, letter)]


def visible_text(text: str) -> str:
    """Return a text without its invisible characters."""
    hidden = hidden_positions(text)
    if not hidden:
        return text
    starts = (0, *(at + 1 for at in hidden))
    return "".join(text[start:end] for start, end in zip(starts, (*hidden, len(text)), strict=True))


def _is_hidden(text: str, at: int, character: str) -> bool:
    if character in _STYLES and at:
        before = text[at - 1]
        keycap = text[at + 1 : at + 2] == _KEYCAP and before in "0123456789#*"
        return not (keycap or before in _STYLED or (unicodedata.category(before) == "So" and before != "\u2800"))
    return _BLANK.match(character) is not None or unicodedata.category(character) in _CATEGORIES
