"""What a question says, taken apart once: the words that tell, and what the guards compare."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

import Stemmer

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.normal import Token, tokens
from circadia.memory.answers.quantities import quantities
from circadia.memory.terms import asked_terms

_stem: Final = lru_cache(maxsize=20_000)(cast("Callable[[str], str]", Stemmer.Stemmer("english").stemWord))  # pyright: ignore[reportUnknownMemberType]


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """A word that tells something of what is asked for."""

    word: str
    """In its one form."""
    stem: str
    """Without its ending."""
    at: int
    """Its place among all words."""
    role: str
    """The preposition that it stands under; empty if none."""
    name: bool
    """Whether it looks like a name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One question, taken apart."""

    words: Sequence[str]
    """All words, in order."""
    telling: Sequence[Word]
    """Those that tell what is asked for, in order, without numbers."""
    numbers: Sequence[str]
    """All numbers, in order."""
    measures: frozenset[tuple[str, str]]
    """Numbers with their units."""
    units: frozenset[str]
    """All units."""
    times: frozenset[str]
    """Days, months, times of day and relative times."""
    negations: int
    """How often it says no."""
    quantifiers: Sequence[str]
    """How much of what is meant, by class."""
    asks: str
    """What kind of answer it wants: what, who, when, where, why, how, how many, …, whether; empty if not said."""
    past: bool
    """Whether it asks for what was."""
    future: bool
    """Whether it asks for what will be."""
    persons: frozenset[str]
    """Who is spoken of by pronoun: i, you, he, she, they."""
    passive: bool
    """Whether a form of `be` stands before a `by`."""
    alone: bool
    """Whether it can be understood without what was said before."""


def read(found: Sequence[Token]) -> Reading:
    """Take a question apart."""
    words = [token.word for token in found]
    values, measures, places = quantities(found)
    known = set(words)
    return Reading(
        words=words,
        telling=_telling(found, places),
        numbers=values,
        measures=measures,
        units=frozenset(classes.UNITS[each] for each in known & classes.UNITS.keys()),
        times=_times(words),
        negations=sum(each in classes.NEGATIONS for each in words),
        quantifiers=[classes.QUANTIFIERS[each] for each in words if each in classes.QUANTIFIERS],
        asks=_asks(words),
        past=not known.isdisjoint(classes.PAST),
        future=not known.isdisjoint(classes.FUTURE) or _follows(words, "going", "to"),
        persons=_persons(known),
        passive="by" in known and not known.isdisjoint(_BE),
        alone=stands_alone(words),
    )


def subjects(text: str) -> Sequence[int]:
    """Return hashes of the names and numbers in a question, as memory keeps them."""
    found = tokens(text)
    return asked_terms(" ".join(word.word for at, word in enumerate(found) if word.number or (word.capital and at)))


_BE: Final = frozenset(("is", "are", "was", "were", "be", "been", "being"))


def _telling(found: Sequence[Token], numbers: frozenset[int]) -> Sequence[Word]:
    telling: list[Word] = []
    role = ""
    for at, token in enumerate(found):
        word = token.word
        if word in classes.PLACED:
            role = classes.PLACED[word]
        elif at not in numbers and word not in classes.EMPTY:
            name = token.capital and at > 0
            telling.append(Word(word=word, stem=classes.UNITS.get(word) or _stem(word), at=at, role=role, name=name))
            role = ""
        elif word in classes.AUXILIARIES or word in classes.COORDINATING:
            role = ""
    return telling


def _times(words: Sequence[str]) -> frozenset[str]:
    found = {classes.DAYS_AND_TIMES[each] for each in words if each in classes.DAYS_AND_TIMES}
    if (
        len(words) > 1
        and "am" in found
        and not any(words[at - 1].isdigit() for at, each in enumerate(words) if each == "am")
    ):
        found.discard("am")
    found |= {
        f"{before} {classes.UNITS[after]}"
        for before, after in itertools.pairwise(words)
        if before in ("this", "last", "next", "past") and after in classes.UNITS
    }
    return frozenset(found)


def _asks(words: Sequence[str]) -> str:
    """Return what kind of answer is wanted."""
    if words and words[0] in classes.AUXILIARIES:
        return "whether"
    for at, word in enumerate(words):
        kind = classes.ASKING.get(word)
        if kind is None:
            continue
        after = words[at + 1] if at + 1 < len(words) else ""
        if kind == "how":
            if after in classes.MEASURED:
                return f"how {'many' if after == 'much' else after}"
            return "why" if after == "come" else "how"
        if kind == "what":
            for noun in words[at + 1 : at + 7]:
                if noun in classes.REALLY:
                    return classes.REALLY[noun]
                if noun not in classes.PREPARING:
                    break
        return kind
    return ""


def _persons(known: set[str]) -> frozenset[str]:
    groups = (
        ("i", classes.FIRST), ("you", classes.SECOND), ("he", classes.MALE), ("she", classes.FEMALE),
        ("they", frozenset(("they", "them", "their", "theirs"))),
    )  # fmt: skip
    return frozenset(name for name, group in groups if not known.isdisjoint(group))


def _follows(words: Sequence[str], first: str, second: str) -> bool:
    return any(pair == (first, second) for pair in itertools.pairwise(words))


def stands_alone(words: Sequence[str]) -> bool:
    """Return whether nothing points out of the question."""
    told = 0
    for at, word in enumerate(words):
        after = words[at + 1] if at + 1 < len(words) else ""
        if word in _REFERRING:
            if told < ANTECEDENT and not _expletive(words, at):
                return False
        elif word not in classes.EMPTY and word not in classes.QUANTIFIERS:
            told += 1
        if word in ("one", "ones") and at and words[at - 1] in _ONE_OF_THEM and after in ("", "is", "are"):
            return False
    if words[:2] in (["what", "about"], ["how", "about"]) or words[:1] in (["and"], ["but"], ["or"], ["then"]):
        return False
    return told > 0


ANTECEDENT: Final = 2
"""Telling words that must stand before a pronoun, so that one of them may be what it stands for."""
_REFERRING: Final = frozenset(
    ["it", "this", "that", "these", "those", "former", "latter", "he", "she", "him", "they", "them"]
)
_ONE_OF_THEM: Final = frozenset(
    ["this", "that", "first", "second", "third", "last", "next", "other", "another", "same", "which"]
)


def _expletive(words: Sequence[str], at: int) -> bool:
    """Return whether `it` or `that` stands for what follows: `is it true that`, `how long does it take to`."""
    rest = words[at + 1 :]
    if words[at] == "it":
        return any(each in ("to", "that", "if", "when", "for", "like", "take", "raining") for each in rest)
    return words[at] in ("that", "those") and at > 1 and words[at - 1] not in classes.AUXILIARIES
