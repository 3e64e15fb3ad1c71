"""A small memory for tests: its services on a store, a clock that they move, a bank."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from circadia.ids import EpisodeId, NoteId, RandomIds
from circadia.memory.banks import BankService, NewBank
from circadia.memory.blocks import BlockAuthor, BlockService, BlockUpdate
from circadia.memory.context import ContextBuilder
from circadia.memory.episodes import EpisodeService, NewEpisode, StoredEpisode
from circadia.memory.search.columns import Array
from circadia.memory.search.question import Question
from circadia.memory.search.retrieval import Retrieval, SearchHit
from circadia.memory.search.terms import stored_terms
from circadia.memory.search.vectors import stored_vector
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.records.block import Block, BlockSpan
from circadia.records.note import Note, NoteKind
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.testing.clock import ManualClock

EMBEDDER = "test@1/8"
POLICIES = {"support-{user}": BankPolicy(hot_edits=True), "team": BankPolicy(keep_days=3.0)}


def vector(text: str, dimensions: int = 8) -> Array:
    """Return a unit vector that depends on the text alone."""
    numbers = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)[:dimensions].astype(np.float32) - 127.5
    return numbers / np.linalg.norm(numbers)


@dataclass(kw_only=True)
class Steered:
    """Vectors of questions, as a test has set them."""

    by_question: dict[str, Mapping[str, Array]] = field(default_factory=dict[str, Mapping[str, Array]])

    def vectors_nowait(self, question: str) -> Mapping[str, Array] | None:
        return None

    async def vectors(self, question: str) -> Mapping[str, Array]:
        return self.by_question.get(question, {})


@dataclass(kw_only=True)
class World:
    """A memory and its bank."""

    store: Store
    clock: ManualClock
    ids: RandomIds
    questions: Steered
    events: EventLog
    banks: BankService
    episodes: EpisodeService
    blocks: BlockService
    retrieval: Retrieval
    contexts: ContextBuilder
    bank: Bank

    @classmethod
    async def made(cls, store: Store, *, max_bytes: int = 10**10) -> Self:
        clock = ManualClock()
        ids, questions = RandomIds(lambda: 0), Steered()
        retrieval = Retrieval(clock, questions, max_bytes=max_bytes)
        events = EventLog(clock, LocalSignals())
        banks = BankService(clock, ids, events, POLICIES)
        async with store.begin_write() as tx:
            bank = await banks.create(tx, NewBank(name="ann"), by="operator")
        return cls(
            store=store,
            clock=clock,
            ids=ids,
            questions=questions,
            events=events,
            banks=banks,
            blocks=BlockService(clock, events),
            bank=bank,
            episodes=EpisodeService(clock, ids, events),
            retrieval=retrieval,
            contexts=ContextBuilder(retrieval),
        )

    async def add_bank(self, name: str) -> Bank:
        async with self.store.begin_write() as tx:
            return await self.banks.create(tx, NewBank(name=name), by="operator")

    async def present(self, bank: Bank | None = None) -> Bank:
        """Return the bank as it is now."""
        async with self.store.begin_read() as tx:
            found = await tx.banks.get((bank or self.bank).id)
        assert found is not None
        return found

    async def remember(self, text: str, *, bank: Bank | None = None, **more: Any) -> StoredEpisode:
        values: dict[str, Any] = {"speaker": "Ann", "trust": Trust.PERSON, **more}
        async with self.store.begin_write() as tx:
            return await self.episodes.remember(tx, bank or self.bank, NewEpisode(text=text, **values))

    async def note(self, text: str, evidence: Sequence[EpisodeId], *, bank: Bank | None = None) -> NoteId:
        note = Note(
            id=NoteId(self.ids.new("not")), bank_id=(bank or self.bank).id, number=0, at=self.clock.now(), text=text,
            trust=Trust.PERSON, kind=NoteKind.SUMMARY, evidence=evidence, created_at=self.clock.now(),
            terms=stored_terms(text),
        )  # fmt: skip
        async with self.store.begin_write() as tx:
            await tx.notes.add(note)
        return note.id

    async def embed(self, number_and_text: Mapping[int, str], embedder: str = EMBEDDER) -> None:
        async with self.store.begin_write() as tx:
            vectors = {number: stored_vector(vector(text)) for number, text in number_and_text.items()}
            await tx.episodes.save_vectors(vectors, embedder)

    async def find(self, question: str, *, bank: Bank | None = None, **more: Any) -> Sequence[SearchHit]:
        asked = replace(await self.retrieval.prepare_question(question), **more)
        return await self.find_asked(asked, bank=bank)

    async def find_asked(self, question: Question, *, bank: Bank | None = None) -> Sequence[SearchHit]:
        async with self.store.begin_read() as tx:
            found = await tx.banks.get((bank or self.bank).id)
            assert found is not None
            return await self.retrieval.find(tx, found, question)

    async def texts(self, question: str, *, bank: Bank | None = None, **more: Any) -> list[str]:
        return [each.item.text for each in await self.find(question, bank=bank, **more)]

    async def write(
        self,
        label: str,
        value: str | None,
        *,
        writer: BlockAuthor = BlockAuthor.PERSON,
        bank: Bank | None = None,
        **more: Any,
    ) -> Block:
        async with self.store.begin_write() as tx:
            edit = BlockUpdate(value=value, **more)
            return await self.blocks.write(tx, bank or self.bank, label, edit, writer=writer, by="tester")

    async def undo(self, label: str, *, to: int | None = None) -> Block:
        async with self.store.begin_write() as tx:
            return await self.blocks.undo(tx, self.bank, label, to=to, by="tester")

    async def history(self, label: str, *, bank: Bank | None = None) -> Sequence[Block]:
        async with self.store.begin_read() as tx:
            return await tx.blocks.history((bank or self.bank).id, label)


def span(value: str, part: str, *episodes: str) -> BlockSpan:
    """Return the span of a part of a value."""
    start = value.index(part)
    return BlockSpan(start=start, end=start + len(part), episodes=tuple(map(EpisodeId, episodes)))
