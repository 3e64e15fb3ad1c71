"""When two questions are the same, or cannot be, by their text alone, in any language (ANS-02).

Equal texts differ only in white space, letter width, composed or decomposed accents, or the closing mark. Case and all
other marks count. A text with a closing question mark never equals one with a full stop: one asks, the other states.

Numbers, codes, quoted texts and names decide without a model that two questions differ. A name is a capitalized word
that does not begin its sentence. Writing that marks no names by capitals (scripts without case, or German) yields none
here, and the judge decides alone.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from circadia.characters import to_ascii_digits
from circadia.memory.languages import languages

MAX_CHARACTERS: Final = 2_000
"""Longer questions are not looked up: nobody repeats one word for word."""
_QUESTION_MARKS: Final = "?\uff1f\u061f"
_FULL_STOPS: Final = ".\u3002\uff0e\uff61"
_CLOSING: Final = _QUESTION_MARKS + _FULL_STOPS
_SENTENCE_BREAK: Final = re.compile(r"[.!?;؟]\s|[。！？；]|\n")
_QUOTED: Final = re.compile(
    r'"([^"\n]+)"|“([^”\n]+)”|„([^“”\n]+)[“”]|«([^»\n]+)»|`([^`\n]+)`|「([^」\n]+)」|『([^』\n]+)』|(?<!\w)\'([^\'\n]+)\'(?!\w)'
)
_WORD: Final = re.compile(r"\d+(?:[.,:/'’-]\d+)*(?!\w)|[-/~.@#_]{0,3}\w+(?:[-.,:/@_&+#]+\w+)*[+#]*")
_NUMBER: Final = re.compile(r"\d+(?:[.,:/'’-]\d+)*")
_GROUPED: Final = re.compile(r"\d{1,3}(?:[.,'’]\d{3})+")
_CODE: Final = re.compile(r"[_/@#~+\\]|\w[.:]\w|^-|[a-z][A-Z]")
_SENTENCE_END: Final = re.compile(r"[.!?…。！？؟:]\s*$")
_OPENING: Final = " \t\"'“„«¿¡("
CAPITALIZED_NOUNS: Final = frozenset({"de", "lb"})
"""Languages that write every noun with a capital."""


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
    bare, mark = line[:-1].rstrip(), line[-1:]
    if not bare or mark not in _CLOSING:  # one mark alone: what is before it may be asked about, as in `??`
        return NormalizedText(line, "")
    return NormalizedText(bare, "?" if mark in _QUESTION_MARKS else ".")


def only_asks(text: str) -> bool:
    return normalize(text).closing == "?" and _SENTENCE_BREAK.search(text.strip()[:-1]) is None


def _fold_width(character: str) -> str:
    """Return a full- or half-width form as the usual one; superscripts, fractions and circled digits stay."""
    if unicodedata.decomposition(character).startswith(("<wide>", "<narrow>")):
        return unicodedata.normalize("NFKC", character)
    return character


class _Text(NamedTuple):
    words: Sequence[str]
    certain: Sequence[str]
    """Numbers, codes and quoted texts."""
    names: Sequence[str]

    @property
    def identifiers(self) -> Sequence[str]:
        return [*self.certain, *self.names]


def find_conflict(asked: str, expected: str) -> str:
    """Return in words how two questions differ; empty if they do not.

    They differ if each has an identifier that the other lacks, or if both have the same ones in another order.
    """
    ours, theirs = _parse_text(asked), _parse_text(expected)
    if (ours.names or theirs.names) and CAPITALIZED_NOUNS.issuperset(languages(f"{asked} {expected}")[:1]):
        ours, theirs = ours._replace(names=()), theirs._replace(names=())
    if not ours.identifiers and not theirs.identifiers:
        return ""
    only_asked = [identifier for identifier in ours.identifiers if identifier not in theirs.words]
    only_expected = [identifier for identifier in theirs.identifiers if identifier not in ours.words]
    if only_asked and only_expected:
        return f"{', '.join(only_asked)} against {', '.join(only_expected)}"
    shared = {*ours.identifiers, *theirs.identifiers}.intersection(ours.words).intersection(theirs.words)
    first, second = ([word for word in text.words if word in shared] for text in (ours, theirs))
    if first != second and sorted(first) == sorted(second):
        return f"{', '.join(first)} in another order"
    return ""


def has_identifier(text: str) -> bool:
    return bool(_parse_text(text).identifiers)


def _parse_text(text: str) -> _Text:
    text = unicodedata.normalize("NFKC", text)
    quoted = [" ".join(next(filter(None, match.groups())).casefold().split()) for match in _QUOTED.finditer(text)]
    words, certain, names = list[str](), list[str](), list[str]()
    for match in _WORD.finditer(_split_scripts(text)):
        word = match[0]
        if _NUMBER.fullmatch(word):
            plain = re.sub(r"[.,'’]", "", word) if _GROUPED.fullmatch(word) else word
            words.append(to_ascii_digits(plain))
            certain.append(words[-1])
        elif _is_code(word):
            words.append(word)
            certain.append(word)
        else:
            words.append(word.casefold())
            if word[0].isupper() and len(word) > 1 and not _begins_sentence(match.string, match.start()):
                names.append(words[-1])
    return _Text([*words, *quoted], [*certain, *quoted], names)


def _split_scripts(text: str) -> str:
    """Return a text with a space between a letter without case and another word character, as in `第12号`."""
    if text.isascii():
        return text
    parts = [text[:1]]
    for before, after in pairwise(text):
        meets = before.isalnum() and after.isalnum() and _is_caseless(before) != _is_caseless(after)
        parts += [" ", after] if meets else [after]
    return "".join(parts)


def _is_caseless(character: str) -> bool:
    return character.isalpha() and character.lower() == character.upper()


def _is_code(word: str) -> bool:
    return _CODE.search(word) is not None or (any(map(str.isdigit, word)) and any(map(str.isalpha, word)))


def _begins_sentence(text: str, start: int) -> bool:
    before = text[:start].rstrip(_OPENING)
    return not before or _SENTENCE_END.search(before) is not None
