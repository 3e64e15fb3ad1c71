"""Fits what `circadia.memory.answers` weighs, on the fit part of labelled pairs: `python -m benchmarks.answers_fit`.

A logistic regression with a ridge, by Newton's method; it has no chance in it, so that a second run writes the same.
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

from benchmarks.question_pairs import Pair, pairs
from circadia.memory.answers import likeness
from circadia.memory.answers.likeness import Fitted, features
from circadia.memory.answers.meaning import meaning
from circadia.memory.answers.normal import tokens
from circadia.memory.answers.wording import compared
from circadia.memory.columns import Array
from circadia.memory.embedding.bundled import BundledEmbedder, WordTable

RIDGE: Final = 10.0
"""How much it costs to weigh something."""
PARTLY: Final = 0.15
"""How much less than a feature a single word or dimension may count: there are hundreds of them."""
APART_IN: Final = 10
"""Pairs in which only one question has a word, so that its weight is learnt."""
SHARED_IN: Final = 16
"""Pairs in which both have it."""
STEPS: Final = 20
DIGITS: Final = 4


def main(
    data: Annotated[Path, typer.Option(help="Labelled pairs, JSON Lines with a, b and same.", exists=True)],
    target: Annotated[Path, typer.Option(help="Where the weights go.")] = Path(likeness.__file__).with_name(
        likeness.DATA
    ),
) -> None:
    """Fit the weights and write them."""
    fitted = fit([pair for pair in pairs(data) if pair.fits], uvloop.run(BundledEmbedder().word_vectors()))
    target.write_text(json.dumps(asdict(fitted), indent=0) + "\n", "utf-8")
    print(f"wrote {target}")


def fit(given: Sequence[Pair], vectors: WordTable) -> Fitted:
    """Return the weights that tell these pairs apart."""
    both = [(meaning(tokens(pair.a), vectors), meaning(tokens(pair.b), vectors)) for pair in given]
    rows = [list(features(a, b, compared(a, b)).values()) for a, b in both]
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
    return Fitted(
        intercept=round(float(intercept), DIGITS), means=_rounded(means[0]), scales=_rounded(scales[0]),
        weights=_rounded(weights[0]), dimensions=_rounded(plain[0]),
        apart=dict(zip(apart_words, _rounded(plain[1]), strict=True)),
        shared=dict(zip(shared_words, _rounded(plain[2]), strict=True)),
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
        if float(np.abs(step).max()) < 1e-6:
            break
    return weights


if __name__ == "__main__":
    typer.run(main)
