"""Questions changed by rule in one small thing that changes the answer: the hardest near misses for a ready answer.

It shares no list of words with the guards that have to notice: numbers and order are changed whatever they are, names
come from outside, and the few closed words stand here for themselves.
"""

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_PLACES: Final = ("Oslo", "Nairobi", "Lima", "Hanoi", "Quito", "Tallinn", "Perth", "Kyoto", "Bogota", "Zagreb")
_PEOPLE: Final = ("Ingrid", "Tomasz", "Yusuf", "Chiara", "Dmitri", "Aiko", "Kwame", "Leila", "Rohan", "Sofia")
_MONTHS: Final = ("January", "February", "March", "April", "June", "July", "August", "September", "October", "November")
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_RELATIVE: Final = ("today", "tomorrow", "yesterday", "tonight", "next week", "last week", "next year", "last month")
_UNITS: Final = (
    ("kilometers", "miles"), ("km", "miles"), ("kg", "pounds"), ("dollars", "euros"), ("hours", "minutes"),
    ("days", "weeks"), ("months", "years"), ("GB", "MB"), ("meters", "feet"), ("celsius", "fahrenheit"),
    ("rupees", "dollars"), ("liters", "gallons"), ("year", "month"), ("week", "day"),
)  # fmt: skip
_COMPARED: Final = (
    ("best", "worst"), ("more", "less"), ("before", "after"), ("highest", "lowest"), ("cheapest", "most expensive"),
    ("biggest", "smallest"), ("maximum", "minimum"), ("fastest", "slowest"), ("better", "worse"), ("most", "least"),
    ("increase", "decrease"), ("advantages", "disadvantages"), ("above", "below"), ("first", "last"), ("buy", "sell"),
    ("good", "bad"), ("oldest", "newest"), ("largest", "smallest"), ("gain", "lose"),
)  # fmt: skip
_HELPING: Final = "is|are|was|were|do|does|did|can|could|should|would|will|has|have"
_CAPITAL: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b(?! [A-Z])")
_DIGITS: Final = re.compile(r"(?<![\w.,])\d{1,6}(?![\w.,]*\w)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """One question, changed."""

    kind: str
    """Which rule changed it."""
    before: str
    """As it was."""
    after: str
    """As it is now; it asks for something else."""


Rule = Callable[[str, random.Random], str | None]


def minimal_edits(questions: Sequence[str], seed: int, kinds: Sequence[str] = ()) -> Iterator[Edit]:
    """Return all changes of these questions, one by each rule that applies; the same for the same seed."""
    for question in questions:
        for kind, rule in RULES.items():
            if kinds and kind not in kinds:
                continue
            # Of its own for each: which rules apply before changes nothing.
            chance = random.Random(f"{seed} {kind} {question}")
            after = rule(question, chance)
            if after is not None and after != question:
                yield Edit(kind=kind, before=question, after=after)


def _number(question: str, chance: random.Random) -> str | None:
    found = list(_DIGITS.finditer(question))
    if not found:
        return None
    match = chance.choice(found)
    value = int(match[0])
    return _put(question, match, str(max(value + chance.choice((-2, -1, 1, 2, 5, 10)), 0)))


def _unit(question: str, chance: random.Random) -> str | None:
    return _either(question, _UNITS, chance)


def _date(question: str, chance: random.Random) -> str | None:
    for group in (_MONTHS, _DAYS, _RELATIVE):
        for word in group:
            match = re.search(rf"\b{word}\b", question, re.I if group is _RELATIVE else 0)
            if match:
                return _put(question, match, chance.choice([each for each in group if each != word]))
    match = re.search(r"\b(?:19|20)\d\d\b", question)
    return None if match is None else _put(question, match, str(int(match[0]) + chance.choice((-3, -1, 1, 4))))


def _relative(question: str, chance: random.Random) -> str | None:
    """Ask of another time than the present."""
    if len(question.split()) > 12 or re.search(rf"\d|\b(?:{'|'.join(_RELATIVE)})\b", question, re.I):
        return None
    return f"{question.rstrip(' ?')} {chance.choice(_RELATIVE)}?"


def _name(question: str, chance: random.Random) -> str | None:
    found = list(_CAPITAL.finditer(question))
    if not found:
        return None
    match = chance.choice(found)
    return _put(question, match, chance.choice(_PLACES + _PEOPLE))


def _negation(question: str, _: random.Random) -> str | None:
    match = re.match(rf"(?:(?:how|why|what|when|where|who)\s+)?(?:{_HELPING})\b", question, re.I)
    if match is None or re.search(r"\b(?:not|no|never|without)\b|n['’]t\b", question, re.I):
        return None
    words = question.split()
    at = len(match[0].split())
    return " ".join([*words[: at + 1], "not", *words[at + 1 :]]) if len(words) > at + 1 else None


def _comparison(question: str, chance: random.Random) -> str | None:
    return _either(question, _COMPARED, chance)


def _direction(question: str, _: random.Random) -> str | None:
    """Let what is `from` be `to`, and the other way round."""
    match = re.search(r"\bfrom (\w+) to (\w+)\b", question)
    if match is not None:
        return _put(question, match, f"from {match[2]} to {match[1]}") if match[1] != match[2] else None
    match = re.search(r"\b(from|to) (?=[A-Z])", question)
    return None if match is None else _put(question, match, "to " if match[1] == "from" else "from ")


def _quantifier(question: str, chance: random.Random) -> str | None:
    pairs = (("all", "only some"), ("any", "all"), ("every", "no"), ("some", "all"), ("only", "also"), ("each", "any"))
    return _either(question, pairs, chance, back=False)


def _swapped(question: str, _: random.Random) -> str | None:
    """Let two names, or the two sides of a verb, change places."""
    names = list(_CAPITAL.finditer(question))
    for one, two in itertools.pairwise(names):
        between = question[one.end() : two.start()]
        if one[0] != two[0] and not re.fullmatch(r"\s*(?:,|and|or|vs\.?|versus|&|/|,? ?and|,? ?or)\s*", between):
            return f"{question[: one.start()]}{two[0]}{between}{one[0]}{question[two.end() :]}"
    match = re.search(r"\b(?:do|does|did|can|should|will) (\w{3,}s) (\w+) (\w{3,}s)\b", question)
    if match is None or match[1] == match[3]:
        return None
    return f"{question[: match.start(1)]}{match[3]} {match[2]} {match[1]}{question[match.end(3) :]}"


def _either(question: str, pairs: Sequence[tuple[str, str]], chance: random.Random, back: bool = True) -> str | None:
    """Put one word of a pair in the place of the other."""
    both = [*pairs, *((two, one) for one, two in pairs)] if back else list(pairs)
    fitting = [(match, new) for old, new in both if (match := re.search(rf"\b{old}\b", question, re.I))]
    if not fitting:
        return None
    match, new = chance.choice(fitting)
    return _put(question, match, new)


def _put(question: str, match: re.Match[str], new: str) -> str:
    return f"{question[: match.start()]}{new}{question[match.end() :]}"


RULES: Final[dict[str, Rule]] = {
    "number": _number,
    "unit": _unit,
    "date": _date,
    "relative time": _relative,
    "name": _name,
    "negation": _negation,
    "comparison": _comparison,
    "direction": _direction,
    "quantifier": _quantifier,
    "swapped": _swapped,
}
"""All rules by the kind of change."""
