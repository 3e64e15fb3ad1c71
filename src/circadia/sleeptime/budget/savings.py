"""Works out, behind the calls, what they were spared by what passes made (SLEEP-42), and marks what they were given.

What is saved. A note that stands in an answer (what the gateway puts into a call, or hands out by `recall`, a search or
a context to an agent) stands for the episodes that it rests on: to know the same, the model would have read those. Its
saving are the tokens of these episodes, each as a context shows it and by a context's count, less its own, and never
below 0. Of the episodes count neither those that stand in the same answer, nor those whose text the call's own history
holds, nor, a second time, one that another note or block of the answer stands for already: notes come first, in order,
then blocks. A block stands for the episodes of its spans likewise, once a call, and its own tokens are those of the
spans. So it is the reading that was spared, not what a context would have had room for.

A saving is credited to the operation that made the note, or that wrote what rests on episodes in the block: the last
one, if several did. It is counted once the call was answered in full, and again in each call that carries it. What a
search by the operator shows saves no call.

Money is what the tokens cost as input of the call's model by the price list, without a discount for what a provider has
cached. What `recall` and REST hand out goes to the model of the agent's last call. Seconds are the tokens times what
one took until the first byte of the agent's last streamed calls: the slope of a straight line through them; 0 where
there are too few, or they show none.

`dedupe` and `collect` have no saving: nobody knows what a context would have carried of what they took out of the
searches. They ask no model, so they cost nothing and cannot be paused.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import StatisticsError, linear_regression
from typing import Final

from circadia.clock import Clock
from circadia.errors import StorageUnavailable
from circadia.ids import AgentId, BankId, EpisodeId
from circadia.llm.prices import PriceList
from circadia.llm.usage import Usage
from circadia.memory.context import beginning, estimate_tokens, excerpt_tokens
from circadia.memory.uses import BankUse, UseMarks, UseQueue
from circadia.records.benefit import Benefit
from circadia.records.block import Block
from circadia.records.call import Call, CallStatus
from circadia.records.episode import Episode
from circadia.records.excerpt import Excerpt
from circadia.records.index_entry import Layer
from circadia.records.note import Note, NoteKind
from circadia.stores.base import Store, Tx

_logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 5.0
AT_ONCE: Final = 100
"""Uses that are worked through in one look at the database, and 500 ids."""
LINES: Final = 100
"""Last calls of an agent that tell what a token takes."""
FEWEST: Final = 10
"""Streamed calls among them that it takes to tell."""
FRESH: Final = timedelta(minutes=10)
"""What an agent's calls tell holds for so long."""
PRICE_SAMPLE_TOKENS: Final = 1_000
"""Tokens whose price tells that of one: no price list has a tier that begins so low."""
_EMBEDDINGS: Final = "embeddings"
AGENTS: Final = 10_000
"""Agents of which it is kept."""
_KINDS: Final[Mapping[NoteKind, str]] = {
    NoteKind.CONSOLIDATION: "consolidate", NoteKind.BELIEF: "reflect", NoteKind.SUMMARY: "compress",
}  # fmt: skip
"""Who made a note that does not tell."""
_BLOCKS: Final = "rethink"
"""Who wrote a block that does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A note or a block that stands for episodes."""

    operation: str
    """Who made it."""
    tokens: int
    """What it takes itself."""
    evidence: Collection[EpisodeId]
    """What it stands for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """An episode, as a part of a reckoning."""

    number: int
    """Its number."""
    text_hash: int
    """Hash of the beginning of its text."""
    tokens: int
    """What it would take of a context."""


def compute_savings(
    sources: Sequence[Source], rows: Mapping[EpisodeId, Weight], shown: Collection[int], known: Collection[int]
) -> Iterator[tuple[str, int]]:
    """Return for each source of an answer who made it and the tokens that it saves; the module says what these are."""
    counted: set[EpisodeId] = set()
    for source in sources:
        stood = 0
        for each in source.evidence:
            row = rows.get(each)
            if row is not None and each not in counted and row.number not in shown and row.text_hash not in known:
                counted.add(each)
                stood += row.tokens
        yield source.operation, max(0, stood - source.tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TokenRates:
    """What an agent's last calls tell."""

    seconds_a_token: float
    nanousd_a_token: float | None
    until: datetime


