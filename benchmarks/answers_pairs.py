"""When a ready answer is taken for another question: labelled pairs, and questions changed by rule in one small thing.

The pairs are not part of this repository: `python -m benchmarks answers_pairs --data PATH`, JSON Lines with `a`, `b`
and `same`. Those of the fit part made the weights (`benchmarks.answers_fit`); what is told here is of the others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.question_pairs import Pair, pairs
from benchmarks.report import Goal, Report, number
from circadia.ids import AnswerId
from circadia.memory.answers.likeness import Likeness, fitted
from circadia.memory.answers.lookup import Bars, Found, Outcome, ReadyAnswers
from circadia.memory.columns import Array
from circadia.memory.embedding.bundled import BundledEmbedder, WordTable
from circadia.records.answer import Expected
from circadia.testing.minimal_edits import Edit, minimal_edits

HITS: Final = (10, 20, 30, 40, 45, 50, 60)
"""Of the paraphrases, in percent: each a point of the curve."""
COMPARED_AT: Final = 45
SEED: Final = 6
ANY: Final = Bars(hit=0.0, hint=0.0, entry=0.0)
"""Lets all through that no guard objects to."""
NONE: Final = -1.0
"""Confidence of what is never a hit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    data: Path | None = None
    """The pairs; none takes a few made-up ones."""


QUICK: Final = Size()


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """How sure a way is of each pair."""

    same: Array
    """Of those that ask for the same."""
    other: Array
    """Of those that do not."""

    def accepted(self, hits: float) -> float:
        """Return which share of the others is taken for the same where so many of the same are; both in percent."""
        bar = np.quantile(self.same, 1 - hits / 100)
        return 100 * float((self.other >= bar).mean()) if bar > NONE else 100.0


async def run(_: Path, size: Size) -> Report:
    """Measure."""
    given = [pair for pair in pairs(size.data) if size.data is None or not pair.fits]
    embedder = BundledEmbedder()
    words, likeness = await embedder.word_vectors(), fitted()
    first, second = await embedder.embed([each.a for each in given]), await embedder.embed([each.b for each in given])
    found = [_asked(each.a, each.b, words, likeness, ANY) for each in given]
    ways = {
        "guarded": _scores(given, [_sure(each, guarded=True) for each in found]),
        "without guards": _scores(given, [_sure(each, guarded=False) for each in found]),
        "cosine alone": _scores(given, np.einsum("ij,ij->i", first, second).tolist()),
    }
    shipped = _scores(given, [_asked(each.a, each.b, words, likeness, None).outcome is Outcome.HIT for each in given])
    edits = list(minimal_edits([each.a for each in given], SEED))
    passed = [each for each in edits if _asked(each.before, each.after, words, likeness, None).outcome is Outcome.HIT]
    return _report(size, ways, shipped, edits, passed)


def _asked(known: str, asked: str, words: WordTable, likeness: Likeness, bars: Bars | None) -> Found:
    """Ask a question where the answer of one other is ready."""
    ready = ReadyAnswers(words, likeness, bars)
    ready.add([Expected(id=AnswerId("1"), phrasings=[known], confidence=1.0)])
    return ready.find(asked)


def _sure(found: Found, *, guarded: bool) -> float:
    if found.match is None or (guarded and found.match.objections):
        return NONE
    return found.match.confidence


def _scores(given: Sequence[Pair], values: Sequence[float]) -> Scores:
    same = np.array([each.same for each in given])
    return Scores(same=np.array(values, float)[same], other=np.array(values, float)[~same])


def _report(
    size: Size, ways: Mapping[str, Scores], shipped: Scores, edits: Sequence[Edit], passed: Sequence[Edit]
) -> Report:  # fmt: skip
    curve = {way: [scores.accepted(hits) for hits in HITS] for way, scores in ways.items()}
    at = HITS.index(COMPARED_AT)
    ours, cosine = curve["guarded"][at], curve["cosine alone"][at]
    made, through = Counter(each.kind for each in edits), Counter(each.kind for each in passed)
    rows = [
        [f"{hits} % of paraphrases hit", *(f"{number(curve[way][place])} %" for way in ways)]
        for place, hits in enumerate(HITS)
    ]
    share = 100 * len(passed) / max(len(edits), 1)
    return Report(
        name="answers_pairs",
        title=f"Other questions that are answered, of {len(ways['guarded'].other):,}, by how many of "
        f"{len(ways['guarded'].same):,} paraphrases are",
        columns=["bar such that", *ways],
        rows=rows,
        goals=[
            Goal(what="false accepts at 45 % hits", limit=1, unit="%", found=ours),
            Goal(
                what="times fewer than cosine alone at 45 % hits", limit=3, unit="times", bound="at least",
                found=cosine / ours if ours else float(len(ways["guarded"].other)),
            ),
            Goal(what="minimal edits that pass", limit=0.1, unit="%", found=share),
        ]
        if size.data is not None
        else [],
        notes=[
            f"As shipped, {number(100 * float(shipped.same.mean()))} % of the paraphrases and "
            f"{number(100 * float(shipped.other.mean()))} % of the others are hits.",
            f"{len(passed)} of {len(edits):,} minimal edits of these questions are hits, by rule: "
            + ", ".join(f"{kind} {through[kind]} of {count:,}" for kind, count in sorted(made.items()))
            + ".",
            *(f"A minimal edit that passed: {each.before!r} as {each.after!r}." for each in passed[:5]),
            "A guard that objects makes a hit impossible at any bar, so that a curve with guards ends where they "
            "object to more paraphrases than may be missed.",
            "The vectors are those of the bundled embedder. No model is asked.",
            *(
                ["There was no data, so these are a few made-up pairs: it shows only that it runs."]
                if size.data is None
                else ["The data are the test part of the given pairs; no question of it was fitted on."]
            ),
        ],
        figures={"curve": curve, "hits": list(HITS), "edits": dict(made), "passed": dict(through)},
    )  # fmt: skip
