"""Runs the arms over contexts, and adds up what they took."""

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from circadia.answers.index import MatchKind
from circadia.evaluation.asker import Asker, EvaluationUsage
from circadia.evaluation.comparison.arms import Arm, ArmRunner, CasePreparer, PreparedContext, Trial
from circadia.evaluation.comparison.dataset import Case, estimate_predictability
from circadia.evaluation.comparison.grading import matches_key

SIZES: Final = (1, 2, 5, 10, 20)
"""Questions of a context."""
WEIGHTS: Final = (1, 10)
"""Of hot tokens, beside those of sleep."""
BINS: Final = 4
"""Of predictability, with as many questions each, as far as equally likely ones stay together."""
DIGITS: Final = 3
"""Of a predictability; questions whose digits are the same are equally likely."""


@dataclass(kw_only=True, slots=True)
class TrialResults:
    """What was measured so far."""

    trials: list[Trial] = field(default_factory=list[Trial])
    prepared: dict[int, PreparedContext] = field(default_factory=dict[int, PreparedContext])
    """By the context's place."""
    complete: bool = False
    """Whether nothing is missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupCounts:
    """Ready answers that the lookup has found in one way, and that were served or shown."""

    found: int
    false: int
    """Those that were not the key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmResult:
    """One arm with so many questions a context."""

    arm: Arm
    questions: int
    """Of each context."""
    contexts: int
    hot: tuple[float, float]
    """Tokens of a question while somebody waits: prompt, generated."""
    sleep: tuple[float, float]
    """Tokens of a context while nobody waits: prompt, generated."""
    accuracy: float
    """Share of right answers."""
    hits: float
    """Share of questions with a ready answer that was served."""
    hints: float
    """Share of questions with a ready answer beside them."""
    false: float
    """Share of questions with a ready answer that was not the key."""
    exact: LookupCounts
    """Found word for word."""
    meaning: LookupCounts
    """Found by meaning."""

    def cost(self, weight: float, *, generated_only: bool = False) -> float:
        """Return the tokens of a question: hot ones times the weight, and its part of those of sleep."""
        start = 1 if generated_only else 0
        return weight * sum(self.hot[start:]) + sum(self.sleep[start:]) / self.questions


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictabilityBin:
    """One arm, and the questions of one range of predictability, which no other bin of the arm shares."""

    arm: Arm
    lowest: float
    """Predictability of its least likely question."""
    highest: float
    questions: int
    hot_tokens: float
    """Of a question, prompt and generated."""
    accuracy: float
    ready: float
    """Share of questions with a ready answer, served or shown."""
    false: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEven:
    """From how many questions a context on an arm is cheaper than none."""

    arm: Arm
    weight: int
    generated_only: bool
    """Whether prompts are left out, as the paper does."""
    questions: int | None
    """None if it never is."""


class ArmComparison:
    """One run."""

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
        """`at_once` is how many contexts are worked on at the same time."""
        self._asker = asker
        self._preparing = preparing
        self._cases = cases
        self._arms = arms
        self._seed = seed
        self._turn = asyncio.Semaphore(at_once)
        self.tally: Final = TrialResults()

    @property
    def step_count(self) -> int:
        """Return how often `advance` is called."""
        return sum(1 + len(case.questions) * len(self._arms) for case in self._cases)

    @property
    def max_calls(self) -> int:
        """Return how many calls it takes, at most, of a provider that is never at fault."""
        arms = set(self._arms)
        asking = len(arms - {Arm.ANSWERS, Arm.BOTH})
        asking += bool(arms & {Arm.ANSWERS, Arm.BOTH})  # a judge
        asking += (Arm.ANSWERS in arms and Arm.NONE not in arms) + (Arm.BOTH in arms and Arm.LEARNED not in arms)
        return sum(self._preparing.max_calls + asking * len(case.questions) for case in self._cases)

    async def run(self, advance: Callable[[], None]) -> None:
        """Measure. What was measured stays in the tally, however it ends. Raises UpstreamFailed."""
        tasks = [asyncio.create_task(self._measure_case(at, case, advance)) for at, case in enumerate(self._cases)]
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
            answering = ArmRunner(self._asker, case, prepared, random.Random(f"{self._seed}/{at}"))
            for number, asked in enumerate(case.questions):
                for arm in self._arms:
                    answer, hot, used = await answering.answer(arm, asked)
                    self.tally.trials.append(
                        Trial(
                            arm=arm,
                            case=at,
                            question=number,
                            likely=estimate_predictability(asked, case.context),
                            hot=hot,
                            right=matches_key(answer, asked.key),
                            ready=None if used is None else "hit" if used.served else "hint",
                            way=None if used is None else used.way,
                            false=used is not None and not matches_key(used.ready.answer, asked.key),
                        )
                    )
                    advance()


