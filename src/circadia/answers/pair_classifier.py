"""The fitted model of the judge `check: local`: a logistic regression and small boosted trees over pair features.

The trees are oblivious (Prokhorenkova et al. 2018, "CatBoost"): each is a table of cuts and a table of leaves. The log
odds are the mean of both models. `python -m benchmarks.answers_fit --data PATH` writes `judge_ENCODER.json`.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

import numpy as np

from circadia.answers.pair_features import PairFeatures
from circadia.memory.search.columns import Array

DIGITS: Final = 5
"""Digits of a feature, so that rounding errors do not decide on which side of a cut it is."""
_MAX_LOG_ODDS: Final = 50.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeTables:
    """Boosted trees, one per row."""

    start: float
    """Log odds before the first tree."""
    features: Sequence[Sequence[int]]
    """Index of the named feature that each level compares."""
    cuts: Sequence[Sequence[float]]
    leaves: Sequence[Sequence[float]]
    """Log odds for each combination of answers; the first answer is the highest bit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifierWeights:
    intercept: float
    weights: Sequence[float]
    dimensions: Sequence[float]
    trees: TreeTables


class PairClassifier:
    def __init__(self, weights: ClassifierWeights) -> None:
        self._intercept = weights.intercept
        self._weights, self._dimensions = np.array(weights.weights), np.array(weights.dimensions)
        self._start = weights.trees.start
        self._features, self._cuts, self._leaves = (
            np.array(tree_part) for tree_part in (weights.trees.features, weights.trees.cuts, weights.trees.leaves)
        )
        self._bits: Array = 2 ** np.arange(self._features.shape[1])[::-1]
        self._each = np.arange(len(self._features))

    def confidence(self, pair: PairFeatures) -> float:
        values = np.round(list(pair.named.values()), DIGITS)
        linear = self._intercept + float(values @ self._weights) + float(pair.dimensions @ self._dimensions)
        leaves = self._leaves[self._each, (values[self._features] > self._cuts) @ self._bits]
        log_odds = (linear + self._start + float(leaves.sum())) / 2
        return 1 / (1 + math.exp(-max(min(log_odds, _MAX_LOG_ODDS), -_MAX_LOG_ODDS)))


def weights_file(encoder: str) -> str:
    return f"judge_{encoder}.json"


def load_classifier(encoder: str) -> PairClassifier:
    stored = json.loads(resources.files("circadia.answers").joinpath(weights_file(encoder)).read_text("utf-8"))
    return PairClassifier(ClassifierWeights(trees=TreeTables(**stored.pop("trees")), **stored))
