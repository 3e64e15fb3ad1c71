"""When a ready answer is taken for another question: labelled pairs, and questions changed by rule in one small thing.

The pairs are not part of this repository: `python -m benchmarks answers_pairs --data PATH`, JSON Lines with `a`, `b`
and `same`. Those of the fit part made the weights (`benchmarks.answers_fit`); what is told here is of the others.
"""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from benchmarks.question_pairs import Pair, pairs
from benchmarks.report import Goal, Report, number
from circadia.ids import AnswerId
from circadia.llm import local_weights
from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.answers import second_look
from circadia.memory.answers.likeness import Likeness, fitted
from circadia.memory.answers.lookup import OPEN, Bars, Found, Outcome, ReadyAnswers, Way
from circadia.memory.answers.second_look import Looks, SecondLook
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
EMBEDDER: Final = "cosine of the embedder alone"
"""The way of the bundled one."""
CHECKED: Final = Bars(check=OPEN)
"""As shipped, with the check `local`."""
UNSURE: Final = Bars(hit=2.0, entry=0.0, check=OPEN)
"""Leaves all but the same words to the check."""
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
        EMBEDDER: _scores(given, np.einsum("ij,ij->i", first, second).tolist()),
    }
    shipped = _scores(given, [_asked(each.a, each.b, words, likeness, None).outcome is Outcome.HIT for each in given])
    edits = list(minimal_edits([each.a for each in given], SEED))
    passed = [each for each in edits if _asked(each.before, each.after, words, likeness, None).outcome is Outcome.HIT]
    checks: list[Check] = []
    for weights in reversed(local_weights.COMPARING):
        archive = local_weights.present(weights, local_weights.models_folder(os.environ))
        if archive is None:
            continue
        before = psutil.Process().memory_info().rss
        encoder = LocalEncoder(archive)
        look = SecondLook(Looks(words, likeness, encoder), second_look.fitted(weights.name))
        takes = psutil.Process().memory_info().rss - before
        unsure = [_asked(each.a, each.b, words, likeness, UNSURE) for each in given]
        checked = [_timed(look, each, pair.b) for each, pair in zip(unsure, given, strict=True)]
        scores = _scores(given, [each.confidence for each in checked])
        open_to_it = [_asked(each.before, each.after, words, likeness, CHECKED) for each in edits]
        through = [each for found, each in zip(open_to_it, edits, strict=True) if _served(look, found, each)]
        seconds = [each.seconds for each in checked if each.seconds]
        cosines = _scores(given, [_cosine(encoder, each.a, each.b) for each in given])
        checks.append(
            Check(
                encoder=weights.name, takes_bytes=takes, scores=scores, cosines=cosines, passed=through, seconds=seconds
            )
        )
    ways |= {way: scores for check in checks for way, scores in check.ways.items()}
    return _report(size, ways, shipped, edits, passed, checks)


def _cosine(encoder: LocalEncoder, first: str, second: str) -> float:
    """Return how alike two questions are by an encoder alone, as it was trained to tell."""
    one, two = (encoder.states(text)[1][-1].mean(axis=0) for text in (first, second))
    return float(one @ two / (np.linalg.norm(one) * np.linalg.norm(two)))


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What the check says of one pair."""

    confidence: float
    seconds: tuple[float, float] | None = None
    """How long it took: both questions being new to it, and one of them at hand; none if it was not asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What the check `local` comes to with an encoder."""

    encoder: str
    takes_bytes: int
    """Of memory, once it is loaded."""
    scores: Scores
    cosines: Scores
    """Those of the same encoder's cosine alone."""
    passed: Sequence[Edit]
    """Minimal edits that are hits with it."""
    seconds: Sequence[tuple[float, float]]

    @property
    def way(self) -> str:
        """Return what it is called in the table."""
        return f"with the check, {self.encoder}"

    @property
    def ways(self) -> Mapping[str, Scores]:
        """Return its columns, by name: what it says beside what its encoder says without it."""
        return {f"cosine of {self.encoder} alone": self.cosines, self.way: self.scores}


def _timed(look: SecondLook, found: Found, asked: str) -> Look:
    """Ask the check about what the lookup leaves to it."""
    match = found.match
    if match is None or not match.open:
        same = match is not None and match.way is Way.EXACT and not match.objections
        return Look(confidence=1.0 if same else NONE)
    began = time.perf_counter()
    confidence = look.confidence(asked, match.phrasing)
    new = time.perf_counter() - began
    began = time.perf_counter()
    look.confidence(f"{asked} ", match.phrasing)  # the space makes it one that is not at hand
    return Look(confidence=confidence, seconds=(new, time.perf_counter() - began))


