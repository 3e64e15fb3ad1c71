"""Run the arms over contexts, and sum up results and usage."""

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from circadia.evaluation.arms import Arm, ArmRunner, CasePreparer, PreparedContext, Trial
from circadia.evaluation.asker import Asker, EvaluationUsage
from circadia.evaluation.dataset import Case, estimate_predictability, matches_key
from circadia.records.answer import MatchKind

SIZES: Final = (1, 2, 5, 10, 20)
"""Numbers of questions a context."""
WEIGHTS: Final = (1, 10)
BINS: Final = 4
"""Predictability ranges with equal numbers of questions, except that equally likely ones stay together."""
DIGITS: Final = 3
"""Significant digits of a predictability, to which it is rounded."""


@dataclass(kw_only=True, slots=True)
class TrialResults:
    trials: list[Trial] = field(default_factory=list[Trial])
    prepared: dict[int, PreparedContext] = field(default_factory=dict[int, PreparedContext])
    """By the context's place."""
    complete: bool = False
    """Whether the run was finished."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupCounts:
    """Ready answers that were used after one kind of lookup."""

    found: int
    false: int
    """Answers that do not match the key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmResult:
    """The results of one arm for one number of questions a context."""

    arm: Arm
    questions: int
    contexts: int
    hot: tuple[float, float]
    """Tokens a question while somebody waits: prompt, generated."""
    sleep: tuple[float, float]
    """Tokens a context ahead of time: prompt, generated."""
    accuracy: float
    hits: float
    """Share of questions with a served ready answer."""
    hints: float
    """Share of questions with a ready answer as a hint."""
    false: float
    """Share of questions with a ready answer that does not match the key."""
    exact: LookupCounts
    meaning: LookupCounts

    def cost(self, weight: float, *, generated_only: bool = False) -> float:
        """Return the tokens a question: weighted hot tokens plus its share of the sleep tokens."""
        start = 1 if generated_only else 0
        return weight * sum(self.hot[start:]) + sum(self.sleep[start:]) / self.questions


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictabilityBin:
    """The results of one arm in one range of predictability; ranges do not overlap."""

    arm: Arm
    lowest: float
    """Predictability of the least likely question."""
    highest: float
    questions: int
    hot_tokens: float
    """Prompt and generated tokens a question."""
    accuracy: float
    ready: float
    """Share of questions with a served or shown ready answer."""
    false: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEven:
    """The number of questions a context from which an arm is cheaper than `none`."""

    arm: Arm
    weight: int
    generated_only: bool
    questions: int | None
    """None for never."""


