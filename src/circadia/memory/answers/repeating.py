"""What only repeats a ready answer: the question asked again, and the answer given again, which say nothing new.

What was asked and answered becomes memory. If that voided the answer, each use would be its last.
"""

import re
from collections.abc import Sequence
from typing import Final

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.guards import EXTRA, objections
from circadia.memory.answers.likeness import Likeness
from circadia.memory.answers.meaning import Meaning, WordVectors, meaning
from circadia.memory.answers.normal import Token, tokens
from circadia.memory.answers.wording import compared
from circadia.records.answer import Answer
from circadia.records.bank import Trust

KNOWN: Final = 2 / 3
"""Share of an agent's telling words that must stand in the answer or its question, for it to have said the same."""

ASKED: Final = 0.5
"""How sure it must be that a question is this one: it states nothing, so that less is enough than to answer it."""


class Repeating:
    """Tells what only repeats."""

    def __init__(self, vectors: WordVectors, likeness: Likeness) -> None:
        self._vectors = vectors
        self._likeness = likeness

    def repeats(self, text: str, trust: str, answer: Answer) -> bool:
        """Return whether a row of this text says nothing that the answer and its question do not say.

        An agent answers the same question in other words now and then; what it says is made of the same memory.
        """
        if text.split() == answer.text.split():
            return True
        words = tokens(text)
        if not words:
            return False
        said = meaning(words, self._vectors)
        asked = [meaning(each, self._vectors) for each in map(tokens, answer.phrasings) if each]
        if _only_asks(text, words):
            return any(self._same(said, each) for each in asked)
        return self._says(said, trust, answer, asked)

    def _same(self, said: Meaning, asked: Meaning) -> bool:
        """Return whether a question is this one again, if perhaps narrower: a question states little beside names."""
        wording = compared(said, asked)
        against = [each for each in objections(said.reading, asked.reading, wording) if each.guard != EXTRA]
        if against or any(word.name for word in wording.only_a):
            return False
        return self._likeness.confidence(said, asked, wording) >= ASKED

    def _says(self, said: Meaning, trust: str, answer: Answer, asked: Sequence[Meaning]) -> bool:
        """Return whether a statement says what the answer says."""
        words = tokens(answer.text)
        telling = said.reading.telling
        if not words or not telling:
            return not telling
        told = meaning(words, self._vectors)
        wording = compared(said, told)
        known = {stem for each in asked for stem in each.stems}
        own = sum(word.stem not in known for word in wording.only_a)
        most = (1 - KNOWN) * len(telling) if trust == Trust.AGENT else 0
        return own <= most and not objections(said.reading, told.reading, wording)


def _only_asks(text: str, words: Sequence[Token]) -> bool:
    """Return whether a text is one question, and nothing else."""
    text = text.strip()
    if _END.search(text[:-1]):
        return False
    return text.endswith(QUESTION_MARKS) or words[0].word in _BEGINNINGS


_END: Final = re.compile(r"[.!?;。！？؟]\s|\n")
_BEGINNINGS: Final = classes.ASKING.keys() | classes.AUXILIARIES
QUESTION_MARKS: Final = ("?", "？", "؟")
