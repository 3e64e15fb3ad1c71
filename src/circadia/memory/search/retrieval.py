"""Searches banks: loads their indexes, keeps them up with the database, tells what was found and why (MEM-05)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeVar

from circadia.clock import Clock
from circadia.ids import BankId
from circadia.lru import Lru
from circadia.memory.search.columns import Array
from circadia.memory.search.glance_reader import GlanceReader
from circadia.memory.search.index import UNEXPLAINED, BankIndex, Question, ScoredRow
from circadia.memory.search.later_rows import LaterRows
from circadia.memory.search.question_counter import (
    QuestionCounter,
    describe_question,
    normalize_question,
    question_key,
    search_stamp,
)
from circadia.memory.search.terms import question_words
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.episode import Episode
from circadia.records.excerpt import Excerpt
from circadia.records.index_entry import TEXT, Layer
from circadia.records.note import Note
from circadia.records.ready_view import BankHeads
from circadia.stores.base import Store, Tx
from circadia.stores.memory import Episodes, Notes

PAGE: Final = 5_000
"""Rows that are read at once."""
WAITING: Final = 500
"""How many of the newest rows without a vector, and of the oldest, are looked after at each search."""
FEW: Final = 50
"""Rows that are read and added in the event loop, which would wait too long for more."""
ROWS_FOR_THREAD: Final = 20_000
"""Rows from which on a search leaves the event loop, which would wait too long for it."""
QUICK_SECONDS: Final = 0.05
"""How long a question's vectors are waited for until a ready view is looked for, which costs a transaction: long enough
for an embedder in this process on a busy machine; one across a network is seldom as quick."""

BANK_BYTES: Final = 1_000
"""What a bank takes beside its index and its blocks."""
BLOCK_BYTES: Final = 500
"""What a block takes beside its text, and each of its spans."""
NO_WRITES: Final = -1
"""Stands for versions of blocks that were not read."""

T = TypeVar("T")


class QuestionEmbedder(Protocol):
    """Embeds questions."""

    def vectors_nowait(self, question: str) -> Mapping[str, Array] | None:
        """Return the same as `vectors` if nobody has to wait for it; else none."""
        ...

    async def vectors(self, question: str) -> Mapping[str, Array]:
        """Return the vector by each embedder whose vectors are still read; none by those that do not answer in time."""
        ...

    def embedders(self) -> Collection[str] | None:
        """Return the embedders whose vectors are still read; none if the name of one is not known yet."""
        ...


class _NoReadyView(Exception):
    """No view answers a question whose vectors are on their way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchHit:
    """A hit."""

    item: Episode | Note
    """What was found."""
    scored: ScoredRow
    """Its score, with its parts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BankSearchResult:
    """What a look at a bank shows."""

    blocks: Sequence[Block]
    """The newest version of each, by label; the same sequence as the last time if none was written since."""
    scored: Sequence[ScoredRow]
    """What the question finds, best first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BankChanges:
    """A bank as a transaction shows it, beside what it was before."""

    blocks: Sequence[Block]
    """The newest version of each, by label."""
    weights: Mapping[Layer, Mapping[int, float]]
    """Of the rows that were asked for, by number; those that are gone are left out."""
    later: LaterRows
    """Rows with greater numbers that may change the answer."""
    heads: BankHeads
    """The greatest numbers that were looked at."""


@dataclass(kw_only=True, slots=True)
class _LoadedBank:
    generation: int
    demotions: int
    index: BankIndex = field(default_factory=BankIndex)
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
        return self.index.nbytes + self.block_bytes + BANK_BYTES


