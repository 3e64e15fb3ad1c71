"""When a ready answer is served for another question: people's pairs, hand-written near misses, seven languages.

People's pairs are not part of this repository: `python -m benchmarks answers_pairs --data PATH`, JSON Lines with `a`,
`b` and `same`. Those of the fit part made the weights of the judge `check: local` (`benchmarks.answers_fit`); what is
told is of the others, of pairs that nothing was fitted on, and of the suite in `circadia.testing.language_suite`.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.question_pairs import pairs
from benchmarks.report import Goal, Report, number
from circadia.answers.identifiers import find_conflict
from circadia.answers.local_judge import PairComparison
from circadia.answers.pair_classifier import load_classifier
from circadia.clock import SystemClock
from circadia.evaluation.judging import JudgedPairs, PairJudge, build_erring_judge, judge_pairs
from circadia.llm import local_weights
from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.embedding.bundled import BundledEmbedder, WordTable
from circadia.memory.search.columns import Array
from circadia.settings.answers import AnswersSettings
from circadia.testing.language_suite import QuestionPair, load_english_pairs, load_language_suite
from circadia.testing.minimal_edits import make_minimal_edits

HITS: Final = 35
"""Percent of people's paraphrases at which judges are compared (ANS-09)."""
ERRORS: Final = (0.0, 0.02, 0.05, 0.1)
SEED: Final = 6
EDITED: Final = 4
"""Of one in so many of people's questions the changed ones are measured."""
_ENGLISH: Final = "en"
_FIGURES: Final = (
    "people_hits", "people_wrong", "edits_wrong", "english_hits", "english_wrong", "suite_hits", "suite_wrong",
    "others_hits", "others_wrong",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    data: Path | None = None
    """People's pairs; none takes a few made-up ones."""


QUICK: Final = Size()


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """What one way of deciding comes to on each set of pairs."""

    name: str
    people: JudgedPairs
    edits: JudgedPairs
    english: JudgedPairs
    suite: JudgedPairs
    others: JudgedPairs
    """Of the suite, the languages other than English."""

    @property
    def shares(self) -> Sequence[float]:
        """Return the shares in the order of the table's columns."""
        return [
            self.people.hit_share, self.people.wrong_share, self.edits.wrong_share, self.english.hit_share,
            self.english.wrong_share, self.suite.hit_share, self.suite.wrong_share, self.others.hit_share,
            self.others.wrong_share,
        ]  # fmt: skip


async def run(_: Path, size: Size) -> Report:
    """Measure."""
    given = [each for each in pairs(size.data) if size.data is None or not each.fits]
    people = [QuestionPair(first=each.a, second=each.b, same=each.same, kind="people") for each in given]
    changed = make_minimal_edits([each.a for each in given[::EDITED]], SEED)
    edits = [QuestionPair(first=each.before, second=each.after, same=False, kind=each.kind) for each in changed]
    sets = (people, edits, load_english_pairs(), _suite([_ENGLISH]), _suite(["de", "fr", "es", "zh", "ja", "ar"]))
    words = await BundledEmbedder().word_vectors()

    async def measured(name: str, judge: Callable[[Sequence[QuestionPair]], PairJudge | None]) -> Way:
        found = [await judge_pairs(each, words, judge(each), SystemClock()) for each in sets]
        return Way(name=name, people=found[0], edits=found[1], english=found[2], suite=found[3], others=found[4])

    ways = [await measured("the same text only (`check: off`)", lambda _: None)]
    notes, goals = list[str](), list[Goal]()
    archive = local_weights.find_weights_file(local_weights.JUDGE_WEIGHTS, local_weights.models_folder(os.environ))
    if archive is None:
        fetch = f"circadia model fetch {local_weights.JUDGE_WEIGHTS.name}"
        notes.append(f"`check: local` is left out: its weights are not here (`{fetch}`).")
    else:
        encoder = LocalEncoder(archive)
        comparison = PairComparison(encoder, load_classifier(local_weights.JUDGE_WEIGHTS.name))
        ways.append(await measured("`check: local`", lambda _: _local(comparison)))
        notes += _local_notes(ways[-1])
        if size.data is not None:
            goals += await asyncio.to_thread(_curve, people, comparison, encoder, words, notes)
    for error in ERRORS:
        name = f"`check: model`, wrong in {100 * error:g} %"
        ways.append(await measured(name, lambda some, error=error: build_erring_judge(some, error)))
    notes.append(_hints(people, words))
    return _report(size, ways, goals, notes)


def _local(comparison: PairComparison) -> PairJudge:
    least = AnswersSettings.model_validate({}).check_confidence

    async def decide(asked: str, candidate: str) -> bool:
        return await asyncio.to_thread(comparison.confidence, asked, candidate) >= least

    return decide


def _suite(languages: Sequence[str]) -> Sequence[QuestionPair]:
    """Return the suite's questions of some languages as pairs."""
    found = list[QuestionPair]()
    for each in load_language_suite():
        if each.language in languages:
            texts = [*each.same_words, *each.paraphrases]
            found += [QuestionPair(first=each.question, second=text, same=True, kind="same") for text in texts]
            found += [
                QuestionPair(first=each.question, second=near.question, same=False, kind=near.kind)
                for near in each.near_misses
            ]
    return found


def _curve(
    people: Sequence[QuestionPair], comparison: PairComparison, encoder: LocalEncoder, words: WordTable,
    notes: list[str],
) -> Sequence[Goal]:  # fmt: skip
    """Return the goals of ANS-09: how many other pairs pass at 35 % hits, beside the cosine of the same encoder."""
    same = np.array([each.same for each in people])
    ours = np.array([
        -1.0 if find_conflict(each.second, each.first) else comparison.confidence(each.second, each.first)
        for each in people
    ])  # fmt: skip
    alone = np.array([_cosine(encoder, each.first, each.second) for each in people])
    wrong, cosine = (_wrong_at(HITS, each[same], each[~same]) for each in (ours, alone))
    notes.append(
        f"At {HITS} % of people's paraphrases, `check: local` serves {number(wrong)} % of the other pairs, and the "
        f"cosine of its encoder alone {number(cosine)} %."
    )
    return [
        Goal(what=f"other pairs served at {HITS} % hits, `check: local`", limit=3, unit="%", found=wrong),
        Goal(
            what="times fewer than the cosine of its encoder", limit=1.5, unit="times", bound="at least",
            found=cosine / wrong if wrong else float(len(people)),
        ),
    ]  # fmt: skip


def _wrong_at(hits: float, same: Array, other: Array) -> float:
    return 100 * float((other >= np.quantile(same, 1 - hits / 100)).mean())


def _cosine(encoder: LocalEncoder, first: str, second: str) -> float:
    one, two = (encoder.states(text)[1][-1].mean(axis=0) for text in (first, second))
    return float(one @ two / (np.linalg.norm(one) * np.linalg.norm(two)))


def _hints(people: Sequence[QuestionPair], words: WordTable) -> str:
    """Return how many of people's other pairs would get a hint."""
    bar = AnswersSettings.model_validate({}).hint_similarity
    near = [
        float(words(each.first)[0] @ words(each.second)[0]) >= bar and not find_conflict(each.second, each.first)
        for each in people
    ]
    shares = [
        100 * float(np.mean([each for each, pair in zip(near, people, strict=True) if pair.same is same] or [0]))
        for same in (True, False)
    ]
    return f"Hints: {number(shares[0])} % of people's paraphrases and {number(shares[1])} % of the other pairs get one."


def _report(size: Size, ways: Sequence[Way], goals: Sequence[Goal], notes: Sequence[str]) -> Report:
    first = ways[0]
    return Report(
        name="answers_pairs",
        title="Questions that are served a ready answer, by who decides about what is not the same text",
        columns=[
            "who decides", "people's paraphrases", "people's other pairs", "minimal edits", "reworded English",
            "English near misses", "suite, English: same", "suite, English: near misses",
            "suite, other languages: same", "suite, other languages: near misses",
        ],
        rows=[[each.name, *(f"{number(100 * share)} %" for share in each.shares)] for each in ways],
        goals=[*(goals if size.data is not None else ()), *_goals(ways)],
        notes=[
            f"People's pairs: {first.people.same:,} that ask the same and {first.people.other:,} that do not; "
            f"{first.edits.other:,} edits; by hand {first.english.same} reworded, {first.english.other} near misses; "
            f"the suite has {first.suite.same} and {first.suite.other} in English, {first.others.same} and "
            f"{first.others.other} in German, French, Spanish, Chinese, Japanese and Arabic.",
            "Scripted judges know the labels and err on a fixed share of what they are asked; `circadia eval judge` "
            "measures a real model. Half of the suite's `same` are the same text but for white space, width and marks.",
            *notes,
            *([] if size.data is not None else ["There was no data, so people's pairs are a few made-up ones."]),
        ],
        figures={each.name: dict(zip(_FIGURES, each.shares, strict=True)) for each in ways},
    )  # fmt: skip


def _goals(ways: Sequence[Way]) -> Sequence[Goal]:
    """Return the goals that need no data of people."""
    right = next(each for each in ways if each.name.endswith("wrong in 0 %"))
    served = [
        ("near misses of the suite served, same text only", 0,
         max(ways[0].suite.wrong_share, ways[0].others.wrong_share)),
        ("near misses of the suite served with a judge that is right", 0,
         max(right.suite.wrong_share, right.others.wrong_share)),
    ]  # fmt: skip
    local = next((each for each in ways if "local" in each.name), None)
    if local is not None:
        served += [
            ("hand-written English near misses served, `check: local`", 5, local.english.wrong_share),
            ("near misses in other languages served, `check: local`", 0, local.others.wrong_share),
        ]
    return [Goal(what=what, limit=limit, unit="%", found=100 * share) for what, limit, share in served]


def _local_notes(local: Way) -> Sequence[str]:
    kinds = ", ".join(
        f"{kind} {count} of {local.english.kinds[kind]}" for kind, count in sorted(local.english.wrong.items())
    )
    asked = max(local.people.candidates, 1)
    return [
        f"`check: local` was asked about {local.people.candidates:,} of people's pairs and took "
        f"{number(1000 * local.people.seconds / asked)} ms a pair.",
        f"Hand-written English near misses that it serves, by kind: {kinds or 'none'}.",
    ]
