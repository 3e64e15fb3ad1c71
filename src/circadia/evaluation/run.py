"""Run an evaluation for the command line, and keep what was measured however it ends."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from circadia.clock import Clock
from circadia.errors import InvalidRequest, StartError
from circadia.evaluation.asker import TRIES, Asker
from circadia.evaluation.comparison import dataset
from circadia.evaluation.comparison.arms import Arm, CasePreparer
from circadia.evaluation.comparison.dataset import Case
from circadia.evaluation.comparison.measure import ArmComparison
from circadia.evaluation.memory.arms import MemoryArm
from circadia.evaluation.memory.findings import build_memory_findings
from circadia.evaluation.memory.measure import AnswerFile, MemoryMeasurement, MemoryModels
from circadia.evaluation.memory.talks import load_talks
from circadia.evaluation.models import ModelChoice, open_eval_model
from circadia.evaluation.recall import locomo
from circadia.evaluation.recall.conversations import LongConversation
from circadia.evaluation.report import Findings
from circadia.evaluation.stateful_findings import StatefulResults, build_stateful_findings
from circadia.evaluation.synthetic.generator import generate_cases
from circadia.evaluation.synthetic.scripted_model import parse_context
from circadia.llm.chat_model import ChatModel
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.settings import Settings
from circadia.testing.rule_based_model import RuleBasedModel

AnyArm = TypeVar("AnyArm", bound=StrEnum)

CONTEXTS: Final = 20
"""Generated contexts for the scripted model."""
FEWER_CONTEXTS: Final = 4
"""Generated contexts for models that take time or money."""
MAX_QUESTIONS: Final = 100
"""Most questions a context."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalEnvironment:
    settings: Settings
    environment: Mapping[str, str]
    clock: Clock
    to: Console


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
        self._arms = _parse_arms(arms, Arm)
        self._expected = expected
        self._seed = seed
        self._at_once = at_once
        self._generated = data is None
        if data is None:
            context_count = contexts_wanted or (CONTEXTS if chosen.is_scripted else FEWER_CONTEXTS)
            self.cases = generate_cases(seed, context_count, max(self._sizes))
        else:
            self.cases = _limit_questions(dataset.load_cases(data)[:contexts_wanted], max(self._sizes))
        self._measuring: ArmComparison | None = None
        self._asker: Asker | None = None

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
        async with open_eval_model(self._chosen, around.settings, around.environment, around.clock) as model:
            self._asker = Asker(model, around.clock)
            preparing = CasePreparer(self._asker, self._arms, self._expected, words)
            self._measuring = ArmComparison(
                self._asker, preparing, self.cases, self._arms, seed=self._seed, at_once=self._at_once
            )
            if not self._chosen.is_scripted:
                calls = self._measuring.max_calls
                around.to.print(
                    f"{model.name} of {model.upstream} gets up to {calls:,} calls, or {TRIES * calls:,} with retries.",
                    soft_wrap=True,
                )
            with _build_progress(around.to) as bar:
                task = bar.add_task("answers", total=self._measuring.step_count)
                await self._measuring.run(lambda: bar.advance(task))

    def build_findings(self, command: str) -> Findings | None:
        """Return the findings; None if nothing was measured."""
        if self._measuring is None or self._asker is None or not self._measuring.tally.trials:
            return None
        scripted = self._chosen.is_scripted
        return build_stateful_findings(
            StatefulResults(
                measuring=self._measuring,
                asker=self._asker,
                cases=self.cases,
                arms=self._arms,
                sizes=self._sizes,
                scripted=scripted,
                generated=self._generated,
                command=command,
                at=self._around.clock.now(),
                unread=sum(parse_context(case.context) is None for case in self.cases) if scripted else 0,
            )
        )


class LocomoRun:
    """A run of `circadia eval locomo`."""

    def __init__(self, chosen: ModelChoice | None, around: EvalEnvironment, talks: Sequence[LongConversation]) -> None:
        """`chosen` None runs without a model."""
        self._chosen = chosen
        self._around = around
        self._talks = talks
        self._mind: ChatModel | None = None
        self._measured = locomo.LocomoResults()

    async def run(self) -> None:
        """Measure. Raises CircadiaError: the model cannot be reached."""
        around = self._around
        if self._chosen is None:
            await self._measure()
        elif self._chosen.is_scripted:
            self._mind = RuleBasedModel()
            await self._measure()
        else:
            async with open_eval_model(self._chosen, around.settings, around.environment, around.clock) as model:
                self._mind = model
                about = sum(len(talk.turns) for talk in self._talks) * locomo.CALLS_A_TURN
                around.to.print(f"{model.name} of {model.upstream} gets about {about:,.0f} calls.")
                await self._measure()

    async def _measure(self) -> None:
        with _build_progress(self._around.to) as bar:
            task = bar.add_task("sittings and questions", total=locomo.count_steps(self._talks))
            await locomo.measure_recall(
                self._talks, self._mind, self._around.clock, self._measured, lambda: bar.advance(task)
            )

    def build_findings(self, command: str) -> Findings | None:
        """Return the findings; None if nothing was measured."""
        if not self._measured.passes:
            return None
        return locomo.build_locomo_findings(self._measured, self._mind, command, self._around.clock.now())