def compute_arm_results(tally: TrialResults, arms: Sequence[Arm], sizes: Sequence[int] = SIZES) -> list[ArmResult]:
    """Return the figures for each size: of the first questions of all contexts that have so many, in all arms."""
    found: list[ArmResult] = []
    for size in sizes:
        whole = _find_complete_cases(tally, arms, size)
        found += [_compute_arm_result(tally, arm, size, whole) for arm in arms if whole]
    return found


def _find_complete_cases(tally: TrialResults, arms: Sequence[Arm], size: int) -> frozenset[int]:
    """Return the contexts whose first questions were answered by all arms."""
    counts: dict[int, int] = {}
    for trial in tally.trials:
        if trial.question < size:
            counts[trial.case] = counts.get(trial.case, 0) + 1
    return frozenset(case for case, count in counts.items() if count == size * len(arms))


def _compute_arm_result(tally: TrialResults, arm: Arm, size: int, whole: Collection[int]) -> ArmResult:
    trials = [each for each in tally.trials if each.arm is arm and each.case in whole and each.question < size]
    sleep = sum((tally.prepared[case].sleep_usage(arm) for case in whole), EvaluationUsage())
    return ArmResult(
        arm=arm, questions=size, contexts=len(whole), hot=_mean_tokens([each.hot for each in trials]),
        sleep=(sleep.prompt / len(whole), sleep.generated / len(whole)),
        accuracy=_share([each.right for each in trials]),
        hits=_share([each.ready == "hit" for each in trials]),
        hints=_share([each.ready == "hint" for each in trials]),
        false=_share([each.false for each in trials]),
        exact=_count_lookups(trials, MatchKind.EXACT), meaning=_count_lookups(trials, MatchKind.SIMILAR),
    )  # fmt: skip


def _count_lookups(trials: Sequence[Trial], way: MatchKind) -> LookupCounts:
    found = [each for each in trials if each.way is way]
    return LookupCounts(found=len(found), false=sum(each.false for each in found))


def compute_bins(tally: TrialResults, arms: Sequence[Arm], count: int = BINS) -> list[PredictabilityBin]:
    """Return the figures by predictability, the least predictable questions first; the same questions for each arm."""
    by_arm = {arm: [each for each in tally.trials if each.arm is arm] for arm in arms}
    asked = set[tuple[int, int]].intersection(
        *({(each.case, each.question) for each in trials} for trials in by_arm.values())
    )
    likely = {(each.case, each.question): float(f"{each.likely:.{DIGITS}g}") for each in tally.trials}
    order = sorted(asked, key=lambda each: (likely[each], each))
    cuts = {_skip_equals([likely[each] for each in order], len(order) * at // count) for at in range(count + 1)}
    found: list[PredictabilityBin] = []
    for start, end in pairwise(sorted(cuts)):
        some = order[start:end]
        for arm in arms:
            trials = [each for each in by_arm[arm] if (each.case, each.question) in set(some)]
            found.append(
                PredictabilityBin(
                    arm=arm, lowest=likely[some[0]], highest=likely[some[-1]], questions=len(some),
                    hot_tokens=sum(_mean_tokens([each.hot for each in trials])),
                    accuracy=_share([each.right for each in trials]),
                    ready=_share([each.ready is not None for each in trials]),
                    false=_share([each.false for each in trials]),
                )
            )  # fmt: skip
    return found


def _skip_equals(ordered: Sequence[float], place: int) -> int:
    """Return the first place from this one on at which a new number begins, or the end."""
    while 0 < place < len(ordered) and ordered[place] == ordered[place - 1]:
        place += 1
    return place


def compute_break_even(found: Sequence[ArmResult]) -> list[BreakEven]:
    """Return from where on each arm is cheaper than `none`, by what a question takes at the largest size measured.

    Sleep is paid once a context: over n questions it costs `sleep / n` each, and spares `weight` times the difference
    of hot tokens, so it pays from the first n above `sleep / (weight * difference)`.
    """
    largest = max((each.questions for each in found), default=0)
    by_arm = {each.arm: each for each in found if each.questions == largest}
    none = by_arm.get(Arm.NONE)
    told: list[BreakEven] = []
    for arm, each in by_arm.items() if none is not None else ():
        for generated_only in (False, True):
            start = 1 if generated_only else 0
            spared = sum(none.hot[start:]) - sum(each.hot[start:]) if none is not None else 0.0
            sleep = sum(each.sleep[start:])
            for weight in WEIGHTS if arm is not Arm.NONE else ():
                questions = int(sleep / (weight * spared)) + 1 if spared > 0 else None
                told.append(BreakEven(arm=arm, weight=weight, generated_only=generated_only, questions=questions))
    return told


def _mean_tokens(spent: Sequence[EvaluationUsage]) -> tuple[float, float]:
    whole = sum(spent, EvaluationUsage())
    return whole.prompt / max(len(spent), 1), whole.generated / max(len(spent), 1)


def _share(held: Sequence[bool]) -> float:
    return sum(held) / max(len(held), 1)
