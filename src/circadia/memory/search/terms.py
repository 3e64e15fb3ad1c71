"""Words for searching. Stored texts and questions go through the same functions, on both databases."""

import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, cast

import Stemmer

from circadia.characters import fold_text
from circadia.memory.languages import stems

QUESTION: Final = 0
"""Term of a text that ends with a question, which the next turn answers, often in other words."""
_ENGLISH: Final = """
a about an and any are as at be been but by can could d did do does doing for from had has have having he her hers him
his how i if in into is it its itself ll m may me might my of on or our ours re s she should so t than that the their
theirs them then there these they this those to us ve was we were what when where which who whom whose why will with
would you your yours
"""
STOP_WORDS: Final = frozenset(_ENGLISH.split())
"""English function words, which carry no meaning in a question."""

LONGEST: Final = 64
"""Characters of a word that count; anything longer is no word, and stems are cached."""

_WORD: Final = re.compile(
    r"(?:[^\W_]|[\u0900-\u0963\u0966-\u0e4e\u0e80-\u0ece\u0f40-\u0fbc\u1000-\u1049\u1050-\u109f\u1780-\u17d3])+"
)
"""Letters and digits; from Devanagari to Khmer also the vowel signs, which `\\w` leaves out."""
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
"""The same for lower-case ASCII, in a third of the time."""
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
"""Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_STEM: Final = cast("Callable[[str], str]", Stemmer.Stemmer("english").stemWord)  # pyright: ignore[reportUnknownMemberType]
_END_OF_QUESTION: Final = ("?", "？", "؟")


def words(text: str, *, asked: bool = False) -> Iterator[str]:
    """Yield the words of a text in order, lower case, without accents.

    Scripts without spaces yield pairs of characters and single ones; a question (`asked`) yields singles only where
    there is no pair.
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
    """Return the search terms of a stored text: a 32-bit hash for each word, little-endian, in order.

    The stems of `said` in its languages follow where they differ from the English ones.
    """
    hashes = array("I", [_hash(word) for word in words(text)])
    hashes.extend(_hash_other_stems(said))
    if text.rstrip().endswith(_END_OF_QUESTION):
        hashes.append(QUESTION)
    return hashes.tobytes()


def question_terms(question: str) -> Sequence[int]:
    """Return the distinct hashes of a question's words, without stop words unless there is nothing else."""
    return _hash_content_words(words(question, asked=True))


def question_words(question: str) -> tuple[Sequence[int], frozenset[str]]:
    """Return hashes as `question_terms`, plus single characters and stems in its languages, and all its words."""
    every = list(words(question))
    return list(dict.fromkeys((*_hash_content_words(every), *_hash_other_stems(question, asked=True)))), frozenset(
        every
    )


def _hash_content_words(asked: Iterable[str]) -> Sequence[int]:
    asked = dict.fromkeys(asked)
    telling = [word for word in asked if word not in STOP_WORDS]
    return list(dict.fromkeys(map(_hash, telling or asked)))


def _hash_other_stems(text: str, *, asked: bool = False) -> Iterator[int]:
    """Yield the hashes of stems in a text's languages where they differ from the English ones."""
    for word, stem in stems(text, asked=asked):
        hashed = _hash_other_stem(word, stem)
        if hashed is not None:
            yield hashed


@lru_cache(maxsize=100_000)
def _hash_other_stem(word: str, stem: str) -> int | None:
    hashed = _crc(stem)
    return None if hashed == _hash(word) or word in STOP_WORDS else hashed


@lru_cache(maxsize=100_000)
def _hash(word: str) -> int:
    """Return 1 to 2**32 - 1; the chance that two stems of a bank of 50,000 collide is 0.3."""
    return _crc(_STEM(word))


def _crc(stem: str) -> int:
    return zlib.crc32(stem.encode()) or 1


def _pairs(run: str, *, singles: bool) -> Iterator[str]:
    if singles or len(run) == 1:
        yield from run
    for first, second in pairwise(run):
        yield first + second
