"""The similarity of texts without a model: the same statement word for word, or shared words, weighted by rarity.

It uses only what is permanently stored with an episode. Embeddings may come later, and a repeated pass must group as
before.
"""

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from operator import is_
from typing import Final, Generic, TypeVar

import numpy as np

from circadia.memory.episodes import EARLIEST, searched_text
from circadia.memory.search.columns import Array
from circadia.memory.search.terms import QUESTION, STOP_WORDS, stored_terms, words
from circadia.memory.search.vectors import TextVectors
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
Row = TypeVar("Row", Episode, Note)
SPREAD: Final = 0.4
"""A word in more than this share of many rows says nothing about them."""
MANY: Final = 20
"""Rows from which on `SPREAD` applies."""
CACHED_NOTES: Final = 8_000
"""Notes whose words are cached: each step of a pass searches the same ones."""
PARTNERS: Final = 3
"""Rows nearest by meaning to each of those that are asked for."""
CELLS: Final = 500_000
"""Rows times queries that are compared at once."""
_NO_PAIRS: Final = np.zeros(0, np.uint64)
_HALF: Final = np.uint64(32)
_PLACE: Final = np.uint64(2**32 - 1)


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


def _meaning(row: Episode | Note) -> str:
    """Return the text by whose vector a row is found."""
    return f"{row.speaker}: {row.text}" if isinstance(row, Episode) else row.text


def _join(first: Sequence[Row], more: Sequence[Row]) -> Sequence[Row]:
    return list({row.id: row for row in (*first, *more)}.values())


