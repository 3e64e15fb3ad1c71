"""Whether what came later is about a question, so that an answer to it no longer stands (ANS-04).

A row is weighed by the words that it shares with the question, the rare ones most; by how much nearer it is in meaning
than the bank's rows are on average; by both of the question before it, which it may answer; and a question says less
than a statement. It touches if it is above the bar: what most rows of this bank weigh, within two bounds, so that where
all are about one thing only what is about it most touches, and where nothing is, a little is enough. What is rare, on
average and above the bar is told by the rows that the answer was made of: no row that comes later makes another one
touch, or not touch any more.

A row that says that something is otherwise now (`moved`, `quit`) touches whatever it weighs: "I moved to Lisbon" has
no word of "Where do I live?". One that has words which often say so (`now`, `stopped`), or is too brief to say what it
is about, touches if it names what the answer names, if it follows a row about the question in its conversation, or if
its text tells that it is about the same, or tells but another value; one in another language may be about anything
(`answers/others.py`).

A row that lacks each name and number of the question, as its speaker and the row before it do, and that has no word
which may stand for one of them, such as `she` or `all`, may be about something else: banks are full of the same told of
others. Whether it is, its text tells (`answers/others.py`).

Weights and bounds are those that `python -m benchmarks answers_stale --data PATH` fits, rounded.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from circadia.memory.columns import Array
from circadia.memory.question import Question
from circadia.memory.terms import asked_terms
from circadia.records.index_entry import Layer

RARE: Final = 5.0
"""Rows without any of the words that are added to those of the bank, so that in a small one a word is rare, too."""
SAMPLED: Final = 2_000
"""Rows of the bank that the bar is taken from."""
USUAL: Final = 0.25
"""Cosine of a question with a row that is about something else, where there are no rows to tell."""
FEW: Final = 20.0
"""Rows that this counts as much as."""
SURVIVE: Final = 0.905
"""Share of the rows of a bank that are below the bar."""
WEIGHTS: Final = (4.7, 7.1, 2.7, 3.2, 0.5, -0.8)
"""Of the columns of `Rows`, in order."""
FLOOR: Final = 1.1
"""No bar is lower."""
CEILING: Final = 2.0
"""No bar is higher."""
SURER: Final = 1.0
"""How much above the bar a row is that one which says that something is otherwise is about, two rows later."""
_POINTING: Final = """
i me my mine we us our ours you your yours he him his she her hers they them their theirs it its this that these those
myself yourself himself herself themselves user users customer client everybody everyone all both each every any
"""
POINTING: Final = frozenset(term for word in _POINTING.split() for term in asked_terms(word))
"""Words that may stand for a name."""

_CHANGING: Final = """
moved relocated renamed rescheduled postponed cancelled canceled quit resigned divorced
replaced swapped superseded reassigned separated dissolved decommissioned
"""
CHANGING: Final = frozenset(term for word in _CHANGING.split() for term in asked_terms(word))
"""Words by which people say that something is otherwise now."""
_ALTERING: Final = """
now actually instead again anymore longer correction correct update change new henceforth
leave left fire hire promote retire die dead switch migrate drop stop expire close shut extend delay slip
cut raise increase double halve reduce split marry broke reset restore remove delete become became
arrive deliver return refund sell sold transfer appoint succeed lost unemployed single settle
"""
ALTERING: Final = CHANGING | frozenset(term for word in _ALTERING.split() for term in asked_terms(word))
"""Words by which they often do, and often do not: what has one is about a question a little sooner."""
BRIEF: Final = 8
"""Words of a row, its day and its speaker among them, that is too brief to say what it is about: `make that 500`."""
ONE_THING: Final = 16
"""Words of a row, these among them, up to which it may say but one thing."""
RARELY: Final = 0.01
"""Share of the rows that may have a word of an answer by which a row names what that names."""
_COMMON: Final = "the and you your that this they have with from not it his she been what there their would about"
COMMON: Final = frozenset(term for word in _COMMON.split() for term in asked_terms(word))
"""Words that most English texts have one of, and few of other languages."""
_DENYING: Final = """
no not never without cannot isn aren wasn weren doesn hasn
take took taken give gave given hand away start begin began begun choose chose chosen pick
"""
DENYING: Final = ALTERING | frozenset(term for word in _DENYING.split() for term in asked_terms(word))
"""Words by which they do, or say that something is not so, begins, or passes from one to another."""


class Rows(NamedTuple):
    """Rows beside a question."""

    words: Array
    """Which share of the question's words they have, by how rare those are."""
    near: Array
    """Cosine; not a number of those without a vector."""
    lent_words: Array
    """The same of the question before them, in their conversation; 0 without."""
    lent_near: Array
    """Its cosine; not a number without."""
    answers: Array
    """Whether a question stands before them."""
    asks: Array
    """Whether they are questions."""
    elsewhere: Array
    """Whether they lack what the question names, and what may stand for it."""
    changes: Array
    """Whether they say that something is otherwise now."""
    alters: Array
    """Whether they may say so."""
    foreign: Array
    """Whether they may be in another language than the question."""
    answered: Array
    """Whether they name what the answer names, and say that something is otherwise, begins, passes on, or is not so."""
    heard_words: Array
    """The most words of the question that one of the two rows before them has, in their conversation; 0 without."""
    heard_near: Array
    """The greatest cosine of these; not a number without."""


