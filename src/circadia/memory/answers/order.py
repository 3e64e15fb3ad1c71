"""Guards of order: who does what to whom, from where to where. The same words in other places ask for another thing."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.reading import Reading, Word, stem_of
from circadia.memory.answers.verbs import base_form
from circadia.memory.answers.wording import MINIMAL, Wording, against


def direction(a: Reading, b: Reading, wording: Wording) -> str | None:
    """Words of both that stand under prepositions which no question can change for another."""
    ours, theirs = _roles(a), _roles(b)
    for stem in sorted(ours.keys() & theirs.keys()):
        one, two = ours[stem], theirs[stem]
        if one == two or not one or not two:
            continue
        told = one & classes.TOLD_APART, two & classes.TOLD_APART
        meanwhile = "during" in one | two and not _NOT_DURING.isdisjoint(one | two)
        if meanwhile or (all(told) and told[0] != told[1]) or (wording.minimal and any(told) and not one & two):
            return against([f"{each} {stem}" for each in sorted(one)], [f"{each} {stem}" for each in sorted(two)])
    if not wording.minimal:
        return None
    if a.passive == b.passive:
        moved = _other_part(a, b, wording)
        if moved is not None:
            return moved
    if len(wording.more) == len(wording.less) == 1:  # `speaks for the board`, `speaks with the board`
        placed = [classes.PLACED.get(words[0], "") for words in (wording.more, wording.less)]
        last = a.words[-1] == wording.more[0] and b.words[-1] == wording.less[0]  # `get on`, `get in`
        loose = _LOOSE.issuperset(placed) or {*placed} == {"of", "for"}
        if all(placed) and placed[0] != placed[1] and (last or not loose):
            return against(wording.more, wording.less)
    lost = [[word for word in only if word in _ALWAYS] for only in (wording.more, wording.less)]
    return against(*lost) if any(lost) else None


_NOT_DURING = frozenset(("before", "after"))
_ALWAYS = classes.TOLD_APART - frozenset(("to", "by", "as", "from", "under", "over"))
"""Those that no question has more than another that asks for the same."""


def _other_part(a: Reading, b: Reading, wording: Wording) -> str | None:
    """Return which name stands under another preposition: `works with Ann`, `works for Ann`, `pays Ann`."""
    bare = not (wording.only_a or wording.only_b)
    ours, theirs = _named(a), _named(b)
    for stem in ours.keys() & theirs.keys():
        for one, other in zip(ours[stem], theirs[stem], strict=False):
            if one.role == other.role or _LOOSE.issuperset((one.role, other.role)):
                continue
            if 0 < _compound(a, one, b, other) - one.at <= 2 or 0 < _compound(b, other, a, one) - other.at <= 2:
                continue
            if (one.role and other.role) or (bare and not _follows(a, one) and not _follows(b, other)):
                return against([f"{one.role} {stem}".strip()], [f"{other.role} {stem}".strip()])
    return None


def _named(reading: Reading) -> Mapping[str, Sequence[Word]]:
    named: defaultdict[str, list[Word]] = defaultdict(list)
    for word in reading.telling:
        if word.name:
            named[word.stem].append(word)
    return named


def _follows(reading: Reading, word: Word) -> bool:
    """Return whether `and` or such stands before a word, so that its preposition stands farther off."""
    return word.at > 0 and reading.words[word.at - 1] in classes.COORDINATING


_LOOSE = frozenset(("", "of", "in", "at", "on", "from"))
"""Prepositions that say no more than a compound: `the office of Rome`, `the office in Rome`, `the Rome office`."""


def _roles(reading: Reading) -> Mapping[str, frozenset[str]]:
    roles: defaultdict[str, set[str]] = defaultdict(set)
    for word in reading.telling:
        if word.role:
            roles[word.stem].add(word.role)
    return {stem: frozenset(each) for stem, each in roles.items()}


def order(a: Reading, b: Reading, wording: Wording) -> str | None:
    """Words of both that changed places, where the change is not explained by how the same is said otherwise."""
    turned = _turned(a, b)
    if turned is not None:
        return turned
    if len(wording.more) + len(wording.less) > 2 * MINIMAL + 1:
        return None  # said in other words, so order tells little
    if a.passive != b.passive:
        return _done_by(*((a, b) if a.passive else (b, a)))
    bases = [{_base(word) for word in each.telling} for each in (a, b)]
    own = [word for word in wording.only_a if _base(word) not in bases[1]]
    if own and any(_base(word) not in bases[0] for word in wording.only_b):
        return None
    swapped = _swapped(a, b)
    if swapped is not None:
        (one, two), (uno, due) = swapped
        same = (_joined(a, one, two) and _joined(b, uno, due)) or _between(a, b)
        same = same or _put_elsewhere(one, uno, two, due)
        same = same or (one.role == due.role and _taken_apart(a, one, two, b, uno, due))
        return None if same and not _other_subject(a, b) else f"{one.word} and {two.word} change places"
    first, second = _once(a), _once(b)
    both = [stem for stem in first if stem in second]
    if sorted(both, key=lambda stem: second[stem].at) == both:
        return None
    for one, two in combinations(both[:_MOST], 2):
        if second[one].at < second[two].at:
            continue
        if _other_subject(a, b) or not _moved(a, first[one], first[two], b, second[one], second[two]):
            return f"{one} and {two} change places"
    return None


_MOST = 16
"""Words whose places are compared: of more, others tell enough."""


def _turned(a: Reading, b: Reading) -> str | None:
    """Return whether somebody does in the one what is done to them in the other: `who called me`, `who did I call`."""
    if not a.persons or not b.persons or a.passive != b.passive:
        return None
    acting = [{_ACTING[word] for word in each.words if word in _ACTING} for each in (a, b)]
    acted_on = [{_ACTED_ON[word] for word in each.words if word in _ACTED_ON} for each in (a, b)]
    only = [(does - has, has - does) for does, has in zip(acting, acted_on, strict=True)]
    turned = only[0][0] & only[1][1] | only[0][1] & only[1][0]
    bases = [{_base(word) for word in each.telling} - _ACTED_ON.keys() for each in (a, b)]
    return f"{min(turned)} does it, or has it done" if turned and bases[0] == bases[1] else None


_ACTING = {"i": "i", "we": "we", "he": "he", "she": "she", "they": "they"}
_ACTED_ON = {"me": "i", "us": "we", "him": "he", "her": "she", "them": "they"}


def _other_subject(a: Reading, b: Reading) -> bool:
    """Return whether who is asked for does it in the one only: `which team needs Ann`, `which team does Ann need`."""
    for one, other in ((a, b), (b, a)):
        doing = next((at for at, word in enumerate(one.words[:_EARLY]) if at and word in _DO), None)
        if doing is not None and classes.AUXILIARIES.isdisjoint(other.words[: doing + 2]):
            return True
    return False


_DO = frozenset(("do", "does", "did"))
_EARLY = 5
"""Words within which a question has its first verb."""


def _done_by(passive: Reading, active: Reading) -> str | None:
    """Return whether who does it in the one suffers it in the other: `who pays Ann`, `who is paid by Ann`."""
    known = _once(active)
    for at, word in enumerate(passive.telling):
        doer = known.get(word.stem)
        if word.role != "by" or doer is None or not at:
            continue
        verb = known.get(passive.telling[at - 1].stem)
        others = [each for each in active.telling if each.stem != word.stem]
        if verb is not None:
            suffers = doer.at > verb.at
        else:  # an irregular one: it is what stands between, or before the last
            suffers = bool(others) and doer.at > max(each.at for each in others)
        if suffers and doer.role != "by":
            return f"{word.word} does it, or has it done"
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


def _base(word: Word) -> str:
    """Return the stem of a word, or of the verb that it is an irregular form of: `taught`, `teach`."""
    return stem_of(base_form(word.word))


def _once(reading: Reading) -> Mapping[str, Word]:
    found: dict[str, Word] = {}
    for word in reading.telling:
        found.setdefault(_base(word), word)
    return found


def _moved(a: Reading, one: Word, two: Word, b: Reading, uno: Word, due: Word) -> bool:
    """Return whether two words that changed places mean the same there.

    They are joined by `and` or such in both; or one was put elsewhere with its preposition; or a compound was taken
    apart (`the city council` and `the council of the city`).
    """
    if (_joined(a, one, two) and _joined(b, uno, due)) or _between(a, b):
        return True
    kept = (one.role and one.role == uno.role) or (two.role and two.role == due.role)
    return bool(kept) or _taken_apart(a, one, two, b, uno, due)


def _taken_apart(a: Reading, one: Word, two: Word, b: Reading, uno: Word, due: Word) -> bool:
    """Return whether two words changed places since a compound was taken apart: only one of them passed its head."""
    ends = _compound(a, one, b, uno), _compound(b, due, a, two)
    return one.at < two.at <= ends[0] or due.at < uno.at <= ends[1]


def _compound(a: Reading, word: Word, b: Reading, same: Word) -> int:
    """Return where a compound ends that a word begins, `the April bill`, if the other has `the bill for April`; else 0.

    What stands before the word belongs to it where it stands under its preposition, too, as in `the Rome office key`.
    """
    parts = [same]
    if not _LIGHT_NOUNS.isdisjoint(b.words[same.at + 1 : same.at + 2]):
        return 0  # `the smell of old things` is no old smell
    for each in reversed(b.telling):
        if each.at == parts[0].at - 1 and not parts[0].role:
            parts.insert(0, each)
    head = max((each for each in b.telling if each.at < parts[0].at), default=None, key=lambda each: each.at)
    told = [each.stem for each in a.telling if each.at <= word.at][-len(parts) :]
    if head is None or parts[0].role not in _TAKEN_APART or told != [each.stem for each in parts]:
        return 0
    end = next((each.at for each in a.telling if each.at > word.at and each.stem == head.stem), 0)
    between = a.words[word.at + 1 : end]
    owns = "'s" in between
    acts = word.at > 0 and a.words[word.at - 1] in _ACTED_BY and not owns  # `why does Ann vote`, `why vote for Ann`
    given = owns and parts[0].role == "for"  # `Ann's letter` is no letter for Ann
    near = parts[0].at - head.at <= _PREPOSITION_AND_ARTICLE
    return 0 if acts or given or not near or not _ENDING.isdisjoint(between) else end


_LIGHT_NOUNS = classes.FILLERS - classes.AUXILIARIES
_TAKEN_APART = frozenset(("of", "in", "at", "on", "for", "about"))
"""Prepositions by which a compound is taken apart."""
_PREPOSITION_AND_ARTICLE = 3
_ACTED_BY = classes.AUXILIARIES - {"is", "are", "was", "were"}
"""Words before whoever does something."""
_ENDING = classes.AUXILIARIES | {"a", "an", "the"} | classes.COORDINATING | classes.PLACED.keys() | classes.SUBJECTS
"""Words that stand in no compound."""


def _between(a: Reading, b: Reading) -> bool:
    """Return whether the two sides of `between … and …`, which are alike, changed places as wholes.

    What stands on both sides, as in `the east gate and the west gate`, tells them not apart.
    """
    ours, theirs = _sides(a), _sides(b)
    if ours is None or theirs is None:
        return False
    told = ((ours[0] | ours[1]) & (theirs[0] | theirs[1])) - (ours[0] & ours[1]) - (theirs[0] & theirs[1])
    (left, right), (first, second) = ([side & told for side in sides] for sides in (ours, theirs))
    return bool(left and right) and (left, right) == (second, first)


def _sides(reading: Reading) -> tuple[frozenset[str], frozenset[str]] | None:
    words = list(reading.words)
    if "between" not in words or "and" not in words[words.index("between") :]:
        return None
    first = words.index("between")
    middle = words.index("and", first)
    left = frozenset(word.stem for word in reading.telling if first < word.at < middle)
    after = [word for word in reading.telling if word.at > middle]
    ends = next((at for at, word in enumerate(after) if word.role), len(after))
    return left, frozenset(word.stem for word in after[:ends])


def _joined(reading: Reading, one: Word, two: Word) -> bool:
    """Return whether nothing but `and` or such stands between two words."""
    first, last = sorted((one.at, two.at))
    between: Sequence[str] = [each for each in reading.words[first + 1 : last] if each not in classes.ARTICLES]
    return bool(between) and all(each in classes.COORDINATING for each in between)