def _served(look: SecondLook, found: Found, edit: Edit) -> bool:
    """Return whether an edit is a hit with the check, as shipped."""
    match = found.match
    if match is None or match.way is Way.EXACT:
        return found.outcome is Outcome.HIT
    asked = found.outcome is Outcome.HIT or match.open
    return asked and look.confidence(edit.after, match.phrasing) >= CHECKED.hit


def _absent(checks: Sequence[Check]) -> Sequence[str]:
    """Return what is told of the encoders that are not here."""
    here = {check.encoder for check in checks}
    return [
        f"There is no column with the check `local` by {each.name!r}, since that is not here: `circadia model fetch "
        f"{each.name}`."
        for each in reversed(local_weights.COMPARING)
        if each.name not in here
    ]


def _of_checks(checks: Sequence[Check], edits: int) -> tuple[Sequence[Goal], Sequence[str]]:
    each = [_of_check(check, edits) for check in checks]
    return [goal for goals, _ in each for goal in goals], [
        *_absent(checks),
        *(note for _, told in each for note in told),
    ]


def _of_check(check: Check, edits: int) -> tuple[Sequence[Goal], Sequence[str]]:
    """Return the goals of the check, and what is told of it."""
    ours, cosine = check.scores.accepted(COMPARED_AT), check.cosines.accepted(COMPARED_AT)
    hits = [100 * float((each >= CHECKED.hit).mean()) for each in (check.scores.same, check.scores.other)]
    took = 1000 * np.array(check.seconds or [(0.0, 0.0)])
    new, kept = np.median(took, axis=0).tolist()
    slow = float(np.quantile(took[:, 1], 0.95))
    goals = [
        Goal(what=f"false accepts at 45 % hits, {check.way}", limit=1, unit="%", found=ours),
        Goal(
            what=f"times fewer than the cosine of its encoder at 45 % hits, {check.way}", limit=3, unit="times",
            bound="at least", found=cosine / ours if ours else float(len(check.scores.other)),
        ),
        Goal(
            what=f"minimal edits that pass, {check.way}", limit=0.1, unit="%",
            found=100 * len(check.passed) / max(edits, 1),
        ),
    ]  # fmt: skip
    return goals, [
        f"With the check `local` by {check.encoder!r}, as shipped, {number(hits[0])} % of the paraphrases and "
        f"{number(hits[1])} % of the others are hits, and {len(check.passed)} minimal edits.",
        f"It was asked of {len(check.seconds):,} pairs. A check takes {number(kept)} ms in the median and "
        f"{number(slow)} ms at the 95th percentile where the ready question is at hand, {number(new)} ms where both "
        "are new to it. It runs in the server: no tokens, no price, about "
        f"{number(check.takes_bytes / 1e6)} MB of memory.",
        *(f"A minimal edit that passed it: {each.before!r} as {each.after!r}." for each in check.passed[:5]),
    ]


def _report(
    size: Size, ways: Mapping[str, Scores], shipped: Scores, edits: Sequence[Edit], passed: Sequence[Edit],
    checks: Sequence[Check],
) -> Report:  # fmt: skip
    curve = {way: [scores.accepted(hits) for hits in HITS] for way, scores in ways.items()}
    at = HITS.index(COMPARED_AT)
    ours, cosine = curve["guarded"][at], curve[EMBEDDER][at]
    made, through = Counter(each.kind for each in edits), Counter(each.kind for each in passed)
    rows = [
        [f"{hits} % of paraphrases hit", *(f"{number(curve[way][place])} %" for way in ways)]
        for place, hits in enumerate(HITS)
    ]
    share = 100 * len(passed) / max(len(edits), 1)
    goals, told = _of_checks(checks, len(edits))
    return Report(
        name="answers_pairs",
        title=f"Other questions that are answered, of {len(ways['guarded'].other):,}, by how many of "
        f"{len(ways['guarded'].same):,} paraphrases are",
        columns=["bar such that", *ways],
        rows=rows,
        goals=[
            Goal(what="false accepts at 45 % hits", limit=1, unit="%", found=ours),
            Goal(
                what="times fewer than the cosine of its embedder at 45 % hits", limit=3, unit="times",
                bound="at least", found=cosine / ours if ours else float(len(ways["guarded"].other)),
            ),
            Goal(what="minimal edits that pass", limit=0.1, unit="%", found=share),
            *goals,
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
            *told,
            "A guard that objects makes a hit impossible at any bar, so that a curve with guards ends where they "
            "object to more paraphrases than may be missed.",
            "The vectors are those of the bundled embedder. But for the check, no model is asked.",
            *(
                ["There was no data, so these are a few made-up pairs: it shows only that it runs."]
                if size.data is None
                else ["The data are the test part of the given pairs; no question of it was fitted on."]
            ),
        ],
        figures={"curve": curve, "hits": list(HITS), "edits": dict(made), "passed": dict(through)},
    )  # fmt: skip
