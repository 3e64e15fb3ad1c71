"""What the operations of passes cost, and what they have saved calls, computed in the background (SLEEP-42).

Rows that calls were given are marked as used.

What is saved. A note in an answer (what the gateway puts into a call, or returns to an agent by `recall`, a search or a
context) replaces its evidence: without it, the model would have read those episodes. The saving is their tokens, as a
context shows and counts them, less the note's own, and never below 0. Episodes do not count if they are in the same
answer, if the call's own history holds their text, or if another note or block of the answer counts them already: notes
come first, in order, then blocks. A block replaces the episodes of its spans likewise, once a call, and its own tokens
are those of the spans. So the saving is the reading that was spared, not what a context had room for.

A saving is credited to the operation that made the note, or that last wrote evidence-based text in the block. It counts
once the call was answered in full, and again in each call that carries it. Searches by the operator save nothing.

Money is the price of the tokens as input of the call's model by the price list, without cache discounts. Results of
`recall` and REST count for the model of the agent's last call. Seconds are the tokens times the slope of a straight
line through the times to first byte of the agent's last streamed calls; 0 if there are too few, or they show none.

`dedupe` and `collect` have no saving: nobody knows what a context would have carried of the rows that they removed from
searches. They ask no model, so they cost nothing.
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
from circadia.memory.context import estimate_tokens, excerpt_tokens
from circadia.memory.context_lines import beginning
from circadia.memory.uses import BankUse, UseMarks, UseQueue
from circadia.records.block import Block
from circadia.records.call import Call, CallStatus
from circadia.records.episode import Episode
from circadia.records.index_entry import Excerpt, Layer
from circadia.records.note import Note, NoteKind
from circadia.records.sleep_call import Benefit, SleepCost
from circadia.stores.base import Store, Tx

WINDOW: Final = timedelta(days=14)
"""Time that is told."""
VERIFY: Final = "verify"
"""What verdicts on notes and blocks are charged to: not an operation."""
_NOTHING: Final = SleepCost(calls=0, tokens=0, nanousd=0, seconds=0.0)
EVERY_SECONDS: Final = 5.0
AT_ONCE: Final = 100
"""Uses processed with one look at the database; episodes are read 500 at a time."""
LINES: Final = 100
"""Last calls of an agent to fit the seconds of a token from."""
MIN_STREAMED_CALLS: Final = 10
"""Fewest streamed calls for that fit."""
FRESH: Final = timedelta(minutes=10)
"""How long the rates of an agent are cached."""
PRICE_SAMPLE_TOKENS: Final = 1_000
"""Tokens to price for the price of one: no price list has a tier that begins so low."""
_EMBEDDINGS: Final = "embeddings"
AGENTS: Final = 10_000
"""Agents whose rates are cached."""
_KINDS: Final[Mapping[NoteKind, str]] = {
    NoteKind.CONSOLIDATION: "consolidate", NoteKind.BELIEF: "reflect", NoteKind.SUMMARY: "compress",
}  # fmt: skip
"""Operation of a note that records none."""
_BLOCKS: Final = "rethink"
"""Operation of a block that records none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """An operation's use to a bank and its cost in the window."""

    operation: str
    uses: int
    """How often a call got something that it made."""
    saved_tokens: int
    """Input tokens that hot calls did not read."""
    saved_seconds: float
    """Time that they saved, where it is known."""
    saved_nanousd: int
    """The price of those tokens, where it is known."""
    spent: SleepCost
    """Its model calls, failed ones included."""


def compute_balances(gains: Sequence[Benefit], costs: Mapping[str, SleepCost]) -> Sequence[Balance]:
    """Return the balance of each operation with a cost or a use, by name."""
    names = sorted({gain.operation for gain in gains} | costs.keys())
    return [
        _compute_balance(name, [gain for gain in gains if gain.operation == name], costs.get(name, _NOTHING))
        for name in names
    ]


def _compute_balance(name: str, gains: Sequence[Benefit], spent: SleepCost) -> Balance:
    return Balance(
        operation=name,
        uses=sum(gain.uses for gain in gains),
        saved_tokens=sum(gain.saved_tokens for gain in gains),
        saved_seconds=sum(gain.saved_seconds for gain in gains),
        saved_nanousd=sum(gain.saved_nanousd for gain in gains),
        spent=spent,
    )


