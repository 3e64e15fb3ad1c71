"""Fits what `circadia.memory.answers` weighs, on the fit part of labelled pairs: `python -m benchmarks.answers_fit`.

A logistic regression with a ridge, by Newton's method, and boosted trees (`benchmarks.answers_trees`). A second run
writes the same. What it tells of itself is cross-validated within the fit part.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer
import uvloop

from benchmarks.answers_trees import grown
from benchmarks.question_pairs import Pair, pairs
from circadia.memory.answers import likeness
from circadia.memory.answers.guards import objections
from circadia.memory.answers.likeness import Fitted, Likeness, features
from circadia.memory.answers.meaning import meaning
from circadia.memory.answers.normal import tokens
from circadia.memory.answers.wording import compared
from circadia.memory.columns import Array
from circadia.memory.embedding.bundled import BundledEmbedder, WordTable

RIDGE: Final = 30.0
"""How much it costs to weigh something."""
PARTLY: Final = 0.15
"""How much less than a feature a single word or dimension may count: there are hundreds of them."""
APART_IN: Final = 10
"""Pairs in which only one question has a word, so that its weight is learnt."""
SHARED_IN: Final = 16
"""Pairs in which both have it."""
STEPS: Final = 20
PARTS: Final = 5
SHOWN: Final = (20, 30, 40, 45, 50)
DIGITS: Final = 4


def main(
    data: Annotated[Path, typer.Option(help="Labelled pairs, JSON Lines with a, b and same.", exists=True)],
    target: Annotated[Path, typer.Option(help="Where the weights go.")] = Path(likeness.__file__).with_name(
        likeness.DATA
    ),
) -> None:
    """Fit the weights and write them."""
    given, vectors = [pair for pair in pairs(data) if pair.fits], uvloop.run(BundledEmbedder().word_vectors())
    target.write_text(json.dumps(asdict(fit(given, vectors)), indent=0) + "\n", "utf-8")
    print(f"wrote {target}")
    told = _validated(given, vectors)
    same = np.array([pair.same for pair in given])
    for hits in SHOWN:
        bar = float(np.quantile(told[same], 1 - hits / 100))
        wrong = 100 * float((told[~same] >= bar).mean()) if bar > 0 else 100.0
        print(f"{hits} % of paraphrases: bar {bar:.3f}, {wrong:.2f} % of the others")


def _validated(given: Sequence[Pair], vectors: WordTable) -> Array:
    """Return how sure a model is of each pair of which it knows no question; 0 where a guard objects."""
    told = np.zeros(len(given))
    for part in range(PARTS):
        model = Likeness(fit([pair for pair in given if pair.family // 5 % PARTS != part], vectors))
        for at, pair in enumerate(given):
            if pair.family // 5 % PARTS == part:
                a, b = meaning(tokens(pair.a), vectors), meaning(tokens(pair.b), vectors)
                wording = compared(a, b)
                clear = a.reading.alone and b.reading.alone and not objections(a.reading, b.reading, wording)
                told[at] = model.confidence(a, b, wording) if clear else 0.0
    return told


def fit(given: Sequence[Pair], vectors: WordTable) -> Fitted:
    """Return the weights that tell these pairs apart."""
    both = [(meaning(tokens(pair.a), vectors), meaning(tokens(pair.b), vectors)) for pair in given]
    rows = [np.round(list(features(a, b, compared(a, b)).values()), likeness.DIGITS) for a, b in both]
    apart = [set(a.reading.words) ^ set(b.reading.words) for a, b in both]
    shared = [set(a.reading.words) & set(b.reading.words) for a, b in both]
    parts = (
        np.array(rows),
        np.array([a.vector * b.vector for a, b in both], float),
        _held(apart, apart_words := _common(apart, APART_IN)),
        _held(shared, shared_words := _common(shared, SHARED_IN)),
    )
    scales = [part.std(axis=0) + 1e-9 for part in parts]
    means = [part.mean(axis=0) for part in parts]
    strengths = (1.0, PARTLY, PARTLY, PARTLY)
    columns = [
        (part - mean) / scale * strength
        for part, mean, scale, strength in zip(parts, means, scales, strengths, strict=True)
    ]
    found = logistic(np.hstack(columns), np.array([pair.same for pair in given], float))
    ends = np.cumsum([0, *(part.shape[1] for part in parts)])
    weights = [found[start:end] * strength for start, end, strength in zip(ends[:-1], ends[1:], strengths, strict=True)]
    plain = [weight / scale for weight, scale in zip(weights[1:], scales[1:], strict=True)]
    intercept = found[-1] - sum(float(each @ mean) for each, mean in zip(plain, means[1:], strict=True))
    labels = np.array([pair.same for pair in given], float)
    return Fitted(
        intercept=round(float(intercept), DIGITS), means=_rounded(means[0]), scales=_rounded(scales[0]),
        weights=_rounded(weights[0]), dimensions=_rounded(plain[0]),
        apart=dict(zip(apart_words, _rounded(plain[1]), strict=True)),
        shared=dict(zip(shared_words, _rounded(plain[2]), strict=True)), trees=grown(parts[0], labels),
    )  # fmt: skip


def _common(sets: Sequence[set[str]], least: int) -> Sequence[str]:
    counts = Counter(word for each in sets for word in each)
    return sorted(word for word, count in counts.items() if count >= least)


def _held(sets: Sequence[set[str]], words: Sequence[str]) -> Array:
    return np.array([[word in each for word in words] for each in sets], float)


def _rounded(values: Array) -> Sequence[float]:
    return [round(float(each), DIGITS) for each in values]


def logistic(columns: Array, labels: Array) -> Array:
    """Return the weights and, last, the intercept, which has no ridge."""
    rows = np.hstack([columns, np.ones((len(columns), 1))])
    ridge = np.full(rows.shape[1], RIDGE)
    ridge[-1] = 0
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (labels - likely) - ridge * weights
        bend = (rows * (likely * (1 - likely))[:, None]).T @ rows + np.diag(ridge)
        step = np.linalg.solve(bend, slope)
        weights += step
        if float(np.abs(step).max()) < 1e-4:
            break
    return weights


if __name__ == "__main__":
    typer.run(main)
