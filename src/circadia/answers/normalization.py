"""When two texts are the same question, in any language (ANS-02).

Equal texts differ only in white space, letter width, composed or decomposed accents, or the closing mark. Case and all
other marks count. A text with a closing question mark never equals one with a full stop: one asks, the other states.
"""

import re
import unicodedata
from typing import Final, NamedTuple

MAX_CHARACTERS: Final = 2_000
"""Longer questions are not looked up: nobody repeats one word for word."""
_QUESTION_MARKS: Final = "?\uff1f\u061f"
_FULL_STOPS: Final = ".\u3002\uff0e\uff61"
_CLOSING: Final = _QUESTION_MARKS + _FULL_STOPS
_SENTENCE_END: Final = re.compile(r"[.!?;؟]\s|[。！？；]|\n")


class NormalizedText(NamedTuple):
    """A text without what does not count, and its closing mark."""

    text: str
    closing: str
    """`?`, `.`, or empty."""

    def equals(self, other: "NormalizedText") -> bool:
        return self.text == other.text and {self.closing, other.closing} != {"?", "."}


def normalize(text: str) -> NormalizedText:
    folded = text if text.isascii() else unicodedata.normalize("NFC", "".join(map(_fold_width, text)))
    line = " ".join(folded.split())
    bare = line.rstrip(_CLOSING + " ")
    if not bare:
        return NormalizedText(line, "")
    closing = line[len(bare) :]
    if any(mark in _QUESTION_MARKS for mark in closing):
        return NormalizedText(bare, "?")
    return NormalizedText(bare, "." if closing else "")


def only_asks(text: str) -> bool:
    return normalize(text).closing == "?" and _SENTENCE_END.search(text.strip()[:-1]) is None


def _fold_width(character: str) -> str:
    """Return a full- or half-width form as the usual one; superscripts, fractions and circled digits stay."""
    if unicodedata.decomposition(character).startswith(("<wide>", "<narrow>")):
        return unicodedata.normalize("NFKC", character)
    return character
