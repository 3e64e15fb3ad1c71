"""Fits the judge `check: local` of ready answers on the fit part of labelled pairs: `python -m benchmarks.answers_fit`.

A logistic regression with a ridge, by Newton's method, and boosted trees (`benchmarks.answers_trees`). Questions of the
fit part that were changed by rule in one small thing (`circadia.testing.minimal_edits`) are negatives. What is printed
is cross-validated, no question being in two parts. A second run writes the same.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from benchmarks.answers_trees import boost_trees
from benchmarks.question_pairs import pairs
from circadia.answers import pair_classifier
from circadia.answers.pair_classifier import DIGITS, ClassifierWeights, PairClassifier, weights_file
from circadia.answers.pair_features import EncodedText, PairFeatures, encode_text, pair_features
from circadia.errors import StartError
from circadia.llm import local_weights
from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.search.columns import Array
from circadia.testing.minimal_edits import make_minimal_edits

RIDGE: Final = 30.0
DIMENSION_STRENGTH: Final = 0.15
"""How much less than a feature a single dimension may weigh: there are thousands of them."""
EDITED: Final = 10
"""Of one in so many questions of the fit part the changed ones are negatives."""
SEED: Final = 7
PARTS: Final = 5
STEPS: Final = 20
SHOWN: Final = (20, 30, 35, 40, 45)
_KEPT_TEXTS: Final = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """Two questions with their label."""

    features: PairFeatures
    same: bool
    part: int
    edited: bool


def main(
    data: Annotated[Path, typer.Option(help="Labelled pairs, JSON Lines with a, b and same.", exists=True)],
    encoder: Annotated[str, typer.Option(help="Which encoder.")] = local_weights.JUDGE_WEIGHTS.name,
    target: Annotated[Path | None, typer.Option(help="Where the weights go; else where they are shipped.")] = None,
) -> None:
    """Fit the weights for an encoder and write them.

    Raises:
        StartError: the encoder is not here.
    """
    archive = local_weights.find_weights_file(
        local_weights.get_weights(encoder), local_weights.models_folder(os.environ)
    )
    if archive is None:
        raise StartError(f"the weights of {encoder!r} are not here: run `circadia model fetch {encoder}`.")
    target = target or Path(pair_classifier.__file__).with_name(weights_file(encoder))
    cases = read_cases(data, LocalEncoder(archive))
    target.write_text(json.dumps(asdict(fit_weights(cases)), indent=0) + "\n", "utf-8")
    print(f"wrote {target}")
    confidences = np.zeros(len(cases))
    for part in range(PARTS):
        classifier = PairClassifier(fit_weights([case for case in cases if case.part != part]))
        for at, case in enumerate(cases):
            if case.part == part:
                confidences[at] = classifier.confidence(case.features)
    same, edited = np.array([case.same for case in cases]), np.array([case.edited for case in cases])
    for hits in SHOWN:
        bar = float(np.quantile(confidences[same], 1 - hits / 100))
        wrong, passed = (100 * float((confidences[some] >= bar).mean()) for some in (~same & ~edited, edited))
        print(f"{hits} % of paraphrases: bar {bar:.3f}, {wrong:.2f} % of the others, {passed:.2f} % of the edits")


def read_cases(data: Path, encoder: LocalEncoder) -> Sequence[Case]:
    """Return the pairs of the fit part, and the changed questions, with their features."""

    @lru_cache(maxsize=_KEPT_TEXTS)
    def encode(text: str) -> EncodedText:
        return encode_text(text, *encoder.states(text))

    fitted = [pair for pair in pairs(data) if pair.fits]
    given = [(pair.a, pair.b, pair.same, pair.family, False) for pair in fitted]
    for pair in fitted[::EDITED]:
        given += [(each.before, each.after, False, pair.family, True) for each in make_minimal_edits([pair.a], SEED)]
    return [
        Case(features=pair_features(encode(a), encode(b)), same=same, part=family // 5 % PARTS, edited=edited)
        for a, b, same, family, edited in given
    ]


def fit_weights(cases: Sequence[Case]) -> ClassifierWeights:
    """Return the weights that tell these cases apart."""
    named = np.round([list(case.features.named.values()) for case in cases], DIGITS)
    dimensions = np.array([case.features.dimensions for case in cases], np.float64)
    labels = np.array([case.same for case in cases], float)
    parts, strengths = (named, dimensions), (1.0, DIMENSION_STRENGTH)
    means, scales = [each.mean(axis=0) for each in parts], [each.std(axis=0) + 1e-9 for each in parts]
    columns = [
        (part - mean) / scale * strength
        for part, mean, scale, strength in zip(parts, means, scales, strengths, strict=True)
    ]
    found = logistic(np.hstack(columns), labels)
    split = named.shape[1]
    weights = [found[:split] / scales[0], found[split:-1] * DIMENSION_STRENGTH / scales[1]]
    intercept = found[-1] - sum(float(weight @ mean) for weight, mean in zip(weights, means, strict=True))
    return ClassifierWeights(
        intercept=round(float(intercept), DIGITS), weights=_rounded(weights[0]), dimensions=_rounded(weights[1]),
        trees=boost_trees(named, labels),
    )  # fmt: skip


def logistic(columns: Array, labels: Array) -> Array:
    """Return the weights and, last, the intercept, which has no ridge."""
    rows = np.hstack([columns, np.ones((len(columns), 1))])
    ridge = np.full(rows.shape[1], RIDGE)
    ridge[-1] = 0
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-np.clip(rows @ weights, -50, 50)))
        slope = rows.T @ (labels - likely) - ridge * weights
        bend = (rows * (likely * (1 - likely))[:, None]).T @ rows + np.diag(ridge)
        step = np.linalg.solve(bend, slope)
        weights += step
        if float(np.abs(step).max()) < 1e-4:
            break
    return weights


def _rounded(values: Array) -> Sequence[float]:
    return [float(f"{each:.5g}") for each in values]


if __name__ == "__main__":
    typer.run(main)
