"""Fits the check `local` of ready answers on the fit part of labelled pairs: `python -m benchmarks.second_look_fit`.

As `benchmarks.answers_fit` fits the likeness, which it has to run before. What the likeness says of a pair that it was
fitted on would be too sure, so it is fitted anew for each part of the pairs, on the others. Questions of the fit part
that were changed by rule in one small thing, and that only guards object to which the check may overrule, count as
questions that do not ask for the same. What is told is cross-validated, no question being in two parts.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer
import uvloop

from benchmarks.answers_fit import DIGITS, PARTS, SHOWN, fit, logistic
from benchmarks.answers_trees import grown
from benchmarks.question_pairs import Pair, pairs
from circadia.errors import StartError
from circadia.llm import local_weights
from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.answers import likeness, second_look
from circadia.memory.answers.likeness import Likeness
from circadia.memory.answers.second_look import Looked, Looks, Model, Weighed
from circadia.memory.columns import Array
from circadia.memory.embedding.bundled import BundledEmbedder, WordTable
from circadia.testing.minimal_edits import minimal_edits

PARTLY: Final = 0.15
"""How much less than a feature a single dimension may count."""
EDITED: Final = 10
"""Of one in so many questions of the fit part the changed ones are taken."""
SEED: Final = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """Two questions, as the check sees them."""

    looked: Looked
    same: bool
    part: int
    edited: bool


def main(
    data: Annotated[Path, typer.Option(help="Labelled pairs, JSON Lines with a, b and same.", exists=True)],
    encoder: Annotated[str, typer.Option(help="Which encoder: minilm or mpnet.")] = local_weights.MINILM.name,
    target: Annotated[Path | None, typer.Option(help="Where the weights go; else where they are shipped.")] = None,
) -> None:
    """Fit the weights for an encoder and write them.

    Raises:
        StartError: the encoder is not here.
    """
    archive = local_weights.present(local_weights.known(encoder), local_weights.models_folder(os.environ))
    if archive is None:
        raise StartError(f"the weights of {encoder!r} are not here: run `circadia model fetch {encoder}`.")
    target = target or Path(second_look.__file__).with_name(second_look.data(encoder))
    given, vectors = [pair for pair in pairs(data) if pair.fits], uvloop.run(BundledEmbedder().word_vectors())
    cases = looked_at(given, vectors, LocalEncoder(archive))
    target.write_text(json.dumps(asdict(weighed(cases)), indent=0) + "\n", "utf-8")
    print(f"wrote {target}")
    told = {True: list[float](), False: list[float]()}
    for part in range(PARTS):
        model = Model(weighed([case for case in cases if case.part != part]))
        for case in cases:
            if case.part == part and not case.edited:
                told[case.same].append(model.confidence(case.looked))
    count = {same: sum(pair.same == same for pair in given) for same in told}
    for hits in SHOWN:
        bar = sorted(told[True], reverse=True)[round(count[True] * hits / 100) - 1]
        wrong = 100 * sum(each >= bar for each in told[False]) / count[False]
        print(f"{hits} % of paraphrases: bar {bar:.3f}, {wrong:.2f} % of the others")


def looked_at(given: Sequence[Pair], vectors: WordTable, encoder: LocalEncoder) -> Sequence[Case]:
    """Return the cases that no guard forbids, each with a likeness that knows none of its questions."""
    cases: list[Case] = []
    for part in range(PARTS):
        mine = [pair for pair in given if pair.family // 5 % PARTS == part]
        others = [pair for pair in given if pair.family // 5 % PARTS != part]
        look = Looks(vectors, Likeness(fit(others, vectors)), encoder)
        asked = [(pair.a, pair.b, pair.same, False) for pair in mine]
        changed = minimal_edits([pair.a for pair in mine[::EDITED]], SEED)
        asked += [(each.before, each.after, False, True) for each in changed]
        for a, b, same, edited in asked:
            looked = look(a, b)
            if looked is not None:
                cases.append(Case(looked=looked, same=same, part=part, edited=edited))
    return cases


def weighed(cases: Sequence[Case]) -> Weighed:
    """Return the weights that tell these cases apart."""
    values = np.round([list(case.looked.values.values()) for case in cases], likeness.DIGITS)
    parts: Sequence[Array] = (
        values, np.array([case.looked.along for case in cases]), np.array([case.looked.apart for case in cases]),
    )  # fmt: skip
    strengths = (1.0, PARTLY, PARTLY)
    means, scales = [part.mean(axis=0) for part in parts], [part.std(axis=0) + 1e-9 for part in parts]
    labels = np.array([case.same for case in cases], float)
    columns = [
        (part - mean) / scale * strength
        for part, mean, scale, strength in zip(parts, means, scales, strengths, strict=True)
    ]
    found = logistic(np.hstack(columns), labels)
    ends = np.cumsum([0, *(part.shape[1] for part in parts)])
    weights = [found[start:end] * strength for start, end, strength in zip(ends[:-1], ends[1:], strengths, strict=True)]
    plain = [weight / scale for weight, scale in zip(weights[1:], scales[1:], strict=True)]
    intercept = found[-1] - sum(float(each @ mean) for each, mean in zip(plain, means[1:], strict=True))
    return Weighed(
        intercept=round(float(intercept), DIGITS), means=_rounded(means[0]), scales=_rounded(scales[0]),
        weights=_rounded(weights[0]), along=_rounded(plain[0]), apart=_rounded(plain[1]), trees=grown(values, labels),
    )  # fmt: skip


def _rounded(values: Array) -> Sequence[float]:
    return [float(f"{each:.6g}") for each in values]


if __name__ == "__main__":
    typer.run(main)
