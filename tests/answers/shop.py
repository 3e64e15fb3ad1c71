"""A memory with ready answers, for tests: what a process needs to make them and to find them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from circadia.answers.lookup import AnswerLookup
from circadia.answers.services import CheckedMatch, KnownVerdicts, LookupResult, no_verdicts
from circadia.ids import AgentId, AnswerId
from circadia.memory.context import ContextBuilder
from circadia.memory.embedding.bundled import WordTable
from circadia.memory.search.retrieval import Retrieval
from circadia.records.answer import Answer, AnswerScope, DropReason
from circadia.records.bank import Bank
from circadia.settings.answers import AnswersSettings
from circadia.stores.base import Tx
from tests.memory.world import World

SCOPE = AnswerScope(agent_id=AgentId("agt_1"), end_user="ann", frame="f1")
DAY = timedelta(hours=24)


@dataclass(kw_only=True)
class Loaded:
    """Word vectors that are there at once."""

    table: WordTable
    name: str = "test@words/256"

    async def word_vectors(self) -> WordTable:
        return self.table


@dataclass(kw_only=True)
class Shop:
    """One process on the database of a world."""

    world: World
    words: WordTable
    lookup: AnswerLookup = field(init=False)
    contexts: ContextBuilder = field(init=False)
    made: int = 0

    def __post_init__(self) -> None:
        retrieval = Retrieval(self.world.clock, self.world.questions, max_bytes=10**10)
        self.contexts = ContextBuilder(retrieval)
        settings = AnswersSettings.model_validate({})
        self.lookup = AnswerLookup(self.world.clock, retrieval, Loaded(table=self.words), settings)
        self.retrieval = retrieval

    async def ready(self, question: str, text: str = "The answer.", *more: str, **values: Any) -> Answer:
        """Answer a question ahead, with the context that it is given now; `more` are other wordings of it."""
        bank = values.pop("bank", self.world.bank)
        self.made += 1
        async with self.world.store.begin_read() as tx:
            present = await tx.banks.get(bank.id)
            assert present is not None
            asked = await self.retrieval.prepare_question(question)
            context = await self.contexts.build(tx, present, asked, stable_tokens=500, fitting_tokens=500)
            basis = await self.lookup.fetch_basis(tx, present, context)
        now = self.world.clock.now()
        given: dict[str, Any] = {
            "id": AnswerId(f"ans_{self.made:05}"), "bank_id": bank.id, "scope": SCOPE, "confidence": 0.9, "text": text,
            "phrasings": (question, *more), "basis": basis, "made_at": now,
            "read_upto": basis.heads.episodes, "expires_at": now + DAY, **values,
        }  # fmt: skip
        answer = Answer(**given)
        async with self.world.store.begin_write() as tx:
            assert await tx.answers.put([answer])
        return answer

    async def drop(self, answer: Answer) -> None:
        async with self.world.store.begin_write() as tx:
            await tx.answers.drop(answer.bank_id, [answer.id], DropReason.BY_HAND, self.world.clock.now())

    async def ask(
        self, question: str, scope: AnswerScope = SCOPE, bank: Bank | None = None, **more: Any
    ) -> LookupResult:
        async with self.world.store.begin_read() as tx:
            return await self.ask_in(tx, question, scope, bank, **more)

    async def ask_in(
        self, tx: Tx, question: str, scope: AnswerScope = SCOPE, bank: Bank | None = None, *,
        conversation: str | None = None, verdicts: KnownVerdicts = no_verdicts,
    ) -> LookupResult:  # fmt: skip
        present = await tx.banks.get((bank or self.world.bank).id)
        assert present is not None
        return await self.lookup.find(tx, present, scope, question, conversation, verdicts)

    async def told(self, question: str, scope: AnswerScope = SCOPE) -> str:
        """Return the text that the question finds, once all is loaded; empty if none."""
        await self.explain(question)
        found = await self.ask(question, scope)
        return "" if found.answer is None else found.answer.text

    async def explain(self, question: str) -> Sequence[CheckedMatch]:
        async with self.world.store.begin_read() as tx:
            present = await tx.banks.get(self.world.bank.id)
            assert present is not None
            return await self.lookup.explain(tx, present, SCOPE, question)

    async def read(self, answer: Answer) -> None:
        """Have a judge who finds the answer right read what was said."""
        async with self.world.store.begin_write() as tx:
            newest = await tx.episodes.find_all(answer.bank_id, newest_first=True, limit=1)
            await tx.answers.mark_still_right(answer.bank_id, [answer.id], newest[0].number)

    async def why_not(self, answer: Answer) -> str:
        async with self.world.store.begin_read() as tx:
            present = await tx.banks.get(answer.bank_id)
            assert present is not None
            return (await self.lookup.validity(tx, present, answer)).why_not


def other(**values: Any) -> AnswerScope:
    """Return the scope but for this."""
    return replace(SCOPE, **values)
