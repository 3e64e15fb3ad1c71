"""What an agent's room for memory holds: evidence in the context of a question, by `fitting_tokens` (MEM-33).

`python -m benchmarks room --data TALKS` takes conversations in the format of LoCoMo, which are not part of this
repository; without them the made-up talks in seven languages are measured, which fit in little room.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.recall import QuestionVectors
from benchmarks.report import Report, number
from benchmarks.score import read_six_languages
from circadia.clock import SystemClock, system_milliseconds
from circadia.evaluation.locomo import LongConversation, load_conversations
from circadia.ids import RandomIds
from circadia.memory.banks import BankService, NewBank
from circadia.memory.context import ContextBuilder, estimate_tokens
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.memory.search.question import Question
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.vectors import stored_vector
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite

ROOMS: Final = (500, 1_000, 2_000, 3_000, 4_000, 6_000, 8_000)
"""Values of `fitting_tokens`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    data: Path | None = None
    """Conversations; without them the talks in seven languages."""


QUICK: Final = Size()


@dataclass(kw_only=True, slots=True)
class Room:
    shares: list[float] = field(default_factory=list[float])
    """Share of the evidence that each context shows."""
    tokens: list[int] = field(default_factory=list[int])
    lines: list[int] = field(default_factory=list[int])
    milliseconds: list[float] = field(default_factory=list[float])
    """Time to build it."""

    def row(self, tokens: int) -> Sequence[str]:
        means = [sum(each) / len(each) for each in (self.shares, self.tokens, self.lines, self.milliseconds)]
        whole = sum(share == 1 for share in self.shares) / len(self.shares)
        return [f"{tokens:,}", *map(number, (100 * means[0], 100 * whole, means[1], means[2], means[3]))]


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    talks = read_six_languages() if size.data is None else await asyncio.to_thread(load_conversations, size.data)
    rooms = {tokens: Room() for tokens in ROOMS}
    for at, talk in enumerate(talks):
        if talk.questions:
            store = await open_sqlite(folder / f"{at}.db")
            try:
                await _measure(store, talk, rooms)
            finally:
                await store.close()
    asked = len(rooms[ROOMS[0]].shares)
    return Report(
        name="room",
        title=f"Room for memory: evidence in the context of {asked} questions about {len(talks)} talks",
        columns=["`fitting_tokens`", "evidence shown, %", "all of it, %", "tokens used", "lines", "ms to build"],
        rows=[rooms[tokens].row(tokens) for tokens in ROOMS],
        goals=[],
        notes=[
            "Each talk has a bank of its own. Tokens are a third of the bytes, which is more than tokenizers make of "
            "most scripts."
        ],
        figures={str(tokens): sum(room.shares) / len(room.shares) for tokens, room in rooms.items()},
    )


async def _measure(store: Store, talk: LongConversation, rooms: dict[int, Room]) -> None:
    clock, embedder = SystemClock(), BundledEmbedder()
    ids, events = RandomIds(system_milliseconds), EventLog(clock, LocalSignals())
    episodes = EpisodeService(clock, ids, events)
    async with store.begin_write() as tx:
        new = NewBank(name="talk", policy=BankPolicy(duplicate_seconds=0))
        bank = await BankService(clock, ids, events, {}).create(tx, new, by="benchmark")
        for turn in talk.turns:
            await episodes.remember(tx, bank, NewEpisode(
                text=turn.indexed_text, speaker=turn.speaker, trust=Trust.PERSON, at=turn.at, conversation=turn.session
            ))  # fmt: skip
        numbers = [episode.number for episode in await tx.episodes.find_all(bank.id, limit=len(talk.turns))]
        vectors = map(stored_vector, await embedder.embed([turn.indexed_text for turn in talk.turns]))
        await tx.episodes.save_vectors(dict(zip(numbers, vectors, strict=True)), embedder.name)
    asked = await embedder.embed([each.question for each in talk.questions], question=True)
    questions = QuestionVectors()
    for question, vector in zip(talk.questions, asked, strict=True):
        questions.known[" ".join(question.question.split())] = {embedder.name: vector}
    retrieval = Retrieval(clock, questions, max_bytes=10**9)
    contexts = ContextBuilder(retrieval)
    for question in talk.questions:
        prepared = await retrieval.prepare_question(question.question, explained=False)
        evidence = {numbers[place] for place in question.evidence}
        for tokens, room in rooms.items():
            await _build(store, bank, contexts, prepared, tokens, evidence, room)


async def _build(
    store: Store, bank: Bank, contexts: ContextBuilder, question: Question, tokens: int, evidence: set[int], room: Room
) -> None:
    async with store.begin_read() as tx:
        began = time.monotonic()
        found = await contexts.build(tx, bank, question, stable_tokens=0, fitting_tokens=tokens)
        room.milliseconds.append(1_000 * (time.monotonic() - began))
    shown = {hit.item.number for hit in found.hits}
    room.shares.append(len(evidence & shown) / len(evidence))
    room.tokens.append(estimate_tokens(found.fitting))
    room.lines.append(len(found.hits))