@dataclass(kw_only=True, slots=True)
class _OperationSum:
    """What an operation has saved in a batch."""

    uses: int = 0
    tokens: int = 0
    seconds: float = 0.0
    nanousd: float = 0.0
    unpriced: int = 0

    def add(self, spared: int, pace: _TokenRates) -> None:
        self.uses += 1
        self.tokens += spared
        self.seconds += spared * pace.seconds_a_token
        if pace.nanousd_a_token is None:
            self.unpriced += spared
        else:
            self.nanousd += spared * pace.nanousd_a_token


@dataclass(kw_only=True, slots=True)
class _BankCache:
    """What is known of one bank while a batch is worked through."""

    notes: dict[int, Source | None] = field(default_factory=dict[int, "Source | None"])
    blocks: dict[tuple[str, int], Source] = field(default_factory=dict[tuple[str, int], Source])
    rows: dict[EpisodeId, Weight] = field(default_factory=dict[EpisodeId, Weight])


class Savings:
    """Works it out beside the requests. What waits when a process dies is not counted."""

    def __init__(self, clock: Clock, store: Store, uses: UseQueue, prices: Mapping[str, PriceList]) -> None:
        """`prices` are those of the upstreams, by name."""
        self._clock = clock
        self._store = store
        self._uses = uses
        self._prices = prices
        self._marks = UseMarks()
        self._paces: dict[tuple[AgentId, str | None, str | None], _TokenRates] = {}

    async def run(self) -> None:
        """Work until cancelled, and once more then."""
        try:
            while True:
                await self._clock.sleep(EVERY_SECONDS)
                await self.step()
        finally:
            await self.step()

    async def step(self) -> None:
        """Work through all that waits."""
        taken = self._uses.drain()
        by_bank: dict[BankId, list[BankUse]] = {}
        for use in taken:
            by_bank.setdefault(use.bank, []).append(use)
        for bank_id, uses in by_bank.items():
            await self._work_bank(bank_id, uses)

    async def _work_bank(self, bank_id: BankId, uses: Sequence[BankUse]) -> None:
        """Work through those of one bank; a fault of theirs must not lose those of others."""
        known = _BankCache()
        for at in range(0, len(uses), AT_ONCE):
            try:
                await self._work_batch(bank_id, uses[at : at + AT_ONCE], known)
            except StorageUnavailable as error:
                _logger.warning("what memory has saved is counted later: %s", error)
                for use in uses[at:]:
                    self._uses.add(use)
                return
            except Exception:  # counts may be too low; calls must not feel it
                _logger.exception("what memory has saved is not counted")

    async def _work_batch(self, bank_id: BankId, uses: Sequence[BankUse], known: _BankCache) -> None:
        now = self._clock.now()
        sums: dict[str, _OperationSum] = {}
        async with self._store.begin_read() as tx:
            await _load_sources(tx, bank_id, uses, known)
            for use in (each for each in uses if each.notes or each.blocks):
                pace = await self._fetch_rates(tx, use, now)
                for operation, spared in compute_savings(
                    _sources_of_use(use, known), known.rows, frozenset(use.episodes), frozenset(use.known)
                ):
                    sums.setdefault(operation, _OperationSum()).add(spared, pace)
        gains = [
            Benefit(
                bank_id=bank_id, operation=name, day=now.date(), uses=each.uses, saved_tokens=each.tokens,
                saved_seconds=each.seconds, saved_nanousd=round(each.nanousd), unpriced_tokens=each.unpriced,
            )
            for name, each in sums.items()
        ]  # fmt: skip
        due = self._marks.find_unmarked(uses, now)
        if not gains and not due:
            return
        async with self._store.begin_write() as tx:
            if gains and await tx.banks.get(bank_id) is not None:
                await tx.benefits.add(gains)
            await self._marks.write(tx, bank_id, due, now)
        self._marks.remember_marked(due)

    async def _fetch_rates(self, tx: Tx, use: BankUse, now: datetime) -> _TokenRates:
        """Return what a token costs and takes where the answer went."""
        key = (use.agent, use.upstream, use.model)
        known = self._paces.get(key)
        if known is None or known.until <= now:
            lines = [each for each in await tx.calls.find_latest(use.agent, LINES) if _is_answered_call(each)]
            last = lines[0] if lines else None
            upstream, model = use.upstream, use.model
            if model is None and last is not None:
                upstream, model = last.upstream, last.model
            if len(self._paces) >= AGENTS:
                self._paces.clear()
            known = self._paces[key] = _TokenRates(
                seconds_a_token=fit_seconds_per_token(lines, upstream, model),
                nanousd_a_token=self._token_price(upstream, model, now), until=now + FRESH,
            )  # fmt: skip
        return known

    def _token_price(self, upstream: str | None, model: str | None, now: datetime) -> float | None:
        """Return what a token of input costs, in billionths of a US dollar; none if that is not known."""
        prices = None if upstream is None else self._prices.get(upstream)
        if prices is None or model is None:
            return None
        price, nothing = (
            prices.price(model, Usage(input_tokens=each, output_tokens=0), now) for each in (PRICE_SAMPLE_TOKENS, 0)
        )
        return None if price is None or nothing is None else (price - nothing) / PRICE_SAMPLE_TOKENS


