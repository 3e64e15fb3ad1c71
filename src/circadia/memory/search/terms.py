"""Words: what a text is found by. Stored texts and questions go through the same function, on both databases."""

import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, cast

import Stemmer

from circadia.folding import fold_text
from circadia.memory.search.languages import stems

QUESTION: Final = 0
"""Stands among the terms of a text that ends with a question: the next turn answers it, often in other words."""
_ENGLISH: Final = """
a about an and any are as at be been but by can could d did do does doing for from had has have having he her hers him
his how i if in into is it its itself ll m may me might my of on or our ours re s she should so t than that the their
theirs them then there these they this those to us ve was we were what when where which who whom whose why will with
would you your yours
"""
STOP_WORDS: Final = frozenset(_ENGLISH.split())
"""Words of a question that say nothing about what it asks for; the function words of English."""

LONGEST: Final = 64
"""Characters of a word that count: what is longer is no word, and stems are remembered."""

_WORD: Final = re.compile(
    r"(?:[^\W_]|[\u0900-\u0963\u0966-\u0e4e\u0e80-\u0ece\u0f40-\u0fbc\u1000-\u1049\u1050-\u109f\u1780-\u17d3])+"
)
"""Letters and digits; from Devanagari to Khmer the signs for vowels too, which `\\w` leaves out."""
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
"""The same where there are only small letters of ASCII, in a third of the time."""
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
"""Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_STEM: Final = cast("Callable[[str], str]", Stemmer.Stemmer("english").stemWord)  # pyright: ignore[reportUnknownMemberType]
_END_OF_QUESTION: Final = ("?", "？", "؟")


def words(text: str, *, asked: bool = False) -> Iterator[str]:
    """Return the words of a text in order, lower case, without accents.

    Where no space parts them, pairs of characters stand for them, and single ones: a question that has pairs is
    `asked` for them alone.
    """
    text = fold_text(text)
    if text.isascii():
        yield from [word[:LONGEST] for word in _ASCII_WORD.findall(text)]
        return
    for word in _WORD.findall(text):
        if word.isascii():
            yield word[:LONGEST]
            continue
        at = 0
        for run in _UNSPACED.finditer(word):
            if run.start() > at:
                yield word[at : min(run.start(), at + LONGEST)]
            yield from _pairs(run[0], singles=not asked)
            at = run.end()
        if at < len(word):
            yield word[at : at + LONGEST]


def stored_terms(text: str, said: str = "") -> bytes:
    """Return what a stored text is found by: a 32-bit hash for each word, little-endian, in order.

    Behind them come the stems of what of it was `said`, in its languages, where they are others than in English.
    """
    hashes = array("I", [_hash(word) for word in words(text)])
    hashes.extend(_hash_other_stems(said))
    if text.rstrip().endswith(_END_OF_QUESTION):
        hashes.append(QUESTION)
    return hashes.tobytes()


def question_terms(question: str) -> Sequence[int]:
    """Return the hashes of a question's words, each once; without stop words unless there is nothing else."""
    return _hash_content_words(words(question, asked=True))


def question_words(question: str) -> tuple[Sequence[int], frozenset[str]]:
    """Return the same with single characters and the stems in the languages that it may be in, and all of its words."""
    every = list(words(question))
    return list(dict.fromkeys((*_hash_content_words(every), *_hash_other_stems(question, asked=True)))), frozenset(
        every
    )


def question_stems(question: str) -> Sequence[frozenset[int]]:
    """Return for each word of a question the hashes that a stored text has one of if it has the word."""
    every = dict.fromkeys(words(question))
    by_word = {word: {_hash(word)} for word in every if word not in STOP_WORDS} or {
        word: {_hash(word)} for word in every
    }
    for word, stem in stems(question, asked=True):
        if word in by_word:
            by_word[word].add(_crc(stem))
    return [frozenset(hashes) for hashes in by_word.values()]


def _hash_content_words(asked: Iterable[str]) -> Sequence[int]:
    asked = dict.fromkeys(asked)
    telling = [word for word in asked if word not in STOP_WORDS]
    return list(dict.fromkeys(map(_hash, telling or asked)))


def _hash_other_stems(text: str, *, asked: bool = False) -> Iterator[int]:
    """Yield the hashes of stems in the languages of a text, where they are others than in English."""
    for word, stem in stems(text, asked=asked):
        hashed = _crc(stem)
        if hashed != _hash(word) and word not in STOP_WORDS:
            yield hashed


@lru_cache(maxsize=100_000)
def _hash(word: str) -> int:
    """Return 1 to 2**32 - 1; two stems of a bank of 50,000 share one with a chance of 0.3."""
    return _crc(_STEM(word))


def _crc(stem: str) -> int:
    return zlib.crc32(stem.encode()) or 1


def _pairs(run: str, *, singles: bool) -> Iterator[str]:
    if singles or len(run) == 1:
        yield from run
    for first, second in pairwise(run):
        yield first + second
