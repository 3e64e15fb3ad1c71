"""Measures a judge of ready answers on labelled pairs: what would be served, rightly and wrongly (ANS-09, ANS-10)."""

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
"""Says whether two questions ask the same."""


class PairCallback(Protocol):
    """Is told of each pair that was looked at."""

    def __call__(self) -> None: ...


@dataclass(kw_only=True, slots=True)
class JudgedPairs:
    """What came of a set of pairs."""

    same: int = 0
    """Pairs that ask the same."""
    other: int = 0
    """Pairs that do not."""
    candidates: int = 0
    """Pairs that the judge was asked about."""
    hits: int = 0
    """Pairs that ask the same and are served."""
    wrong: Counter[str] = field(default_factory=Counter[str])
    """Pairs that do not and are served, by kind."""
    kinds: Counter[str] = field(default_factory=Counter[str])
    """Pairs that do not, by kind."""
    seconds: float = 0.0
    """Time that the judge took."""

    @property
    def hit_share(self) -> float:
        """Return the share of pairs that ask the same and are served."""
        return self.hits / self.same if self.same else 0.0

    @property
    def wrong_share(self) -> float:
        """Return the share of other pairs that are served."""
        return self.wrong.total() / self.other if self.other else 0.0


async def judge_pairs(
    pairs: Sequence[QuestionPair], vectors: TextVectors, decide: PairJudge | None, clock: Clock,
    advance: PairCallback = lambda: None,
) -> JudgedPairs:  # fmt: skip
    """Look the second question of each pair up where the first has an answer, as a call does; none is no judge."""
    found = JudgedPairs()
    for pair in pairs:
        if pair.same:
            found.same += 1
        else:
            found.other += 1
            found.kinds[pair.kind] += 1
        if await _is_served(pair, vectors, decide, clock, found):
            if pair.same:
                found.hits += 1
            else:
                found.wrong[pair.kind] += 1
        advance()
    return found


async def _is_served(
    pair: QuestionPair, vectors: TextVectors, decide: PairJudge | None, clock: Clock, found: JudgedPairs
) -> bool:
    index = AnswerIndex(vectors)
    index.add([AnswerableQuestion(id=_ID, phrasings=[pair.first], confidence=1.0)])
    if index.find_exact(pair.second) is not None:
        return True
    similar = index.find_similar(pair.second, least=LEAST_SIMILARITY)
    if decide is None or not similar or similar[0].conflict:
        return False
    found.candidates += 1
    began = clock.monotonic()
    same = await decide(pair.second, pair.first)
    found.seconds += clock.monotonic() - began
    return same


def build_erring_judge(pairs: Sequence[QuestionPair], error: float) -> PairJudge:
    """Return a scripted judge that knows the labels and errs on such a share of the pairs, always the same ones."""
    same = {(pair.second, pair.first): pair.same for pair in pairs}

    async def decide(asked: str, candidate: str) -> bool:
        digest = hashlib.sha256(f"{asked}\0{candidate}".encode()).digest()
        errs = int.from_bytes(digest[:4]) / 2**32 < error
        return same[asked, candidate] is not errs

    return decide