class Later(NamedTuple):
    """A row that came later and may touch the question."""

    layer: Layer
    number: int
    least: float | None
    """Cosine above which it does; none if it does, by the vector that it has."""
    elsewhere: bool
    """Whether it does not if it tells of somebody, or of something, else."""
    akin: bool
    """Whether it does, too, if it has a word that is akin to one of the question."""


def otherwise(having: Callable[[int], Array], lengths: Array, known: Array, question: Question) -> Mapping[str, Array]:
    """Return which rows say, or may say, that something is otherwise than in the rows `known`: columns of `Rows`.

    `having` returns the rows that have a word. There is one row more than there are, of `lengths` and `known` too.
    """
    rare = max(2, RARELY * int(known.sum()))

    def some(terms: Iterable[int]) -> Array:
        found = np.zeros(len(lengths), np.bool_)
        for term in terms:
            found[having(term)] = True
        return found

    named = some(term for term in question.answered if known[having(term)].sum() <= rare)
    return {
        "changes": some(CHANGING),
        "alters": (some(ALTERING) & (lengths <= ONE_THING)) | (lengths <= BRIEF),
        "foreign": ~some(question.common) & bool(question.common),
        "answered": named & some(DENYING),
    }


def rarity(rows: int, having: int) -> float:
    """Return how much a word counts that so many of the rows have: the square of BM25's."""
    return math.log1p((rows + RARE - having + 0.5) / (having + 0.5)) ** 2


def features(rows: Rows, usual: float) -> Array:
    """Return what is weighed, a row each; `usual` is the cosine of any row."""
    near, lent = (np.nan_to_num(each - usual) for each in (rows.near, rows.lent_near))
    return np.column_stack([rows.words, near, rows.lent_words, lent, rows.answers, rows.asks]).astype(np.float64)


def usual_cosine(near: Array) -> float:
    """Return the mean, or what is usual if they are few."""
    known = near[~np.isnan(near)]
    return (float(known.sum()) + FEW * USUAL) / (len(known) + FEW)


def touching(rows: Rows, sampled: int, keys: Sequence[tuple[Layer, int]]) -> Sequence[Later]:
    """Return which rows may touch; the first are of before the answer, the others, with these keys, came later."""
    usual = usual_cosine(rows.near[:sampled])
    weighed = features(rows, usual) @ np.array(WEIGHTS)
    before = np.where(rows.elsewhere, -np.inf, weighed)[:sampled]
    bar = min(max(float(np.quantile(before, SURVIVE, method="lower")), FLOOR), CEILING) if sampled else FLOOR
    states = ~rows.asks.astype(np.bool_)
    changes, alters = rows.changes & states, rows.alters & states
    heard = WEIGHTS[0] * rows.heard_words + WEIGHTS[1] * np.nan_to_num(rows.heard_near - usual)
    answered = rows.answered & states
    weighed[(changes & ~rows.elsewhere) | answered | (alters & (heard > bar + SURER))] = np.inf
    elsewhere = rows.elsewhere & ~answered
    weighed, elsewhere, akin = (
        each[sampled:] for each in (weighed, elsewhere, alters | (elsewhere & changes) | (rows.foreign & states))
    )
    least = np.where(np.isnan(rows.near[sampled:]), usual + (bar - weighed) / WEIGHTS[1], np.inf)
    touches = weighed > bar
    return [
        Later(*keys[at], None if touches[at] else float(least[at]), bool(elsewhere[at]), bool(akin[at]))
        for at in np.flatnonzero(touches | akin | (least < 1)).tolist()
    ]