class RelatedIndex(Generic[Row]):
    """Searchable rows. Building the index takes time in the number of their words."""

    def __init__(
        self, rows: Sequence[Row], known: "RelatedIndex[Row] | None" = None, *, vector_of: TextVectors | None = None
    ) -> None:
        """`known` saves time if its rows are the first of these; with `vector_of` rows are near by meaning, too."""
        self._rows = rows
        self._vector_of = vector_of
        same = known is not None and len(known._rows) <= len(rows) and all(map(is_, known._rows, rows))
        pairs, first = (known._pairs, len(known._rows)) if known is not None and same else (_NO_PAIRS, 0)
        of_each = [_subject_terms(row) for row in rows[first:]]
        if of_each:
            places = np.repeat(np.arange(first, len(rows), dtype=np.uint64), [len(row_terms) for row_terms in of_each])
            new = (np.concatenate(of_each).astype(np.uint64) << _HALF) | places
            pairs = np.sort(np.concatenate((pairs, new)), kind="stable")  # fast, since the first part is sorted
        self._pairs = pairs
        terms = (pairs >> _HALF).astype(np.uint32)
        self._having = (pairs & _PLACE).astype(np.intp)
        """Rows that have a term, term after term."""
        self._begin = np.flatnonzero(np.diff(terms, prepend=terms[:1] ^ 1))
        self._terms, self._count = terms[self._begin], np.diff(self._begin, append=len(terms))
        self._weight = self._squared_rarity(self._count)
        weights = np.repeat(self._weight, self._count)
        self._lengths = np.sqrt(np.bincount(self._having, weights=weights, minlength=len(rows)))

    def find_nearest(
        self, queries: Iterable[Episode | Note], limit: int, *, min_similarity: float = 0.0
    ) -> Sequence[Row]:
        """Return up to `limit` rows nearest to any query by words, then up to `limit` by meaning, without the queries.

        `min_similarity` is the minimum cosine by words.
        """
        queries = list(queries)
        best = np.zeros(len(self._rows))
        for _, scores in self._score_batches(queries):
            best = np.maximum(best, scores.max(axis=0))
        same: set[str] = {row.id for row in queries}
        found = self._select_nearest(best, same, limit, min_similarity)
        by_meaning = self._score_by_meaning(queries)
        if not len(by_meaning):
            return found
        nearest = np.zeros(len(self._rows))
        for row_scores in by_meaning:  # each query has its own nearest, however far those of others are
            best_places = np.argpartition(-row_scores, min(PARTNERS, len(row_scores)) - 1)[:PARTNERS]
            nearest[best_places] = np.maximum(nearest[best_places], row_scores[best_places])
        return _join(found, self._select_nearest(nearest, same, limit, 0.0))

    def find_nearest_each(
        self, queries: Sequence[Episode | Note], limit: int, *, min_similarity: float = 0.0
    ) -> Sequence[Sequence[Row]]:
        """Return the result of `find_nearest` for each row alone, in a fraction of the time."""
        nearest: list[Sequence[Row]] = [()] * len(queries)
        for first, scores in self._score_batches(queries):
            for at, row in enumerate(scores, first):
                nearest[at] = self._select_nearest(row, {queries[at].id}, limit, min_similarity)
        for at, row in enumerate(self._score_by_meaning(queries)):
            nearest[at] = _join(nearest[at], self._select_nearest(row, {queries[at].id}, limit, 0.0))
        return nearest

    def _score_by_meaning(self, queries: Sequence[Episode | Note]) -> Array:
        """Return the cosine of each query's vector with that of each indexed row; nothing without vectors."""
        vector_of = self._vector_of
        if vector_of is None or not queries or not self._rows:
            return np.zeros((0, 0), np.float32)
        return np.stack([vector_of(_meaning(row))[0] for row in queries]) @ self._matrix.T

    @cached_property
    def _matrix(self) -> Array:
        assert self._vector_of is not None
        return np.stack([self._vector_of(_meaning(row))[0] for row in self._rows])

    def _score_batches(self, queries: Sequence[Episode | Note]) -> Iterator[tuple[int, Array]]:
        """Yield batches: the index of the first row, and the cosines of the batch with all indexed rows."""
        at_once = max(1, CELLS // max(1, len(self._rows)))
        for at in range(0, len(queries) if self._rows else 0, at_once):
            yield at, self._scores([_subject_terms(row) for row in queries[at : at + at_once]])

    def _select_nearest(self, scores: Array, same: set[str], limit: int, min_similarity: float) -> Sequence[Row]:
        near_enough = np.flatnonzero((scores > 0) & (scores >= min_similarity))
        order: list[int] = near_enough[np.argsort(-scores[near_enough], kind="stable")].tolist()
        near = (at for at in order if self._rows[at].id not in same)
        return [self._rows[at] for at, _ in zip(near, range(limit), strict=False)]

    def _scores(self, queries: Sequence[Array]) -> Array:
        """Return the cosine of each query, given by its terms, with each row."""
        terms, rows = np.concatenate(queries), len(self._rows)
        whose = np.repeat(np.arange(len(queries)), [len(row_terms) for row_terms in queries])
        at = np.searchsorted(self._terms, terms)
        known = at < len(self._terms)
        known[known] = self._terms[at[known]] == terms[known]
        unknown = np.bincount(whose[~known], minlength=len(queries)) * self._squared_rarity(np.zeros(1))[0]
        at, whose = at[known], whose[known]
        weights, bounds = self._weight[at], np.searchsorted(whose, np.arange(len(queries) + 1)).tolist()
        squares = [weights[begin:end].sum() for begin, end in pairwise(bounds)]
        lengths = np.sqrt(squares + unknown)
        telling = self._weight[at] > 0
        at, whose = at[telling], whose[telling]
        count = self._count[at]
        ends = np.cumsum(count)
        having = self._having[np.arange(count.sum()) + np.repeat(self._begin[at] - (ends - count), count)]
        cells = having + np.repeat(whose * rows, count)
        shared = np.bincount(cells, weights=np.repeat(self._weight[at], count), minlength=len(queries) * rows)
        by_length = np.outer(np.where(lengths > 0, lengths, 1), np.where(self._lengths > 0, self._lengths, 1))
        return shared.reshape(len(queries), rows) / by_length

    def _squared_rarity(self, having: Array) -> Array:
        """Return the squared weight of words by the number of rows that have them."""
        rows = len(self._rows)
        rarity = np.log(1 + (rows + 1) / np.maximum(having, 0.5)) ** 2
        return np.where((rows >= MANY) & (having > SPREAD * rows), 0.0, rarity)


def _subject_terms(row: Episode | Note) -> Array:
    """Return the distinct words of a row's subject and speaker."""
    if isinstance(row, Episode):
        return np.unique(
            np.array([*content_terms(row), *np.frombuffer(stored_terms(row.speaker), np.uint32)], np.uint32)
        )
    return _note_terms(row.terms)


@lru_cache(maxsize=CACHED_NOTES)
def _note_terms(terms: bytes) -> Array:
    return np.setdiff1d(np.frombuffer(terms, np.uint32)[:MAX_TERMS], _stop_terms())


@cache
def _stop_terms() -> Array:
    return np.array(sorted(stop_terms()), np.uint32)
