"""A question's words in one form: what people vary without asking for something else is gone, and nothing more."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

LONGEST: Final = 2_000
"""Characters of a question that has a form; of a longer one, nobody asks the very same again in other words."""
_QUOTES: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'", "´": "'", "−": "-", "‐": "-", "‑": "-"}) | {
    ord(small): f"^{digit}" for digit, small in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")
}
"""One sign for each use; a power is not the next digit of its base."""
_MINUS: Final = re.compile(r"[–—](?=\d)")
"""A dash that a digit follows is a minus, or stands in a range."""
_WORD: Final = re.compile(
    r"(?P<number>(?<![\w.])[-]?\d+(?:[.,:/-]\d+)*(?![\w])"
    r"|(?<![\w.])[-]?\d+(?:[.,]\d+)*(?=[^\W\d_]))"
    r"|(?P<word>(?<!\S)'s(?!\w)|(?<!\S)(?<!\d )[~≈]?\.{0,2}/(?=[^\W\d_])[\w.-]*\w(?:/[\w.-]*\w)*"
    r"|(?<!\S)--?(?=[^\W\d_])[\w-]+|\.?(?:[^\W\d_]\.){2,}|(?:(?<=\s)\.|^\.)?[^\W_][\w\u0900-\u0dff\u0e31-\u0ecd]*"
    r"(?:['.@&][^\W_][\w\u0900-\u0dff]*)*(?:\+\+|[+#](?![^\W_]))?'?)"
    r"|(?P<sign>[^\w\s])"
)
"""A number, with what stands between its digits; a word, with what joins its parts (`o'neill`, `node.js`, `c++`) or
begins an option (`--hard`) or is a path (`/etc/hosts`); or one other sign."""
_LETTERS: Final = re.compile(r"\.?(?:[^\W\d_]\.){2,}")
"""An abbreviation with its dots."""
_SILENT: Final = frozenset(".,;:!?¿¡'\"“”„«»()[]{}-–—…*_`~|。，！？、؟")
"""Signs that change nothing between words, unless they are part of a formula. Others always do: `<`, `=`, `%`, `€`."""
_BETWEEN: Final = frozenset("-–—*_~|':!^")
"""Those that say something between two numbers or letters."""
_CLOSING: Final = frozenset(".;:!?,。，！？")
_ATTACHED: Final = re.compile(r"(?<!\S)(?P<sign>[!*~_]+)(?=[^\W\d_]|/)|(?<![\w*-])(?P<grade>[A-Z]{1,2}[-*])(?![\w*-])")
"""Signs before a word, or after a grade, that say something if they are no emphasis: `!ready`, `~/bin`, `_id`, `A-`."""
_SAYING: Final = str.maketrans({"!": "¬", "*": "⋆", "~": "≈", "_": "∘", "-": "∓"})
"""The same signs, as ones that are never silent."""
_CODE: Final = re.compile(r"_|\w[.@]\w|^-|/\w|^[a-z]{2,}[A-Z]|^[A-Z]{2,}$")
_BRACKETS: Final = frozenset("()[]{}|")
_OPERATORS: Final = frozenset("+*/=<>^×÷%")
_NAMED: Final = {name: f"{'.'.join(name.lower())}." for name in ("US", "IT", "WHO", "AM", "OR", "IN", "IS")}
"""Abbreviations that are other words without their capitals: a state is no pronoun, so that it keeps its dots."""
_SLOPPY: Final = frozenset(
    (
        "kb",
        "mb",
        "gb",
        "tb",
        "kg",
        "km",
        "cm",
        "mm",
        "ml",
        "mi",
        "lb",
        "oz",
        "ft",
        "am",
        "pm",
        "k",
        "b",
        "v",
        "w",
        "c",
        "f",
        "kwh",
        "khz",
        "mhz",
        "ghz",
        "mph",
        "kmh",
    )
)
"""Units that many write with other capitals, and mean the same."""

_EXPANDED: Final = """
can't=can not|cannot=can not|won't=will not|wont=will not|shan't=shall not|ain't=is not|let's=let us
gonna=going to|wanna=want to
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
_HELPING: Final = frozenset(
    (
        "is",
        "are",
        "was",
        "were",
        "do",
        "does",
        "did",
        "has",
        "have",
        "had",
        "could",
        "would",
        "should",
        "might",
        "need",
        "dos",
        "doe",
        "can",
    )
)
"""Before `nt` these make a no, however it is spelt."""
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
_COURTESY: Final = frozenset(word for each in _REQUESTS for word in each)
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
    sign: bool = False
    """Whether it is a sign, neither number nor word."""
    code: bool = False
    """Whether it was written as names in programs, files and options are, each letter of which counts."""
    closes: bool = False
    """Whether a sentence or a part of one ends with it."""


