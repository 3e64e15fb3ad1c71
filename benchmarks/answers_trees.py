"""Boosted trees for `benchmarks.answers_fit`: small ones, in which all paths ask the same, so that they are two tables.

Each adds what the loss of those before it asks for (Friedman 2001), by a second-order step with a ridge (Chen and
Guestrin 2016, "XGBoost"), on a part of the rows and features that a seed chooses.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from circadia.answers.pair_classifier import DIGITS, TreeTables
from circadia.memory.search.columns import Array

ROUNDS: Final = 250
DEPTH: Final = 4
RATE: Final = 0.06
"""Which part of a step is taken."""
RIDGE: Final = 20.0
BINS: Final = 24
"""Cuts that are tried of each feature."""
ROWS: Final = 0.7
FEATURES: Final = 0.4
SEED: Final = 1


def boost_trees(values: Array, labels: Array) -> TreeTables:
    """Return trees that tell by the values, a row for each case, whether its label is 1 or 0."""
    chance = np.random.default_rng(SEED)
    borders_of = np.linspace(0, 1, BINS + 1)[1:-1]
    cuts: list[Array] = [
        np.unique(np.quantile(values[:, at], borders_of).round(DIGITS)) for at in range(values.shape[1])
    ]
    bins: Array = np.zeros(values.shape, int)
    for at, each in enumerate(cuts):
        bins[:, at] = np.searchsorted(each, values[:, at])
    start = float(np.log(labels.mean() / (1 - labels.mean())))
    told = np.full(len(values), start)
    asked: list[list[int]] = []
    borders: list[list[float]] = []
    leaves: list[list[float]] = []
    for _ in range(ROUNDS):
        likely = 1 / (1 + np.exp(-told))
        slope, bend = labels - likely, likely * (1 - likely)
        rows = np.flatnonzero(chance.random(len(values)) < ROWS)
        tried = np.sort(chance.choice(values.shape[1], max(1, int(values.shape[1] * FEATURES)), replace=False))
        chosen, leaf = _tree(bins[rows], slope[rows], bend[rows], tried, [len(each) for each in cuts])
        places = np.zeros(len(values), int)
        for feature, cut in chosen:
            places = 2 * places + (bins[:, feature] > cut)
        told += leaf[places]
        asked.append([feature for feature, _ in chosen])
        borders.append([float(cuts[feature][cut]) for feature, cut in chosen])
        leaves.append([round(float(each), DIGITS) for each in leaf])
    return TreeTables(start=round(start, DIGITS), features=asked, cuts=borders, leaves=leaves)


def _tree(
    bins: Array, slope: Array, bend: Array, tried: Array, cuts: Sequence[int]
) -> tuple[Sequence[tuple[int, int]], Array]:
    """Return what a tree asks, each a feature and the number of a cut, and what each combination of answers adds."""
    most = max(cuts) + 1
    places = np.zeros(len(bins), int)
    mine = bins[:, tried]
    possible = np.arange(most)[None, :] < np.array(cuts)[tried][:, None]
    chosen: list[tuple[int, int]] = []
    for depth in range(DEPTH):
        shape = (1 << depth, len(tried), most)
        keys = ((places[:, None] * len(tried) + np.arange(len(tried))) * most + mine).ravel()
        slopes, bends = (
            np.bincount(keys, np.repeat(each, len(tried)), shape[0] * shape[1] * shape[2]).reshape(shape).cumsum(axis=2)
            for each in (slope, bend)
        )
        above = slopes[:, :, -1:] - slopes, bends[:, :, -1:] - bends
        gain = (slopes**2 / (bends + RIDGE) + above[0] ** 2 / (above[1] + RIDGE)).sum(axis=0)
        best = int(np.where(possible, gain, -1.0).argmax())
        feature, cut = divmod(best, most)
        chosen.append((int(tried[feature]), cut))
        places = 2 * places + (mine[:, feature] > cut)
    count = 1 << DEPTH
    return chosen, RATE * np.bincount(places, slope, count) / (np.bincount(places, bend, count) + RIDGE)
