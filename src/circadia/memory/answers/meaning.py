"""A question, taken apart, with the vectors of its words: all that comparing it with another needs, made once."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from circadia.memory.answers.normal import Token
from circadia.memory.answers.reading import Reading, read
from circadia.memory.answers.word_classes import ARTICLES
from circadia.memory.columns import Array

WordVectors = Callable[[str], tuple[Array, float]]
"""Returns the unit vector of a word and its length, which is the larger the rarer the word is."""
LEAST: Final = 1e-9
"""Divides what may be zero."""
KEPT_BYTES: Final = 32 * 2**20
"""What questions that stay taken apart may take."""
WORDS: Final = 120
"""Most words of a question that is compared by meaning: of a longer one, only the very same is looked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Meaning:
    """What a question says, and where that lies."""

    reading: Reading
    """What it says."""
    vector: Array
    """Unit vector of all of its words."""
    each: Array
    """Unit vectors of its words, a row each."""
    weights: Array
    """How much each word weighs: more if it is rare."""
    lengths: Sequence[float]
    """The same, as plain numbers."""
    weight: float
    """The sum of them."""
    even: Array
    """Unit vector of all words, each as heavy as the other."""
    core: Array
    """Unit vector of the telling words."""
    core_even: Array
    """The same, each as heavy as the other."""
    known: frozenset[str]
    """Its words, each once."""
    bag: Counter[str]
    """How often it has each word, articles aside."""
    pairs: frozenset[tuple[str, str]]
    """Words that follow each other."""
    letters: frozenset[str]
    """Letters that follow each other, three at a time."""
    stems: Sequence[str]
    """Of its telling words, in order."""


def question_vector(found: Sequence[Token], vectors: WordVectors) -> Array:
    """Return the unit vector of a question of these words."""
    made = [vectors(token.word) for token in found[: WORDS + 1]] or [vectors("")]
    whole = np.array([length for _, length in made], np.float32) @ np.array([vector for vector, _ in made])
    return whole / max(float(np.sqrt(whole @ whole)), LEAST)


def meaning(found: Sequence[Token], vectors: WordVectors) -> Meaning:
    """Return what a question of these words means."""
    return meant(read(found), vectors)


def meant(reading: Reading, vectors: WordVectors) -> Meaning:
    """Return what a question means that says this."""
    words = reading.words
    made = [vectors(word) for word in words] or [vectors("")]
    each = np.concatenate([vector for vector, _ in made]).reshape(len(made), -1)
    lengths = [length for _, length in made]
    telling = [word.at for word in reading.telling]
    shares = np.zeros((4, len(made)), np.float32)
    shares[0], shares[1] = lengths, 1
    shares[2:, telling] = shares[:2, telling]
    sums = shares @ each
    sums /= np.maximum(np.sqrt(np.vecdot(sums, sums)), LEAST)[:, None]
    text = f" {' '.join(words)} "
    return Meaning(
        reading=reading, vector=sums[0], each=each, weights=shares[0], lengths=lengths, weight=max(sum(lengths), LEAST),
        even=sums[1], core=sums[2], core_even=sums[3], known=frozenset(words),
        bag=Counter([word for word in words if word not in ARTICLES]), pairs=frozenset(pairwise(words)),
        letters=frozenset([text[at : at + 3] for at in range(len(text) - 2)]),
        stems=tuple([word.stem for word in reading.telling]),
    )  # fmt: skip


class Meanings:
    """Questions that stay taken apart, those used last, within so many bytes; all scopes may share one.

    What a question means depends on its words alone, so that nothing of one scope shows in another.
    """

    def __init__(self, vectors: WordVectors, most: int = KEPT_BYTES) -> None:
        self._vectors = vectors
        self._most = most
        self._kept: OrderedDict[str, Meaning] = OrderedDict()
        self._bytes = 0

    @property
    def held(self) -> int:
        """Return about how many bytes those that are kept take."""
        return self._bytes

    def __call__(self, text: str, reading: Reading) -> Meaning:
        """Return what a question means that says this."""
        known = self._kept.get(text)
        if known is not None:
            self._kept.move_to_end(text)
            return known
        made = self._kept[text] = meant(reading, self._vectors)
        self._bytes += _size(made)
        while self._bytes > self._most and len(self._kept) > 1:
            self._bytes -= _size(self._kept.popitem(last=False)[1])
        return made


def _size(made: Meaning) -> int:
    """Return about how many bytes it takes: its vectors, and some hundreds for each word and each three letters."""
    return made.each.nbytes + 4 * made.vector.nbytes + 400 * len(made.reading.words) + 90 * len(made.letters)
