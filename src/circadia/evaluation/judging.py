"""Measure a judge of ready answers on labelled pairs: which would be served, rightly or wrongly (ANS-09, ANS-10)."""

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from circadia.answers.index import AnswerIndex, TextVectors
from circadia.answers.lookup import LEAST_SIMILARITY
from circadia.clock import Clock
from circadia.ids import AnswerId
from circadia.records.answer import AnswerableQuestion
from circadia.testing.language_suite import QuestionPair

_ID: Final = AnswerId("1")

PairJudge = Callable[[str, str], Awaitable[bool]]


class PairCallback(Protocol):
    """Called after each pair."""

    def __call__(self) -> None: ...


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
    advance: PairCallback = lambda: None,
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
    similar = index.find_similar(pair.second, least=LEAST_SIMILARITY)
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

    async def decide(asked: str, candidate: str) -> bool:
        digest = hashlib.sha256(f"{asked}\0{candidate}".encode()).digest()
        errs = int.from_bytes(digest[:4]) / 2**32 < error
        return same[asked, candidate] is not errs

    return decide
