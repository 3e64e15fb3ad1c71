"""How alike texts are, without a model: by what they say word for word, and by the words that tell them apart.

Only what is stored with an episode for good goes in, and no embedding: that comes when it comes, and a pass that is run
again must group as it did before.
"""

import re
import unicodedata
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from circadia.memory.episodes import EARLIEST, searched_text
from circadia.memory.search.columns import Array
from circadia.memory.search.terms import QUESTION, STOP_WORDS, stored_terms, words
from circadia.records.episode import Episode
from circadia.records.note import Note

COLUMNS: Final = 4_096
"""Most columns of a weighted row: beyond it words share some, and a page of any texts stays small."""
MAX_TERMS: Final = 400
"""Terms of a text that are looked at."""

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
"""Words that change nothing where they begin or end a text."""
_SILENT: Final = re.compile(r"(?<![.,:;!…])[.,:;!…]+(?=[\s\"')\]”]|$)|[()\[\]\"“”„]|(?<!\w)['*_`]+|['*_`]+(?!\w)")
"""Marks that change nothing; those in a number do, and so do `?`, `-`, `+`, `%`, `$`, `#`, `/`, `@`."""


def normalize_statement(text: str) -> str:
    """Return what a text says word for word: without case, width, spacing, emphasis, and `oh` at its ends.

    Numbers, order, negations, tenses, signs and the mark of a question stay: texts that differ there differ.
    """
    plain = text.casefold()
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text).casefold().translate(_QUOTES)
    kept: list[str] = []
    for word in plain.split():  # most have no marks; one by one they take a third of the time
        kept += (word,) if word.isalnum() else _SILENT.sub(" ", word).split()
    while kept and kept[0] in _INTERJECTIONS:
        del kept[0]
    while kept and kept[-1] in _INTERJECTIONS:
        del kept[-1]
    return " ".join(kept)


def content_terms(row: Episode | Note) -> Sequence[int]:
    """Return the terms of what was said that are no stop words, as often as they occur, without day and speaker."""
    found = array("I", row.terms)
    if isinstance(row, Episode):
        found = found[_header_length(row.speaker) :]
    return [each for each in found[:MAX_TERMS] if each not in _STOPS]


def weigh_terms(rows: Sequence[Sequence[int]]) -> Array:
    """Return a row for each list of terms: how often each occurs, damped, times how rare it is among the rows."""
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
    """Return the cosine of each row with the one beside it; 0 where one says nothing."""
    lengths = np.linalg.norm(left, axis=-1) * np.linalg.norm(right, axis=-1)
    return np.einsum("...i,...i->...", left, right) / np.where(lengths > 0, lengths, 1)


@lru_cache(maxsize=1_000)
def _header_length(speaker: str) -> int:
    """Return how many terms of an episode stand for its day and speaker."""
    return sum(1 for _ in words(searched_text(EARLIEST, speaker, "")))


_STOPS: Final = frozenset((QUESTION, *array("I", stored_terms(" ".join(sorted(STOP_WORDS))))))
