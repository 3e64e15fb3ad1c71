"""How likely a row that came later changes the answer to a question (ANS-04).

No grammar and no list of words: a row is weighed by the share of the question's words that it has, the rare ones most;
by how much nearer its vector is than those of the bank's rows on average; and by whether the turn before it is a
related question, which it may answer. The vector of the turn before is left out: it tells evidence from others no
better, and may not be there yet. Words and speakers are told apart by rarity alone: whom everybody speaks of says
little, a name that stands in one row says a lot.

What is rare, and the bars, come from the rows that the answer was made of. So no later row changes what another one
weighs, and every process comes to the same result.

`python -m benchmarks answers_stale --data PATH` fits the weights and prints what the bars let through.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from circadia.memory.search.columns import Array
from circadia.records.index_entry import Layer

RARE: Final = 5.0
"""Rows without any of the words that are added to those of the bank, so that in a small one a word is rare, too."""
UNKNOWN: Final = 0.3
"""How much a word counts that no earlier row has, if the row lacks it too: mostly it only makes the question one."""
SAMPLED: Final = 2_000
"""Earlier rows that the bars are taken from."""
USUAL: Final = 0.25
"""Cosine of a question with a row that is about something else, where there are no rows to tell."""
FEW: Final = 20.0
"""Rows that this counts as much as."""
WORDS: Final = 5.3
"""Weight of the share of the question's words, by rarity."""
NEAR: Final = 5.1
"""Weight of the cosine above the usual one, for a vector that says all that there is to say."""
ANSWERS: Final = 2.1
"""Weight of a related question as the turn before."""
RELATED: Final = 0.05
"""Share of the words above which a question before is related to the one that was answered."""
JUDGE_BAR: Final = (0.63, 0.25)
"""Share of the earlier rows that weigh less than what a judge looks at, and the least weight of that."""
DOUBT_BAR: Final = (0.84, 0.8)
"""The same of what puts an answer in doubt."""
HIGHEST: Final = 3.0
"""No bar is higher: a bank may be about one thing only."""
VOID_WEIGHT: Final = 4.5
"""Weight above which a row voids an answer without a judge: one in 300 turns about something else."""


class ChangeThresholds(NamedTuple):
    """What is usual in a bank before an answer, by which later rows are told apart."""

    usual: float
    """Mean cosine with the question."""
    judged: float
    """Weight above which a judge looks at a row."""
    doubted: float
    """Weight above which a row puts the answer in doubt."""


class LaterRow(NamedTuple):
    """A later row that may change the answer."""

    layer: Layer
    number: int
    weight: float
    """Without the cosine if the row has no vector."""
    embedded: bool
    """Whether it has one."""


class LaterRows(NamedTuple):
    """The later rows that may change the answer, by layer and number, and the bars for them."""

    bars: ChangeThresholds
    rows: Sequence[LaterRow]


NO_ROWS: Final = LaterRows(ChangeThresholds(0, 0, 0), ())


class RowFeatures(NamedTuple):
    """Columns of rows beside a question."""

    words: Array
    """Share of the question's words that each has, by rarity."""
    near: Array
    """Cosine, 0 to 1 times how much the vectors say; not a number where there is no vector."""
    answers: Array
    """Whether the turn before is a related question."""


def rarity(rows: int, having: int) -> float:
    """Return how much a word counts that so many of the rows have: the square of BM25's."""
    return math.log1p((rows + RARE - having + 0.5) / (having + 0.5)) ** 2


def usual_cosine(near: Array, sense: float) -> float:
    """Return the mean, drawn to what is usual elsewhere if there are few."""
    known = near[~np.isnan(near)]
    return (float(known.sum()) + FEW * USUAL * sense) / (len(known) + FEW)


def feature_columns(rows: RowFeatures, usual: float) -> Array:
    """Return what is weighed, a row each."""
    near = np.nan_to_num(rows.near - usual)
    return np.column_stack([rows.words, near, rows.answers]).astype(np.float64)


def weigh_rows(rows: RowFeatures, usual: float) -> Array:
    """Return the weight of each row."""
    return feature_columns(rows, usual) @ np.array((WORDS, NEAR, ANSWERS))


def build_thresholds(earlier: Array, usual: float) -> ChangeThresholds:
    """Return the bars for what comes after rows of these weights."""

    def bar(share: float, least: float) -> float:
        return min(max(float(np.quantile(earlier, share)), least), HIGHEST) if len(earlier) else least

    return ChangeThresholds(usual, bar(*JUDGE_BAR), bar(*DOUBT_BAR))


def weigh_later_rows(rows: RowFeatures, sampled: int, keys: Sequence[tuple[Layer, int]], sense: float) -> LaterRows:
    """Return which later rows may change the answer; the first `sampled` are earlier ones, the others have `keys`.

    `sense` is how much the vectors say, 0 to 1.
    """
    usual = usual_cosine(rows.near[:sampled], sense)
    weights = weigh_rows(rows, usual)
    bars = build_thresholds(weights[:sampled], usual)
    later, embedded = weights[sampled:], ~np.isnan(rows.near[sampled:])
    highest = later + np.where(embedded, 0, NEAR * (sense - usual))
    chosen = np.flatnonzero(highest > bars.judged).tolist()
    return LaterRows(bars, [LaterRow(*keys[at], float(later[at]), bool(embedded[at])) for at in chosen])
