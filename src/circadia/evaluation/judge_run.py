"""A run of `circadia eval judge`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from circadia.errors import InvalidRequest, NotFound
from circadia.evaluation.asker import Asker
from circadia.evaluation.judging import JudgedPairs, PairJudge, build_erring_judge, judge_pairs
from circadia.evaluation.models import ModelChoice, open_eval_model
from circadia.evaluation.run import EvalEnvironment
from circadia.gateway.answers.judging import MAX_OUTPUT_TOKENS, SameQuestions, judge_prompt
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.testing.language_suite import QuestionPair, load_english_pairs

_OWN: Final = "own"


class _Pair(BaseModel):
    a: str
    b: str
    same: bool


class JudgeRun:
    def __init__(
        self, chosen: ModelChoice, around: EvalEnvironment, *, data: Path | None, error: float, limit: int | None
    ) -> None:
        """Load the pairs. Raises NotFound: there is no such file. InvalidRequest: a line is not a pair."""
        self._chosen = chosen
        self._around = around
        self._error = error
        self.pairs = (load_english_pairs() if data is None else read_pairs(data))[:limit]
        self.found: JudgedPairs | None = None
        self.tokens = 0
        self.name = "scripted"

    async def run(self) -> None:
        """Measure. Raises CircadiaError: the model cannot be reached."""
        words, around = await BundledEmbedder().word_vectors(), self._around
        progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            console=around.to,
        )  # fmt: skip
        async with open_eval_model(self._chosen, around.settings, around.environment, around.clock) as model:
            asker = Asker(model, around.clock)
            decide = self._build_model_judge(asker)
            if self._chosen.is_scripted:
                decide = build_erring_judge(self.pairs, self._error)
            else:
                self.name = f"{model.name} of {model.upstream}"
            with progress as bar:
                task = bar.add_task("pairs", total=len(self.pairs))
                self.found = await judge_pairs(self.pairs, words, decide, around.clock, lambda: bar.advance(task))
            self.tokens = asker.spent.prompt + asker.spent.generated

    def _build_model_judge(self, asker: Asker) -> PairJudge:
        async def decide(question: str, candidate: str) -> bool:
            prompt = judge_prompt(question, [candidate], asker.today)
            verdict, _ = await asker.ask(prompt, SameQuestions, most_tokens=MAX_OUTPUT_TOKENS)
            return verdict is not None and 1 in verdict.same

        return decide

    def document(self) -> dict[str, object]:
        result = self.found or JudgedPairs()
        return {
            "judge": self.name, "same": result.same, "other": result.other, "asked": result.candidates,
            "hits": result.hits, "hit_share": result.hit_share, "wrong": result.wrong.total(),
            "wrong_share": result.wrong_share, "wrong_by_kind": dict(result.wrong), "seconds": result.seconds,
            "seconds_a_pair": result.seconds / max(result.candidates, 1), "tokens": self.tokens,
        }  # fmt: skip


def read_pairs(path: Path) -> Sequence[QuestionPair]:
    """Load pairs from JSON Lines with `a`, `b` and `same`. Raises NotFound: it is unreadable. InvalidRequest."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"{str(path)!r} cannot be read: {error}") from error
    pairs: list[QuestionPair] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            pair = _Pair.model_validate(json.loads(line))
        except (ValueError, ValidationError) as error:
            raise InvalidRequest(
                f'{path.name}, line {number}: not a pair; write {{"a": …, "b": …, "same": true}}'
            ) from error
        pairs.append(QuestionPair(first=pair.a, second=pair.b, same=pair.same, kind=_OWN))
    if not pairs:
        raise InvalidRequest(f"{path.name} has no pairs")
    return pairs


def show(run: JudgeRun, to: Console) -> None:
    pairs = run.found or JudgedPairs()
    table = Table(title=f"Pairs that would be served, judged by {run.name}", title_justify="left")
    for column, justify in (("pairs", "left"), ("number", "right"), ("served", "right")):
        table.add_column(column, justify="right" if justify == "right" else "left")
    table.add_row("ask the same", f"{pairs.same:,}", f"{pairs.hits:,} ({pairs.hit_share:.1%})")
    table.add_row("do not", f"{pairs.other:,}", f"{pairs.wrong.total():,} ({pairs.wrong_share:.1%})")
    for kind, count in sorted(pairs.wrong.items()):
        if kind != _OWN:
            table.add_row(f"  {kind}", f"{pairs.kinds[kind]:,}", f"{count:,}")
    to.print(table)
    to.print(
        f"The judge was asked about {pairs.candidates:,} pairs, {pairs.seconds / max(pairs.candidates, 1):.2f} s and "
        f"{run.tokens / max(pairs.candidates, 1):,.0f} tokens a pair; the others have the same text, or clearly differ."
    )