def tokens(text: str) -> Sequence[Token]:
    """Return the words of a question in order, in their one form, without greeting and courtesy; none if too long."""
    if len(text) > LONGEST:
        return ()
    plain = text
    if not text.isascii():
        whole = text.encode(errors="replace").decode()  # a caller may send half a character
        plain = unicodedata.normalize("NFKC", whole.translate(_QUOTES)).translate(_QUOTES)
        if len(plain) > LONGEST:  # one character may stand for eighteen
            return ()
    plain = _ATTACHED.sub(_attached, _MINUS.sub("-", plain))
    if 2 * sum(map(str.isupper, plain)) > len(plain) and " " in plain.strip():
        plain = plain.casefold()  # shouted: no word stands out
    found: list[Token] = []
    for match in _WORD.finditer(plain):
        if match["sign"]:
            found.extend(Token(word=each, sign=not each.isalpha()) for each in _WHOLE.get(match[0], (match[0],)))
        elif match["number"]:
            found.append(Token(word=match[0], number=True))
        elif found and found[-1].number:
            found.extend(_measured(match[0]))
        else:
            found.extend(_worded(match[0]))
    return _bare(_spoken(found))


def _attached(found: re.Match[str]) -> str:
    if found["grade"]:
        return found["grade"][:-1] + found["grade"][-1].translate(_SAYING)
    sign = found["sign"]
    closed = re.search(rf"(?<=[^\s\w]|\w){re.escape(sign)}(?!\w)", found.string[found.end() :])
    return sign if closed else sign.translate(_SAYING)


def normal(found: Sequence[Token]) -> str:
    """Return the form in which the words of one question are the same string; empty if there is none.

    Case, spaces, punctuation, contractions and courtesy are gone. Numbers, signs of currencies and of comparison,
    order, and every word that can change the answer stay.
    """
    return " ".join([token.word for token in found])


def _spoken(found: list[Token]) -> list[Token]:
    """Return the words without the signs that change nothing where they stand."""
    if not any(token.sign and token.word in _SILENT for token in found):
        return found
    formula = any(token.sign and token.word in _OPERATORS for token in found)
    kept: list[Token] = []
    for at, token in enumerate(found):
        if not token.sign or token.word not in _SILENT or _says(found, at, formula):
            kept.append(token)
        elif token.word in _CLOSING and kept and at + 1 < len(found):
            kept[-1] = replace(kept[-1], closes=True)
    return kept


def _says(found: Sequence[Token], at: int, formula: bool) -> bool:
    """Return whether a sign is part of a formula or a number: `5 - 3`, `(2 + 3) / 4`, `!=`, `5!`, `~5`, `2 ** 3`."""
    sign = found[at].word
    before, after = at - 1, at + 1
    follows = found[after].word if after < len(found) else ""
    if sign == "!" and ((at and _operand(found[before])) or follows == "="):
        return bool(found[before].number) or follows in ("=", *_OPERATORS)
    if sign == "~" and after < len(found) and found[after].number:
        return True
    if sign in _BRACKETS and formula:
        return any(0 <= each < len(found) and _operand(found[each]) for each in (before, after))
    if sign not in _BETWEEN:
        return False
    while before >= 0 and found[before].sign:
        before -= 1
    while after < len(found) and found[after].sign:
        after += 1
    return before >= 0 and after < len(found) and _operand(found[before]) and _operand(found[after])


