"""Guards: differences between two questions that likeness of meaning does not see, each with its reason.

A guard compares the asked question with one that has an answer, in either order, and says what speaks against taking
the one for the other. It knows closed classes of words only: what it cannot name, the likeness of words has to tell.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.reading import Reading, Word
from circadia.memory.answers.wording import MINIMAL, Wording


@dataclass(frozen=True, kw_only=True, slots=True)
class Objection:
    """Why two questions are not the same."""

    guard: str
    """Which guard says so."""
    reason: str
    """What differs, in words of the questions."""


Guard = Callable[[Reading, Reading, Wording], str | None]


def objections(asked: Reading, known: Reading, wording: Wording) -> Sequence[Objection]:
    """Return what speaks against taking one question for the other; the order of the two changes no verdict."""
    found: list[Objection] = []
    for name, guard in GUARDS.items():
        reason = guard(asked, known, wording)
        if reason is not None:
            found.append(Objection(guard=name, reason=reason))
    return found


def _numbers(a: Reading, b: Reading, wording: Wording) -> str | None:
    if a.numbers == b.numbers:
        return None
    ours, theirs = Counter(a.numbers), Counter(b.numbers)
    if ours != theirs:
        return _against(sorted((ours - theirs).elements()), sorted((theirs - ours).elements()))
    return _against(a.numbers, b.numbers) if wording.minimal else None


def _units(a: Reading, b: Reading, _: Wording) -> str | None:
    if a.units and b.units and a.units != b.units:
        return _against(sorted(a.units - b.units), sorted(b.units - a.units))
    if a.measures and b.measures and a.measures != b.measures:
        return _against(
            *(sorted(" ".join(each) for each in mine) for mine in (a.measures - b.measures, b.measures - a.measures))
        )
    return None


def _times(a: Reading, b: Reading, _: Wording) -> str | None:
    return None if a.times == b.times else _against(sorted(a.times - b.times), sorted(b.times - a.times))


def _names(a: Reading, b: Reading, wording: Wording) -> str | None:
    """Names that only one has, unless the other calls the same thing by a part of its name."""
    replaced = bool(wording.more and wording.less)
    strange = [
        [word.word for word in only if word.name and (replaced or not _part_of_shared(word, own, other))]
        for only, own, other in ((wording.only_a, a, b), (wording.only_b, b, a))
    ]
    return _against(*strange) if all(strange) or (wording.minimal and any(strange)) else None


def _part_of_shared(word: Word, own: Reading, other: Reading) -> bool:
    """Return whether the word stands beside a name that both have, as a first name does."""
    shared = {each.stem for each in other.telling}
    return any(each.name and abs(each.at - word.at) == 1 and each.stem in shared for each in own.telling)


def _negation(a: Reading, b: Reading, wording: Wording) -> str | None:
    if a.negations % 2 != b.negations % 2:
        return f"{'the first' if a.negations % 2 else 'the second'} says no"
    for one in wording.only_a:
        for two in wording.only_b:
            short, long = sorted((one.word, two.word), key=len)
            if any(f"{prefix}{short}" == long for prefix in classes.OPPOSING_PREFIXES):
                return _against([one.word], [two.word])
    return None


def _opposites(_: Reading, __: Reading, wording: Wording) -> str | None:
    for one in wording.more:
        for other in classes.OPPOSED.get(one, ()):
            if other in wording.less:
                return _against([one], [other])
    return None


def _roles(reading: Reading) -> Mapping[str, frozenset[str]]:
    roles: defaultdict[str, set[str]] = defaultdict(set)
    for word in reading.telling:
        roles[word.stem].add(word.role)
    return {stem: frozenset(each & classes.TOLD_APART) for stem, each in roles.items()}


def _direction(a: Reading, b: Reading, _: Wording) -> str | None:
    """Words of both that stand under prepositions which no question can change for another."""
    ours, theirs = _roles(a), _roles(b)
    for stem in sorted(ours.keys() & theirs.keys()):
        if ours[stem] and theirs[stem] and ours[stem] != theirs[stem]:
            return _against(
                [f"{each} {stem}" for each in sorted(ours[stem])], [f"{each} {stem}" for each in sorted(theirs[stem])]
            )
    return None


def _quantifiers(a: Reading, b: Reading, wording: Wording) -> str | None:
    if not wording.minimal:
        return None
    ours, theirs = [Counter(one.quantifiers) - Counter(two.quantifiers) for one, two in ((a, b), (b, a))]
    both = ours.keys() | theirs.keys()
    if (ours and theirs and both != {"any", "some"}) or both - classes.LOOSE_QUANTIFIERS:
        return _against(sorted(ours), sorted(theirs))
    return None


def _order(a: Reading, b: Reading, wording: Wording) -> str | None:
    """Words of both that changed places, where the change is not explained by how the same is said otherwise."""
    if (wording.only_a and wording.only_b) or len(wording.more) + len(wording.less) > 2 * MINIMAL:
        return None  # said in other words, so order tells little
    swapped = _swapped(a, b)
    if swapped is not None:
        (one, two), (uno, due) = swapped
        same = (_joined(a, one, two) and _joined(b, uno, due)) or _put_elsewhere(one, uno, two, due)
        same = same or _owner(a, one, two, b, uno, due)
        return None if same else f"{one.word} and {two.word} change places"
    first, second = _once(a), _once(b)
    both = [stem for stem in first if stem in second]
    if sorted(both, key=lambda stem: second[stem].at) == both:
        return (
            None if a.passive == b.passive or len(both) < 2 or not _by(a, b, both) else "done by the one or the other"
        )
    for one, two in combinations(both, 2):
        if second[one].at < second[two].at:
            continue
        if not _moved(a, first[one], first[two], b, second[one], second[two]):
            return f"{one} and {two} change places"
    return None


def _swapped(a: Reading, b: Reading) -> tuple[tuple[Word, Word], tuple[Word, Word]] | None:
    """Return the two words that stand in each other's place, in both questions, if all others stand in their own."""
    if len(a.telling) != len(b.telling):
        return None
    moved = [(one, two) for one, two in zip(a.telling, b.telling, strict=True) if one.stem != two.stem]
    if len(moved) != 2 or moved[0][0].stem != moved[1][1].stem or moved[0][1].stem != moved[1][0].stem:
        return None
    return (moved[0][0], moved[1][0]), (moved[1][1], moved[0][1])