def _is_answered_call(line: Call) -> bool:
    """Return whether a call tells what an answer takes: one for embeddings has another model, and no answer."""
    return line.status is CallStatus.DONE and line.endpoint != _EMBEDDINGS


def fit_seconds_per_token(lines: Sequence[Call], upstream: str | None, model: str | None) -> float:
    """Return what each token that is not cached adds to the time to the first byte, by these calls; 0 if unknown."""
    points = [
        (each.input_tokens - (each.cached_tokens or 0), each.first_token_seconds)
        for each in lines
        if each.streamed and each.upstream == upstream and model is not None and each.model.startswith(model)
        and each.input_tokens is not None and each.first_token_seconds is not None
    ]  # fmt: skip
    if len(points) < FEWEST:
        return 0.0
    try:
        return max(0.0, linear_regression(*zip(*points, strict=True)).slope)
    except StatisticsError:  # all of one size
        return 0.0


async def _load_sources(tx: Tx, bank_id: BankId, uses: Sequence[BankUse], known: _BankCache) -> None:
    """Read what the answers rest on, as far as it is not known yet; what is forgotten by now saves nothing."""
    numbers = {number for use in uses for number in use.notes}.difference(known.notes)
    notes = await tx.notes.get_by_numbers(bank_id, numbers)
    for number in numbers:
        note = notes.get(number)
        known.notes[number] = None if note is None else _source_of_note(note)
    for block in (block for use in uses for block in use.blocks):
        if (block.label, block.version) not in known.blocks:
            known.blocks[block.label, block.version] = _source_of_block(block)
    sources = (*known.notes.values(), *known.blocks.values())
    wanted = list({each for source in sources if source is not None for each in source.evidence}.difference(known.rows))
    for at in range(0, len(wanted), 5 * AT_ONCE):
        found = await tx.episodes.get_by_ids(bank_id, wanted[at : at + 5 * AT_ONCE])
        known.rows.update({key: _episode_weight(row) for key, row in found.items()})


def _sources_of_use(use: BankUse, known: _BankCache) -> Sequence[Source]:
    notes = [source for number in use.notes if (source := known.notes.get(number)) is not None]
    keys = dict.fromkeys((block.label, block.version) for block in use.blocks)
    return [*notes, *(known.blocks[key] for key in keys)]


def _source_of_note(note: Note) -> Source | None:
    """Return what a note stands for; none if no pass has made it."""
    if note.pass_id is None:
        return None
    shown = Excerpt(Layer.NOTES, note.number, note.at, note.text, note.trust.value, None, note.kind.value)
    operation = note.operation or _KINDS[note.kind]
    return Source(operation=operation, tokens=excerpt_tokens(shown), evidence=note.evidence)


def _source_of_block(block: Block) -> Source:
    return Source(
        operation=block.operation or _BLOCKS,
        tokens=sum(estimate_tokens(block.value[span.start : span.end]) for span in block.spans),
        evidence=frozenset(each for span in block.spans for each in span.episodes),
    )


def _episode_weight(row: Episode) -> Weight:
    shown = Excerpt(Layer.EPISODES, row.number, row.at, row.text, row.trust.value, row.speaker, row.kind.value)
    return Weight(number=row.number, text_hash=hash(beginning(row.text)), tokens=excerpt_tokens(shown))
