"""`circadia eval judge`: which labelled pairs a judge of ready answers would serve (ANS-09, ANS-10)."""

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.table import Table

from circadia.answers.index import AnswerIndex
from circadia.answers.lookup import MIN_SIMILARITY
from circadia.clock import Clock
from circadia.errors import InvalidRequest, NotFound
from circadia.evaluation.asker import Asker
from circadia.evaluation.models import EvalEnvironment, ModelChoice, build_progress, open_eval_model
from circadia.gateway.answers.judging import MAX_OUTPUT_TOKENS, SameQuestions, judge_prompt
from circadia.ids import AnswerId
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search.vectors import TextVectors
from circadia.records.answer import AnswerableQuestion

_ID: Final = AnswerId("1")

PairJudge = Callable[[str, str], Awaitable[bool]]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionPair:
    """Two questions and whether they ask the same."""

    first: str
    second: str
    same: bool
    kind: str
    """The domain of a paraphrase, or the difference of a near miss."""


def load_english_pairs() -> Sequence[QuestionPair]:
    """Return English pairs: clearly reworded questions, and questions that differ in one small thing that matters."""
    stored = json.loads(resources.files("circadia.evaluation").joinpath("question_pairs.json").read_bytes())
    return [
        QuestionPair(first=first, second=second, same=same, kind=kind)
        for same, name in ((True, "english_paraphrases"), (False, "english_near_misses"))
        for kind, first, second in stored[name]
    ]


@dataclass(kw_only=True, slots=True)
class JudgedPairs:
    same: int = 0
    """Pairs that ask the same."""
    other: int = 0
    """Pairs that do not ask the same."""
    candidates: int = 0
    """Pairs that the judge was asked about."""
    hits: int = 0
    """Served pairs that ask the same."""
    wrong: Counter[str] = field(default_factory=Counter[str])
    """Served pairs that do not ask the same, by kind."""
    kinds: Counter[str] = field(default_factory=Counter[str])
    """All pairs that do not ask the same, by kind."""
    seconds: float = 0.0

    @property
    def hit_share(self) -> float:
        return self.hits / self.same if self.same else 0.0

    @property
    def wrong_share(self) -> float:
        return self.wrong.total() / self.other if self.other else 0.0


async def judge_pairs(
    pairs: Sequence[QuestionPair], vectors: TextVectors, decide: PairJudge | None, clock: Clock,
    advance: Callable[[], None] = lambda: None,
) -> JudgedPairs:  # fmt: skip
    """Look up each pair's second question where the first has an answer, as a call does; `decide` None is no judge."""
    counts = JudgedPairs()
    for pair in pairs:
        if pair.same:
            counts.same += 1
        else:
            counts.other += 1
            counts.kinds[pair.kind] += 1
        if await _is_served(pair, vectors, decide, clock, counts):
            if pair.same:
                counts.hits += 1
            else:
                counts.wrong[pair.kind] += 1
        advance()
    return counts


async def _is_served(
    pair: QuestionPair, vectors: TextVectors, decide: PairJudge | None, clock: Clock, counts: JudgedPairs
) -> bool:
    index = AnswerIndex(vectors)
    index.add([AnswerableQuestion(id=_ID, phrasings=[pair.first], confidence=1.0)])
    if index.find_exact(pair.second) is not None:
        return True
    similar = index.find_similar(pair.second, min_similarity=MIN_SIMILARITY)
    if decide is None or not similar or similar[0].conflict:
        return False
    counts.candidates += 1
    began = clock.monotonic()
    same = await decide(pair.second, pair.first)
    counts.seconds += clock.monotonic() - began
    return same


def build_erring_judge(pairs: Sequence[QuestionPair], error: float) -> PairJudge:
    """Return a scripted judge that knows the labels and errs on this share of the pairs, always the same ones."""
    same = {(pair.second, pair.first): pair.same for pair in pairs}

    async def decide(question: str, candidate: str) -> bool:
        digest = hashlib.sha256(f"{question}\0{candidate}".encode()).digest()
        errs = int.from_bytes(digest[:4]) / 2**32 < error
        return same[question, candidate] is not errs

    return decide


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
        async with open_eval_model(self._chosen, around) as model:
            asker = Asker(model, around.clock)
            decide = self._build_model_judge(asker)
            if self._chosen.is_scripted:
                decide = build_erring_judge(self.pairs, self._error)
            else:
                self.name = f"{model.name} of {model.upstream}"
            with build_progress(around.to) as bar:
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
