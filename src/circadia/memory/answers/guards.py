"""Guards: differences between two questions that likeness of meaning does not see, each with its reason.

A guard compares the asked question with one that has an answer, in either order, and says what speaks against taking
the one for the other. It knows closed classes of words only: what it cannot name, the likeness of words has to tell.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.measures import UNITS
from circadia.memory.answers.order import direction, order
from circadia.memory.answers.reading import Reading, stem_of
from circadia.memory.answers.verbs import FUTURE, PAST, PRESENT, base_form, past_form
from circadia.memory.answers.wording import Wording, against


@dataclass(frozen=True, kw_only=True, slots=True)
class Objection:
    """Why two questions are not the same."""

    guard: str
    """Which guard says so."""
    reason: str
    """What differs, in words of the questions."""


EXTRA: Final = "extra"
"""The guard against what one question says besides, which narrows it."""
YIELDING: Final = frozenset((EXTRA, "asks", "substitution"))
"""Guards that judge by how near single words are: a check that reads the questions whole may overrule them."""

Guard = Callable[[Reading, Reading, Wording], str | None]


def objections(asked: Reading, known: Reading, wording: Wording) -> Sequence[Objection]:
    """Return what speaks against taking one question for the other; the order of the two changes no verdict."""
    found: list[Objection] = []
    for name, guard in GUARDS.items():
        reason = guard(asked, known, wording)
        if reason is not None:
            found.append(Objection(guard=name, reason=reason))
    return found


def _language(a: Reading, b: Reading, _: Wording) -> str | None:
    return None if a.english and b.english else "only of English is known what changes an answer"


def _signs(a: Reading, b: Reading, _: Wording) -> str | None:
    return None if a.signs == b.signs else against(a.signs, b.signs)


def _numbers(a: Reading, b: Reading, wording: Wording) -> str | None:
    ours, theirs = ([(each.value, each.bound) for each in one.quantities] for one in (a, b))
    if ours == theirs:
        return None
    more, less = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
    if more or less:
        return against(
            *(sorted(f"{bound} {value}".strip() for value, bound in each.elements()) for each in (more, less))
        )
    return against([value for value, _ in ours], [value for value, _ in theirs]) if wording.minimal else None


def _units(a: Reading, b: Reading, wording: Wording) -> str | None:
    if a.units and b.units and a.units != b.units:
        return against(sorted(a.units - b.units), sorted(b.units - a.units))
    for one, two in zip(a.quantities, b.quantities, strict=False):
        if one.value != two.value:
            break
        if one.unit != two.unit and ((one.unit and two.unit) or wording.minimal):
            return against([f"{one.value} {one.unit}"], [f"{two.value} {two.unit}"])
        written = one.counted, two.counted
        if UNITS.get(written[0], written[0]) != UNITS.get(written[1], written[1]) and _measured(*written, wording):
            return against([f"{one.value} {written[0]}"], [f"{two.value} {written[1]}"])
    return None


def _measured(one: str, two: str, wording: Wording) -> bool:
    """Return whether the words after two equal numbers are what is counted, and differ."""
    only = {word.word for word in (*wording.only_a, *wording.only_b)}
    return one in only and two in only and (wording.minimal or max(len(one), len(two)) <= _SHORT)


_SHORT: Final = 4
"""Letters of a unit that is not known."""


def _times(a: Reading, b: Reading, _: Wording) -> str | None:
    if a.times == b.times:
        return None
    return against(
        *(sorted(" ".join(each[::-1]).strip() for each in mine) for mine in (a.times - b.times, b.times - a.times))
    )


def _names(_: Reading, __: Reading, wording: Wording) -> str | None:
    """Names that only one has."""
    strange = [[word.word for word in only if word.name] for only in (wording.only_a, wording.only_b)]
    return against(*strange) if all(strange) or (wording.minimal and any(strange)) else None


def _codes(a: Reading, b: Reading, _: Wording) -> str | None:
    """What stands for itself, letter by letter: `get_user`, `config.yml`, `--force`."""
    ours, theirs = sorted(a.codes - {*b.words}), sorted(b.codes - {*a.words})
    return against(ours, theirs) if ours and theirs else None


def _negation(a: Reading, b: Reading, wording: Wording) -> str | None:
    if len(a.negations) != len(b.negations):
        return f"{'the first' if len(a.negations) > len(b.negations) else 'the second'} says no"
    ours, theirs = [kind for kind, _ in a.negations], [kind for kind, _ in b.negations]
    if ours != theirs:
        return against(ours, theirs)
    if wording.minimal and a.negations != b.negations and _known(a, b) and _known(b, a):
        return against(
            [f"{kind} {word}" for kind, word in a.negations], [f"{kind} {word}" for kind, word in b.negations]
        )
    for one in wording.only_a:
        for two in wording.only_b:
            short, long = sorted((one.word, two.word), key=len)
            if long.endswith(short) and long[: -len(short)] in classes.OPPOSING_PREFIXES:
                return against([one.word], [two.word])
    return None


def _known(a: Reading, b: Reading) -> bool:
    """Return whether the other has the words that this one says no of."""
    stems = {word.stem for word in b.telling} | set(b.words)
    return all(stem in stems for _, stem in a.negations)


def _opposites(_: Reading, __: Reading, wording: Wording) -> str | None:
    for one in wording.more:
        for other in wording.less:
            if other in _opposed(one):
                return against([one], [other])
    return None


@lru_cache(maxsize=20_000)
def _opposed(word: str) -> frozenset[str]:
    """Return the words that are known as opposites of one, and those that differ by the other affix of a pair."""
    before = {
        theirs + word[len(mine) :]
        for pair in classes.OPPOSED_PREFIXES
        for mine, theirs in (pair, pair[::-1])
        if word.startswith(mine) and len(word) >= len(mine) + _REMAINDER
    }
    after = {
        word[: -len(mine)] + theirs
        for pair in classes.OPPOSED_SUFFIXES
        for mine, theirs in (pair, pair[::-1])
        if word.endswith(mine) and len(word) >= len(mine) + _REMAINDER
    }
    return classes.OPPOSED.get(word, frozenset()) | before | after


_REMAINDER: Final = 3
"""Letters of a word that stand beside an affix, at least."""


def _quantifiers(a: Reading, b: Reading, wording: Wording) -> str | None:
    if a.quantifiers == b.quantifiers:
        return None
    ours, theirs = (Counter(one.quantifiers) - Counter(two.quantifiers) for one, two in ((a, b), (b, a)))
    for one in ours:
        for two in theirs:
            if frozenset((one, two)) in classes.CLASHING:
                return against([one], [two])
    if not wording.minimal:
        return None
    both = ours.keys() | theirs.keys()
    if (ours and theirs and both != {"any", "some"}) or both - classes.LOOSE_QUANTIFIERS:
        return against(sorted(ours), sorted(theirs))
    return None


def _asks(a: Reading, b: Reading, wording: Wording) -> str | None:
    kinds = frozenset((a.asks, b.asks))
    if len(kinds) == 1 or "" in kinds or kinds in _ALIKE:
        return None
    if not wording.minimal and (kinds == _WHY or ("whether" in kinds and kinds & {"how", "what", "why"})):
        return None  # `is there a way to`, `what makes`
    return against([a.asks], [b.asks])


_ALIKE: Final = frozenset((frozenset(("what", "how")), frozenset(("what", "who")), frozenset(("what", "where"))))
"""Kinds of question that are often asked in the words of the other: `what is the best way`, `which place`."""
_WHY: Final = frozenset(("what", "why"))


def _tense(a: Reading, b: Reading, wording: Wording) -> str | None:
    if (a.past and b.future and not b.past) or (b.past and a.future and not a.past):
        return "one asks for what was, the other for what will be"
    if not wording.minimal and (not wording.small or a.asks != b.asks or a.tenses == b.tenses):
        return None
    told = [frozenset[str]().union(*each.tenses) for each in (a, b)]
    if not wording.minimal and FUTURE in told[0] | told[1]:
        return None
    if wording.minimal and any(_other_form(one, two) for one in wording.more for two in wording.less):
        return against(wording.more, wording.less)
    if len(a.tenses) == len(b.tenses):
        same = a.tenses == b.tenses
    else:  # `which one is it that left`, `which one left`
        same = told[0] - {PRESENT} == told[1] - {PRESENT}
    return None if same else against(*map(sorted, told))


def _other_form(one: str, other: str) -> bool:
    """Return whether one is the past of the other: `owns`, `owned`."""
    present, past = (one, other) if past_form(other) else (other, one)
    ends = present.endswith("s") and not past_form(present) and past_form(past)
    return ends and stem_of(base_form(past)) == stem_of(present)


def _modality(a: Reading, b: Reading, wording: Wording) -> str | None:
    """What has to be, may be or is; of a verb in the place of `need`."""
    if wording.small and a.modals != b.modals and not _anyhow(a) and not _anyhow(b):
        ours, theirs = (sorted((Counter(one.modals) - Counter(two.modals)).elements()) for one, two in ((a, b), (b, a)))
        if (ours or theirs) and a.asks == b.asks and not (_advice(a) and _advice(b)):
            return against(ours, theirs)
        if wording.minimal and ((ours and theirs) or "must" in (*ours, *theirs)):
            return against(ours, theirs)
    if not wording.minimal:
        return None
    light = [{classes.LIGHT[each] for each in words if each in classes.LIGHT} for words in (wording.more, wording.less)]
    if "must" in a.modals and "must" in b.modals:
        light = [verbs - {"have", "need"} for verbs in light]
    return against(sorted(light[0]), sorted(light[1])) if all(light) and light[0] != light[1] else None


def _anyhow(reading: Reading) -> bool:
    """Return whether it asks how something is done, not how strong something is."""
    words = list(reading.words)
    after = words.index("how") + 1 if "how" in words else len(words)
    return reading.asks == "how" and not any(map(classes.tells, words[after : after + 1]))


def _advice(reading: Reading) -> bool:
    """Return whether it asks how to behave: `what should I do if`, `what can I do if`."""
    words = reading.words
    doing = words[:1] == ["what"] and words[3:4] == ["do"] and words[2] in classes.SUBJECTS
    return doing and PAST not in reading.tenses[0]


def _joining(a: Reading, b: Reading, wording: Wording) -> str | None:
    """`and` against `or`, `if` against `when` or `even if`, `all and` against `all but`."""
    if not wording.minimal:
        return None
    even = [any(pair in _EVEN for pair in pairwise(each.words)) for each in (a, b)]
    if even[0] != even[1]:
        return f"{'the first' if even[0] else 'the second'} says even so, or but"
    for words in (_BOTH_OR_ONE, classes.CONJUNCTIONS):
        joined = [[each for each in mine if each in words] for mine in (wording.more, wording.less)]
        if all(joined):
            return against(*joined)
    return None


_EVEN: Final = frozenset(
    (*(("even", each) for each in classes.CONJUNCTIONS), *((each, "but") for each in classes.QUANTIFIERS))
)
_BOTH_OR_ONE: Final = frozenset(("and", "or"))


def _how_many(a: Reading, b: Reading, wording: Wording) -> str | None:
    """One certain thing against several: `the contract`, `the contracts`."""
    if not wording.minimal or a.asks == "what":  # `what are the differences`
        return None
    certain = _certain(a, wording.more), _certain(b, wording.less)
    for stem in certain[0].keys() & certain[1].keys():
        if certain[0][stem] != certain[1][stem]:
            return against([certain[0][stem]], [certain[1][stem]])
    return None


def _certain(reading: Reading, own: Sequence[str]) -> Mapping[str, str]:
    return {
        word.stem: word.word
        for word in reading.telling
        if word.word in own and word.at and reading.words[word.at - 1] in classes.CERTAIN
    }


def _persons(a: Reading, b: Reading, wording: Wording) -> str | None:
    """Who is spoken of; `how can you` asks how anybody can."""
    if a.persons == b.persons or not wording.minimal:
        return None
    ours, theirs = ([person for person, _ in one.persons] for one in (a, b))
    if ours == theirs:
        return None
    kinds = set(ours), set(theirs)
    if kinds in _ANYBODY and a.asks == b.asks and _subject(a) and _subject(b):
        return None
    if len(ours) == len(theirs) or (kinds[0] ^ kinds[1]) - {"i", "you"}:
        return against(ours, theirs)
    shorter, longer = sorted((ours, theirs), key=len)
    return None if not shorter or set(longer) == set(shorter) else against(ours, theirs)


_ANYBODY: Final = (({"i"}, {"you"}), ({"you"}, {"i"}))


def _subject(reading: Reading) -> bool:
    """Return whether it asks how anybody does something, and not of one time."""
    first = reading.words[:4]
    return (
        reading.asks in ("how", "why")
        and reading.tenses[0] == frozenset((PRESENT,))
        and not _ANYHOW.isdisjoint(first)
        and not classes.SUBJECTS.isdisjoint(first)
    )


_ANYHOW: Final = frozenset(("do", "can", "should", "could", "would", "to"))


def _extra(a: Reading, b: Reading, wording: Wording) -> str | None:
    """What only one question says besides all that the other says, as a closer description does."""
    if bool(wording.only_a) == bool(wording.only_b):
        if wording.only_a or not wording.minimal:
            return None
        ours, theirs = (Counter([word.stem for word in each.telling]) for each in (a, b))
        oftener = (ours - theirs) + (theirs - ours)
        return f"{min(oftener)} again" if oftener else None
    longer, only = (a, wording.only_a) if wording.only_a else (b, wording.only_b)
    own = {word.at for word in only}
    light = [
        place for place, word in enumerate((b if wording.only_a else a).words)
        if word in classes.LIGHT and word in (wording.less if wording.only_a else wording.more)
    ]  # fmt: skip
    if light:  # `where do I get` for `where can I buy`
        near = wording.near if wording.only_a else wording.near.T
        only = [word for word in only if float(near[word.at, light].max()) < ALIKE]
    close = {word.at - 1 for word in longer.telling if word.at not in own} & own
    said = [
        word.word
        for word in only
        if not (word.word in classes.FILLERS or word.word in classes.QUANTIFIERS or word.word in classes.NEGATIONS)
        and not (a.asks == b.asks == classes.REALLY.get(word.word))  # `what time is it due`, `when is it due`
        and (wording.minimal or (wording.small and word.at in close) or word.word in classes.DENYING)
    ]
    return f"only one says {', '.join(said)}" if said else None


def _substitution(_: Reading, __: Reading, wording: Wording) -> str | None:
    """One word in the place of another, all else being the same, and the two are not close in meaning."""
    if not wording.minimal or not wording.only_a or not wording.only_b:
        return None
    near = wording.near[[word.at for word in wording.only_a]][:, [word.at for word in wording.only_b]]
    for only, best in ((wording.only_a, near.max(axis=1)), (wording.only_b, near.max(axis=0))):
        for word, cosine in zip(only, best.tolist(), strict=True):
            if cosine < ALIKE and (word.word not in classes.FILLERS or len(only) == 1):
                return against([each.word for each in wording.only_a], [each.word for each in wording.only_b])
    return None


ALIKE: Final = 0.6
"""Cosine of two words from which on they may stand for each other."""


GUARDS: Final[Mapping[str, Guard]] = {
    "language": _language,
    "signs": _signs,
    "numbers": _numbers,
    "units": _units,
    "times": _times,
    "names": _names,
    "codes": _codes,
    "negation": _negation,
    "opposites": _opposites,
    "direction": direction,
    "quantifiers": _quantifiers,
    "order": order,
    "asks": _asks,
    "tense": _tense,
    "modality": _modality,
    "joining": _joining,
    "how many": _how_many,
    "persons": _persons,
    EXTRA: _extra,
    "substitution": _substitution,
}
"""All guards by name."""
