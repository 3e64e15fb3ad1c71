"""The time that each clause of a question speaks of, told by its helping verbs, or by the form of its verb."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.normal import Token

PRESENT: Final = "is"
PAST: Final = "was"
PERFECT: Final = "has been"
FUTURE: Final = "will be"

_IRREGULAR: Final = [
    each.split()
    for each in """
arise arose arisen|beat beat beaten|become became become|begin began begun|bend bent bent|bite bit bitten
bleed bled bled|blow blew blown|break broke broken|breed bred bred|bring brought brought|build built built
burn burnt burnt|buy bought bought|catch caught caught|choose chose chosen|come came come|cost cost cost|cut cut cut
deal dealt dealt|dig dug dug|do did done|draw drew drawn|dream dreamt dreamt|drink drank drunk|drive drove driven
eat ate eaten|fall fell fallen|feed fed fed|feel felt felt|fight fought fought|find found found|flee fled fled
fly flew flown|forbid forbade forbidden|forget forgot forgotten|freeze froze frozen|get got gotten|give gave given
go went gone|grow grew grown|hang hung hung|have had had|hear heard heard|hide hid hidden|hit hit hit|hold held held
hurt hurt hurt|keep kept kept|know knew known|lay laid laid|lead led led|learn learnt learnt|leave left left
lend lent lent|let let let|light lit lit|lose lost lost|make made made|mean meant meant|meet met met|pay paid paid
prove proved proven|put put put|quit quit quit|read read read|ride rode ridden|ring rang rung|rise rose risen
run ran run|say said said|see saw seen|seek sought sought|sell sold sold|send sent sent|set set set|shake shook shaken
shoot shot shot|show showed shown|shut shut shut|sing sang sung|sink sank sunk|sit sat sat|sleep slept slept
slide slid slid|speak spoke spoken|spend spent spent|spread spread spread|stand stood stood|steal stole stolen
stick stuck stuck|sting stung stung|strike struck struck|swear swore sworn|sweep swept swept|swim swam swum
swing swung swung|take took taken|teach taught taught|tear tore torn|tell told told|think thought thought
throw threw thrown|understand understood understood|wake woke woken|wear wore worn|win won won
withdraw withdrew withdrawn|write wrote written
""".strip().replace("\n", "|").split("|")
]  # fmt: skip
"""Verbs, each with its past and its participle."""
_PAST_FORMS: Final = {past: base for base, past, _ in _IRREGULAR if past != base}
_PARTICIPLES: Final = {**{done: base for base, _, done in _IRREGULAR}, "been": "be"}
_NO_VERBS: Final = classes.word_set("hundred sacred naked wicked united embed shed red bed infrared")
_CLAUSES: Final = classes.word_set("""
that if when while who whom which whose what where why how because since whether after before until unless though
although
""")
"""What a clause may begin with."""
_PRESENT: Final = classes.AUXILIARIES - classes.PAST - classes.FUTURE - frozenset(("be", "been", "being", "may"))
"""Without `may`, which is a month too."""
_BESIDE_NOUNS: Final = (
    classes.ARTICLES | classes.POSSESSIVES | frozenset(classes.PLACED) | frozenset(classes.QUANTIFIERS)
    | classes.word_set("get gets getting be being")
) - classes.word_set("only just also last first always sometimes others else everyone nobody")  # fmt: skip
"""After these a participle says what kind, or what is done: `the required form`, `gets elected`."""
_DOING: Final = frozenset(("do", "does", "did", "to"))
_HAS: Final = frozenset(("has", "have"))


def past_form(word: str) -> bool:
    """Return whether a word may be a verb in the past."""
    return word in _PAST_FORMS or _regular(word)


def participle(word: str) -> bool:
    """Return whether a word may be a participle of the past."""
    return word in _PARTICIPLES or _regular(word)


def base_form(word: str) -> str:
    """Return the verb that a word is an irregular form of, or the word."""
    return _PAST_FORMS.get(word) or _PARTICIPLES.get(word, word)


def _regular(word: str) -> bool:
    return len(word) > 3 and word.endswith("ed") and not word.endswith("eed") and word not in _NO_VERBS


def tenses(found: Sequence[Token]) -> Sequence[frozenset[str]]:
    """Return the times of each clause in order: present, if nothing tells another."""
    words = [
        "" if token.capital and at and token.word not in classes.AUXILIARIES else token.word
        for at, token in enumerate(found)
    ]
    starts = [0, *(at for at, word in enumerate(words) if at and word in _CLAUSES), len(words)]
    return [_tenses(words[start:end]) for start, end in pairwise(starts)]


def _tenses(clause: Sequence[str]) -> frozenset[str]:
    known = set(clause)
    told: set[str] = set()
    if not known.isdisjoint(_HAS) and _perfect(clause):
        told.add(PERFECT)
        known -= _HAS
    if not known.isdisjoint(classes.PAST):
        told.add(PAST)
    if not known.isdisjoint(classes.FUTURE) or ("going", "to") in pairwise(clause):
        told.add(FUTURE)
    elif not known.isdisjoint(_PRESENT):
        told.add(PRESENT)
    return frozenset(told) or _untold(clause)


def _untold(clause: Sequence[str]) -> frozenset[str]:
    """Return the time of a clause without a helping verb."""
    for at, word in enumerate(clause):
        if word == "to":
            break
        if past_form(word) and not _describes(clause, at):
            return frozenset((PAST,))
    return frozenset((PRESENT,))


def _perfect(clause: Sequence[str]) -> bool:
    """Return whether `has` or `have` helps a participle: `has Ann signed`, `should have signed`, no `do I have`.

    Of what has been paid, whether it is paid is the same question; how it is paid is another one.
    """
    for at, word in enumerate(clause):
        if word not in _HAS or (word == "have" and not _DOING.isdisjoint(clause[max(at - 4, 0) : at])):
            continue
        following = clause[at + 1 :]
        passive = not at and any(one == "been" and participle(other) for one, other in pairwise(following))
        if passive or following[:1] == ["to"]:
            continue
        return any(
            participle(each) and each != "got" and not _describes(clause, at + 1 + place)
            for place, each in enumerate(following)
        )
    return False


def _describes(clause: Sequence[str], at: int) -> bool:
    return at > 0 and clause[at - 1] in _BESIDE_NOUNS
