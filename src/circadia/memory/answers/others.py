"""What tells of somebody, or of something, else than a question names: banks are full of the same told of others.

Only what stands in the place of what is named tells that: who does something, or whose it is, for a name; what stands
under the same preposition, as `Paris` for `in Rome`; another number after the same word, as `order 8` for `order 7`.
What names nobody may be about whom the question names.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.meaning import WordVectors
from circadia.memory.answers.normal import LONGEST, Token, tokens
from circadia.memory.answers.reading import ENGLISH, Reading, read
from circadia.memory.terms import asked_terms
from circadia.memory.touching import CHANGING

AKIN: Final = 0.25
"""Cosine of two words that are about the same: names and what people do or have are hardly ever as near."""
SPELT: Final = 20.0
"""A word whose vector is as long is mostly one that is made of parts, as rare names are: some of them it shares with
words about something else, and so it must be twice as near."""
_BETWEEN: Final = """
and or but because that if when while so then now today yesterday tomorrow
"""
_JOINING: Final = frozenset(_BETWEEN.split())
"""After these somebody may be named who does something."""
_WHOSE: Final = frozenset(("", "of", "by", "for", "with"))
"""Prepositions, or none, under which somebody is named whose it is, or who does it."""


class Others:
    """Tells it, by the words of both."""

    def __init__(self, vectors: WordVectors) -> None:
        self._vectors = vectors

    def tells(self, text: str, question: str) -> bool:
        """Return whether a text, which has no name and no number of the question, has others in their place.

        It has no other names where either is not English: of other languages nobody knows here what a capital says.
        """
        asked, found = _read(question), tokens(text[:LONGEST])
        if _numbered(found, asked[0]):
            return True
        words = [token.word for token in found if not (token.capital or token.number or token.sign)]
        known = sum(word in classes.ENGLISH for word in words)
        if not asked[1].english or known < ENGLISH * len(words):
            return False
        return self._named(found, *asked)

    def akin(self, text: str, question: str) -> bool:
        """Return whether they have words that are about the same, names aside."""
        telling = [word.word for word in read(tokens(text[:LONGEST])).telling if not word.name]
        return any(self._about(word, _read(question)[1]) for word in telling)

    def _about(self, word: str, asked: Reading) -> bool:
        vector, length = self._vectors(word)
        others = (self._vectors(each.word) for each in asked.telling if not each.name)
        least = AKIN if length < SPELT else 2 * AKIN
        return bool(length) and any(long and float(vector @ other) >= least for other, long in others)

    def _named(self, found: Sequence[Token], tokens_asked: Sequence[Token], asked: Reading) -> bool:
        roles = {word.role for word in asked.telling if word.name and not tokens_asked[word.at].number}
        if roles & _WHOSE:
            return any(not self._about(word, asked) for word in _doers(found))
        return any(word.name and word.role in roles for word in read(found).telling)


@lru_cache(maxsize=1_000)
def _read(question: str) -> tuple[Sequence[Token], Reading]:
    found = tokens(question)
    return found, read(found)


def _numbered(found: Sequence[Token], asked: Sequence[Token]) -> bool:
    """Return whether a number stands after a word that one of the question stands after."""
    places = {before.word for before, token in pairwise(asked) if token.number}
    return any(token.number and before.word in places for before, token in pairwise(found))


def _doers(found: Sequence[Token]) -> Iterator[str]:
    """Return names of whoever does something, or whose something is; the first word may be none, for its capital."""
    for at, token in enumerate(found):
        begins = not at or found[at - 1].closes or found[at - 1].word in _JOINING
        owns = at + 1 < len(found) and found[at + 1].word == "'s"
        plain = token.word in classes.ENGLISH or token.word in classes.DAYS_AND_TIMES
        placed = at + 1 < len(found) and found[at + 1].word in classes.PLACED  # `Moved to Rome`
        changes = not CHANGING.isdisjoint(asked_terms(token.word))
        if token.capital and not plain and (owns or (begins and not placed and not changes)):
            yield token.word
