"""The fitted model of the judge `check: local`: a logistic regression and small boosted trees over pair features.

The trees ask the same question on every path (Prokhorenkova et al. 2018, "CatBoost"), so that each is a table of cuts
and a table of leaves. The log odds are the mean of both. `python -m benchmarks.answers_fit --data PATH` makes the
weights of `judge_ENCODER.json`.
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
"""Of a feature, so that the last bit of a sum does not decide on which side of a cut it is."""
_MAX_LOG_ODDS: Final = 50.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeTables:
    """Boosted trees, a row each."""

    start: float
    """Log odds before any of them."""
    features: Sequence[Sequence[int]]
    """What each level compares, by the place among the named features."""
    cuts: Sequence[Sequence[float]]
    leaves: Sequence[Sequence[float]]
    """Log odds that each combination of answers adds; the first answer is the highest bit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifierWeights:
    """The fitted numbers."""

    intercept: float
    weights: Sequence[float]
    """One for each named feature."""
    dimensions: Sequence[float]
    """One for each of the dimensions."""
    trees: TreeTables


class PairClassifier:
    """Tells how likely two questions ask the same."""

    def __init__(self, weights: ClassifierWeights) -> None:
        self._intercept = weights.intercept
        self._weights, self._dimensions = np.array(weights.weights), np.array(weights.dimensions)
        self._start = weights.trees.start
        self._features, self._cuts, self._leaves = (
            np.array(each) for each in (weights.trees.features, weights.trees.cuts, weights.trees.leaves)
        )
        self._bits: Array = 2 ** np.arange(self._features.shape[1])[::-1]
        self._each = np.arange(len(self._features))

    def confidence(self, pair: PairFeatures) -> float:
        """Return how likely both ask the same, from 0 to 1."""
        values = np.round(list(pair.named.values()), DIGITS)
        linear = self._intercept + float(values @ self._weights) + float(pair.dimensions @ self._dimensions)
        leaves = self._leaves[self._each, (values[self._features] > self._cuts) @ self._bits]
        log_odds = (linear + self._start + float(leaves.sum())) / 2
        return 1 / (1 + math.exp(-max(min(log_odds, _MAX_LOG_ODDS), -_MAX_LOG_ODDS)))


def weights_file(encoder: str) -> str:
    """Return the name of the file with the weights for an encoder."""
    return f"judge_{encoder}.json"


def load_classifier(encoder: str) -> PairClassifier:
    """Return the shipped classifier for an encoder."""
    stored = json.loads(resources.files("circadia.answers").joinpath(weights_file(encoder)).read_text("utf-8"))
    return PairClassifier(ClassifierWeights(trees=TreeTables(**stored.pop("trees")), **stored))
