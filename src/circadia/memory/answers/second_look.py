"""A second look at two questions, by a small encoder that reads each as a whole: the check `local` (ANS-02).

It weighs how near the questions and their words are in each layer of the encoder, beside all that the likeness weighs
and which guards object that it may overrule. A guard that it must not overrule makes it say no. Two models are fitted,
as those of `likeness` are and with the same form: what is told is the mean of their log odds. The weights are in
`second_look_NAME.json` for each encoder; `python -m benchmarks.second_look_fit --data PATH` makes them.
"""

import importlib.resources
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.answers import likeness as likenesses
from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.guards import YIELDING, objections
from circadia.memory.answers.likeness import DIGITS, Grown, Likeness, Trees
from circadia.memory.answers.meaning import LEAST, WordVectors, meaning
from circadia.memory.answers.normal import tokens
from circadia.memory.answers.wording import compared
from circadia.memory.columns import Array

KEPT: Final = 64
"""Questions whose vectors stay at hand, 150 to 300 KB each, or 1.3 to 2.7 MB of the longest."""

DOUBTED: Final = "substitution, minimal"
"""One word in the place of another, all else being the same: encoders see opposites as near, `learn` and `teach`."""
DOUBT: Final = math.log(0.9 / 0.1) - math.log(0.8 / 0.2)
"""How much surer it must be there, in log odds: what would be 0.9 is 0.8. So none of the fit part passes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weighed:
    """The numbers of the model."""

    intercept: float
    means: Sequence[float]
    """Of the features, on the pairs that it was fitted on; with `scales` they make the weights comparable."""
    scales: Sequence[float]
    weights: Sequence[float]
    """One for each feature, in the order of `Looked.values`."""
    along: Sequence[float]
    """What it weighs that both vectors point the same way, for each dimension of the encoder."""
    apart: Sequence[float]
    """What it weighs that they are apart, for each."""
    trees: Trees


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """What is weighed of two questions."""

    values: Mapping[str, float]
    """Each feature."""
    along: Array
    """The products of the dimensions of the two vectors."""
    apart: Array
    """How far they are apart, dimension by dimension."""


class Model:
    """The fitted model."""

    def __init__(self, weighed: Weighed) -> None:
        self._weighed = weighed
        self._means, self._scales = np.array(weighed.means), np.array(weighed.scales)
        self._weights = np.array(weighed.weights)
        self._along, self._apart = np.array(weighed.along), np.array(weighed.apart)
        self._trees = Grown(weighed.trees)

    def confidence(self, looked: Looked) -> float:
        """Return how sure it is, 0 to 1, that two questions ask for the same."""
        values = np.round(list(looked.values.values()), DIGITS)
        told = self._weighed.intercept + float(((values - self._means) / self._scales) @ self._weights)
        told += float(looked.along @ self._along) + float(looked.apart @ self._apart)
        told = (told + self._trees(values)) / 2 - DOUBT * looked.values[DOUBTED]
        return 1 / (1 + math.exp(-max(min(told, 50.0), -50.0)))


def data(encoder: str) -> str:
    """Return the name of the file with the weights for an encoder, by the name of that (`llm.local_weights`)."""
    return f"second_look_{encoder}.json"


def fitted(encoder: str) -> Model:
    """Return the model as it is shipped for an encoder."""
    kept = importlib.resources.files("circadia.memory.answers").joinpath(data(encoder))
    told = json.loads(kept.read_text("utf-8"))
    return Model(Weighed(trees=Trees(**told.pop("trees")), **told))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    """One question, read by the encoder: unit vectors."""

    words: Array
    """Of its tokens, marks aside: by layer, token and dimension."""
    telling: Sequence[int]
    """Which tokens tell something; all, if none does."""
    whole: Array
    """Of the question, layer by layer."""
    core: Array
    """Of what tells something, layer by layer."""
    marks: Array
    """Of the two marks around it, in the middle layer and the last."""


class SecondLook:
    """Tells how likely two questions ask for the same. Threads may share one."""

    def __init__(self, looks: "Looks", model: Model) -> None:
        self._looks = looks
        self._model = model

    def confidence(self, asked: str, known: str) -> float:
        """Return how sure it is, 0 to 1, that two questions ask for the same; 0 where a guard forbids it."""
        looked = self._looks(asked, known)
        return 0.0 if looked is None else self._model.confidence(looked)


class Looks:
    """Looks at two questions; what it sees of one stays at hand."""

    def __init__(self, words: WordVectors, likeness: Likeness, encoder: LocalEncoder) -> None:
        """`likeness` is the model of the lookup."""
        self._words = words
        self._likeness = likeness
        self._encoder = encoder
        self._read = lru_cache(maxsize=KEPT)(self._encoded)

    def __call__(self, asked: str, known: str) -> Looked | None:
        """Return what is weighed of two questions, in either order the same; none if a guard forbids it."""
        a, b = meaning(tokens(asked), self._words), meaning(tokens(known), self._words)
        wording = compared(a, b)
        against = {each.guard for each in objections(a.reading, b.reading, wording)}
        if not against <= YIELDING:
            return None
        sure = self._likeness.confidence(a, b, wording)
        ours, theirs = self._read(asked), self._read(known)
        values = {
            "likeness": math.log(max(sure, LEAST) / max(1 - sure, LEAST)),
            **likenesses.features(a, b, wording), **_near(ours, theirs),
            **{f"{guard}, {kind}": float(guard in against and wording.minimal == minimal)
               for guard in sorted(YIELDING) for kind, minimal in (("minimal", True), ("more", False))},
        }  # fmt: skip
        one, two = ours.whole[-1], theirs.whole[-1]
        return Looked(values=values, along=one * two, apart=np.abs(one - two))

    def _encoded(self, text: str) -> _Read:
        found, states = self._encoder.states(text)
        inner = states[:, 1:-1] if len(found) > 2 else states
        words = found[1:-1] if len(found) > 2 else found
        telling = [
            at for at, token in enumerate(words)
            if token.startswith("##") or (token.isalnum() and token not in classes.EMPTY)
        ] or list(range(len(words)))  # fmt: skip
        return _Read(
            words=_unit(inner), telling=telling, whole=_unit(states.mean(axis=1)),
            core=_unit(inner[:, telling].mean(axis=1)), marks=_unit(states[[len(states) // 2, -1]][:, [0, -1]]),
        )  # fmt: skip


def _near(ours: _Read, theirs: _Read) -> Mapping[str, float]:
    """Return how near two questions are, layer by layer, and the words of each to the nearest of the other."""
    values: dict[str, float] = {}
    all_near = ours.words @ theirs.words.transpose(0, 2, 1)
    whole, core = (ours.whole * theirs.whole).sum(axis=1), (ours.core * theirs.core).sum(axis=1)
    for layer, near in enumerate(all_near):
        values[f"{layer}: whole"], values[f"{layer}: core"] = float(whole[layer]), float(core[layer])
        best = near.max(axis=1), near.max(axis=0)
        for kind, (one, two) in (("all", best), ("telling", (best[0][ours.telling], best[1][theirs.telling]))):
            mean, worst = sorted((float(one.mean()), float(two.mean()))), sorted((float(one.min()), float(two.min())))
            values |= {
                f"{layer}: {kind}, worse": mean[0], f"{layer}: {kind}, better": mean[1],
                f"{layer}: {kind}, worst of the worse": worst[0], f"{layer}: {kind}, worst of the better": worst[1],
            }  # fmt: skip
    marks = (ours.marks * theirs.marks).sum(axis=-1)
    for name, row in zip(("middle", "last"), marks.tolist(), strict=True):
        values[f"{name}: first mark"], values[f"{name}: last mark"] = row
    return values


def _unit(rows: Array) -> Array:
    return rows / np.maximum(np.sqrt((rows * rows).sum(axis=-1, keepdims=True)), LEAST)
