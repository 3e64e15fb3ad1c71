"""What tells of somebody, or of something, else than a question names: banks are full of the same told of others.

Only what stands in the place of what is named tells that: who does something, or whose it is, for a name; what stands
under the same preposition, as `Paris` for `in Rome`; another number after the same word, as `order 8` for `order 7`.
What names nobody may be about whom the question names.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.meaning import WordVectors
from circadia.memory.answers.measures import NUMBER_WORDS
from circadia.memory.answers.normal import LONGEST, Token, tokens
from circadia.memory.answers.reading import ENGLISH, Reading, read, strange_letter
from circadia.memory.terms import asked_terms
from circadia.memory.touching import ALTERING, CHANGING

AKIN: Final = 0.25
"""Cosine of two words that are about the same: names and what people do or have are hardly ever as near."""
ALTERED: Final = 0.45
"""The same where the text names nobody else: there it is looked at more often, by words that are more common."""
NAME: Final = "name"
"""A kind of value: most texts tell one, so that a text must say itself that something is otherwise."""
BRIEF: Final = 4
"""Telling words, names aside, of a text that says one thing: a longer one has a word about the same as any."""
SPELT: Final = 20.0
"""A word whose vector is as long is mostly one that is made of parts, as rare names are: some of them it shares with
words about something else, and so it must be twice as near."""
_BETWEEN: Final = """
and or but because that if when while so then now today yesterday tomorrow
"""
_WORDS_ABROAD: Final = """
ich wir nicht kein keine das dem ein eine einen ist sind jetzt und oder aber mit für zum zur auf bei nach wird wurde
mehr mein meine unser sich auch schon wieder erst
je nous vous ils est sont les des une aux pas maintenant mais avec dans mes ses notre qui
el los las una está están ahora ya pero con para mis nuestro vivo más yo ella
gli è sono adesso che mio mia nostro del della nel nella
não são agora mas meu minha seu nosso uma ele ela eu
ik jij hij zij wij het een niet geen nu maar voor mijn zijn
jag jeg hun hon vi det er är ikke inte och nå nå min mitt
nie jest są teraz mój moja już ben biz şimdi değil artık minä hän nyt
"""
_ABROAD: Final = classes.word_set(_WORDS_ABROAD)
"""Small words of other languages that are none of English."""
_JOINING: Final = frozenset(_BETWEEN.split())
"""After these somebody may be named who does something."""
_PARTICLES: Final = frozenset(("off", "out", "over", "through", "apart"))
"""After a verb, and with nothing behind them, they say that something ends or passes on: `they called it off`."""
_IT: Final = frozenset(("it", "that", "this"))
_ONE: Final = frozenset(("he", "she"))
"""Who may be whom the answer names."""
_SAID_BESIDES: Final = classes.NEGATIONS | classes.DAYS_AND_TIMES.keys()
"""What may stand beside a number, and names nothing that it is of."""
_WHOSE: Final = frozenset(("", "of", "by", "for", "with"))
"""Prepositions, or none, under which somebody is named whose it is, or who does it."""


class _Text(NamedTuple):
    words: Sequence[Token]
    reading: Reading
    doers: Sequence[str]
    """Who does something in it, or whose something is."""


class Others:
    """Tells it, by the words of both."""

    def __init__(self, vectors: WordVectors) -> None:
        self._vectors = vectors

    def tells(self, text: str, question: str) -> bool:
        """Return whether a text, which has no name and no number of the question, has others in their place.

        It has no other names where either is not English: of other languages nobody knows here what a capital says.
        """
        asked, said = _read(question), _read(text)
        if _joined(said.words) & _joined(asked.words):
            return False
        if _numbered(said.words, asked.words):
            return True
        words = [token.word for token in said.words if not (token.capital or token.number or token.sign)]
        known = sum(word in classes.ENGLISH for word in words)
        if not asked.reading.english or known < ENGLISH * len(words):
            return False
        return self._named(said, asked)

    def akin(self, text: str, question: str) -> bool:
        """Return whether a text that says that something is otherwise has a word about the same, names aside."""
        return self.changes(text) and self._akin(_read(text).reading, _read(question).reading, AKIN)

    def changes(self, text: str) -> bool:
        """Return whether a text says that something is otherwise now."""
        return not CHANGING.isdisjoint(asked_terms(text))

    def corrects(self, text: str, question: str, answer: str) -> bool:
        """Return whether a text says that a value is otherwise, and nothing else: `actually, 500`."""
        said, asked, told = _read(text), _read(question), _read(answer)
        kinds = _values(said) & _values(told, frozenset(token.word for token in asked.words))
        altering = [not ALTERING.isdisjoint(asked_terms(token.word)) for token in said.words]
        left = [
            word for word in said.reading.telling
            if not (altering[word.at] or word.word in _SAID_BESIDES or any(map(str.isdigit, word.word)))
        ]  # fmt: skip
        return bool(kinds - {NAME}) and any(altering) and not left

    def alters(self, text: str, question: str, answer: str) -> bool:
        """Return whether a text that may say that something is otherwise says it of an answer.

        It is brief, and has a word about the same as one of the question or of the answer, or tells a value of the kind
        that the answer tells: `make that 500` of `300`, `it is MySQL now` of `Postgres`; or it says so of whatever, or
        whoever, was meant: `we doubled it`, `I switched to tea`, `she left the firm`.
        """
        said, asked, told = _read(text), _read(question), _read(answer)
        if not _brief(said):
            return False
        known = frozenset(token.word for token in asked.words)
        kinds = _values(said), _values(told, known)
        values, altering = kinds[0] & kinds[1], not ALTERING.isdisjoint(asked_terms(text))
        somebody = NAME in kinds[1] - kinds[0] and any(who in _ONE for who, _ in said.reading.persons)
        if values - {NAME} or (altering and (values or somebody or _of_it(said.reading))) or _ends(said):
            return True
        return any(self._akin(said.reading, each.reading, ALTERED) for each in (asked, told))

    def english(self, question: str) -> bool:
        """Return whether a question is English."""
        return _read(question).reading.english

    def foreign(self, text: str, question: str) -> bool:
        """Return whether only one of them is English: what the one says of the other nobody knows here.

        What has no small words of any language is none of either: a list, a log, a line of code.
        """
        said = _read(text)
        if said.reading.english:
            return not self.english(question)
        strange = any(map(strange_letter, text)) or any(token.word in _ABROAD for token in said.words)
        return strange and self.english(question)

    def _akin(self, said: Reading, other: Reading, least: float) -> bool:
        return any(self._about(word.word, other, least) for word in said.telling if not word.name)

    def _about(self, word: str, asked: Reading, least: float = AKIN) -> bool:
        vector, length = self._vectors(word)
        others = (self._vectors(each.word) for each in asked.telling if not each.name)
        least = least if length < SPELT else 2 * least
        return bool(length) and any(long and float(vector @ other) >= least for other, long in others)

    def _named(self, said: _Text, asked: _Text) -> bool:
        roles = {word.role for word in asked.reading.telling if word.name and not asked.words[word.at].number}
        if roles & _WHOSE:
            return any(not self._about(word, asked.reading) for word in said.doers)
        return any(word.name and word.role in roles for word in said.reading.telling)


def _read(text: str) -> _Text:
    return _taken_apart(text[:LONGEST])


@lru_cache(maxsize=1_000)
def _taken_apart(text: str) -> _Text:
    """Take a text apart; the same later rows are held against one answer after another."""
    words = tokens(text)
    return _Text(words, read(words), tuple(_doers(words)))


def _brief(said: _Text) -> bool:
    return sum(not word.name for word in said.reading.telling) <= BRIEF


def _values(said: _Text, known: Collection[str] = ()) -> frozenset[str]:
    """Return the kinds of values that a text tells, but for words that are known: names, numbers, times."""
    kinds: set[str] = set()
    for at, token in enumerate(said.words):
        if token.word in known:
            continue
        if token.word in classes.DAYS_AND_TIMES:
            kinds.add("time")
        elif token.number or token.word in NUMBER_WORDS or any(map(str.isdigit, token.word)):
            kinds.add("number")
        elif token.capital and at and token.word not in classes.ENGLISH:
            kinds.add(NAME)
    if any(word not in known for word in said.doers):
        kinds.add(NAME)
    return frozenset(kinds)


def _of_it(said: Reading) -> bool:
    """Return whether a text which says that something is otherwise names nothing, or but what it is now."""
    left = [word for word in said.telling if ALTERING.isdisjoint(asked_terms(word.word))]
    return not left or (len(left) == 1 and left[0].role == "to")


def _ends(said: _Text) -> bool:
    """Return whether a text says of `it`, by a verb and its particle, that it is over, and nothing else."""
    words = [token.word for token in said.words if not token.sign]
    verbs = [word for word in said.reading.telling if word.word not in _PARTICLES]
    return len(verbs) == 1 and not _IT.isdisjoint(words) and words[-1] in _PARTICLES


def _numbered(found: Sequence[Token], asked: Sequence[Token]) -> bool:
    """Return whether a number stands after a word that one of the question stands after."""
    places = {before.word for before, token in pairwise(asked) if token.number}
    return any(token.number and before.word in places for before, token in pairwise(found))


def _joined(found: Sequence[Token]) -> frozenset[str]:
    """Return what a word and a number make that stand beside each other, written as one or apart: `LH123`, `LH 123`."""
    apart = (one.word + two.word for one, two in pairwise(found) if one.number is not two.number)
    mixed = (
        token.word for token in found if token.word.isalnum() and not (token.word.isalpha() or token.word.isdigit())
    )
    return frozenset(mixed).union(apart)


def _doers(found: Sequence[Token]) -> Iterator[str]:
    """Return names of whoever does something, or whose something is; the first word may be none, for its capital."""
    for at, token in enumerate(found):
        begins = not at or found[at - 1].closes or found[at - 1].word in _JOINING
        owns = at + 1 < len(found) and found[at + 1].word == "'s"
        plain = token.word in classes.ENGLISH or token.word in classes.DAYS_AND_TIMES
        placed = at + 1 < len(found) and found[at + 1].word in classes.PLACED  # `Moved to Rome`
        changes = not ALTERING.isdisjoint(asked_terms(token.word))
        if token.capital and not plain and (owns or (begins and not placed and not changes)):
            yield token.word
