"""One run of `circadia eval judge`."""

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
    """Asks a judge about pairs and keeps what came of them."""

    def __init__(
        self, chosen: ModelChoice, around: EvalEnvironment, *, data: Path | None, error: float, limit: int | None
    ) -> None:
        """Read the pairs.

        Raises:
            NotFound: there is no such file. InvalidRequest: a line is no pair.
        """
        self._chosen = chosen
        self._around = around
        self._error = error
        self.pairs = (load_english_pairs() if data is None else read_pairs(data))[:limit]
        self.found: JudgedPairs | None = None
        self.tokens = 0
        self.name = "scripted"

    async def run(self) -> None:
        """Measure. Raises CircadiaError: the model cannot be asked."""
        words, around = await BundledEmbedder().word_vectors(), self._around
        progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            console=around.to,
        )  # fmt: skip
        async with open_eval_model(self._chosen, around.settings, around.environment, around.clock) as mind:
            asker = Asker(mind, around.clock)
            decide = self._build_model_judge(asker)
            if self._chosen.is_scripted:
                decide = build_erring_judge(self.pairs, self._error)
            else:
                self.name = f"{mind.name} of {mind.upstream}"
            with progress as bar:
                task = bar.add_task("pairs", total=len(self.pairs))
                self.found = await judge_pairs(self.pairs, words, decide, around.clock, lambda: bar.advance(task))
            self.tokens = asker.spent.prompt + asker.spent.generated

    def _build_model_judge(self, asker: Asker) -> PairJudge:
        async def decide(question: str, candidate: str) -> bool:
            prompt = judge_prompt(question, [candidate], asker.today)
            said, _ = await asker.ask(prompt, SameQuestions, most_tokens=MAX_OUTPUT_TOKENS)
            return said is not None and 1 in said.same

        return decide

    def document(self) -> dict[str, object]:
        """Return the result as JSON."""
        found = self.found or JudgedPairs()
        return {
            "judge": self.name, "same": found.same, "other": found.other, "asked": found.candidates,
            "hits": found.hits, "hit_share": found.hit_share, "wrong": found.wrong.total(),
            "wrong_share": found.wrong_share, "wrong_by_kind": dict(found.wrong), "seconds": found.seconds,
            "seconds_a_pair": found.seconds / max(found.candidates, 1), "tokens": self.tokens,
        }  # fmt: skip


def read_pairs(path: Path) -> Sequence[QuestionPair]:
    """Return labelled pairs from JSON Lines with `a`, `b` and `same`.

    Raises:
        NotFound: there is no such file. InvalidRequest: a line is no pair.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"{str(path)!r} cannot be read: {error}") from error
    found: list[QuestionPair] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            pair = _Pair.model_validate(json.loads(line))
        except (ValueError, ValidationError) as error:
            raise InvalidRequest(
                f'{path.name}, line {number}: not a pair; write {{"a": …, "b": …, "same": true}}'
            ) from error
        found.append(QuestionPair(first=pair.a, second=pair.b, same=pair.same, kind=_OWN))
    if not found:
        raise InvalidRequest(f"{path.name} has no pairs")
    return found


def show(run: JudgeRun, to: Console) -> None:
    """Print the result."""
    found = run.found or JudgedPairs()
    table = Table(title=f"Pairs that would be served, judged by {run.name}", title_justify="left")
    for column, justify in (("pairs", "left"), ("number", "right"), ("served", "right")):
        table.add_column(column, justify="right" if justify == "right" else "left")
    table.add_row("ask the same", f"{found.same:,}", f"{found.hits:,} ({found.hit_share:.1%})")
    table.add_row("do not", f"{found.other:,}", f"{found.wrong.total():,} ({found.wrong_share:.1%})")
    for kind, count in sorted(found.wrong.items()):
        if kind != _OWN:
            table.add_row(f"  {kind}", f"{found.kinds[kind]:,}", f"{count:,}")
    to.print(table)
    to.print(
        f"The judge was asked about {found.candidates:,} pairs, {found.seconds / max(found.candidates, 1):.2f} s and "
        f"{run.tokens / max(found.candidates, 1):,.0f} tokens a pair; the others are the same text, or differ for sure."
    )
