"""What a question says, taken apart once: the words that tell, and what the guards compare."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, cast

import Stemmer

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.deixis import stands_alone
from circadia.memory.answers.measures import UNITS
from circadia.memory.answers.normal import LONGEST, Token, tokens
from circadia.memory.answers.quantities import Quantity, bound_before, quantities
from circadia.memory.answers.verbs import participle, tenses
from circadia.memory.terms import asked_terms

stem_of: Final = lru_cache(maxsize=20_000)(cast("Callable[[str], str]", Stemmer.Stemmer("english").stemWord))  # pyright: ignore[reportUnknownMemberType]


class Word(NamedTuple):
    """A word that tells something of what is asked for; each question has a dozen, so they are quick to make."""

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
    quantities: Sequence[Quantity]
    """All numbers, in order, with their units and bounds."""
    units: frozenset[str]
    """All units."""
    times: frozenset[tuple[str, str]]
    """Days, months, times of day and relative times, each with its bound: before, after, by, … or none."""
    negations: Sequence[tuple[str, str]]
    """What says no, or not quite, in order, each with the stem of the word that it says it of."""
    quantifiers: Sequence[str]
    """How much of what is meant, by class."""
    modals: Sequence[str]
    """What has to be, ought to be, may be, would be."""
    asks: str
    """What kind of answer it wants: what, who, when, where, why, how, how many, …, whether; empty if not said."""
    past: bool
    """Whether it asks for what was."""
    future: bool
    """Whether it asks for what will be."""
    tenses: Sequence[frozenset[str]]
    """The times that each of its clauses speaks of, in order."""
    persons: Sequence[tuple[str, bool]]
    """Who is spoken of by pronoun, in order: i, you, he, she, they; and whether by a possessive."""
    codes: frozenset[str]
    """Words that stand for themselves, letter by letter: names in programs, files, options."""
    signs: Sequence[str]
    """Signs and emoji, in order, but those of units."""
    passive: bool
    """Whether a form of `be` stands before a `by`."""
    english: bool
    """Whether its small words are English, so that what is known of them holds."""
    alone: bool
    """Whether it can be understood without what was said before."""


def read(found: Sequence[Token]) -> Reading:
    """Take a question apart."""
    words = [token.word for token in found]
    values, places = quantities(found)
    known = set(words)
    telling = _telling(found, places)
    return Reading(
        words=words,
        telling=telling,
        quantities=values,
        units=frozenset(UNITS[each] for each in known & UNITS.keys()),
        times=_times(found, words),
        negations=_negations(words),
        quantifiers=[classes.QUANTIFIERS[each] for each in words if each in classes.QUANTIFIERS],
        modals=_modals(found, words),
        asks=_asks(words),
        past=not known.isdisjoint(classes.PAST),
        future=not known.isdisjoint(classes.FUTURE) or ("going", "to") in itertools.pairwise(words),
        tenses=tenses(found),
        persons=[
            (_PERSONS[each], each in classes.POSSESSIVES) for each in words if each in _PERSONS
        ],
        codes=frozenset(token.word for token in found if token.code and token.word not in classes.ENGLISH),
        signs=[token.word for token in found if token.sign and token.word not in UNITS and token.word != "/"],
        passive="by" in known and not known.isdisjoint(_BE),
        english=_english(found),
        alone=stands_alone(found),
    )  # fmt: skip


def subjects(text: str) -> Sequence[int]:
    """Return hashes of the names and numbers in a question, as memory keeps them."""
    found = tokens(text)
    return asked_terms(" ".join(word.word for at, word in enumerate(found) if word.number or (word.capital and at)))


@lru_cache(maxsize=2_000)
def named_besides(answer: str, question: str) -> Sequence[int]:
    """Return hashes of the names and numbers in an answer that its question lacks; of a short one, of all words."""
    found, asked = tokens(answer[:LONGEST]), set(asked_terms(question))
    telling = [word.word for word in read(found).telling]
    names = [
        token.word for at, token in enumerate(found)
        if token.number or (token.capital and (at or token.word not in classes.ENGLISH | _SAYING_SO))
    ]  # fmt: skip
    told = {*names, *(telling if len(telling) <= SHORT else ())}
    return [term for word in sorted(told) for term in asked_terms(word) if term not in asked]


SHORT: Final = 8
"""Telling words of an answer each of which is what was asked for."""
_SAYING_SO: Final = classes.word_set("yes no sorry sure there here according currently")


_BE: Final = frozenset(("am", "is", "are", "was", "were", "be", "been", "being"))
_PERSONS: Final = {
    word: name
    for name, group in (
        ("i", classes.FIRST), ("you", classes.SECOND), ("he", classes.MALE), ("she", classes.FEMALE),
        ("they", classes.PLURAL),
    )
    for word in group
}  # fmt: skip
ENGLISH: Final = 0.2
"""Share of the words, numbers aside, that hold an English question together at least."""


def _telling(found: Sequence[Token], numbers: frozenset[int]) -> Sequence[Word]:
    telling: list[Word] = []
    role = ""
    for at, token in enumerate(found):
        word = token.word
        lettered = len(word) == 1 and _lettered(found, at)
        if word in classes.PLACED and not lettered:
            role = classes.PLACED[word]
        elif at not in numbers and not token.sign and (lettered or word not in classes.EMPTY):
            name = (token.capital and at > 0) or lettered
            telling.append(Word(word=word, stem=UNITS.get(word) or stem_of(word), at=at, role=role, name=name))
            role = ""
        elif word in classes.AUXILIARIES or word in classes.COORDINATING:
            role = ""
    return telling


def _lettered(found: Sequence[Token], at: int) -> bool:
    """Return whether a letter is a name, as in `plan a`."""
    before = found[at - 1].word if at else ""
    if before in classes.LETTERED:
        return True
    token = found[at]
    if token.word != "a" or not at:
        return False
    if before in classes.EMPTY:  # `is A part of B`
        return token.capital and any(each.capital and len(each.word) == 1 and each.word not in "ai" for each in found)
    after = found[at + 1].word if at + 1 < len(found) else ""
    return (token.capital and not found[at - 1].capital) or not after or after in classes.AUXILIARIES


def _times(read: Sequence[Token], words: Sequence[str]) -> frozenset[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for at, word in enumerate(words):
        time = word if word == "may" and _month(read, words, at) else classes.DAYS_AND_TIMES.get(word)
        before = words[at - 1] if at else ""
        if time is None or (word == "am" and not before[:1].isdigit()):
            continue
        if before in _RELATIVE:
            found.add((before, ""))
            at -= 1
        bound = bound_before(words, at)
        found.add((time, _TIME_BOUNDS.get(bound, "")))
    for at, (before, after) in enumerate(itertools.pairwise(words)):
        if before in _RELATIVE and after in UNITS:
            bound = bound_before(words, at)
            found.add((f"{before} {UNITS[after]}", _TIME_BOUNDS.get(bound, "")))
    return frozenset(found)


def _month(read: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """Return whether `may` is the month, and nothing that may be."""
    before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
    numbered = any(each[:1].isdigit() for each in (before, after))
    if before == "in" or numbered:
        return True
    if after in _PERSONS or after == "be":
        return False
    return before in _OF_DAYS or (before == "this" and not after) or bool(at and read[at].capital)


_OF_DAYS: Final = classes.word_set(
    "by until till since before after of last next for from early late mid st nd rd th between during"
)
"""Before `may` these make it a month."""
_RELATIVE: Final = frozenset(("this", "last", "next", "past", "previous", "coming"))
_TIME_BOUNDS: Final = {
    **{each: each for each in ("before", "after", "since", "until", "by", "except", "every")}, "at most": "until",
}  # fmt: skip
"""What bounds a time: `up to May` is `until May`."""


def _negations(words: Sequence[str]) -> Sequence[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for at, word in enumerate(words):
        after = words[at + 1] if at + 1 < len(words) else ""
        if word in classes.NEARLY and not after[:1].isdigit():
            found.append((classes.NEARLY[word], _following(words, at)))
        elif (
            (word in classes.NEGATIONS and (word != "nor" or "neither" not in words))
            or (word in classes.FAILING and after == "to")
            or (word, after) in _EXCEPT
        ):
            found.append(("no", _following(words, at)))
    return found


_EXCEPT: Final = frozenset((("apart", "from"), ("aside", "from")))
"""Two words that say `except`."""


def _following(words: Sequence[str], at: int) -> str:
    """Return the stem of the next word that says something, if only `need`."""
    for word in words[at + 1 :]:
        if word in classes.LIGHT or (word not in classes.EMPTY and word not in classes.PLACED):
            return stem_of(word)
    return ""


def _modals(read: Sequence[Token], words: Sequence[str]) -> Sequence[str]:
    found: list[str] = []
    for at, word in enumerate(words):
        after = words[at + 1] if at + 1 < len(words) else ""
        if word in classes.MODALS:
            if not (word == "may" and _month(read, words, at)) and (word != "would" or "be" not in words):
                found.append(classes.MODALS[word])
        elif word == "possible" and after in ("to", "for", "that"):
            found.append("can")
        elif (after == "to" and (word in _HAVING_TO or (word in _BE and at + 2 < len(words)))) or (
            word in _BE and after in _PERSONS and words[at + 2 : at + 3] == ["to"]  # `am I to pay`
        ):
            found.append("must")
    return found


_HAVING_TO: Final = frozenset(("have", "has", "had", "need", "needs", "got", "required", "obliged"))
"""With `to` these say what must be."""


def _english(found: Sequence[Token]) -> bool:
    """Return whether enough of the words, names and numbers aside, are small English ones, and all letters Latin."""
    words = [
        token.word for at, token in enumerate(found)
        if not (token.number or token.sign or (token.capital and at and token.word not in classes.ENGLISH))
    ]  # fmt: skip
    if any(not token.word.isascii() and any(map(strange_letter, token.word)) for token in found):
        return False
    known = [word for word in words if word in classes.ENGLISH]
    ambiguous = sum([word in classes.ABROAD for word in known])
    if words[:1] and words[0] in _LEADING and len(found) > 1 and found[1].capital and any(map(participle, words)):
        return True  # `Has Ann signed`
    pairs = itertools.pairwise(found) if "i" in known else ()
    if any(one.word in classes.AUXILIARIES and two.word == "i" and two.capital for one, two in pairs):
        return True  # `Am I a member`
    if ambiguous == len(known) < _SURELY and "is" not in known:
        return False
    return len(known) - ambiguous / 2 >= ENGLISH * len(words)


_SURELY: Final = 4
"""Words that are English and of other languages too, which together are enough."""


_LEADING: Final = frozenset(("has", "had", "was"))


def strange_letter(letter: str) -> bool:
    """Return whether it is a letter that no English word is written with."""
    return letter.isalpha() and letter > "\u024f"


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
            if not classes.PRICED.isdisjoint(words):
                return "how many"
            for noun in words[at + 1 : at + 7]:
                if noun in classes.REALLY:
                    return classes.REALLY[noun]
                if noun not in classes.PREPARING:
                    break
        return kind
    return ""
