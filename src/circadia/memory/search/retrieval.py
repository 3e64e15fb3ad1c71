"""Search banks: load their indexes, keep them in step with the database, return hits with scores (MEM-02, MEM-05)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from zoneinfo import ZoneInfo

from circadia.caches import Lru
from circadia.clock import Clock
from circadia.errors import InvalidRequest
from circadia.ids import BankId
from circadia.memory import languages
from circadia.memory.relative_dates import find_relative_dates
from circadia.memory.search.columns import Array
from circadia.memory.search.index import BankIndex, merge_scored
from circadia.memory.search.question import DEPTH, Question, ScoredRow
from circadia.memory.search.terms import question_words
from circadia.records.bank import Bank, Trust
from circadia.records.block import Block
from circadia.records.episode import Episode, Passage, count_passages, find_passage, weight_at
from circadia.records.index_entry import TEXT, Excerpt, IndexEntry, Layer
from circadia.records.note import Note
from circadia.stores.base import Episodes, NotASingleRead, Notes, Store, Tx

AGAIN_SECONDS: Final = 1.0
"""Pause after a single read that was not enough: in a busy bank, each call finds something new."""
MAX_TRACKED: Final = 1_000
"""Most targets whose last single read was not enough."""
PAGE: Final = 5_000
"""Rows read at once."""
WAITING: Final = 500
"""How many of the newest and of the oldest rows without a vector each search checks."""
ROWS_IN_LOOP: Final = 50
"""Rows that are added in the event loop; more would block it."""
BYTES_IN_LOOP: Final = 100_000
"""The same for the bytes of their terms, twenty-five thousand words."""
ROWS_FOR_THREAD: Final = 20_000
"""Number of rows from which a search runs in a thread."""
BANK_BYTES: Final = 1_000
"""Size of a bank without its index and blocks."""
BLOCK_BYTES: Final = 500
"""Size of a block without its text, and of each of its spans."""
MAX_HELD: Final = 2_000
"""Most retired notes, the newest ones, that a search as of a time examines."""
NO_WRITES: Final = -1
"""Placeholder for the block versions of a bank whose blocks are not loaded."""
T = TypeVar("T")


class GlanceReader:
    """Tries a single-statement read before a transaction."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._too_short: dict[Hashable, float] = {}
        """End of the pause by target."""

    async def run_read(self, store: Store, what: Hashable, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run `work` in a single read, unless `what` is None, or in a transaction; it may be started twice."""
        now = self._clock.monotonic()
        if what is not None and self._too_short.get(what, now) <= now:
            try:
                async with store.begin_single_read() as tx:
                    return await work(tx)
            except NotASingleRead:
                if len(self._too_short) >= MAX_TRACKED:
                    self._too_short.clear()
                self._too_short[what] = now + AGAIN_SECONDS
        async with store.begin_read() as tx:
            return await work(tx)


class QuestionEmbedder(Protocol):
    def vectors_nowait(self, question: str) -> Mapping[str, Array] | None:
        """Return the result of `vectors` if it takes no waiting; else None."""
        ...

    async def vectors(self, question: str) -> Mapping[str, Array]:
        """Return the unit vector by embedder in use, without embedders that do not answer in time."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchHit:
    item: Episode | Note
    scored: ScoredRow

    @property
    def bank(self) -> BankId:
        return self.item.bank_id

    @property
    def passage(self) -> Passage | None:
        """Return the passage that was found; None if the text is not split."""
        return find_passage(self.item, self.scored.passage) if isinstance(self.item, Episode) else None

    @property
    def text(self) -> str:
        """Return the text of the passage, or all of it if it is not split."""
        passage = self.passage
        return self.item.text if passage is None else self.item.text[passage.start : passage.end]

    @property
    def trust(self) -> Trust:
        passage = self.passage
        return self.item.trust if passage is None else passage.trust

    @property
    def passages(self) -> int:
        """Return the number of passages of the text; 0 if it is not split."""
        return count_passages(self.item) if isinstance(self.item, Episode) else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class BankSearchResult:
    blocks: Sequence[Block]
    """Newest version of each, by label; the same object as last time if nothing was written since."""
    scored: Sequence[ScoredRow]
    """Results of the question, best first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BankWeights:
    """What a transaction sees of a bank for an answer."""

    blocks: Sequence[Block]
    weights: Mapping[Layer, Mapping[int, float]]
    """Weights of the requested rows by number, without deleted ones."""
    newest_turn: int
    """Greatest number of an episode that says something; 0 without one."""


@dataclass(kw_only=True, slots=True)
class _LoadedBank:
    generation: int
    demotions: int
    index: BankIndex = field(default_factory=BankIndex)
    blocks: Sequence[Block] = ()
    writes: int = 0
    """Number of block versions that are loaded."""
    embedded: int | None = None
    """The bank's vector count when no waiting row had a vector; None if some may have one."""
    searched: bool = False
    """Whether it was searched since the last `Retrieval.keep_up`."""
    block_bytes: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.block_bytes + BANK_BYTES


class Retrieval:
    """Searches banks, with an index for each recently searched one, up to `max_bytes` in all."""

    def __init__(self, clock: Clock, questions: QuestionEmbedder, *, max_bytes: int) -> None:
        self._clock = clock
        self._questions = questions
        self.loaded: Final[Lru[BankId, _LoadedBank]] = Lru(max_bytes)
        self.glances: Final = GlanceReader(clock)

    def forget(self) -> None:
        self.loaded.clear()

    async def prepare_question(
        self,
        question: str,
        *,
        before: str = "",
        explained: bool = True,
        zone: str = "UTC",
        as_of: datetime | None = None,
    ) -> Question:
        """Return a question with its vectors, and with the days that it names as seen from today in an IANA time zone.

        `before` is the exchange that it may follow up. With `as_of` it is asked at that time. It may wait for an
        embedder, so call it outside a transaction.

        Raises:
            InvalidRequest: `as_of` is in the future.
        """
        await languages.ensure_loaded()
        text = " ".join(question.split())
        if (vectors := self._questions.vectors_nowait(text)) is None:
            vectors = await self._questions.vectors(text)
        terms, names = question_words(text)
        now = self._clock.now()
        if as_of is not None:
            require_past(as_of, now)
            now = as_of
        # An embedder adds nothing to the exchange, and costs a call.
        exchange, exchange_names = question_words(f"{before}\n{text}") if before else ((), ())
        return Question(
            terms=terms, vectors=vectors, names=names, now=now.timestamp(), zone=zone, explained=explained,
            days=_find_days(text, now.astimezone(ZoneInfo(zone))), as_of=None if as_of is None else as_of.timestamp(),
            exchange=exchange, exchange_names=exchange_names,
        )  # fmt: skip

    async def run_question(
        self, store: Store, question: str, work: Callable[[Tx, Question], Awaitable[T]], *, whose: Hashable = None,
        before: str = "", explained: bool = True, zone: str = "UTC", as_of: datetime | None = None,
    ) -> T:  # fmt: skip
        """Run `work` with the question in a read transaction; it may be started twice.

        `whose` identifies the bank to `GlanceReader`; for the others see `prepare_question`.
        """
        prepared = await self.prepare_question(question, before=before, explained=explained, zone=zone, as_of=as_of)
        return await self.glances.run_read(store, whose, lambda tx: work(tx, prepared))

    async def keep_up(self, store: Store, bank_ids: Iterable[BankId]) -> None:
        """Update the indexes of banks that were searched since the last call, so that no search has to."""
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
        """Return the best hits, best first, in a read transaction that sees all earlier commits (MEM-02)."""
        return await self.fetch_hits(tx, bank, (await self.read_bank(tx, bank, question)).scored)

    async def find_each(self, tx: Tx, bank: Bank, questions: Iterable[Question]) -> AsyncIterator[Sequence[ScoredRow]]:
        """Yield each question's results as `read_bank` does, in one read transaction, updating the index once."""
        last: _LoadedBank | None = None
        for question in questions:
            held = self._loaded_bank(bank)
            scored, last = (await self.read_bank(tx, bank, question, fresh=held is last, series=True)).scored, held
            yield scored

    async def read_bank(
        self, tx: Tx, bank: Bank, question: Question | None, *, fresh: bool = False, series: bool = False
    ) -> BankSearchResult:
        """Return the bank's blocks and a question's results without texts, in a read transaction.

        `series` is as in `BankIndex.find`; `fresh` skips the update of the index.
        """
        held = self._loaded_bank(bank)
        scored: Sequence[ScoredRow] = ()
        then = None if question is None or question.as_of is None else datetime.fromtimestamp(question.as_of, UTC)
        if question is not None and then is not None:
            question = replace(question, weights=await tx.episodes.find_weights(bank.id, then))
        async with held.lock:
            # A lower generation of the bank means an older transaction, which sees deleted rows.
            if held.generation <= bank.generation and not fresh:
                await self._keep_up(tx, bank, held, searched=question is not None)
            await self._remove_expired(held.index)
            if question is not None:
                if question.where:
                    await self._load_metadata(tx, bank, held.index)
                held.searched, needs_thread = True, len(held.index) > ROWS_FOR_THREAD
                find = partial(held.index.find, question, series=series)
                scored = await asyncio.to_thread(find) if needs_thread else find()
            self.loaded.update_weight(bank.id, held, held.nbytes)
        if question is not None and then is not None:
            scored = merge_scored(scored, await self._find_held(tx, bank, question, then, scored), question.limit)
        return BankSearchResult(blocks=held.blocks, scored=scored)

    async def _find_held(
        self, tx: Tx, bank: Bank, question: Question, then: datetime, scored: Sequence[ScoredRow]
    ) -> Sequence[ScoredRow]:
        """Return the retired notes that held then and fit the question, best first.

        They are in no index. A search among them and the other hits tells how they compare.
        """
        if Layer.NOTES not in question.layers or question.where:  # notes have no metadata
            return ()
        notes = {note.number: note for note in await tx.notes.find_held(bank.id, then, limit=MAX_HELD)}
        if not notes:
            return ()
        items: dict[Layer, dict[int, Episode | Note]] = {Layer.EPISODES: {}, Layer.NOTES: {**notes}}
        for hit in await self.fetch_hits(tx, bank, scored[:DEPTH]):
            items[hit.scored.layer][hit.item.number] = hit.item
        index = BankIndex()
        for layer, rows in items.items():
            await asyncio.to_thread(index.add, layer, [_build_entry(rows[number], then) for number in sorted(rows)])
        found = await asyncio.to_thread(index.find, replace(question, limit=len(index), weights={}))
        held = [row for row in found if row.layer is Layer.NOTES and row.number in notes]
        others = [row.score for row in found if row.layer is not Layer.NOTES or row.number not in notes]
        best = max(others, default=0.0)
        factor = scored[0].score / best if best else 1.0
        return [_scale(row, factor) for row in held]

    async def read_weights(self, tx: Tx, bank: Bank, numbers: Mapping[Layer, Collection[int]]) -> BankWeights | None:
        """Return the blocks, the weights of these rows, and the number of the newest turn.

        None if something was forgotten since the transaction began.
        """
        held = self._loaded_bank(bank)
        async with held.lock:
            if held.generation > bank.generation:
                return None
            await self._keep_up(tx, bank, held, searched=True)
            await self._remove_expired(held.index)
            weights = {layer: held.index.weights(layer, some) for layer, some in numbers.items()}
            self.loaded.update_weight(bank.id, held, held.nbytes)
            return BankWeights(blocks=held.blocks, weights=weights, newest_turn=held.index.newest_turn)

    def _loaded_bank(self, bank: Bank) -> _LoadedBank:
        held = self.loaded.get(bank.id) or _LoadedBank(generation=bank.generation, demotions=bank.demotions)
        self.loaded.put(bank.id, held, held.nbytes)
        return held

    async def fetch_hits(self, tx: Tx, bank: Bank, scored: Sequence[ScoredRow]) -> Sequence[SearchHit]:
        items: dict[Layer, Mapping[int, Episode | Note]] = {
            layer: await rows.get_by_numbers(bank.id, [row.number for row in scored if row.layer is layer])
            for layer, rows in _layers(tx)
        }
        pairs = [(items[row.layer].get(row.number), row) for row in scored]
        return [SearchHit(item=item, scored=row) for item, row in pairs if item is not None]

    async def excerpts(self, tx: Tx, bank: Bank, scored: Sequence[ScoredRow]) -> Sequence[Excerpt | None]:
        """Return each row's text, None for deleted ones. Cached texts are valid: a deletion changes the generation."""
        held = self.loaded.get(bank.id)
        if held is None or held.generation != bank.generation:
            excerpts: list[Excerpt | None] = [None] * len(scored)
        else:
            excerpts = list(held.index.excerpts(scored))
        if None in excerpts:
            for layer, rows in _layers(tx):
                lacking = {
                    (row.number, row.passage): at
                    for at, row in enumerate(scored)
                    if row.layer is layer and not excerpts[at]
                }
                whole = [number for number, passage in lacking if not passage]
                for number, item in (await rows.excerpts(bank.id, whole, characters=TEXT)).items():
                    excerpts[lacking[number, 0]] = item
                split = [place for place in lacking if place[1]]
                for place, item in (await tx.episodes.passage_excerpts(bank.id, split)).items() if split else ():
                    excerpts[lacking[place]] = item
        return excerpts

    async def _keep_up(self, tx: Tx, bank: Bank, held: _LoadedBank, *, searched: bool) -> None:
        """Load new blocks and, if `searched`, new rows and vectors."""
        if bank.generation > held.generation:
            await self._remove(tx, bank, held)
        index = held.index
        whole = all(len(index.unembedded[layer]) <= 2 * WAITING for layer in Layer)
        news = await tx.banks.fetch_index_delta(
            bank.id,
            after=dict(index.last) if searched else {},
            waiting={layer: index.unembedded_numbers(layer, WAITING) for layer in Layer} if searched else {},
            limit=ROWS_IN_LOOP,
            seen=held.embedded,
        )
        if bank.demotions > held.demotions:
            index.set_weights(Layer.EPISODES, await tx.episodes.find_changed_weights(bank.id, after=held.demotions))
            index.set_weights(Layer.NOTES, await tx.notes.find_changed_weights(bank.id, after=held.demotions))
        held.demotions = bank.demotions  # may go back: an older transaction loads older weights
        if news.writes != held.writes:
            held.blocks, held.writes = await tx.blocks.find_all(bank.id), news.writes
            held.block_bytes = sum(BLOCK_BYTES * (1 + len(block.spans)) + len(block.value) for block in held.blocks)
        for layer, rows in _layers(tx):
            index.add_vectors(layer, news.vectors.get(layer, {}))
            page, limit = news.entries.get(layer, ()), ROWS_IN_LOOP
            while page:
                if len(page) <= ROWS_IN_LOOP and sum(len(row.terms) for row in page) <= BYTES_IN_LOOP:
                    index.add(layer, page)
                else:
                    await asyncio.to_thread(index.add, layer, page)
                full, limit = len(page) == limit, PAGE
                page = await rows.index_entries(bank.id, after=index.last[layer], limit=PAGE) if full else ()
            if searched and layer in news.heads:
                index.skip_to(layer, news.heads[layer])
        if searched:  # may go back too, for an older transaction
            held.embedded = news.embedded if whole or not any(news.vectors.values()) else None

    async def _load_metadata(self, tx: Tx, bank: Bank, index: BankIndex) -> None:
        """Load what the index lacks of the metadata of its episodes: all at the first search that filters by them."""
        page: Sequence[tuple[int, Mapping[str, Any]]] = [(0, {})]
        while page and index.last_metadata < index.last[Layer.EPISODES]:
            page = await tx.episodes.find_metadata(
                bank.id, after=index.last_metadata, upto=index.last[Layer.EPISODES], limit=PAGE
            )
            if len(page) > ROWS_IN_LOOP:
                await asyncio.to_thread(index.add_metadata, page)
            elif page:
                index.add_metadata(page)

    async def _remove_expired(self, index: BankIndex) -> None:
        now = self._clock.now().timestamp()
        if index.has_expired(now):
            if len(index) > ROWS_FOR_THREAD:
                await asyncio.to_thread(index.remove_expired, now)
            else:
                index.remove_expired(now)

    async def _remove(self, tx: Tx, bank: Bank, held: _LoadedBank) -> None:
        """Remove rows deleted since the index's generation; start a new index if they are not known."""
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


def require_past(as_of: datetime, now: datetime) -> None:
    """Raise InvalidRequest: nothing can be asked as of a future time."""
    if as_of > now:
        raise InvalidRequest(
            f"`as_of` is {as_of.isoformat()}, which is in the future; it is {now.isoformat(timespec='seconds')}"
        )


def _build_entry(item: Episode | Note, then: datetime) -> IndexEntry:
    """Return the index entry that a row had at a time."""
    is_episode = isinstance(item, Episode)
    passages = item.passages if is_episode else None
    return IndexEntry(
        number=item.number, at=item.at.timestamp(), conversation=item.conversation if is_episode else None,
        speaker=item.speaker if is_episode else "", kind=item.kind, trust=item.trust, importance=item.importance,
        weight=weight_at(item.stale, then) if is_episode else 1.0, terms=item.terms, vector=item.vector,
        embedder=item.embedder, text=item.text if passages else item.text[:TEXT], passages=passages,
    )  # fmt: skip


def _scale(row: ScoredRow, factor: float) -> ScoredRow:
    parts = {**row.parts, "weight": round(factor * row.parts["weight"], 4)} if row.parts else row.parts
    return row._replace(score=factor * row.score, parts=parts)


def _find_days(question: str, now: datetime) -> tuple[float, float] | None:
    """Return the time from the first to the last past day that a question names ("last week"), seconds since 1970."""
    dates = [each for each in find_relative_dates(question, now) if each.last < now.date()]
    if not dates:
        return None
    first, last = min(each.first for each in dates), max(each.last for each in dates)
    begins, ends = (
        datetime.combine(day, time.min, now.tzinfo).timestamp() for day in (first, last + timedelta(days=1))
    )
    return begins, ends