class Retrieval:
    """Searches. One index for each bank that was searched lately, `max_bytes` in all."""

    def __init__(self, clock: Clock, questions: QuestionEmbedder, *, max_bytes: int) -> None:
        self._clock = clock
        self._questions = questions
        self.loaded: Final[Lru[BankId, _LoadedBank]] = Lru(max_bytes)
        self.askings: Final = QuestionCounter()
        """What is asked how often."""
        self.glances: Final = GlanceReader(clock)

    async def prepare_question(self, question: str, *, explained: bool = True) -> Question:
        """Return what a question is looked for by. It may take an embedder's time, so ask outside of a transaction."""
        made = self._parse_question(question, explained)
        return replace(made, vectors=await self._questions.vectors(made.text))

    async def run_question(
        self, store: Store, question: str, work: Callable[[Tx, Question], Awaitable[T]], *, whose: Hashable = None,
        explained: bool = True,
    ) -> T:  # fmt: skip
        """Return what `work` makes of the question in a reading transaction; it may be begun twice.

        Where a ready view answers, nobody waits for the embedder. `whose` is told where a glance may be enough
        (`GlanceReader`), and tells which bank is asked.
        """
        made = self._parse_question(question, explained)
        vectors = self._questions.vectors_nowait(made.text)
        if vectors is not None:
            made = replace(made, vectors=vectors)
            return await self.glances.run_read(store, whose, lambda tx: work(tx, made))
        coming = asyncio.ensure_future(self._questions.vectors(made.text))
        await asyncio.wait((coming,), timeout=QUICK_SECONDS)
        if not coming.done():
            with suppress(_NoReadyView):
                async with store.begin_read() as tx:
                    return await work(tx, replace(made, waits=True))
        made = replace(made, vectors=await coming)
        async with store.begin_read() as tx:
            return await work(tx, made)

    async def keep_up(self, store: Store, bank_ids: Iterable[BankId]) -> None:
        """Take in what is new of those of the banks that were searched since the last time, so that no search waits."""
        for bank_id in bank_ids:
            held = self.loaded.get(bank_id)
            if held is None or not held.searched:
                continue
            held.searched = False
            async with store.begin_read() as tx:
                bank = await tx.banks.get(bank_id)
                async with held.lock:
                    if bank is not None and bank.generation >= held.generation:
                        await self._keep_up(tx, bank, held, searched=True)

    async def find(self, tx: Tx, bank: Bank, question: Question) -> Sequence[SearchHit]:
        """Return the best, best first, in a reading transaction; all that was committed before is searched (MEM-02)."""
        ready = await self._find_ready_hits(tx, bank, question)
        scored = (await self._read_bank(tx, bank, question)).scored if ready is None else ready
        self._count_question(bank, question)
        return await self.fetch_hits(tx, bank, scored)

    async def read_bank(self, tx: Tx, bank: Bank, question: Question | None) -> BankSearchResult:
        """Return the blocks, and what a question finds, of the bank in a reading transaction, without the texts."""
        ready = None if question is None else await self._find_ready_hits(tx, bank, question)
        seen = await self._read_bank(tx, bank, question if ready is None else None)
        if question is not None:
            self._count_question(bank, question)
        return seen if ready is None else replace(seen, scored=ready)

    async def find_each(self, tx: Tx, bank: Bank, questions: Iterable[Question]) -> AsyncIterator[Sequence[ScoredRow]]:
        """Yield what each of these finds as `look` does, in one reading transaction: what is new is read once."""
        seen: _LoadedBank | None = None
        for question in questions:
            held = self._loaded_bank(bank)
            scored, seen = (await self._read_bank(tx, bank, question, fresh=held is seen, series=True)).scored, held
            yield scored

    async def stamp(self, tx: Tx, bank: Bank) -> str | None:
        """Return the state of the bank that searches see now; none if it cannot be told yet."""
        embedders = self._questions.embedders()
        return None if embedders is None else search_stamp(bank, await tx.views.fetch_heads(bank.id), embedders)

    async def find_for_view(self, tx: Tx, bank: Bank, question: Question) -> tuple[str, Sequence[ScoredRow]] | None:
        """Return what a question finds, with the state of the bank that it is of, for a view.

        None if it could be another in the same state: an embedder did not answer, or vectors are still to be read.
        """
        stamp = await self.stamp(tx, bank)
        if stamp is None or set(question.vectors) != set(self._questions.embedders() or ()):
            return None
        scored = (await self._read_bank(tx, bank, question)).scored
        held = self.loaded.get(bank.id)
        if held is None or held.generation != bank.generation:
            return None
        whole = all(len(held.index.unembedded[layer]) <= 2 * WAITING for layer in Layer)
        return (stamp, scored) if whole else None

    def _parse_question(self, question: str, explained: bool) -> Question:
        text = normalize_question(question)
        terms, names = question_words(text)
        return Question(
            text=text, terms=terms, names=names, now=self._clock.now().timestamp(), explained=explained,
        )  # fmt: skip

    async def _find_ready_hits(self, tx: Tx, bank: Bank, question: Question) -> Sequence[ScoredRow] | None:
        """Return what a view has ready for a question; none if there is none of this very state.

        A question that is new to this process is looked for only if to search would take longer than usual.
        """
        asked = describe_question(question)
        found: Sequence[ScoredRow] | None = None
        if asked is not None and (question.waits or self._is_cold(bank) or self.askings.is_asked_often(bank, asked)):
            view, embedders = await tx.views.find_ready(bank.id, question_key(asked)), self._questions.embedders()
            if view is not None and embedders is not None and question.limit <= view.depth:
                present = view.stamp == search_stamp(bank, view.heads, embedders)
                found = [ScoredRow(*each) for each in view.hits[: question.limit]] if present else None
        if found is None and question.waits:
            raise _NoReadyView
        return found if found is None or question.explained else [each._replace(parts=UNEXPLAINED) for each in found]

    def _count_question(self, bank: Bank, question: Question) -> None:
        """Count the asking, which whoever looks again has not counted yet."""
        asked = describe_question(question) if question.counted else None
        if asked is not None:
            self.askings.count(bank, asked, question.limit, self._clock.now())

    def _is_cold(self, bank: Bank) -> bool:
        held = self.loaded.get(bank.id)
        return held is None or held.generation != bank.generation or not len(held.index)

    async def _read_bank(
        self, tx: Tx, bank: Bank, question: Question | None, *, fresh: bool = False, series: bool = False
    ) -> BankSearchResult:
        """Return what a look shows, maybe one of a `series`; a `fresh` index has all that the transaction sees."""
        held = self._loaded_bank(bank)
        scored: Sequence[ScoredRow] = ()
        async with held.lock:
            # If the bank has another generation the transaction is older and shows what is gone by now.
            if held.generation <= bank.generation and not fresh:
                await self._keep_up(tx, bank, held, searched=question is not None)
            if question is not None:
                held.searched, apart = True, len(held.index) > ROWS_FOR_THREAD
                find = partial(held.index.find, question, series=series)
                scored = await asyncio.to_thread(find) if apart else find()
            self.loaded.update_weight(bank.id, held, held.nbytes)
        return BankSearchResult(blocks=held.blocks, scored=scored)

    async def changes_since(
        self,
        tx: Tx,
        bank: Bank,
        shown: Mapping[Layer, Collection[int]],
        made: BankHeads,
        seen: BankHeads,
        question: Question,
    ) -> BankChanges | None:
        """Return blocks, weights of the rows `shown`, and what came after `seen`, beside the question.

        The rows up to `made` are what the others are weighed by. None if the transaction is so old that something has
        been forgotten since.
        """
        held = self._loaded_bank(bank)
        async with held.lock:
            if held.generation > bank.generation:
                return None
            await self._keep_up(tx, bank, held, searched=True)
            weights = {layer: held.index.weights(layer, numbers) for layer, numbers in shown.items()}
            last = BankHeads(held.index.last[Layer.EPISODES], held.index.last[Layer.NOTES])
            apart = len(held.index) > ROWS_FOR_THREAD
            look = partial(held.index.find_later_rows, made, seen, question)
            later = await asyncio.to_thread(look) if apart else look()
            self.loaded.update_weight(bank.id, held, held.nbytes)
            return BankChanges(blocks=held.blocks, weights=weights, later=later, heads=last)

    def _loaded_bank(self, bank: Bank) -> _LoadedBank:
        held = self.loaded.get(bank.id) or _LoadedBank(generation=bank.generation, demotions=bank.demotions)
        self.loaded.put(bank.id, held, held.nbytes)
        return held

    async def fetch_hits(self, tx: Tx, bank: Bank, scored: Sequence[ScoredRow]) -> Sequence[SearchHit]:
        """Return what was found with its texts; without what is gone by now."""
        items: dict[Layer, Mapping[int, Episode | Note]] = {
            layer: await rows.get_by_numbers(bank.id, [each.number for each in scored if each.layer is layer])
            for layer, rows in _layers(tx)
        }
        pairs = [(items[each.layer].get(each.number), each) for each in scored]
        return [SearchHit(item=item, scored=each) for item, each in pairs if item is not None]

    async def excerpts(self, tx: Tx, bank: Bank, scored: Sequence[ScoredRow]) -> Sequence[Excerpt | None]:
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

    async def _keep_up(self, tx: Tx, bank: Bank, held: _LoadedBank, *, searched: bool) -> None:
        """Take in what is new since the last time: blocks, and if it is `searched`, rows and vectors."""
        if bank.generation > held.generation:
            await self._remove(tx, bank, held)
        index = held.index
        whole = all(len(index.unembedded[layer]) <= 2 * WAITING for layer in Layer)
        news = await tx.banks.fetch_index_delta(
            bank.id,
            after=dict(index.last) if searched else {},
            waiting={layer: index.unembedded_numbers(layer, WAITING) for layer in Layer} if searched else {},
            limit=FEW,
            seen=held.embedded,
        )
        if bank.demotions > held.demotions:
            index.set_weights(Layer.EPISODES, await tx.episodes.find_changed_weights(bank.id, after=held.demotions))
            index.set_weights(Layer.NOTES, await tx.notes.find_changed_weights(bank.id, after=held.demotions))
        held.demotions = bank.demotions  # back, too: an older transaction may load rows as they were
        if news.writes != held.writes:
            held.blocks, held.writes = await tx.blocks.find_all(bank.id), news.writes
            held.block_bytes = sum(BLOCK_BYTES * (1 + len(each.spans)) + len(each.value) for each in held.blocks)
        for layer, rows in _layers(tx):
            index.add_vectors(layer, news.vectors.get(layer, {}))
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

    async def _remove(self, tx: Tx, bank: Bank, held: _LoadedBank) -> None:
        """Take out of the index what was removed since its generation; where that is not known, begin a new one."""
        removed = await tx.banks.find_removed(bank.id, after=held.generation, upto=bank.generation)
        if removed is None or held.index.is_sparse:
            held.index, held.demotions, held.embedded = BankIndex(), bank.demotions, None
        else:
            for layer, numbers in removed.items():
                if numbers and len(held.index) > ROWS_FOR_THREAD:
                    await asyncio.to_thread(held.index.remove, layer, numbers)
                else:
                    held.index.remove(layer, numbers)
        if held.blocks:  # a version of one may have lost a part
            held.writes = NO_WRITES
        held.generation = bank.generation


def _layers(tx: Tx) -> Sequence[tuple[Layer, Episodes | Notes]]:
    return ((Layer.EPISODES, tx.episodes), (Layer.NOTES, tx.notes))
