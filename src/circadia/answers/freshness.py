"""Whether an answer still stands (ANS-04)."""

from dataclasses import dataclass

from circadia.answers.index import TextVectors
from circadia.memory.answers.likeness import fitted
from circadia.memory.answers.repeating import Repeating
from circadia.memory.answers.standing import Standing, rests_of
from circadia.memory.retrieval import Retrieval
from circadia.records.answer import Answer
from circadia.records.bank import Bank
from circadia.stores.base import Tx

__all__ = ["AnswerState", "Freshness", "rests_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerState:
    """Whether an answer stands."""

    why_void: str = ""
    doubt: str = ""


class Freshness:
    """Tells whether answers stand."""

    def __init__(self, retrieval: Retrieval, vectors: TextVectors, embedder: str) -> None:
        self._standing = Standing(retrieval, vectors, embedder, Repeating(vectors, fitted()))

    async def check(self, tx: Tx, bank: Bank, answer: Answer, *, rows_read: int | None) -> AnswerState:
        """Return the state of an answer as the transaction shows it."""
        return AnswerState(why_void=await self._standing.why_not(tx, bank, answer, most=rows_read))
