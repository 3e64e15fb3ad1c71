"""Searches banks: loads their indexes, keeps them up with the database, tells what was found and why (MEM-05)."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from circadia.clock import Clock
from circadia.ids import BankId
from circadia.memory.columns import Array
from circadia.memory.index import Index, Question, Scored
from circadia.memory.terms import asked_terms, words
from circadia.records.bank import Bank
from circadia.records.episode import Episode
from circadia.records.index_entry import Layer
from circadia.records.note import Note
from circadia.stores.base import Tx
from circadia.stores.memory import Episodes, Notes

PAGE: Final = 5_000
"""Rows that are read at once."""
WAITING: Final = 500
"""How many of the newest rows without a vector, and of the oldest, are looked after at each search."""
FEW: Final = 50
"""Rows from which on they are added outside of the event loop: one takes 0.05 ms."""
APART: Final = 20_000
"""Rows from which on a search leaves the event loop, since it takes more than 2 ms."""


class Questions(Protocol):
    """Embeds questions."""

    async def vectors(self, question: str) -> Mapping[str, Array]:
        """Return the vector by each embedder whose vectors are still read; none by those that do not answer in time."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A hit."""

    item: Episode | Note
    """What was found."""
    scored: Scored
    """Its score, with its parts."""


@dataclass(kw_only=True, slots=True)
class _Held:
    index: Index
    generation: int
    lock: asyncio.Lock


class Retrieval:
    """Searches. One index for each bank that was searched lately, `max_rows` rows in all."""

    def __init__(self, clock: Clock, questions: Questions, *, max_rows: int) -> None:
        self._clock = clock
        self._questions = questions
        self._max_rows = max_rows
        self._held: OrderedDict[BankId, _Held] = OrderedDict()

    async def ask(self, question: str) -> Question:
        """Return what a question is looked for by. It may take an embedder's time, so ask outside of a transaction."""
        return Question(
            terms=asked_terms(question),
            names=frozenset(words(question)),
            vectors=await self._questions.vectors(question),
            now=self._clock.now().timestamp(),
        )

    async def find(self, tx: Tx, bank: Bank, question: Question) -> Sequence[Found]:
        """Return the best, best first, in a reading transaction; all that was committed before is searched (MEM-02)."""
        held = self._held.get(bank.id)
        if held is None or held.generation < bank.generation:
            held = self._held[bank.id] = _Held(index=Index(), generation=bank.generation, lock=asyncio.Lock())
        self._held.move_to_end(bank.id)
        async with held.lock:
            if held.generation == bank.generation:  # else the transaction is older and shows what is gone by now
                await self._keep_up(tx, bank, held.index)
            apart = len(held.index) > APART
            scored = await asyncio.to_thread(held.index.find, question) if apart else held.index.find(question)
        self._make_room()
        return await _fetched(tx, bank, scored)

    async def _keep_up(self, tx: Tx, bank: Bank, index: Index) -> None:
        for layer, rows in _layers(tx):
            waiting = index.waiting(layer, WAITING)
            if waiting:
                index.embed(layer, await rows.vectors(waiting))
            full = True
            while full:
                page = await rows.index_entries(bank.id, after=index.last[layer], limit=PAGE)
                if len(page) < FEW:
                    index.add(layer, page)
                else:
                    await asyncio.to_thread(index.add, layer, page)
                full = len(page) == PAGE

    def _make_room(self) -> None:
        rows = sum(len(held.index) for held in self._held.values())
        while rows > self._max_rows and len(self._held) > 1:
            _, dropped = self._held.popitem(last=False)
            rows -= len(dropped.index)


def _layers(tx: Tx) -> Sequence[tuple[Layer, Episodes | Notes]]:
    return ((Layer.EPISODES, tx.episodes), (Layer.NOTES, tx.notes))


async def _fetched(tx: Tx, bank: Bank, scored: Sequence[Scored]) -> Sequence[Found]:
    items: dict[tuple[Layer, int], Episode | Note] = {}
    for layer, rows in _layers(tx):
        numbers = [each.number for each in scored if each.layer is layer]
        items |= {(layer, number): item for number, item in (await rows.numbered(bank.id, numbers)).items()}
    return [
        Found(item=items[each.layer, each.number], scored=each) for each in scored if (each.layer, each.number) in items
    ]