class ArmComparison:
    def __init__(
        self,
        asker: Asker,
        preparing: CasePreparer,
        cases: Sequence[Case],
        arms: Sequence[Arm],
        *,
        seed: int,
        at_once: int,
    ) -> None:
        """`at_once` is the number of contexts measured concurrently."""
        self.asker: Final = asker
        self._preparing = preparing
        self.cases: Final = cases
        self.arms: Final = arms
        self._seed = seed
        self._turn = asyncio.Semaphore(at_once)
        self.tally: Final = TrialResults()

    @property
    def step_count(self) -> int:
        """Return how often `run` calls `advance`."""
        return sum(1 + len(case.questions) * len(self.arms) for case in self.cases)

    @property
    def max_calls(self) -> int:
        """Return the most calls that a run can take, without retries."""
        arms = set(self.arms)
        asking = len(arms - {Arm.ANSWERS, Arm.BOTH})
        asking += bool(arms & {Arm.ANSWERS, Arm.BOTH})  # for the judge
        asking += (Arm.ANSWERS in arms and Arm.NONE not in arms) + (Arm.BOTH in arms and Arm.LEARNED not in arms)
        return sum(self._preparing.max_calls + asking * len(case.questions) for case in self.cases)

    async def run(self, advance: Callable[[], None]) -> None:
        """Measure; `tally` keeps what was measured, even if the run fails. Raises UpstreamFailed."""
        tasks = [asyncio.create_task(self._measure_case(at, case, advance)) for at, case in enumerate(self.cases)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.tally.complete = True

    async def _measure_case(self, at: int, case: Case, advance: Callable[[], None]) -> None:
        async with self._turn:
            prepared = await self._preparing.prepare(case)
            self.tally.prepared[at] = prepared
            advance()
            answering = ArmRunner(self.asker, case, prepared, random.Random(f"{self._seed}/{at}"))
            for number, question in enumerate(case.questions):
                for arm in self.arms:
                    answer, hot, used = await answering.answer(arm, question)
                    self.tally.trials.append(
                        Trial(
                            arm=arm,
                            case=at,
                            question=number,
                            likely=estimate_predictability(question, case.context),
                            hot=hot,
                            right=matches_key(answer, question.key),
                            ready=None if used is None else "hit" if used.served else "hint",
                            match_kind=None if used is None else used.match_kind,
                            false=used is not None and not matches_key(used.ready.answer, question.key),
                        )
                    )
                    advance()


def compute_arm_results(tally: TrialResults, arms: Sequence[Arm], sizes: Sequence[int] = SIZES) -> list[ArmResult]:
    """Return the results for each size, from the contexts in which all arms answered that many questions."""
    results: list[ArmResult] = []
    for size in sizes:
        whole = _find_complete_cases(tally, arms, size)
        results += [_compute_arm_result(tally, arm, size, whole) for arm in arms if whole]
    return results


def _find_complete_cases(tally: TrialResults, arms: Sequence[Arm], size: int) -> frozenset[int]:
    """Return the contexts whose first `size` questions all arms answered."""
    counts: dict[int, int] = {}
    for trial in tally.trials:
        if trial.question < size:
            counts[trial.case] = counts.get(trial.case, 0) + 1
    return frozenset(case for case, count in counts.items() if count == size * len(arms))


def _compute_arm_result(tally: TrialResults, arm: Arm, size: int, whole: Collection[int]) -> ArmResult:
    trials = [trial for trial in tally.trials if trial.arm is arm and trial.case in whole and trial.question < size]
    sleep = sum((tally.prepared[case].sleep_usage(arm) for case in whole), EvaluationUsage())
    return ArmResult(
        arm=arm, questions=size, contexts=len(whole), hot=_mean_tokens([trial.hot for trial in trials]),
        sleep=(sleep.prompt / len(whole), sleep.generated / len(whole)),
        accuracy=_share([trial.right for trial in trials]),
        hits=_share([trial.ready == "hit" for trial in trials]),
        hints=_share([trial.ready == "hint" for trial in trials]),
        false=_share([trial.false for trial in trials]),
        exact=_count_lookups(trials, MatchKind.EXACT), meaning=_count_lookups(trials, MatchKind.SIMILAR),
    )  # fmt: skip


def _count_lookups(trials: Sequence[Trial], match_kind: MatchKind) -> LookupCounts:
    matching = [trial for trial in trials if trial.match_kind is match_kind]
    return LookupCounts(found=len(matching), false=sum(trial.false for trial in matching))


def compute_bins(tally: TrialResults, arms: Sequence[Arm], count: int = BINS) -> list[PredictabilityBin]:
    """Return the results by predictability, the least predictable first, with the same questions for each arm."""
    by_arm = {arm: [trial for trial in tally.trials if trial.arm is arm] for arm in arms}
    question_places = set[tuple[int, int]].intersection(
        *({(trial.case, trial.question) for trial in trials} for trials in by_arm.values())
    )
    likely = {(trial.case, trial.question): float(f"{trial.likely:.{DIGITS}g}") for trial in tally.trials}
    order = sorted(question_places, key=lambda place: (likely[place], place))
    cuts = {_skip_equals([likely[place] for place in order], len(order) * at // count) for at in range(count + 1)}
    bins: list[PredictabilityBin] = []
    for start, end in pairwise(sorted(cuts)):
        some = order[start:end]
        for arm in arms:
            trials = [trial for trial in by_arm[arm] if (trial.case, trial.question) in set(some)]
            bins.append(
                PredictabilityBin(
                    arm=arm, lowest=likely[some[0]], highest=likely[some[-1]], questions=len(some),
                    hot_tokens=sum(_mean_tokens([trial.hot for trial in trials])),
                    accuracy=_share([trial.right for trial in trials]),
                    ready=_share([trial.ready is not None for trial in trials]),
                    false=_share([trial.false for trial in trials]),
                )
            )  # fmt: skip
    return bins


def _skip_equals(ordered: Sequence[float], place: int) -> int:
    """Return the first place from `place` on whose number differs from the previous one."""
    while 0 < place < len(ordered) and ordered[place] == ordered[place - 1]:
        place += 1
    return place


def compute_break_even(found: Sequence[ArmResult]) -> list[BreakEven]:
    """Return the break-even points of all arms, from the results at the largest size.

    Sleep tokens are spent once a context. An arm pays from the first n above `sleep / (weight * difference)`, where
    `difference` is the hot tokens that it saves a question.
    """
    largest = max((result.questions for result in found), default=0)
    by_arm = {result.arm: result for result in found if result.questions == largest}
    none = by_arm.get(Arm.NONE)
    points: list[BreakEven] = []
    for arm, result in by_arm.items() if none is not None else ():
        for generated_only in (False, True):
            start = 1 if generated_only else 0
            spared = sum(none.hot[start:]) - sum(result.hot[start:]) if none is not None else 0.0
            sleep = sum(result.sleep[start:])
            for weight in WEIGHTS if arm is not Arm.NONE else ():
                questions = int(sleep / (weight * spared)) + 1 if spared > 0 else None
                points.append(BreakEven(arm=arm, weight=weight, generated_only=generated_only, questions=questions))
    return points


def _mean_tokens(spent: Sequence[EvaluationUsage]) -> tuple[float, float]:
    whole = sum(spent, EvaluationUsage())
    return whole.prompt / max(len(spent), 1), whole.generated / max(len(spent), 1)


def _share(held: Sequence[bool]) -> float:
    return sum(held) / max(len(held), 1)
