"""Estimate how likely a later row changes the answer to a question (ANS-04).

There is no grammar and no word list. A row is weighed by its share of the question's words, rare ones most; by how much
nearer its vector is than the bank's average; and by whether the previous turn is a related question, which it may
answer. The previous turn's vector does not separate evidence better and may be missing, so it is left out. Rarity alone
separates words from speakers: a name that everybody mentions says little, a name in one row says a lot.

Rarities and thresholds come from the rows that the answer was made of, so no later row affects another one, and all
processes compute the same result.

`python -m benchmarks answers_stale --data PATH` fits the weights and prints what passes the thresholds.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from circadia.memory.search.columns import Array
from circadia.records.index_entry import Layer

RARE: Final = 5.0
"""Rows without the word that are added to a bank's, so that a word can be rare in a small bank."""
UNKNOWN: Final = 0.3
"""Weight of a word in no earlier row, for a row that lacks it: mostly it only makes the text a question."""
SAMPLED: Final = 2_000
USUAL: Final = 0.25
"""Cosine of a question with an unrelated row, assumed where there are no rows."""
ASSUMED_ROWS: Final = 20.0
"""Number of rows that this assumption counts as."""
WORDS: Final = 5.3
"""Weight of the rarity-weighted share of the question's words."""
NEAR: Final = 5.1
"""Weight of the cosine above the usual one, for a fully informative vector."""
ANSWERS: Final = 2.1
"""Weight of a related question as the previous turn."""
RELATED: Final = 0.05
"""Share of the answered question's words above which the previous turn is related."""
JUDGE_THRESHOLD: Final = (0.63, 0.25)
"""Share of earlier rows that a row must outweigh to be judged, and its least weight."""
DOUBT_THRESHOLD: Final = (0.84, 0.8)
"""The same for a row that puts an answer in doubt."""
HIGHEST: Final = 3.0
"""Upper limit of the thresholds, since a bank may have one subject only."""
VOID_WEIGHT: Final = 4.5
"""Weight above which a row voids an answer without a judge: one in 300 unrelated turns."""


class ChangeThresholds(NamedTuple):
    """Thresholds for later rows, from the rows before an answer."""

    usual: float
    """Mean cosine with the question."""
    judged: float
    """Weight above which a judge sees a row."""
    doubted: float


class LaterRow(NamedTuple):
    layer: Layer
    number: int
    weight: float
    """Without the cosine if the row has no vector."""
    embedded: bool


class LaterRows(NamedTuple):
    """The later rows that may change the answer, by layer and number, and their thresholds."""

    thresholds: ChangeThresholds
    rows: Sequence[LaterRow]


NO_ROWS: Final = LaterRows(ChangeThresholds(0, 0, 0), ())


class RowFeatures(NamedTuple):
    """Columns that compare rows with a question."""

    words: Array
    """Rarity-weighted share of the question's words."""
    near: Array
    """Cosine times how informative the vectors are, 0 to 1; NaN without a vector."""
    answers: Array
    """Whether the previous turn is a related question."""


def rarity(rows: int, having: int) -> float:
    """Return the weight of a word in `having` of the rows: the square of BM25's."""
    return math.log1p((rows + RARE - having + 0.5) / (having + 0.5)) ** 2


def usual_cosine(near: Array, sense: float) -> float:
    """Return the mean cosine, drawn to `USUAL` if there are few rows."""
    known = near[~np.isnan(near)]
    return (float(known.sum()) + ASSUMED_ROWS * USUAL * sense) / (len(known) + ASSUMED_ROWS)


def feature_columns(rows: RowFeatures, usual: float) -> Array:
    near = np.nan_to_num(rows.near - usual)
    return np.column_stack([rows.words, near, rows.answers]).astype(np.float64)


def weigh_rows(rows: RowFeatures, usual: float) -> Array:
    return feature_columns(rows, usual) @ np.array((WORDS, NEAR, ANSWERS))


def build_thresholds(earlier: Array, usual: float) -> ChangeThresholds:
    """Return the thresholds for rows later than rows of these weights."""

    def threshold(share: float, least: float) -> float:
        return min(max(float(np.quantile(earlier, share)), least), HIGHEST) if len(earlier) else least

    return ChangeThresholds(usual, threshold(*JUDGE_THRESHOLD), threshold(*DOUBT_THRESHOLD))


def weigh_later_rows(rows: RowFeatures, sampled: int, keys: Sequence[tuple[Layer, int]], sense: float) -> LaterRows:
    """Return the later rows that may change the answer; the first `sampled` rows are earlier, the rest have `keys`.

    `sense` is how informative the vectors are, 0 to 1.
    """
    usual = usual_cosine(rows.near[:sampled], sense)
    weights = weigh_rows(rows, usual)
    thresholds = build_thresholds(weights[:sampled], usual)
    later, embedded = weights[sampled:], ~np.isnan(rows.near[sampled:])
    highest = later + np.where(embedded, 0, NEAR * (sense - usual))
    chosen: list[int] = np.flatnonzero(highest > thresholds.judged).tolist()
    best = {keys[at]: at for at in sorted(chosen, key=later.__getitem__)}  # of a turn, the passage that weighs most
    rows_by_place = [LaterRow(*keys[at], float(later[at]), bool(embedded[at])) for at in sorted(best.values())]
    return LaterRows(thresholds, rows_by_place)
