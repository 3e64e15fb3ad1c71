"""The similarity of texts without a model: the same statement word for word, or the same distinctive words.

It uses only what is permanently stored with an episode. Embeddings may come later, and a repeated pass must group as
before.
"""

import re
import unicodedata
from array import array
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final

import numpy as np

from circadia.memory.episodes import EARLIEST, searched_text
from circadia.memory.search.columns import Array
from circadia.memory.search.terms import QUESTION, STOP_WORDS, stored_terms, words
from circadia.records.episode import Episode
from circadia.records.note import Note

COLUMNS: Final = 4_096
"""Maximum columns of a weighted row: above it words share columns, so that a page of any texts stays small."""
MAX_TERMS: Final = 400

_TALK: Final = """
able actually agree already also always amaze amazing anything awesome back bet cool day definitely easy enjoy even ever
everything excite excited exciting feel feeling fine fun get give glad go going gonna good got great guess guy guys
happen happy hard haha hear hello help hey hi hope important incredible inspire inspiring just keep kind know let lot
lots love luck make maybe mean might much nice oh ok okay people perfect place please pretty really right say see
seem share someone something sorry sound sounds start still stuff super support sure take talk tell thank thanks thing
things think time today tomorrow totally try want way well wish wonderful work wow yeah yep yes yesterday yet
"""
SMALL_TALK: Final = frozenset(_TALK.split())
"""Words that conversations about anything have in common."""
_QUOTES: Final = str.maketrans("’‘", "''")
_INTERJECTIONS: Final = frozenset(("ah", "ahh", "hey", "hm", "hmm", "oh", "ohh", "please", "uh", "um"))
"""Words that change nothing at the beginning or end of a text."""
_SILENT: Final = re.compile(r"(?<![.,:;!…])[.,:;!…]+(?=[\s\"')\]”]|$)|[()\[\]\"“”„]|(?<!\w)['*_`]+|['*_`]+(?!\w)")
"""Marks that change nothing; those in a number do, and so do `?`, `-`, `+`, `%`, `$`, `#`, `/`, `@`."""


def normalize_statement(text: str) -> str:
    """Return a statement word for word: without case, width, spacing, emphasis, and `oh` at its ends.

    Numbers, order, negations, tenses, signs and question marks stay: texts that differ there differ.
    """
    plain = text.casefold()
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text).casefold().translate(_QUOTES)
    kept_words: list[str] = []
    for word in plain.split():  # most words have no marks, and skipping those takes a third of the time
        kept_words += (word,) if word.isalnum() else _SILENT.sub(" ", word).split()
    while kept_words and kept_words[0] in _INTERJECTIONS:
        del kept_words[0]
    while kept_words and kept_words[-1] in _INTERJECTIONS:
        del kept_words[-1]
    return " ".join(kept_words)


def content_terms(row: Episode | Note) -> Sequence[int]:
    """Return a row's terms without stop words, day and speaker, as often as they occur."""
    terms = array("I", row.terms)
    if isinstance(row, Episode):
        terms = terms[_header_length(row.speaker) :]
    left_out = stop_terms()
    return [term for term in terms[:MAX_TERMS] if term not in left_out]


def weigh_terms(rows: Sequence[Sequence[int]]) -> Array:
    """Return a TF-IDF row for each list of terms, with logarithmic counts."""
    if not rows:
        return np.zeros((0, 1), np.float32)
    lengths = [len(row) for row in rows]
    terms = np.fromiter((term for row in rows for term in row), np.int64, sum(lengths))
    different, places = np.unique(terms, return_inverse=True)
    width = min(max(len(different), 1), COLUMNS)
    cells = np.repeat(np.arange(len(rows)), lengths) * width + places % width
    counts = np.bincount(cells, minlength=len(rows) * width).reshape(len(rows), width).astype(np.float32)
    spread = np.count_nonzero(counts, axis=0)
    rarity = np.log(1 + len(rows) / np.maximum(spread, 1)).astype(np.float32)
    return np.log1p(counts) * rarity


def cosines(left: Array, right: Array) -> Array:
    """Return the cosine of each row with the one beside it; 0 if either is empty."""
    lengths = np.linalg.norm(left, axis=-1) * np.linalg.norm(right, axis=-1)
    return np.einsum("...i,...i->...", left, right) / np.where(lengths > 0, lengths, 1)


@lru_cache(maxsize=1_000)
def _header_length(speaker: str) -> int:
    """Return the number of an episode's terms for its day and speaker."""
    return sum(1 for _ in words(searched_text(EARLIEST, speaker, "")))


@cache
def stop_terms() -> frozenset[int]:
    """Return the terms of stop words. The first call loads the model that tells languages, 9 MB."""
    return frozenset((QUESTION, *array("I", stored_terms(" ".join(sorted(STOP_WORDS))))))