def _operand(token: Token) -> bool:
    return token.number or (len(token.word) == 1 and not token.sign)


def _measured(written: str) -> tuple[Token, ...]:
    """Return the word after a number: a short one may be a unit, whose capitals tell mega from milli, byte from bit."""
    word = written.casefold()
    usual = len(written) > 2 and written in (word.upper(), word.capitalize())
    if usual or written == word or len(written) > 4 or not written.isalpha() or word in ("i", "a"):
        return _worded(written)
    return _worded(word) if word in _SLOPPY and written not in _BITS else (Token(word=written, capital=True),)


_OPTION: Final = re.compile(r"-[A-Za-z]")
"""An option of one letter, whose capital is another option."""
_BITS: Final = frozenset(("Kb", "Mb", "Gb", "Tb"))
_CASED: Final = _BITS | {"R", "U"}
"""What is another word without its capital: a unit of bits; a language and a level, no `are` and no `you`."""


@lru_cache(maxsize=20_000)
def _worded(written: str) -> tuple[Token, ...]:
    if written == "'s":
        return (Token(word=written),)
    written = written.strip("'")
    if _LETTERS.fullmatch(written):
        written = written.replace(".", "")
        if written.upper() in _NAMED:
            written = written.upper()
    if written in _NAMED:
        return (Token(word=_NAMED[written], capital=True),)
    if written in _CASED:
        return (Token(word=written, capital=True),)
    if _OPTION.fullmatch(written):
        return (Token(word=written, capital=True, code=True),)
    word, code = written.lower(), _CODE.search(written) is not None
    if word in _WHOLE:
        return tuple(Token(word=each) for each in _WHOLE[word])
    capital = written != word or any(each.isdigit() for each in word)
    if word.endswith("nt") and word[:-2] in _HELPING:
        return Token(word=word[:-2]), Token(word="not")
    for end, full in _ENDS.items():
        if word.endswith(end) and len(word) > len(end):
            return Token(word=word[: -len(end)], capital=capital), Token(word=full)
    if word.endswith("'s"):
        owner = word[:-2]
        return Token(word=owner, capital=capital, code=code), Token(word="is" if owner in _IS_AFTER else "'s")
    return (Token(word=word, capital=capital, code=code),)


def _bare(found: list[Token]) -> list[Token]:
    """Return the words without what is only courtesy, at the ends; a question of nothing else stays what it is."""
    while True:
        start, end = _courteous(found), len(found)
        for ending in _ENDING:
            first = end - len(ending)
            ends = first > start + 1 and tuple(each.word for each in found[first:end]) == ending
            if ends and found[first - 1].word not in _QUOTING:
                end = first
        if end <= start or end - start == len(found):
            return found
        found = found[start:end]


def _courteous(found: Sequence[Token]) -> int:
    """Return how many words at the beginning only ask to be told."""
    last = 0
    while last < len(found) and found[last].word in _COURTESY:
        last += 1
    # From the end to the beginning, since `can you` asks to be told only before what does.
    lengths = [0] * (len(found) + 1)
    for at in range(last - 1, -1, -1):
        if found[at].word in _OPENING:
            lengths[at] = _request(found, at, lengths)
    start = 0
    while lengths[start]:
        start += lengths[start]
    return start


def _request(found: Sequence[Token], start: int, lengths: Sequence[int]) -> int:
    """Return how many words from here on only ask to be told: 0 if none, or if they may be the question itself."""
    end = len(found)
    for length in range(min(_LONGEST_REQUEST, end - start), 0, -1):
        words = tuple([each.word for each in found[start : start + length]])
        asking = _REQUESTS.get(words)
        if asking is None:
            continue
        following = found[start + length].word if start + length < end else ""
        if asking and following not in _QUESTION_WORDS:
            continue  # `tell me a story`, `do you know Ann`
        if words[0] in _ADDRESS and not lengths[start + length]:
            continue  # `can you swim`
        if words != ("please",) or following not in ("", "is", "are"):
            return length
    return 0
