"""When a ready answer is served for another question: people's pairs, hand-written near misses, seven languages.

People's pairs are not part of this repository: `python -m benchmarks answers_pairs --data PATH`, JSON Lines with `a`,
`b` and `same`. The hand-written ones are those of `circadia eval judge` and in `benchmarks/language_suite.json`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.language_suite import load_language_suite
from benchmarks.minimal_edits import make_minimal_edits
from benchmarks.report import Goal, Report, number
from circadia.answers.question_text import find_conflict
from circadia.clock import SystemClock
from circadia.evaluation.judging import (
    JudgedPairs,
    PairJudge,
    QuestionPair,
    build_erring_judge,
    judge_pairs,
    load_english_pairs,
    read_pairs,
)
from circadia.memory.embedding.bundled import BundledEmbedder, WordTable
from circadia.settings.answers import AnswersSettings

ERRORS: Final = (0.0, 0.02, 0.05, 0.1)
SEED: Final = 6
TINY: Final = tuple(
    QuestionPair(first=first, second=second, same=same, kind="people")
    for one, other, same in (
        ("How do I reset my password?", "What is the best way to reset my password?", True),
        ("How can I lose weight fast?", "How do I lose weight quickly?", True),
        ("When does the office open?", "When does the office close?", False),
        ("How far is it from Rome to Milan?", "How far is it from Milan to Rome?", False),
        ("Who wrote the report?", "Why was the report late?", False),
        ("What is the price of the large plan?", "How much does the large plan cost?", True),
    )
    for first, second in ((one, other), (other, one))
)
"""Shows only that it runs."""
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
    people = TINY if size.data is None else read_pairs(size.data)
    changed = make_minimal_edits([each.first for each in people[::EDITED]], SEED)
    edits = [QuestionPair(first=each.before, second=each.after, same=False, kind=each.kind) for each in changed]
    sets = (people, edits, load_english_pairs(), _suite([_ENGLISH]), _suite(["de", "fr", "es", "zh", "ja", "ar"]))
    words = await BundledEmbedder().word_vectors()

    async def measured(name: str, judge: Callable[[Sequence[QuestionPair]], PairJudge | None]) -> Way:
        found = [await judge_pairs(each, words, judge(each), SystemClock()) for each in sets]
        return Way(name=name, people=found[0], edits=found[1], english=found[2], suite=found[3], others=found[4])

    ways = [await measured("the same text only (`check: off`)", lambda _: None)]
    for error in ERRORS:
        name = f"`check: model`, wrong in {100 * error:g} %"
        ways.append(await measured(name, lambda some, error=error: build_erring_judge(some, error)))
    return _report(size, ways, _hints(people, words))


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


def _report(size: Size, ways: Sequence[Way], hints: str) -> Report:
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
        goals=_goals(ways),
        notes=[
            f"People's pairs: {first.people.same:,} that ask the same and {first.people.other:,} that do not; "
            f"{first.edits.other:,} edits; by hand {first.english.same} reworded, {first.english.other} near misses; "
            f"the suite has {first.suite.same} and {first.suite.other} in English, {first.others.same} and "
            f"{first.others.other} in German, French, Spanish, Chinese, Japanese and Arabic.",
            "Scripted judges know the labels and err on a fixed share of what they are asked; `circadia eval judge` "
            "measures a real model. Half of the suite's `same` are the same text but for white space, width and marks.",
            hints,
            *([] if size.data is not None else ["There was no data, so people's pairs are a few made-up ones."]),
        ],
        figures={each.name: dict(zip(_FIGURES, each.shares, strict=True)) for each in ways},
    )  # fmt: skip


def _goals(ways: Sequence[Way]) -> Sequence[Goal]:
    right = next(each for each in ways if each.name.endswith("wrong in 0 %"))
    served = [
        ("near misses of the suite served, same text only", 0,
         max(ways[0].suite.wrong_share, ways[0].others.wrong_share)),
        ("near misses of the suite served with a judge that is right", 0,
         max(right.suite.wrong_share, right.others.wrong_share)),
    ]  # fmt: skip
    return [Goal(what=what, limit=limit, unit="%", found=100 * share) for what, limit, share in served]
