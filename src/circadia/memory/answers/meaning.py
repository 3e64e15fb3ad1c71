"""A question, taken apart, with the vectors of its words: all that comparing it with another needs, made once."""

from collections import Counter
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
    weight: float
    """The sum of them."""
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


def meaning(found: Sequence[Token], vectors: WordVectors) -> Meaning:
    """Return what a question of these words means."""
    reading = read(found)
    words = reading.words
    made = [vectors(word) for word in words] or [vectors("")]
    each = np.array([vector for vector, _ in made])
    weights = np.array([length for _, length in made], np.float32)
    whole = weights @ each
    text = f" {' '.join(words)} "
    return Meaning(
        reading=reading, vector=whole / max(float(np.sqrt(whole @ whole)), LEAST), each=each, weights=weights,
        weight=max(float(weights.sum()), LEAST), known=frozenset(words),
        bag=Counter(word for word in words if word not in ARTICLES), pairs=frozenset(pairwise(words)),
        letters=frozenset([text[at : at + 3] for at in range(len(text) - 2)]),
        stems=tuple(word.stem for word in reading.telling),
    )  # fmt: skip