class MemoryRun:
    """A run of `circadia eval memory`. Its file of answers is in `out`, and another run goes on with it."""

    def __init__(
        self,
        around: EvalEnvironment,
        *,
        data: Path,
        answering: ModelChoice | None,
        judging: ModelChoice | None,
        sleeping: ModelChoice | None,
        arms: str,
        talks: int | None,
        questions: int | None,
        budget_usd: float | None,
        at_once: int,
        out: Path | None,
    ) -> None:
        """Load the talks. Raises InvalidRequest: malformed options or data. NotFound: no such file."""
        self._around = around
        self._choices = (answering, judging, sleeping)
        self._arms = [arm for arm in _parse_arms(arms, MemoryArm) if answering or arm is not MemoryArm.RECALL]
        self._talks = [replace(talk, questions=talk.questions[:questions]) for talk in load_talks(data)[:talks]]
        described = [hashlib.sha256(data.read_bytes()).hexdigest()[:12]]
        described += [
            "none" if chosen is None else f"{chosen.upstream or ''}/{chosen.model}" for chosen in self._choices
        ]
        self._file = AnswerFile(None if out is None else out / "answers.jsonl", " ".join(described))
        self._budget_usd = budget_usd
        self._at_once = at_once
        self._names = {"answers": "", "judge": "", "passes": ""}
        self._measuring: MemoryMeasurement | None = None

    async def run(self) -> None:
        """Measure. Raises CircadiaError: a model cannot be reached."""
        around = self._around
        async with AsyncExitStack() as stack:
            models: list[ChatModel | None] = []
            for name, chosen in zip(self._names, self._choices, strict=True):
                model = None
                if chosen is not None:
                    opened = open_eval_model(chosen, around.settings, around.environment, around.clock)
                    model = await stack.enter_async_context(opened)
                    self._names[name] = f"{model.name} of {model.upstream}"
                models.append(model)
            self._measuring = measuring = MemoryMeasurement(
                self._talks, self._arms,
                MemoryModels(answering=models[0], judging=models[1], sleeping=models[2]), around.clock, self._file,
                budget_nanousd=None if self._budget_usd is None else round(self._budget_usd * 1e9),
                at_once=self._at_once,
            )  # fmt: skip
            self._print_estimate(measuring)
            with _build_progress(around.to) as bar:
                task = bar.add_task("answers", total=measuring.step_count)
                await measuring.run(lambda: bar.advance(task))

    def _print_estimate(self, measuring: MemoryMeasurement) -> None:
        left = measuring.step_count - len(measuring.file.answers)
        if not self._names["answers"] or not left:
            return
        read, written, price = measuring.estimate()
        told = "an unknown price" if price is None else f"at most {price / 1e9:.2f} USD"
        self._around.to.print(
            f"{left:,} answers of {self._names['answers']}, with verdicts of {self._names['judge']}: about {read:,} "
            f"tokens in and {written:,} out, {told}"
            + ("." if self._choices[2] is None else f"; passes of {self._names['passes']} not counted."),
            soft_wrap=True,
        )

    def build_findings(self, command: str) -> Findings | None:
        """Return the findings; None if nothing was measured."""
        if self._measuring is None or not self._file.answers:
            return None
        return build_memory_findings(self._measuring, self._arms, self._names, command, self._around.clock.now())


def _build_progress(to: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=to, transient=True, disable=not sys.stderr.isatty())


def _limit_questions(cases: Sequence[Case], questions: int) -> list[Case]:
    return [Case(name=case.name, context=case.context, questions=case.questions[:questions]) for case in cases]


def _parse_sizes(given: str) -> list[int]:
    try:
        sizes = sorted({int(size) for size in given.split(",")})
    except ValueError:
        sizes = [0]
    if sizes[0] < 1 or sizes[-1] > MAX_QUESTIONS:
        raise InvalidRequest(
            f"--questions must be numbers from 1 to {MAX_QUESTIONS} with commas between them, not {given!r}"
        )
    return sizes


def _parse_arms(given: str, kind: type[AnyArm]) -> list[AnyArm]:
    named = [name.strip() for name in given.split(",")]
    unknown = [name for name in named if name not in set(kind)]
    if unknown:
        raise InvalidRequest(f"no arm {unknown[0]!r}; known: {', '.join(kind)}")
    return [arm for arm in kind if arm in named]
