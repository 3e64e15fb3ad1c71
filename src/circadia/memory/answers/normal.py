"""A question's words in one form: what people vary without asking for something else is gone, and nothing more."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

LONGEST: Final = 2_000
"""Characters of a question that has a form; of a longer one, nobody asks the very same again in other words."""
_QUOTES: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'", "´": "'", "−": "-", "‐": "-", "‑": "-"}) | {
    ord(small): f"^{digit}" for digit, small in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")
}
"""One sign for each use; a power is not the next digit of its base."""
_WORD: Final = re.compile(
    r"(?P<number>(?<![\w.])[-]?\d+(?:[.,:/-]\d+)*(?![\w])"
    r"|(?<![\w.])[-]?\d+(?:[.,]\d+)*(?=[^\W\d_]))"
    r"|(?P<word>\.?(?:[^\W\d_]\.){2,}|(?:(?<=\s)\.|^\.)?[^\W_][\w\u0900-\u0dff\u0e31-\u0ecd]*"
    r"(?:['.@&][^\W_][\w\u0900-\u0dff]*)*(?:\+\+|[+#](?![^\W_]))?'?)"
    r"|(?P<sign>[^\w\s])"
)
"""A number, with what stands between its digits; a word, with what joins its parts (`o'neill`, `node.js`, `c++`);
or one other sign."""
_LETTERS: Final = re.compile(r"\.?(?:[^\W\d_]\.){2,}")
"""An abbreviation with its dots."""
_SILENT: Final = frozenset(".,;:!?¿¡'\"“”„«»()[]{}-–—…*_`~|。，！？、؟")
"""Signs that change nothing between words. Others do: `<`, `=`, `%`, `€`, `/`, `#`, `&`."""
_NAMED: Final = frozenset(("US", "IT", "WHO", "AM", "OR", "IN", "IS"))
"""Abbreviations that are other words without their capitals; a state or a product is no pronoun."""

_EXPANDED: Final = """
can't=can not|cannot=can not|won't=will not|shan't=shall not|ain't=is not|let's=let us|gonna=going to|wanna=want to
gotta=got to|cant=can not|dont=do not|doesnt=does not|didnt=did not|isnt=is not|arent=are not|wasnt=was not
werent=were not|hasnt=has not|havent=have not|hadnt=had not|couldnt=could not|wouldnt=would not|shouldnt=should not
mustnt=must not|whats=what is|wheres=where is|whos=who is|hows=how is|whens=when is|whys=why is|thats=that is
im=i am|ive=i have|youre=you are|theyre=they are|theyve=they have|youve=you have|weve=we have|u=you|ur=your|r=are
pls=please|plz=please|thx=thanks|&=and|ok=okay
"""
_WHOLE: Final = {
    short: long.split()
    for line in _EXPANDED.split("\n")
    for short, _, long in (each.partition("=") for each in line.split("|") if each)
}
_ENDS: Final = {"n't": "not", "'m": "am", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would"}
_IS_AFTER: Final = frozenset(
    [
        "what",
        "who",
        "where",
        "when",
        "why",
        "how",
        "that",
        "this",
        "it",
        "there",
        "here",
        "he",
        "she",
        "which",
        "everything",
    ]
)
"""After these `'s` is a verb, elsewhere it says whose."""

_POLITE: Final = """
hi|hello|hey|hi there|hello there|dear all|thanks|thank you|thanks a lot|many thanks|thank you very much|cheers
thanks in advance|thank you in advance|please|kindly|okay|so|well|um|uh|also|just curious|quick question|by the way
can you|could you|would you|will you|can you please|could you please|would you please|will you please
can you kindly|could you kindly|can anyone|could anyone|can anyone please|can someone|could someone|can someone please
"""
_ASKING: Final = """
tell me|tell us|please tell me|explain to me|let me know|do you know|i want to know|i would like to know
i need to know|i was wondering|i am wondering|i wonder|remind me|do you happen to know|any idea|do you have any idea
"""
_REQUESTS: Final = {
    tuple(each.split()): asking
    for lines, asking in ((_POLITE, False), (_ASKING, True))
    for line in lines.split("\n")
    for each in line.split("|")
    if each
}
_OPENING: Final = frozenset(each[0] for each in _REQUESTS)
_LONGEST_REQUEST: Final = max(len(each) for each in _REQUESTS)
_ADDRESS: Final = frozenset(("can", "could", "would", "will"))
_QUESTION_WORDS: Final = frozenset(
    ["what", "who", "whom", "whose", "where", "when", "why", "how", "which", "if", "whether"]
)
_ENDING: Final = tuple(tuple(each.split()) for each in ["thanks in advance", "thank you", "thanks", "please", "cheers"])
_QUOTING: Final = frozenset(
    [
        "say",
        "saying",
        "said",
        "word",
        "words",
        "mean",
        "spell",
        "write",
        "call",
        "type",
        "add",
        "use",
        "like",
        "to",
        "of",
        "or",
        "and",
    ]
)
"""After these a polite word is what is asked about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One word, number or sign of a question."""

    word: str
    """In its one form."""
    capital: bool = False
    """Whether it was written with a capital, or with a digit or a sign inside, as names are."""
    number: bool = False
    """Whether it begins with a digit or a minus."""


def tokens(text: str) -> Sequence[Token]:
    """Return the words of a question in order, in their one form, without greeting and courtesy; none if too long."""
    if len(text) > LONGEST:
        return ()
    plain = text
    if not text.isascii():
        whole = text.encode(errors="replace").decode()  # a caller may send half a character
        plain = unicodedata.normalize("NFKC", whole.translate(_QUOTES)).translate(_QUOTES)
    if 2 * sum(map(str.isupper, plain)) > len(plain) and " " in plain.strip():
        plain = plain.casefold()  # shouted: no word stands out
    found: list[Token] = []
    for match in _WORD.finditer(plain):
        if match["sign"]:
            if match[0] not in _SILENT:
                found.extend(Token(word=each) for each in _WHOLE.get(match[0], (match[0],)))
        elif match["number"]:
            found.append(Token(word=match[0], number=True))
        else:
            found.extend(_worded(match[0]))
    return _bare(found)


def normal(found: Sequence[Token]) -> str:
    """Return the form in which the words of one question are the same string; empty if there is none.

    Case, spaces, punctuation, contractions and courtesy are gone. Numbers, signs of currencies and of comparison,
    order, and every word that can change the answer stay.
    """
    return " ".join([token.word for token in found])


@lru_cache(maxsize=20_000)
def _worded(written: str) -> tuple[Token, ...]:
    written = written.strip("'")
    if _LETTERS.fullmatch(written):
        written = written.replace(".", "")
    if written in _NAMED:
        return (Token(word=written, capital=True),)
    word = written.casefold()
    if word in _WHOLE:
        return tuple(Token(word=each) for each in _WHOLE[word])
    capital = written != word or any(each.isdigit() for each in word)
    for end, full in _ENDS.items():
        if word.endswith(end) and len(word) > len(end):
            return Token(word=word[: -len(end)], capital=capital), Token(word=full)
    if word.endswith("'s"):
        owner = word[:-2]
        return Token(word=owner, capital=capital), Token(word="is" if owner in _IS_AFTER else "'s")
    return (Token(word=word, capital=capital),)


def _bare(found: list[Token]) -> list[Token]:
    """Return the words without what is only courtesy, at the ends; a question of nothing else stays what it is."""
    start, end = 0, len(found)
    while start < end:
        length = _request(found, start, end) if found[start].word in _OPENING else 0
        if not length:
            break
        start += length
    for ending in _ENDING:
        first = end - len(ending)
        ends = first > start + 1 and tuple(each.word for each in found[first:end]) == ending
        if ends and found[first - 1].word not in _QUOTING:
            end = first
    return found[start:end] if end > start else found


def _request(found: Sequence[Token], start: int, end: int) -> int:
    """Return how many words from here on only ask to be told: 0 if none, or if they may be the question itself."""
    for length in range(min(_LONGEST_REQUEST, end - start), 0, -1):
        words = tuple(each.word for each in found[start : start + length])
        asking = _REQUESTS.get(words)
        if asking is None:
            continue
        following = found[start + length].word if start + length < end else ""
        if asking and following not in _QUESTION_WORDS:
            continue  # `tell me a story`, `do you know Ann`
        if words[0] in _ADDRESS and not _request(found, start + length, end):
            continue  # `can you swim`
        if words != ("please",) or following not in ("", "is", "are"):
            return length
    return 0