_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A note or a block that replaces episodes."""

    operation: str
    tokens: int
    """Its own size."""
    evidence: Collection[EpisodeId]


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """An episode that may be counted."""

    number: int
    text_hash: int
    """Hash of the beginning of its text."""
    tokens: int
    """Its size in a context."""


def compute_savings(
    sources: Sequence[Source], rows: Mapping[EpisodeId, Weight], shown: Collection[int], known: Collection[int]
) -> Iterator[tuple[str, int]]:
    """Yield for each source its operation and the tokens that it saves, as the module explains."""
    counted: set[EpisodeId] = set()
    for source in sources:
        replaced = 0
        for episode_id in source.evidence:
            row = rows.get(episode_id)
            if row is not None and episode_id not in counted and row.number not in shown and row.text_hash not in known:
                counted.add(episode_id)
                replaced += row.tokens
        yield source.operation, max(0, replaced - source.tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TokenRates:
    seconds_a_token: float
    nanousd_a_token: float | None
    until: datetime


@dataclass(kw_only=True, slots=True)
class _OperationSum:
    uses: int = 0
    tokens: int = 0
    seconds: float = 0.0
    nanousd: float = 0.0
    unpriced: int = 0

    def add(self, spared: int, rates: _TokenRates) -> None:
        self.uses += 1
        self.tokens += spared
        self.seconds += spared * rates.seconds_a_token
        if rates.nanousd_a_token is None:
            self.unpriced += spared
        else:
            self.nanousd += spared * rates.nanousd_a_token


@dataclass(kw_only=True, slots=True)
class _BankCache:
    notes: dict[int, Source | None] = field(default_factory=dict[int, "Source | None"])
    blocks: dict[tuple[str, int], Source] = field(default_factory=dict[tuple[str, int], Source])
    rows: dict[EpisodeId, Weight] = field(default_factory=dict[EpisodeId, Weight])


class Savings:
    """Computes savings in the background. Queued uses are not counted if the process dies."""

    def __init__(self, clock: Clock, store: Store, uses: UseQueue, prices: Mapping[str, PriceList]) -> None:
        self._clock = clock
        self._store = store
        self._uses = uses
        self._prices = prices
        self._marks = UseMarks()
        self._rates: dict[tuple[AgentId, str | None, str | None], _TokenRates] = {}

    async def run(self) -> None:
        """Work until cancelled, and then once more."""
        try:
            while True:
                await self._clock.sleep(EVERY_SECONDS)
                await self.step()
        finally:
            await self.step()

    async def step(self) -> None:
        new_uses = self._uses.drain()
        by_bank: dict[BankId, list[BankUse]] = {}
        for use in new_uses:
            by_bank.setdefault(use.bank, []).append(use)
        for bank_id, uses in by_bank.items():
            await self._work_bank(bank_id, uses)

    async def _work_bank(self, bank_id: BankId, uses: Sequence[BankUse]) -> None:
        """Process the uses of one bank; a failure must not lose those of other banks."""
        cache = _BankCache()
        for at in range(0, len(uses), AT_ONCE):
            try:
                await self._work_batch(bank_id, uses[at : at + AT_ONCE], cache)
            except StorageUnavailable as error:
                _logger.warning("the savings of memory are counted later: %s", error)
                for use in uses[at:]:
                    self._uses.add(use)
                return
            except Exception:  # counts may be too low; calls must not feel it
                _logger.exception("the savings of memory could not be counted")

    async def _work_batch(self, bank_id: BankId, uses: Sequence[BankUse], cache: _BankCache) -> None:
        now = self._clock.now()
        sums: dict[str, _OperationSum] = {}
        async with self._store.begin_read() as tx:
            await _load_sources(tx, bank_id, uses, cache)
            for use in uses:
                rates = await self._fetch_rates(tx, use, now)
                for operation, spared in compute_savings(
                    _sources_of_use(use, cache), cache.rows, frozenset(use.episodes), frozenset(use.known)
                ):
                    sums.setdefault(operation, _OperationSum()).add(spared, rates)
        gains = [
            Benefit(
                bank_id=bank_id, operation=name, day=now.date(), uses=total.uses, saved_tokens=total.tokens,
                saved_seconds=total.seconds, saved_nanousd=round(total.nanousd), unpriced_tokens=total.unpriced,
            )
            for name, total in sums.items()
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
        """Return the price and the time of a token for the model that got the answer."""
        key = (use.agent, use.upstream, use.model)
        rates = self._rates.get(key)
        if rates is None or rates.until <= now:
            lines = [call for call in await tx.calls.find_latest(use.agent, LINES) if _is_answered_call(call)]
            last = lines[0] if lines else None
            upstream, model = use.upstream, use.model
            if model is None and last is not None:
                upstream, model = last.upstream, last.model
            if len(self._rates) >= AGENTS:
                self._rates.clear()
            rates = self._rates[key] = _TokenRates(
                seconds_a_token=fit_seconds_per_token(lines, upstream, model),
                nanousd_a_token=self._token_price(upstream, model, now), until=now + FRESH,
            )  # fmt: skip
        return rates

    def _token_price(self, upstream: str | None, model: str | None, now: datetime) -> float | None:
        """Return the price of an input token in billionths of a US dollar; none if it is unknown."""
        prices = None if upstream is None else self._prices.get(upstream)
        if prices is None or model is None:
            return None
        price, nothing = (
            prices.price(model, Usage(input_tokens=tokens, output_tokens=0), now) for tokens in (PRICE_SAMPLE_TOKENS, 0)
        )
        return None if price is None or nothing is None else (price - nothing) / PRICE_SAMPLE_TOKENS


def _is_answered_call(line: Call) -> bool:
    """Return whether a call shows how long an answer takes: one for embeddings has another model, and no answer."""
    return line.status is CallStatus.DONE and line.endpoint != _EMBEDDINGS


def fit_seconds_per_token(lines: Sequence[Call], upstream: str | None, model: str | None) -> float:
    """Return by how much each uncached token delays the first byte in these calls; 0 if unknown."""
    points = [
        (call.input_tokens - (call.cached_tokens or 0), call.first_token_seconds)
        for call in lines
        if call.streamed and call.upstream == upstream and model is not None and call.model.startswith(model)
        and call.input_tokens is not None and call.first_token_seconds is not None
    ]  # fmt: skip
    if len(points) < MIN_STREAMED_CALLS:
        return 0.0
    try:
        return max(0.0, linear_regression(*zip(*points, strict=True)).slope)
    except StatisticsError:  # all of one size
        return 0.0


async def _load_sources(tx: Tx, bank_id: BankId, uses: Sequence[BankUse], cache: _BankCache) -> None:
    """Load what the answers rest on, unless it is cached; forgotten rows save nothing."""
    numbers = {number for use in uses for number in use.notes}.difference(cache.notes)
    notes = await tx.notes.get_by_numbers(bank_id, numbers)
    for number in numbers:
        note = notes.get(number)
        cache.notes[number] = None if note is None else _source_of_note(note)
    for block in (block for use in uses for block in use.blocks):
        if (block.label, block.version) not in cache.blocks:
            cache.blocks[block.label, block.version] = _source_of_block(block)
    sources = (*cache.notes.values(), *cache.blocks.values())
    missing_ids = list(
        {key for source in sources if source is not None for key in source.evidence}.difference(cache.rows)
    )
    for at in range(0, len(missing_ids), 5 * AT_ONCE):
        episodes = await tx.episodes.get_by_ids(bank_id, missing_ids[at : at + 5 * AT_ONCE])
        cache.rows.update({key: _episode_weight(row) for key, row in episodes.items()})


def _sources_of_use(use: BankUse, cache: _BankCache) -> Sequence[Source]:
    notes = [source for number in use.notes if (source := cache.notes.get(number)) is not None]
    keys = dict.fromkeys((block.label, block.version) for block in use.blocks)
    return [*notes, *(cache.blocks[key] for key in keys)]


def _source_of_note(note: Note) -> Source | None:
    """Return a note as a source; none if no pass has made it."""
    if note.pass_id is None:
        return None
    excerpt = Excerpt(Layer.NOTES, note.number, note.at, note.text, note.trust.value, None, note.kind.value)
    operation = note.operation or _KINDS[note.kind]
    return Source(operation=operation, tokens=excerpt_tokens(excerpt), evidence=note.evidence)


def _source_of_block(block: Block) -> Source:
    return Source(
        operation=block.operation or _BLOCKS,
        tokens=sum(estimate_tokens(block.value[span.start : span.end]) for span in block.spans),
        evidence=frozenset(episode_id for span in block.spans for episode_id in span.episodes),
    )


def _episode_weight(row: Episode) -> Weight:
    excerpt = Excerpt(Layer.EPISODES, row.number, row.at, row.text, row.trust.value, row.speaker, row.kind.value)
    return Weight(number=row.number, text_hash=hash(beginning(row.text)), tokens=excerpt_tokens(excerpt))
