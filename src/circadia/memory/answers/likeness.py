"""How likely two questions ask for the same, by what their words have in common: two models, fitted on pairs.

One is logistic. The other adds up small trees of questions on the same features (Friedman 2001, "Greedy function
approximation"), each of which asks the same on every path (Prokhorenkova et al. 2018, "CatBoost"): a table of cuts and
a table of what each combination is worth. What is told is the weighted mean of their log odds.

Its weights are in `likeness.json`; `python -m benchmarks.answers_fit --data PATH` makes them. It reads words and the
word vectors of the default embedder, whichever embedder searches use, so that its confidence means the same everywhere.
"""

import importlib.resources
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from circadia.memory.answers.meaning import LEAST, Meaning
from circadia.memory.answers.wording import Wording
from circadia.memory.columns import Array

DATA: Final = "likeness.json"
DIGITS: Final = 5
"""Of a feature, so that the last bit of a sum does not decide on which side of a cut it is."""
TREES: Final = 0.66
"""Share of the trees in what is told."""


class Likeness:
    """The fitted model."""

    def __init__(self, fitted: "Fitted") -> None:
        self._fitted = fitted
        self._weights = np.array(self._fitted.weights)
        self._means = np.array(self._fitted.means)
        self._scales = np.array(self._fitted.scales)
        self._dimensions = np.array(self._fitted.dimensions)
        self._trees = Grown(self._fitted.trees)

    def confidence(self, a: Meaning, b: Meaning, wording: Wording) -> float:
        """Return how sure it is, 0 to 1, that two questions ask for the same; in either order it is as sure."""
        values = np.round(list(features(a, b, wording).values()), DIGITS)
        told = self._fitted.intercept + float(((values - self._means) / self._scales) @ self._weights)
        told += float((a.vector * b.vector) @ self._dimensions)
        apart, shared = self._fitted.apart, self._fitted.shared
        told += sum([apart[word] for word in a.known ^ b.known if word in apart])
        told += sum([shared[word] for word in a.known & b.known if word in shared])
        told = told + TREES * (self._trees(values) - told)
        return 1 / (1 + math.exp(-max(min(told, 50.0), -50.0)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Trees:
    """The numbers of the trees, a row for each."""

    start: float
    """Log odds before any of them."""
    features: Sequence[Sequence[int]]
    """What each asks for, by the place in `features`."""
    cuts: Sequence[Sequence[float]]
    """Whether it is more than this."""
    leaves: Sequence[Sequence[float]]
    """What each combination of answers adds, the first answer being the highest bit."""


class Grown:
    """Trees, ready to tell."""

    def __init__(self, trees: Trees) -> None:
        self._start = trees.start
        self._asked, self._cuts, self._leaves = (np.array(each) for each in (trees.features, trees.cuts, trees.leaves))
        self._bits: Array = 2 ** np.arange(self._asked.shape[1])[::-1]
        self._each = np.arange(len(self._asked))

    def __call__(self, values: Array) -> float:
        """Return the log odds that these features make."""
        return self._start + float(self._leaves[self._each, (values[self._asked] > self._cuts) @ self._bits].sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """The numbers of the model."""

    intercept: float
    means: Sequence[float]
    """Of the features, on the pairs that it was fitted on; with `scales` they make the weights comparable."""
    scales: Sequence[float]
    weights: Sequence[float]
    """One for each feature, in the order of `features`."""
    dimensions: Sequence[float]
    """What it weighs that both vectors point the same way, for each dimension."""
    apart: Mapping[str, float]
    """What it weighs that only one question has a word, for common words."""
    shared: Mapping[str, float]
    """What it weighs that both have it."""
    trees: Trees


def fitted() -> Likeness:
    """Return the model as it is shipped."""
    told = json.loads(importlib.resources.files("circadia.memory.answers").joinpath(DATA).read_text("utf-8"))
    return Likeness(Fitted(trees=Trees(**told.pop("trees")), **told))


def features(a: Meaning, b: Meaning, wording: Wording) -> Mapping[str, float]:
    """Return what the model weighs; the order of the two questions changes none of it."""
    one, two = a.reading, b.reading
    cosine, own = float(a.vector @ b.vector), (len(wording.only_a), len(wording.only_b))
    names = sum([word.name for word in wording.only_a]), sum([word.name for word in wording.only_b])
    length, telling = len(one.words) + len(two.words), (len(a.stems), len(b.stems))
    kinds = {one.asks, two.asks}
    ours, theirs = ([each.value for each in reading.quantities] for reading in (one, two))
    return {
        "cosine": cosine,
        "cosine above 0.8": max(cosine - 0.8, 0.0),
        "cosine above 0.9": max(cosine - 0.9, 0.0),
        **_matched(a, b, wording),
        "cosine of own words": _own_cosine(a, b, wording),
        "own words of one alone": float(bool(own[0]) != bool(own[1])),
        "most own words": float(max(own)),
        "fewest own words": float(min(own)),
        "own names": float(max(names)),
        "own names of both": float(min(names)),
        "one for one": float(own == (1, 1)),
        "shared telling words": float(len(set(a.stems) & set(b.stems))),
        "words in common": len(a.known & b.known) / max(len(a.known | b.known), 1),
        "pairs in common": len(a.pairs & b.pairs) / max(len(a.pairs | b.pairs), 1),
        "letters in common": 2 * len(a.letters & b.letters) / max(len(a.letters) + len(b.letters), 1),
        "in order": 2 * _ordered(one.words, two.words) / max(length, 1),
        "telling in order": _ordered(a.stems, b.stems) / max(*telling, 1),
        "same end": float(a.stems[-1:] == b.stems[-1:]),
        "length": math.log(1 + length),
        "telling length": math.log(1 + sum(telling)),
        "fewest telling": float(min(telling)),
        "lengths apart": abs(math.log((1 + len(one.words)) / (1 + len(two.words)))),
        "asks for another thing": float(len(kinds) == 2),
        "asks how and what": float(kinds == {"how", "what"}),
        "asks whether": float(len(kinds) == 2 and "whether" in kinds),
        "both ask how": float(kinds == {"how"}),
        "both ask why": float(kinds == {"why"}),
        "both ask what": float(kinds == {"what"}),
        "both ask whether": float(kinds == {"whether"}),
        "numbers differ": float(sorted(ours) != sorted(theirs)),
        "same numbers": float(bool(ours) and ours == theirs),
        "one says no": float(len(one.negations) != len(two.negations)),
        "future of one": float(one.future != two.future),
        "past of one": float(one.past != two.past),
        "cosine, each alike": float(a.even @ b.even),
        "words of one": float(len(wording.more) + len(wording.less)),
        "fewest of one": float(min(len(wording.more), len(wording.less))),
        "minimal": float(wording.minimal),
        "small": float(wording.small),
        "others are meant": float({each for each, _ in one.persons} != {each for each, _ in two.persons}),
    }  # fmt: skip


def _matched(a: Meaning, b: Meaning, wording: Wording) -> Mapping[str, float]:
    """Return how well each word is matched by the nearest of the other question, and the worst of them."""
    near = wording.near.tolist()
    ours = [(1 - max(row)) * length for row, length in zip(near, a.lengths, strict=True)]
    theirs = [(1 - max(column)) * length for column, length in zip(zip(*near, strict=True), b.lengths, strict=True)]
    missed = 1 - sum(ours) / a.weight, 1 - sum(theirs) / b.weight
    worst = max(ours), max(theirs)
    return {
        "matched by the worse": min(missed), "matched by the better": max(missed),
        "worst word": max(worst), "better's worst word": min(worst),
        **_told(a, b, near),
    }  # fmt: skip


def _told(a: Meaning, b: Meaning, near: Sequence[Sequence[float]]) -> Mapping[str, float]:
    """Return how much of what the telling words say the other question does not say, and how near they are."""
    here, there = [word.at for word in a.reading.telling], [word.at for word in b.reading.telling]
    if not here or not there:
        return _NOTHING
    rows = [[near[at][to] for to in there] for at in here]
    columns = list(zip(*rows, strict=True))
    best = [max(row) for row in rows], [max(column) for column in columns]
    ours, theirs = [a.lengths[at] for at in here], [b.lengths[at] for at in there]
    left = [
        [length * (1 - min(max(cosine, 0.0), 1.0)) for length, cosine in zip(lengths, cosines, strict=True)]
        for lengths, cosines in zip((ours, theirs), best, strict=True)
    ]
    left_all, all_of = [sum(each) for each in left], (sum(ours), sum(theirs))
    share = [part / max(whole, LEAST) for part, whole in zip(left_all, all_of, strict=True)]
    most = [max(each) for each in left]
    shared = sum(
        sum([mine.lengths[word.at] for word in mine.reading.telling if word.stem in other.stems]) / 2
        for mine, other in ((a, b), (b, a))
    )
    turned = _turned(rows, best[0]), _turned(columns, best[1])
    first, last = (best[0][0], best[1][0]), (best[0][-1], best[1][-1])
    values = (
        min(left_all), max(left_all), min(share), max(share), min(most), max(most),
        float(a.core @ b.core), float(a.core_even @ b.core_even), min(last), max(last), min(first), max(first),
        rows[0][0], rows[-1][-1], shared / max(sum(all_of) - shared, LEAST), shared, min(turned),
        sum(all_of) / (len(here) + len(there)),
    )  # fmt: skip
    return dict(zip(_NOTHING, values, strict=True))


def _turned(rows: Sequence[Sequence[float]], best: Sequence[float]) -> float:
    """Return which share of the pairs of words have their nearest ones in the other order."""
    places = [list(row).index(most) for row, most in zip(rows, best, strict=True) if most > _MATCHED]
    turned = sum([before > after for before, after in combinations(places, 2)])
    return turned / max(len(places) * (len(places) - 1) / 2, 1)


_MATCHED: Final = 0.5
"""Cosine from which on the order of two words is compared."""
_NOTHING: Final[Mapping[str, float]] = dict.fromkeys(
    (
        "least left", "most left", "least share left", "most share left", "least left of a word", "most left of a word",
        "telling cosine", "telling cosine, each alike", "worse last", "better last", "worse first", "better first",
        "first to first", "last to last", "weight in common", "shared weight", "turned", "weight of a word",
    ),
    0.0,
)  # fmt: skip


def _cosine(one: Array, other: Array) -> float:
    return float(one @ other) / max(math.sqrt(float(one @ one) * float(other @ other)), LEAST)


def _own_cosine(a: Meaning, b: Meaning, wording: Wording) -> float:
    """Return the cosine of what the first says in its own words and what the second says in its own."""
    if not wording.only_a or not wording.only_b:
        return 0.0
    ours, theirs = [word.at for word in wording.only_a], [word.at for word in wording.only_b]
    one, two = a.weights[ours] @ a.each[ours], b.weights[theirs] @ b.each[theirs]
    return _cosine(one, two)


def _ordered(one: Sequence[str], two: Sequence[str]) -> int:
    """Return how many words of both stand in the same order: their longest common subsequence.

    A bit of one whole number stands for each word of the second (Hyyrö 2004, "Bit-parallel LCS-length computation").
    """
    places: dict[str, int] = {}
    for at, word in enumerate(two):
        places[word] = places.get(word, 0) | 1 << at
    every = (1 << len(two)) - 1
    left = every
    for word in one:
        here = places.get(word)
        if here is not None:
            shared = left & here
            left = (left + shared | left - shared) & every
    return len(two) - left.bit_count()
