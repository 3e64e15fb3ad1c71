"""When two texts are the same question, in any language (ANS-02).

Two texts are equal if only white space, the width of letters, composed or decomposed accents, or a closing mark differ.
Case and all other marks count. A text that closes with a question mark never equals one that closes with a full stop:
one asks, the other states.
"""

import re
import unicodedata
from typing import Final, NamedTuple

MAX_CHARACTERS: Final = 2_000
"""Nobody asks the very same again if it is longer; a longer question is not looked up."""
_QUESTION_MARKS: Final = "?\uff1f\u061f"
_FULL_STOPS: Final = ".\u3002\uff0e\uff61"
_CLOSING: Final = _QUESTION_MARKS + _FULL_STOPS
_SENTENCE_END: Final = re.compile(r"[.!?;؟]\s|[。！？；]|\n")


class NormalizedText(NamedTuple):
    """A text without what does not count, and how it closes."""

    text: str
    closing: str
    """`?`, `.`, or empty if it closes with neither."""

    def equals(self, other: "NormalizedText") -> bool:
        """Return whether both are the same question."""
        return self.text == other.text and {self.closing, other.closing} != {"?", "."}


def normalize(text: str) -> NormalizedText:
    """Return the form in which a question is compared."""
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
    """Return whether a text is one question and nothing else."""
    return normalize(text).closing == "?" and _SENTENCE_END.search(text.strip()[:-1]) is None


def _fold_width(character: str) -> str:
    """Return a full- or half-width form as the usual one; superscripts, fractions and circled digits stay."""
    if unicodedata.decomposition(character).startswith(("<wide>", "<narrow>")):
        return unicodedata.normalize("NFKC", character)
    return character
