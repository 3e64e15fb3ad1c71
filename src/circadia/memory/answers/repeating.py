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
from circadia.memory.answers.normal import normal, tokens
from circadia.memory.answers.reading import Reading, Word, stem_of
from circadia.memory.answers.verbs import PRESENT, base_form, participle, past_form
from circadia.memory.answers.wording import compared
from circadia.memory.terms import asked_terms
from circadia.memory.touching import CHANGING
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
        if only_asks(text):
            return any(self._same(said, each) for each in asked)
        # Without a mark, what begins as a question does may say it is so: `Is closed on Mondays.`
        if normal(words) in {normal(tokens(each)) for each in answer.phrasings}:
            return True
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
            return not telling and not _tells_value(said.reading)
        told = meaning(words, self._vectors)
        wording = compared(said, told)
        known = {_verb(word) for each in (told, *asked) for word in each.reading.telling}
        known |= {stem for each in asked for stem in each.stems}
        own = [word for word in wording.only_a if word.stem not in known and _verb(word) not in known]
        most = (1 - KNOWN) * len(telling) if trust == Trust.AGENT else 0
        if len(own) > most or any(_is_new(said.reading, word) for word in own):
            return False
        if any(not CHANGING.isdisjoint(asked_terms(word.word)) for word in wording.only_a):
            return False
        before = [told.reading, *(each.reading for each in asked)]
        times = {PRESENT}.union(*(clause for each in before for clause in each.tenses))
        duties = {duty for each in before for duty in each.modals}
        if not all(map(times.issuperset, said.reading.tenses)) or not duties.issuperset(said.reading.modals):
            return False
        return not objections(said.reading, told.reading, wording)


def _tells_value(said: Reading) -> bool:
    """Return whether what has no telling word says something all the same: `it is 9090`, `not any more`."""
    return bool(said.quantities or said.times or said.negations or said.signs)


def _verb(word: Word) -> str:
    return stem_of(base_form(word.word))


def _is_new(said: Reading, word: Word) -> bool:
    """Return whether a word that was not said before is a name, or a verb, or says that something ends."""
    written, at = word.word, word.at
    before, after = (said.words[place] if 0 <= place < len(said.words) else "" for place in (at - 1, at + 1))
    if word.name or written in _ENDING or past_form(written) or participle(written) or written.endswith("ing"):
        return True
    if not at:  # `Carla leads it`, `Carla and Bob`: what begins a sentence has a capital anyway
        return after in classes.COORDINATING or after in classes.AUXILIARIES or _third(after) or after == "'s"
    subject = at == 1 or before in classes.THIRD or any(each.name and each.at == at - 1 for each in said.telling)
    return subject and _third(written)


def _third(word: str) -> bool:
    """Return whether a word may be a verb of `he` or `she`."""
    return word.endswith("s") and not word.endswith("ss") and word not in classes.EMPTY


_ENDING: Final = classes.word_set(
    "former formerly ex previous previously once soon temporarily temporary acting interim deputy"
)
"""What was, or will not be for long, or is not quite."""


def only_asks(text: str) -> bool:
    """Return whether a text is one question, and nothing else."""
    return one_sentence(text) and text.rstrip().endswith(QUESTION_MARKS)


def one_sentence(text: str) -> bool:
    """Return whether a text is one sentence, with a mark at its end or without."""
    return not _END.search(text.strip()[:-1])


_END: Final = re.compile(r"[.!?;。！？؟]\s|\n")
QUESTION_MARKS: Final = ("?", "？", "؟")
