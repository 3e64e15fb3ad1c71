"""The time that each clause of a question speaks of, told by its helping verbs, or by the form of its verb."""

from collections.abc import Sequence
from typing import Final

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.normal import Token

PRESENT: Final = "is"
PAST: Final = "was"
PERFECT: Final = "has been"
FUTURE: Final = "will be"

_PAST_ALONE: Final = frozenset(
    """
ate became began broke came chose drank drew drove fell flew forgot froze gave got grew hid knew ran rang rode sang
sank saw shook spoke stole swam threw took tore went woke wore wrote arose blew swore
""".split()
)
"""Irregular verbs in the past; their participles are others."""
_PARTICIPLE_ALONE: Final = frozenset(
    """
beaten become been begun bitten blown broken chosen come cost cut done drawn driven drunk eaten fallen flown forgotten
frozen given gone gotten grown hidden hit hurt known let proven put quit read ridden risen run rung seen set shaken
shown shut spoken spread stolen sung sunk sworn swum taken thrown torn woken worn written
""".split()
)
"""Participles of irregular verbs, and not their past, or not only."""
_BOTH: Final = frozenset(
    """
bent bled bought bred brought built burnt caught dealt dreamt dug fed felt fled fought found had heard held hung kept
laid learnt led left lent lit lost made meant met paid quit said sent shot slept slid sold sought spent stood struck
stuck stung swept swung taught thought told understood won
""".split()
)
"""Irregular verbs whose past and participle are one."""
_NO_VERBS: Final = frozenset("hundred sacred naked wicked united embed shed red bed infrared".split())
_CLAUSES: Final = frozenset(
    """
that if when while who whom which whose what where why how because since whether after before until unless though
although
""".split()
)
"""What a clause may begin with."""
_PRESENT: Final = classes.AUXILIARIES - classes.PAST - classes.FUTURE - frozenset(("be", "been", "being", "may"))
"""Without `may`, which is a month too."""
_BESIDE_NOUNS: Final = (
    classes.ARTICLES | classes.POSSESSIVES | frozenset(classes.PLACED) | frozenset(classes.QUANTIFIERS)
    | frozenset(("get", "gets", "getting", "be", "being"))
) - frozenset(("only", "just", "also", "last", "first", "always", "sometimes", "others", "else", "everyone", "nobody"))  # fmt: skip
"""After these a participle says what kind, or what is done: `the required form`, `gets elected`."""
_DOING: Final = frozenset(("do", "does", "did", "to"))
_HAS: Final = frozenset(("has", "have"))


def past_form(word: str) -> bool:
    """Return whether a word may be a verb in the past."""
    return word in _PAST_ALONE or word in _BOTH or _regular(word)


def participle(word: str) -> bool:
    """Return whether a word may be a participle of the past."""
    return word in _PARTICIPLE_ALONE or word in _BOTH or _regular(word)


def _regular(word: str) -> bool:
    return len(word) > 3 and word.endswith("ed") and not word.endswith("eed") and word not in _NO_VERBS


def tenses(found: Sequence[Token]) -> Sequence[str]:
    """Return the time of each clause in order: present, if nothing tells another."""
    words = ["" if token.capital and at else token.word for at, token in enumerate(found)]
    starts = [0, *(at for at, word in enumerate(words) if at and word in _CLAUSES), len(words)]
    return [_tense(words[start:end]) for start, end in zip(starts, starts[1:], strict=False)]


def _tense(clause: Sequence[str]) -> str:
    if _perfect(clause):
        return PERFECT
    known = set(clause)
    if not known.isdisjoint(classes.PAST):
        return PAST
    if not known.isdisjoint(classes.FUTURE) or ("going", "to") in zip(clause, clause[1:], strict=False):
        return FUTURE
    if not known.isdisjoint(_PRESENT):
        return PRESENT
    for at, word in enumerate(clause):
        if word == "to":
            break
        if past_form(word) and not _describes(clause, at):
            return PAST
    return PRESENT


def _perfect(clause: Sequence[str]) -> bool:
    """Return whether `has` or `have` helps a participle: `has Ann signed`, `should have signed`, no `do I have`."""
    for at, word in enumerate(clause):
        if word not in _HAS or not _DOING.isdisjoint(clause[max(at - 4, 0) : at]):
            continue
        following = clause[at + 1 :]
        if following[:1] == ["to"]:
            continue
        return any(
            participle(each) and each != "got" and not _describes(clause, at + 1 + place)
            for place, each in enumerate(following)
        )
    return False


def _describes(clause: Sequence[str], at: int) -> bool:
    return at > 0 and clause[at - 1] in _BESIDE_NOUNS
