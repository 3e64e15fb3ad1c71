"""`circadia eval stateful`: a run, and its report."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from circadia.errors import InvalidRequest, StartError
from circadia.evaluation import dataset
from circadia.evaluation.arms import LEARNED_CONTEXT_ARMS, READY_ANSWER_ARMS, Arm, CasePreparer
from circadia.evaluation.asker import TRIES, Asker
from circadia.evaluation.generator import WORDINGS, generate_cases
from circadia.evaluation.measure import (
    WEIGHTS,
    ArmComparison,
    ArmResult,
    BreakEven,
    PredictabilityBin,
    compute_arm_results,
    compute_bins,
    compute_break_even,
)
from circadia.evaluation.models import EvalEnvironment, ModelChoice, build_progress, open_eval_model
from circadia.evaluation.report import Chart, Findings, Grid
from circadia.evaluation.scripted_model import DERIVED_RESULTS, MISLED_SHARE, PHRASINGS, STEP_TOKENS, parse_context
from circadia.memory.embedding.bundled import BundledEmbedder

CONTEXTS: Final = 20
"""Generated contexts for the scripted model."""
FEWER_CONTEXTS: Final = 4
"""Generated contexts for models that take time or money."""
MAX_QUESTIONS: Final = 100
"""Most questions a context."""
UNEXPECTED_SHARE: Final = sum(WORDINGS[PHRASINGS:]) / sum(WORDINGS)
"""Share of generated questions in wordings that the scripted model never expects."""
SCRIPTED_NOTE: Final = (
    "The model is scripted, so these are its properties, not a real model's: it makes no mistake of its own, thinks "
    f"{STEP_TOKENS} tokens for each step, states {DERIVED_RESULTS} results in a learned context, expects the likeliest "
    f"questions as if it knew how people ask, and lets {MISLED_SHARE:.0%} of the ready answers to other questions "
    f"mislead it. A token is 4 bytes. Of the generator's {len(WORDINGS)} wordings of a question, it expects the "
    f"{PHRASINGS} most common. The others, used in {UNEXPECTED_SHARE:.0%} of the questions, are served only by the "
    "judge. The judge is the same model, which knows all wordings, and its tokens are hot."
)


class StatefulRun:
    """A run of `circadia eval stateful`."""

    def __init__(
        self,
        chosen: ModelChoice,
        around: EvalEnvironment,
        *,
        data: Path | None,
        contexts_wanted: int | None,
        questions: str,
        arms: str,
        expected: int,
        seed: int,
        at_once: int,
    ) -> None:
        """Load or generate the contexts. Raises InvalidRequest: malformed options or data. NotFound: no such file."""
        self._chosen = chosen
        self._around = around
        self._sizes = _parse_sizes(questions)
        self._arms = _parse_arms(arms)
        self._expected = expected
        self._seed = seed
        self._at_once = at_once
        self._generated = data is None
        if data is None:
            context_count = contexts_wanted or (CONTEXTS if chosen.is_scripted else FEWER_CONTEXTS)
            self.cases = generate_cases(seed, context_count, max(self._sizes))
        else:
            cases = dataset.load_cases(data)[:contexts_wanted]
            self.cases = [replace(case, questions=case.questions[: max(self._sizes)]) for case in cases]
        self._measuring: ArmComparison | None = None

    def save_data(self, path: Path) -> None:
        """Write the contexts as JSON Lines. Raises StartError: the file cannot be written."""
        try:
            path.write_text(dataset.dump_cases(self.cases), "utf-8")
        except OSError as error:
            raise StartError(f"{str(path)!r} cannot be written: {error}; name another file with --save-data") from error

    async def run(self) -> None:
        """Measure. Raises CircadiaError: the model cannot be reached."""
        words = await BundledEmbedder().word_vectors()
        around = self._around
        async with open_eval_model(self._chosen, around) as model:
            asker = Asker(model, around.clock)
            preparing = CasePreparer(asker, self._arms, self._expected, words)
            self._measuring = ArmComparison(
                asker, preparing, self.cases, self._arms, seed=self._seed, at_once=self._at_once
            )
            if not self._chosen.is_scripted:
                calls = self._measuring.max_calls
                around.to.print(
                    f"{model.name} of {model.upstream} gets up to {calls:,} calls, or {TRIES * calls:,} with retries.",
                    soft_wrap=True,
                )
            with build_progress(around.to) as bar:
                task = bar.add_task("answers", total=self._measuring.step_count)
                await self._measuring.run(lambda: bar.advance(task))

    def build_findings(self, command: str) -> Findings | None:
        """Return the findings; None if nothing was measured."""
        if self._measuring is None or not self._measuring.tally.trials:
            return None
        return build_stateful_findings(
            self._measuring,
            self._sizes,
            scripted=self._chosen.is_scripted,
            generated=self._generated,
            command=command,
            at=self._around.clock.now(),
        )


def _parse_sizes(text: str) -> list[int]:
    try:
        sizes = sorted({int(size) for size in text.split(",")})
    except ValueError:
        sizes = [0]
    if sizes[0] < 1 or sizes[-1] > MAX_QUESTIONS:
        raise InvalidRequest(
            f"--questions must be numbers from 1 to {MAX_QUESTIONS} with commas between them, not {text!r}"
        )
    return sizes


def _parse_arms(text: str) -> list[Arm]:
    named = [name.strip() for name in text.split(",")]
    unknown = [name for name in named if name not in set(Arm)]
    if unknown:
        raise InvalidRequest(f"no arm {unknown[0]!r}; known: {', '.join(Arm)}")
    return [arm for arm in Arm if arm in named]


def build_stateful_findings(
    measuring: ArmComparison, sizes: Sequence[int], *, scripted: bool, generated: bool, command: str, at: datetime
) -> Findings:
    """Return the findings for these numbers of questions a context; `generated` says where the contexts are from."""
    tally, asker, arms, cases = measuring.tally, measuring.asker, measuring.arms, measuring.cases
    results, bins = compute_arm_results(tally, arms, sizes), compute_bins(tally, arms)
    even = compute_break_even(results)
    spent = {**asdict(asker.spent), "estimated": asker.estimated}
    return Findings(
        title="Sleep-time compute: what it costs and brings, by questions a context",
        command=command,
        at=at,
        complete=tally.complete,
        grids=[
            _size_grid(results),
            *_lookup_grids(results),
            _break_even_grid(even, results),
            *([_bin_grid(bins, arms)] if bins else []),
        ],
        charts=_build_charts(results, bins),
        notes=[
            *_build_notes(measuring, results, scripted=scripted, generated=generated),
            f"The run took {spent['calls']:,} calls, {spent['failed']:,} of them failed.",
        ],
        figures={
            "model": asker.model.name,
            "upstream": asker.model.upstream,
            "arms": list(arms),
            "weights": WEIGHTS,
            "contexts": len(cases),
            "spent": spent,
            "figures": [_build_row(result) for result in results],
            "break_even": [asdict(point) for point in even],
            "bins": [asdict(each) for each in bins],
        },
    )


def _build_row(each: ArmResult) -> dict[str, Any]:
    costs = {f"cost_{weight}": each.cost(weight) for weight in WEIGHTS}
    generated = {f"cost_generated_{weight}": each.cost(weight, generated_only=True) for weight in WEIGHTS}
    row = asdict(each)
    for name in ("hot", "sleep"):
        row[f"{name}_prompt"], row[f"{name}_generated"] = row.pop(name)
    return {**row, **costs, **generated}


def _size_grid(results: Sequence[ArmResult]) -> Grid:
    return Grid(
        title="Tokens of a question (hot) and of a context (sleep), cost of a question, and answers",
        columns=[
            "questions, arm", "contexts", "hot prompt", "hot gen.", "sleep prompt", "sleep gen.",
            *(f"cost ×{weight}" for weight in WEIGHTS), "right, %", "hits, %", "hints, %", "false, %",
        ],
        rows=[
            [
                f"{row.questions}, {row.arm}", f"{row.contexts}", *(f"{value:,.0f}" for value in row.hot),
                *(f"{value:,.0f}" for value in row.sleep), *(f"{row.cost(weight):,.0f}" for weight in WEIGHTS),
                *(f"{100 * value:.1f}" for value in (row.accuracy, row.hits, row.hints, row.false)),
            ]
            for row in results
        ],
    )  # fmt: skip


def _lookup_grids(results: Sequence[ArmResult]) -> list[Grid]:
    """Return the lookups at the largest, last size, if an arm looks anything up."""
    size = results[-1].questions if results else 0
    looking = [row for row in results if row.questions == size and row.arm in READY_ANSWER_ARMS - {Arm.WRONG_HINTS}]
    if not looking:
        return []
    question_count = size * looking[0].contexts
    return [
        Grid(
            title=f"Ready answers by how they were found, of {question_count:,} questions",
            columns=["arm", "the same text", "of them false", "similar", "of them false"],
            rows=[
                [
                    row.arm,
                    *(f"{count:,}" for lookup in (row.exact, row.meaning) for count in (lookup.found, lookup.false)),
                ]
                for row in looking
            ],
        )
    ]


def _break_even_grid(even: Sequence[BreakEven], results: Sequence[ArmResult]) -> Grid:
    kinds = [(only, weight) for only in (False, True) for weight in WEIGHTS]
    by_place = {(point.arm, point.generated_only, point.weight): point.questions for point in even}
    arms = list(dict.fromkeys(point.arm for point in even))
    right = {result.arm: result.accuracy for result in results}  # at the largest size, which is the last
    return Grid(
        title="Break-even: from how many questions a context on an arm is cheaper than none",
        columns=[
            "arm",
            *(f"×{weight}, {'generated only' if only else 'all tokens'}" for only, weight in kinds),
            "right, points over none",
        ],
        rows=[
            [
                arm, *(f"{by_place[arm, *kind]:,}" if by_place[arm, *kind] is not None else "never" for kind in kinds),
                f"{100 * (right[arm] - right[Arm.NONE]):+.1f}",
            ]
            for arm in arms
        ],
    )  # fmt: skip


def _bin_grid(bins: Sequence[PredictabilityBin], arms: Sequence[Arm]) -> Grid:
    places = _distinct_ranges(bins)
    cells = {(each.arm, each.lowest): each for each in bins}
    rows: list[list[str]] = []
    for arm in arms:
        row = [str(arm)]
        for place in places:
            cell = cells[arm, place.lowest]
            row.append(
                f"{100 * cell.accuracy:.0f} · {cell.hot_tokens:,.0f} · {100 * cell.ready:.0f}/{100 * cell.false:.0f}"
            )
        rows.append(row)
    return Grid(
        title="By predictability: right, % · hot tokens · ready answers, %/false, %",
        columns=["arm", *(f"{_format_range(place)} ({place.questions:,})" for place in places)],
        rows=rows,
    )


def _distinct_ranges(bins: Sequence[PredictabilityBin]) -> list[PredictabilityBin]:
    return list({each.lowest: each for each in bins}.values())


def _format_range(each: PredictabilityBin) -> str:
    return f"{each.lowest:g}" if each.lowest == each.highest else f"{each.lowest:g}–{each.highest:g}"


def _build_charts(results: Sequence[ArmResult], bins: Sequence[PredictabilityBin]) -> list[Chart]:
    sizes = list(dict.fromkeys(result.questions for result in results))
    arms = list(dict.fromkeys(result.arm for result in results))
    charts = [
        Chart(
            name=f"cost-{weight}", title=f"Cost of a question, hot tokens ×{weight}", across="questions a context:",
            places=[str(size) for size in sizes], unit="tokens of a question, with its part of those of sleep",
            series={arm: [result.cost(weight) for result in results if result.arm is arm] for arm in arms},
        )
        for weight in reversed(WEIGHTS)
    ]  # fmt: skip
    if bins:
        charts.append(
            Chart(
                name="predictability", title="Hot tokens of a question by how predictable it was",
                across="predictability", places=[_format_range(each) for each in _distinct_ranges(bins)],
                unit="hot tokens of a question", lines=False,
                series={arm: [each.hot_tokens for each in bins if each.arm is arm] for arm in arms},
            )
        )  # fmt: skip
    return charts if results else []


def _build_notes(run: ArmComparison, results: Sequence[ArmResult], *, scripted: bool, generated: bool) -> list[str]:
    notes = [
        "Cost of a question: its hot tokens, prompt and generated, times the weight, plus its share of the sleep "
        "tokens, which are spent once a context. Repeated prompts are counted in full, without caches.",
        "hits: ready answers that were served; hints: ready answers shown beside the question; false: those of both "
        "that do not match the key. The same text: apart from white space, width and a closing mark. For n questions, "
        "the first n of each context with at least n are counted.",
    ]
    if scripted:
        notes.insert(0, SCRIPTED_NOTE)
    if scripted and (unread := sum(parse_context(case.context) is None for case in run.cases)):
        notes.insert(
            0,
            f"The scripted model can only read the generator's contexts. It cannot read {unread} of these "
            f"{len(run.cases)}, so its answers there mean nothing; name a real model with --model.",
        )
    if generated:
        notes.append(
            "Predictability is the probability that the question comes next, by the odds with which it was drawn."
        )
    elif any(question.likely is None for case in run.cases for question in case.questions):
        notes.append(
            "Predictability, if the data do not state it, is estimated: the share of the question's content words that "
            "the context has."
        )
    if run.asker.estimated:
        notes.append(
            f"The provider reported no usage for {run.asker.estimated} calls; their tokens are a quarter of the bytes."
        )
    if any(arm in LEARNED_CONTEXT_ARMS | READY_ANSWER_ARMS for arm in run.arms) and Arm.NONE not in run.arms:
        notes.append("Without the arm `none` there is no break-even.")
    if not results:
        notes.append("No context was finished, so there are no figures.")
    return notes
