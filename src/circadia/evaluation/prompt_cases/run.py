"""A run of `circadia eval prompts`: asks each case once, and checks the answers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from pydantic import BaseModel

from circadia.errors import InvalidRequest
from circadia.evaluation.asker import BYTES_A_TOKEN, Asker
from circadia.evaluation.models import EvalEnvironment, ModelChoice, build_progress, open_eval_model
from circadia.evaluation.prompt_cases.cases import ANSWERS, AskedCase, load_cases
from circadia.evaluation.report import Findings, Grid
from circadia.llm.chat_model import ChatModel, Prompt
from circadia.llm.schemas import answer_schema_json
from circadia.llm.usage import Usage
from circadia.sleeptime.proposals.prompts import prompt_version
from circadia.suggestions import did_you_mean
from circadia.testing.scripted_model import ScriptedChatModel

MAX_TOKENS: Final = 2_000
"""Limit of an answer, including reasoning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    prompt: str
    case: str
    must: bool
    faults: Sequence[str]
    input_tokens: int
    output_tokens: int
    nanousd: int | None

    @property
    def is_failure(self) -> bool:
        """Whether it fails the run."""
        return self.must and bool(self.faults)


class PromptsRun:
    """Each case is one question; what was answered so far is in `results`, however the run ends."""

    def __init__(
        self, chosen: ModelChoice, around: EvalEnvironment, *, prompts: Sequence[str], at_once: int
    ) -> None:  # fmt: skip
        """Load the cases. Raises InvalidRequest: there is no such prompt."""
        for name in prompts:
            if name not in ANSWERS:
                raise InvalidRequest(f"no prompt {name!r}{did_you_mean(name, ANSWERS)}")
        self._cases = load_cases(prompts or tuple(ANSWERS))
        self._chosen = chosen
        self._around = around
        self._turn = asyncio.Semaphore(at_once)
        self._name = ""
        self.results: dict[tuple[str, str], CaseResult] = {}

    async def run(self) -> None:
        """Ask. Raises CircadiaError: the model cannot be reached."""
        async with open_eval_model(self._chosen, self._around) as opened:
            model = build_scripted_model(self._cases) if self._chosen.is_scripted else opened
            self._name = "the hand-written answers" if self._chosen.is_scripted else f"{model.name} of {model.upstream}"
            if not self._chosen.is_scripted:
                self._print_estimate(model)
            asker = Asker(model, self._around.clock)
            with build_progress(self._around.to) as bar:
                task = bar.add_task("cases", total=len(self._cases))
                await self._ask_all(asker, lambda: bar.advance(task))

    async def _ask_all(self, asker: Asker, advance: Callable[[], None]) -> None:
        tasks = [asyncio.create_task(self._ask(asker, case, advance)) for case in self._cases]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, asker: Asker, asked: AskedCase, advance: Callable[[], None]) -> None:
        async with self._turn:
            answer, spent = await asker.ask(asked.build_prompt(), asked.output, most_tokens=MAX_TOKENS)
        used = Usage(input_tokens=spent.prompt, output_tokens=spent.generated)
        self.results[asked.prompt, asked.case.name] = CaseResult(
            prompt=asked.prompt, case=asked.case.name, must=asked.case.must,
            faults=["there is no usable answer"] if answer is None else asked.find_faults(answer),
            input_tokens=spent.prompt, output_tokens=spent.generated,
            nanousd=0 if self._chosen.is_scripted else asker.model.price(used),
        )  # fmt: skip
        advance()

    def _print_estimate(self, model: ChatModel) -> None:
        sizes = [
            (case.build_prompt().bytes + len(answer_schema_json(case.output))) // BYTES_A_TOKEN for case in self._cases
        ]
        prices = [model.worst_price(size, MAX_TOKENS) for size in sizes]
        known = [price for price in prices if price is not None]
        at_most = f"at most {sum(known) / 1e9:.2f} USD" if len(known) == len(prices) else "an unknown price"
        self._around.to.print(
            f"{len(sizes)} questions to {self._name}: about {sum(sizes):,} tokens in, at most "
            f"{MAX_TOKENS * len(sizes):,} out, {at_most}.",
            soft_wrap=True,
        )

    @property
    def failures(self) -> int:
        """Cases that must hold, and do not."""
        return sum(result.is_failure for result in self.results.values())

    def build_findings(self, command: str) -> Findings | None:
        """Return the findings; None if nothing was asked."""
        results = [self.results[key] for each in self._cases if (key := (each.prompt, each.case.name)) in self.results]
        if not results:
            return None
        by_prompt = {
            prompt: [result for result in results if result.prompt == prompt]
            for prompt in dict.fromkeys(result.prompt for result in results)
        }
        rows = [_build_row(prompt, some) for prompt, some in by_prompt.items()]
        return Findings(
            title="The prompts of passes, on made-up cases", command=command, at=self._around.clock.now(),
            complete=len(results) == len(self._cases),
            grids=[Grid(
                title=f"Cases with all their properties, answered by {self._name}",
                columns=["prompt", "version", "cases", "passed", "failed", "of judgement", "tokens in", "out", "USD"],
                rows=[
                    [
                        row["prompt"], str(row["version"]), str(row["cases"]), str(row["passed"]), str(row["failed"]),
                        str(row["of_judgement"]), f"{row['input_tokens']:,}", f"{row['output_tokens']:,}",
                        "?" if row["usd"] is None else f"{row['usd']:.5f}",
                    ]
                    for row in rows
                ],
            )],
            charts=[],
            notes=[
                f"{result.prompt}, {result.case!r}: {'; '.join(result.faults)}"
                for result in results
                if result.faults
            ],
            figures={"model": self._name, "prompts": rows, "results": [asdict(result) for result in results]},
        )  # fmt: skip


def build_scripted_model(cases: Sequence[AskedCase]) -> ChatModel:
    """Return a model that gives each case's right answer."""
    by_prompt = {case.build_prompt(): case for case in cases}

    def answer(prompt: Prompt, output: type[BaseModel]) -> BaseModel:
        return output.model_validate(by_prompt[prompt].case.right)

    return ScriptedChatModel(answer, used=Usage())


def _build_row(prompt: str, some: Sequence[CaseResult]) -> dict[str, Any]:
    prices = [result.nanousd for result in some]
    return {
        "prompt": prompt, "version": prompt_version(prompt), "cases": len(some),
        "passed": sum(not result.faults for result in some), "failed": sum(result.is_failure for result in some),
        "of_judgement": sum(bool(result.faults) and not result.must for result in some),
        "input_tokens": sum(result.input_tokens for result in some),
        "output_tokens": sum(result.output_tokens for result in some),
        "usd": None if None in prices else sum(price or 0 for price in prices) / 1e9,
    }  # fmt: skip
