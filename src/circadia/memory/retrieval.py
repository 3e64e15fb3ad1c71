"""Searches banks: loads their indexes, keeps them up with the database, tells what was found and why (MEM-05)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeVar

from circadia.clock import Clock
from circadia.ids import BankId
from circadia.memory.asked import Askings, described, key_of, normal, stamp_of
from circadia.memory.columns import Array
from circadia.memory.glances import Glances
from circadia.memory.index import UNEXPLAINED, Index, Question, Scored
from circadia.memory.lru import Lru
from circadia.memory.terms import asked_words
from circadia.memory.touching import LaterRows
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.episode import Episode
from circadia.records.excerpt import Excerpt
from circadia.records.index_entry import TEXT, Layer
from circadia.records.note import Note
from circadia.records.ready_view import Heads
from circadia.stores.base import Store, Tx
from circadia.stores.memory import Episodes, Notes

PAGE: Final = 5_000
"""Rows that are read at once."""
WAITING: Final = 500
"""How many of the newest rows without a vector, and of the oldest, are looked after at each search."""
FEW: Final = 50
"""Rows that are read and added in the event loop, which would wait too long for more."""
APART: Final = 20_000
"""Rows from which on a search leaves the event loop, which would wait too long for it."""
QUICK_SECONDS: Final = 0.05
"""How long a question's vectors are waited for until a ready view is looked for, which costs a transaction: long enough
for an embedder in this process on a busy machine; one across a network is seldom as quick."""

HELD_BYTES: Final = 1_000
"""What a bank takes beside its index and its blocks."""
BLOCK_BYTES: Final = 500
"""What a block takes beside its text, and each of its spans."""
NEVER: Final = -1
"""Stands for versions of blocks that were not read."""

T = TypeVar("T")


class Questions(Protocol):
    """Embeds questions."""

    def at_once(self, question: str) -> Mapping[str, Array] | None:
        """Return the same as `vectors` if nobody has to wait for it; else none."""
        ...

    async def vectors(self, question: str) -> Mapping[str, Array]:
        """Return the vector by each embedder whose vectors are still read; none by those that do not answer in time."""
        ...

    def embedders(self) -> Collection[str] | None:
        """Return the embedders whose vectors are still read; none if the name of one is not known yet."""
        ...


class _Unready(Exception):
    """No view answers a question whose vectors are on their way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A hit."""

    item: Episode | Note
    """What was found."""
    scored: Scored
    """Its score, with its parts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a look at a bank shows."""

    blocks: Sequence[Block]
    """The newest version of each, by label; the same sequence as the last time if none was written since."""
    scored: Sequence[Scored]
    """What the question finds, best first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Since:
    """A bank as a transaction shows it, beside what it was before."""

    blocks: Sequence[Block]
    """The newest version of each, by label."""
    weights: Mapping[Layer, Mapping[int, float]]
    """Of the rows that were asked for, by number; those that are gone are left out."""
    later: LaterRows
    """Rows with greater numbers that may change the answer."""
    heads: Heads
    """The greatest numbers that were looked at."""


@dataclass(kw_only=True, slots=True)
class _Held:
    generation: int
    demotions: int
    index: Index = field(default_factory=Index)
    blocks: Sequence[Block] = ()
    writes: int = 0
    """How many versions the blocks had, all together."""
    embedded: int | None = None
    """How many vectors had been written when no row had one of those that are asked for; none if some may have."""
    searched: bool = False
    """Whether it was searched since it was last kept up by `keep_up`."""
    block_bytes: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def nbytes(self) -> int:
        """Return about how much memory it takes, in bytes."""
        return self.index.nbytes + self.block_bytes + HELD_BYTES


