"""A run of `circadia eval memory`, which keeps its answers however it ends."""

import hashlib
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from circadia.errors import InvalidRequest
from circadia.evaluation.memory.arms import MemoryArm
from circadia.evaluation.memory.findings import build_memory_findings
from circadia.evaluation.memory.measure import AnswerFile, MemoryMeasurement, MemoryModels
from circadia.evaluation.memory.talks import load_talks
from circadia.evaluation.models import EvalEnvironment, ModelChoice, build_progress, open_eval_model
from circadia.evaluation.report import Findings
from circadia.llm.chat_model import ChatModel


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
        self._arms = [arm for arm in _parse_arms(arms) if answering or arm is not MemoryArm.RECALL]
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
                    opened = open_eval_model(chosen, around)
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
            with build_progress(around.to) as bar:
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


def _parse_arms(given: str) -> list[MemoryArm]:
    named = [name.strip() for name in given.split(",")]
    unknown = [name for name in named if name not in set(MemoryArm)]
    if unknown:
        raise InvalidRequest(f"no arm {unknown[0]!r}; known: {', '.join(MemoryArm)}")
    return [arm for arm in MemoryArm if arm in named]
