"""The numbers of a question with their units and bounds, in any spelling: `5k`, `five thousand`, `at least $5`."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from circadia.memory.answers.measures import BOUNDS, BOUNDS_AFTER, MULTIPLES, NUMBER_WORDS, TIME_UNITS, UNITS
from circadia.memory.answers.normal import Token
from circadia.memory.answers.word_classes import word_set

_ENDINGS: Final = frozenset(("st", "nd", "rd", "th"))
_COUNTING: Final = NUMBER_WORDS.keys() | MULTIPLES.keys()
_CURRENCIES: Final = frozenset(each for each in UNITS if not each.isalnum() and each != "%")
_PASSED: Final = frozenset(("the", "a", "an", "of", "is", "are", "just", "only", *UNITS))
"""What may stand between a bound and its number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """One number of a question."""

    value: str
    """In its one form."""
    unit: str
    """The unit after it or before it; empty if it has none that is known."""
    bound: str
    """On which side of it, by the words around it: `at least`, `before`, …; empty if it is meant itself."""
    counted: str
    """The word after it, whatever it is."""


def quantities(tokens: Sequence[Token]) -> tuple[Sequence[Quantity], frozenset[int]]:
    """Return the numbers in order, and the places of all of their words and units."""
    found: list[Quantity] = []
    places: set[int] = set()
    words = [token.word for token in tokens]
    at = 0
    while at < len(tokens):
        word = words[at]
        if not tokens[at].number and word not in _COUNTING and not (word == "one" and _clock(words, at)):
            at += 1
            continue
        end, value = _number(tokens, at)
        if value is None:
            at += 1
            continue
        places.update(range(at, end))
        unit, after = "", words[end] if end < len(words) else ""
        if after in UNITS:
            unit = UNITS[after]
            places.add(end)
        elif at and words[at - 1] in _CURRENCIES:
            unit = UNITS[words[at - 1]]
        if unit and len(value.partition(".")[2]) not in (0, _GROUP):
            value = value.rstrip("0").rstrip(".")  # of an amount; 1.10 is a version
        found.append(Quantity(value=value, unit=unit, bound=_bound(words, at, end, unit), counted=after))
        at = end
    return found, frozenset(places)


_GROUP: Final = 3
"""Digits after a point that may be thousands: `$1.000` is a dollar, or a thousand."""


def _clock(words: Sequence[str], at: int) -> bool:
    """Return whether `one` is a time or an amount of its own: `at one`, `from one to five`, `one o'clock`."""
    after = words[at + 1] if at + 1 < len(words) else ""
    if after in _OF_CLOCK:
        return True
    return at > 0 and words[at - 1] in _BEFORE_CLOCK and (not after or after in _AFTER_CLOCK)


_OF_CLOCK: Final = frozenset(("o'clock", "am", "pm", "thirty", "fifteen"))
_BEFORE_CLOCK: Final = word_set("at until till since by before after from to past around about between")
_AFTER_CLOCK: Final = word_set(
    "to and or until till on in for with today tomorrow yesterday tonight sharp every instead"
)


def bound_before(words: Sequence[str], at: int) -> str:
    """Return the bound that the words before a place set; empty if none."""
    before = at
    while before and words[before - 1] in _PASSED:
        before -= 1
    for length in (3, 2, 1):
        bound = BOUNDS.get(" ".join(words[max(before - length, 0) : before]))
        if bound is not None:
            return bound
    return ""


def _bound(words: Sequence[str], at: int, end: int, unit: str) -> str:
    bound = bound_before(words, at)
    if bound == "for" and (unit not in TIME_UNITS or "old" in words[end : end + 2]):
        return ""
    if bound:
        return bound
    for start in range(end, min(end + 3, len(words))):  # `5 or more`, `5 kg at most`
        for length in (2, 3):
            bound = BOUNDS_AFTER.get(" ".join(words[start : start + length]))
            if bound is not None:
                return bound
    return ""


def _number(tokens: Sequence[Token], at: int) -> tuple[int, str | None]:
    """Return the place after the number that begins here, and its value; none if none begins here."""
    first = tokens[at]
    if first.number:
        value = _value(first.word)
        at += 1
        if at < len(tokens) and tokens[at].word in _ENDINGS:
            return at + 1, str(value)
    elif first.word in NUMBER_WORDS:
        value = Decimal(NUMBER_WORDS[first.word])
        at += 1
        if 20 <= value < 100 and at < len(tokens) and 0 < NUMBER_WORDS.get(tokens[at].word, 0) < 10:
            value += NUMBER_WORDS[tokens[at].word]
            at += 1
    elif first.word == "one":
        return at + 1, "1"
    elif first.word in MULTIPLES and first.word not in ("k", "bn", "lac", "M"):
        value = Decimal(1)
    else:
        return at, None
    if not isinstance(value, Decimal):
        return at, value
    multiplied = at
    while at < len(tokens) and tokens[at].word in MULTIPLES:
        value *= MULTIPLES[tokens[at].word]
        at += 1
    if at > multiplied:
        value = value.normalize()
    return at, f"{value:f}" if value else "0"


def _value(written: str) -> Decimal | str:
    """Return what digits stand for; what is more than a number, such as `10:30`, stands for itself."""
    groups = written.lstrip("-").split(",")
    if len(groups) > 1 and len(groups[0]) <= 3 and all(len(each) >= 2 for each in groups[1:]) and len(groups[-1]) == 3:
        written = written.replace(",", "")
    try:
        return Decimal(written.replace(",", ".") if written.count(",") == 1 else written)
    except InvalidOperation:
        return written