class Retrieval:
    """Searches. One index for each bank that was searched lately, `max_bytes` in all."""

    def __init__(self, clock: Clock, questions: Questions, *, max_bytes: int) -> None:
        self._clock = clock
        self._questions = questions
        self.loaded: Final[Lru[BankId, _Held]] = Lru(max_bytes)
        self.askings: Final = Askings()
        """What is asked how often."""
        self.glances: Final = Glances(clock)

    async def ask(self, question: str, *, explained: bool = True) -> Question:
        """Return what a question is looked for by. It may take an embedder's time, so ask outside of a transaction."""
        made = self._question(question, explained)
        return replace(made, vectors=await self._questions.vectors(made.text))

    async def answered(
        self, store: Store, question: str, work: Callable[[Tx, Question], Awaitable[T]], *, whose: Hashable = None,
        explained: bool = True,
    ) -> T:  # fmt: skip
        """Return what `work` makes of the question in a reading transaction; it may be begun twice.

        Where a ready view answers, nobody waits for the embedder. `whose` is told where a glance may be enough
        (`Glances`), and tells which bank is asked.
        """
        made = self._question(question, explained)
        vectors = self._questions.at_once(made.text)
        if vectors is not None:
            made = replace(made, vectors=vectors)
            return await self.glances.read(store, whose, lambda tx: work(tx, made))
        coming = asyncio.ensure_future(self._questions.vectors(made.text))
        await asyncio.wait((coming,), timeout=QUICK_SECONDS)
        if not coming.done():
            with suppress(_Unready):
                async with store.read() as tx:
                    return await work(tx, replace(made, waits=True))
        made = replace(made, vectors=await coming)
        async with store.read() as tx:
            return await work(tx, made)

    async def keep_up(self, store: Store, bank_ids: Iterable[BankId]) -> None:
        """Take in what is new of those of the banks that were searched since the last time, so that no search waits."""
        for bank_id in bank_ids:
            held = self.loaded.get(bank_id)
            if held is None or not held.searched:
                continue
            held.searched = False
            async with store.read() as tx:
                bank = await tx.banks.get(bank_id)
                async with held.lock:
                    if bank is not None and bank.generation >= held.generation:
                        await self._keep_up(tx, bank, held, searched=True)

    async def find(self, tx: Tx, bank: Bank, question: Question) -> Sequence[Found]:
        """Return the best, best first, in a reading transaction; all that was committed before is searched (MEM-02)."""
        ready = await self._ready(tx, bank, question)
        scored = (await self._seen(tx, bank, question)).scored if ready is None else ready
        self._count(bank, question)
        return await self.fetched(tx, bank, scored)

    async def look(self, tx: Tx, bank: Bank, question: Question | None) -> Seen:
        """Return the blocks, and what a question finds, of the bank in a reading transaction, without the texts."""
        ready = None if question is None else await self._ready(tx, bank, question)
        seen = await self._seen(tx, bank, question if ready is None else None)
        if question is not None:
            self._count(bank, question)
        return seen if ready is None else replace(seen, scored=ready)

    async def looks(self, tx: Tx, bank: Bank, questions: Iterable[Question]) -> AsyncIterator[Sequence[Scored]]:
        """Yield what each of these finds as `look` does, in one reading transaction: what is new is read once."""
        seen: _Held | None = None
        for question in questions:
            held = self._of(bank)
            scored, seen = (await self._seen(tx, bank, question, fresh=held is seen, series=True)).scored, held
            yield scored

    async def stamp(self, tx: Tx, bank: Bank) -> str | None:
        """Return the state of the bank that searches see now; none if it cannot be told yet."""
        embedders = self._questions.embedders()
        return None if embedders is None else stamp_of(bank, await tx.views.heads(bank.id), embedders)

    async def worked_out(self, tx: Tx, bank: Bank, question: Question) -> tuple[str, Sequence[Scored]] | None:
        """Return what a question finds, with the state of the bank that it is of, for a view.

        None if it could be another in the same state: an embedder did not answer, or vectors are still to be read.
        """
        stamp = await self.stamp(tx, bank)
        if stamp is None or set(question.vectors) != set(self._questions.embedders() or ()):
            return None
        scored = (await self._seen(tx, bank, question)).scored
        held = self.loaded.get(bank.id)
        if held is None or held.generation != bank.generation:
            return None
        whole = all(len(held.index.unembedded[layer]) <= 2 * WAITING for layer in Layer)
        return (stamp, scored) if whole else None

    def _question(self, question: str, explained: bool) -> Question:
        text = normal(question)
        terms, names = asked_words(text)
        return Question(
            text=text, terms=terms, names=names, now=self._clock.now().timestamp(), explained=explained,
        )  # fmt: skip

    async def _ready(self, tx: Tx, bank: Bank, question: Question) -> Sequence[Scored] | None:
        """Return what a view has ready for a question; none if there is none of this very state.

        A question that is new to this process is looked for only if to search would take longer than usual.
        """
        asked = described(question)
        found: Sequence[Scored] | None = None
        if asked is not None and (question.waits or self._cold(bank) or self.askings.often(bank, asked)):
            view, embedders = await tx.views.ready(bank.id, key_of(asked)), self._questions.embedders()
            if view is not None and embedders is not None and question.limit <= view.depth:
                present = view.stamp == stamp_of(bank, view.heads, embedders)
                found = [Scored(*each) for each in view.hits[: question.limit]] if present else None
        if found is None and question.waits:
            raise _Unready
        return found if found is None or question.explained else [each._replace(parts=UNEXPLAINED) for each in found]

    def _count(self, bank: Bank, question: Question) -> None:
        """Count the asking, which whoever looks again has not counted yet."""
        asked = described(question) if question.counted else None
        if asked is not None:
            self.askings.count(bank, asked, question.limit, self._clock.now())

    def _cold(self, bank: Bank) -> bool:
        held = self.loaded.get(bank.id)
        return held is None or held.generation != bank.generation or not len(held.index)

    async def _seen(
        self, tx: Tx, bank: Bank, question: Question | None, *, fresh: bool = False, series: bool = False
    ) -> Seen:
        """Return what a look shows, maybe one of a `series`; a `fresh` index has all that the transaction sees."""
        held = self._of(bank)
        scored: Sequence[Scored] = ()
        async with held.lock:
            # If the bank has another generation the transaction is older and shows what is gone by now.
            if held.generation <= bank.generation and not fresh:
                await self._keep_up(tx, bank, held, searched=question is not None)
            if question is not None:
                held.searched, apart = True, len(held.index) > APART
                find = partial(held.index.find, question, series=series)
                scored = await asyncio.to_thread(find) if apart else find()
            self.loaded.weigh(bank.id, held, held.nbytes)
        return Seen(blocks=held.blocks, scored=scored)

    async def since(
        self, tx: Tx, bank: Bank, shown: Mapping[Layer, Collection[int]], made: Heads, seen: Heads, question: Question
    ) -> Since | None:
        """Return blocks, weights of the rows `shown`, and what came after `seen`, beside the question.

        The rows up to `made` are what the others are weighed by. None if the transaction is so old that something has
        been forgotten since.
        """
        held = self._of(bank)
        async with held.lock:
            if held.generation > bank.generation:
                return None
            await self._keep_up(tx, bank, held, searched=True)
            weights = {layer: held.index.weights(layer, numbers) for layer, numbers in shown.items()}
            last = Heads(held.index.last[Layer.EPISODES], held.index.last[Layer.NOTES])
            apart = len(held.index) > APART
            look = partial(held.index.since, made, seen, question)
            later = await asyncio.to_thread(look) if apart else look()
            self.loaded.weigh(bank.id, held, held.nbytes)
            return Since(blocks=held.blocks, weights=weights, later=later, heads=last)

    def _of(self, bank: Bank) -> _Held:
        held = self.loaded.get(bank.id) or _Held(generation=bank.generation, demotions=bank.demotions)
        self.loaded.put(bank.id, held, held.nbytes)
        return held

    async def fetched(self, tx: Tx, bank: Bank, scored: Sequence[Scored]) -> Sequence[Found]:
        """Return what was found with its texts; without what is gone by now."""
        items: dict[Layer, Mapping[int, Episode | Note]] = {
            layer: await rows.numbered(bank.id, [each.number for each in scored if each.layer is layer])
            for layer, rows in _layers(tx)
        }
        pairs = [(items[each.layer].get(each.number), each) for each in scored]
        return [Found(item=item, scored=each) for item, each in pairs if item is not None]

    async def excerpts(self, tx: Tx, bank: Bank, scored: Sequence[Scored]) -> Sequence[Excerpt | None]:
        """Return what a context shows of what was found; none in the place of what is gone by now.

        What the index of the bank has is not read again: a row that goes changes its bank's generation.
        """
        held = self.loaded.get(bank.id)
        if held is None or held.generation != bank.generation:
            found: list[Excerpt | None] = [None] * len(scored)
        else:
            found = list(held.index.excerpts(scored))
        if None in found:
            for layer, rows in _layers(tx):
                lacking = {each.number: at for at, each in enumerate(scored) if each.layer is layer and not found[at]}
                for number, item in (await rows.excerpts(bank.id, lacking, characters=TEXT)).items():
                    found[lacking[number]] = item
        return found

    async def _keep_up(self, tx: Tx, bank: Bank, held: _Held, *, searched: bool) -> None:
        """Take in what is new since the last time: blocks, and if it is `searched`, rows and vectors."""
        if bank.generation > held.generation:
            await self._remove(tx, bank, held)
        index = held.index
        whole = all(len(index.unembedded[layer]) <= 2 * WAITING for layer in Layer)
        news = await tx.banks.news(
            bank.id,
            after=dict(index.last) if searched else {},
            waiting={layer: index.waiting(layer, WAITING) for layer in Layer} if searched else {},
            limit=FEW,
            seen=held.embedded,
        )
        if bank.demotions > held.demotions:
            index.weigh(Layer.EPISODES, await tx.episodes.weights(bank.id, after=held.demotions))
            index.weigh(Layer.NOTES, await tx.notes.weights(bank.id, after=held.demotions))
        held.demotions = bank.demotions  # back, too: an older transaction may load rows as they were
        if news.writes != held.writes:
            held.blocks, held.writes = await tx.blocks.every(bank.id), news.writes
            held.block_bytes = sum(BLOCK_BYTES * (1 + len(each.spans)) + len(each.value) for each in held.blocks)
        for layer, rows in _layers(tx):
            index.embed(layer, news.vectors.get(layer, {}))
            page, limit = news.entries.get(layer, ()), FEW
            while page:
                if len(page) <= FEW:
                    index.add(layer, page)
                else:
                    await asyncio.to_thread(index.add, layer, page)
                full, limit = len(page) == limit, PAGE
                page = await rows.index_entries(bank.id, after=index.last[layer], limit=PAGE) if full else ()
        if searched:  # to less, too: an older transaction may have loaded rows as they were
            held.embedded = news.embedded if whole or not any(news.vectors.values()) else None

    async def _remove(self, tx: Tx, bank: Bank, held: _Held) -> None:
        """Take out of the index what was removed since its generation; where that is not known, begin a new one."""
        removed = await tx.banks.removed(bank.id, after=held.generation, upto=bank.generation)
        if removed is None or held.index.sparse:
            held.index, held.demotions, held.embedded = Index(), bank.demotions, None
        else:
            for layer, numbers in removed.items():
                if numbers and len(held.index) > APART:
                    await asyncio.to_thread(held.index.remove, layer, numbers)
                else:
                    held.index.remove(layer, numbers)
        if held.blocks:  # a version of one may have lost a part
            held.writes = NEVER
        held.generation = bank.generation


def _layers(tx: Tx) -> Sequence[tuple[Layer, Episodes | Notes]]:
    return ((Layer.EPISODES, tx.episodes), (Layer.NOTES, tx.notes))
