"""The numbers of a question with their units, in any spelling: `5k`, `5,000`, `five thousand`, `$5` and `5 dollars`."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

from circadia.memory.answers.normal import Token
from circadia.memory.answers.word_classes import MULTIPLES, NUMBER_WORDS, UNITS

_ENDINGS: Final = frozenset(("st", "nd", "rd", "th", "s"))
_COUNTING: Final = NUMBER_WORDS.keys() | MULTIPLES.keys()
_CURRENCIES: Final = frozenset(each for each in UNITS if not each.isalnum() and each != "%")


def quantities(tokens: Sequence[Token]) -> tuple[Sequence[str], frozenset[tuple[str, str]], frozenset[int]]:
    """Return the numbers in order, numbers with their units, and the places of all words of numbers."""
    values: list[str] = []
    paired: set[tuple[str, str]] = set()
    places: set[int] = set()
    at = 0
    while at < len(tokens):
        if not tokens[at].number and tokens[at].word not in _COUNTING:
            at += 1
            continue
        end, value = _number(tokens, at)
        if value is None:
            at += 1
            continue
        places.update(range(at, end))
        values.append(value)
        unit = ""
        if end < len(tokens) and tokens[end].word in UNITS:
            unit = UNITS[tokens[end].word]
        elif at and tokens[at - 1].word in _CURRENCIES:
            unit = UNITS[tokens[at - 1].word]
        if unit:
            paired.add((value, unit))
        at = end
    return values, frozenset(paired), frozenset(places)


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
    elif first.word in MULTIPLES and first.word not in ("k", "bn", "lac"):
        value = Decimal(1)
    else:
        return at, None
    if isinstance(value, Decimal):
        while at < len(tokens) and tokens[at].word in MULTIPLES:
            value *= MULTIPLES[tokens[at].word]
            at += 1
        value = f"{value.normalize():f}" if value else "0"
    return at, value


def _value(written: str) -> Decimal | str:
    """Return what digits stand for; what is more than a number, such as `10:30`, stands for itself."""
    groups = written.lstrip("-").split(",")
    if len(groups) > 1 and len(groups[0]) <= 3 and all(len(each) >= 2 for each in groups[1:]) and len(groups[-1]) == 3:
        written = written.replace(",", "")
    try:
        return Decimal(written.replace(",", ".") if written.count(",") == 1 else written)
    except InvalidOperation:
        return written