def _put_elsewhere(one: Word, uno: Word, two: Word, due: Word) -> bool:
    """Return whether one of two words kept its preposition, and the other stands under none."""
    return one.role == uno.role and two.role == due.role and bool(one.role) != bool(two.role)


def _owner(a: Reading, one: Word, two: Word, b: Reading, uno: Word, due: Word) -> bool:
    """Return whether the one has `the door of the house` where the other has `the house's door`."""
    return (two.role == "of" and _owns(b, due)) or (uno.role == "of" and _owns(a, one))


def _owns(reading: Reading, word: Word) -> bool:
    return reading.words[word.at + 1 : word.at + 2] == ["'s"]


def _once(reading: Reading) -> Mapping[str, Word]:
    found: dict[str, Word] = {}
    for word in reading.telling:
        found.setdefault(word.stem, word)
    return found


def _by(a: Reading, b: Reading, both: Sequence[str]) -> bool:
    passive = a if a.passive else b
    return any(word.role == "by" and word.stem in both for word in passive.telling)


def _moved(a: Reading, one: Word, two: Word, b: Reading, uno: Word, due: Word) -> bool:
    """Return whether two words that changed places mean the same there.

    They are joined by `and` or such in both; or one was put elsewhere with its preposition; or a compound was taken
    apart (`the city council` and `the council of the city`).
    """
    if _joined(a, one, two) and _joined(b, uno, due):
        return True
    if (one.role and one.role == uno.role) or (two.role and two.role == due.role):
        return True
    close = abs(one.at - two.at) == 1 or abs(uno.at - due.at) == 1
    loose = {one.role, two.role, uno.role, due.role} - {""}
    return bool(close and loose and not loose & classes.TOLD_APART)


def _joined(reading: Reading, one: Word, two: Word) -> bool:
    """Return whether nothing but `and` or such stands between two words."""
    first, last = sorted((one.at, two.at))
    between = frozenset(reading.words[first + 1 : last]) - classes.ARTICLES
    return bool(between) and between <= classes.COORDINATING


_ANYBODY: Final = frozenset(("how", "why"))
"""Kinds of question in which `I` and `you` mostly stand for anybody."""


def _asks(a: Reading, b: Reading, _: Wording) -> str | None:
    if a.asks == b.asks or not a.asks or not b.asks or frozenset((a.asks, b.asks)) in _ALIKE:
        return None
    return _against([a.asks], [b.asks])


_ALIKE: Final = frozenset((frozenset(("what", "how")), frozenset(("what", "who")), frozenset(("what", "where"))))
"""Kinds of question that are often asked in the words of the other: `what is the best way`, `which place`."""


def _tense(a: Reading, b: Reading, wording: Wording) -> str | None:
    if not wording.minimal:
        return None
    if a.past != b.past:
        return "only one asks for what was"
    return "only one asks for what will be" if a.future != b.future else None


def _persons(a: Reading, b: Reading, wording: Wording) -> str | None:
    """Who is spoken of; `how can you` asks how anybody can."""
    if not wording.minimal or a.asks in _ANYBODY:
        return None
    ours, theirs = a.persons - b.persons, b.persons - a.persons
    return _against(sorted(ours), sorted(theirs)) if ours and theirs else None


def _substitution(a: Reading, b: Reading, wording: Wording) -> str | None:
    """One word in the place of another, all else being the same, and the two are not close in meaning."""
    if wording.minimal and len(wording.only_a) == len(wording.only_b) == 1 and wording.nearest < ALIKE:
        return _against([wording.only_a[0].word], [wording.only_b[0].word])
    return None


ALIKE: Final = 0.6
"""Cosine of two words from which on they may stand for each other."""


def _against(ours: Sequence[str], theirs: Sequence[str]) -> str:
    return f"{', '.join(ours) or 'nothing'} against {', '.join(theirs) or 'nothing'}"


GUARDS: Final[Mapping[str, Guard]] = {
    "numbers": _numbers,
    "units": _units,
    "times": _times,
    "names": _names,
    "negation": _negation,
    "opposites": _opposites,
    "direction": _direction,
    "quantifiers": _quantifiers,
    "order": _order,
    "asks": _asks,
    "tense": _tense,
    "persons": _persons,
    "substitution": _substitution,
}
"""All guards by name."""
