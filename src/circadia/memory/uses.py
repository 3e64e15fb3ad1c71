"""Record what was handed to agents, on the hot path, and process it in the background.

Content that passes wrote has saved the call something (SLEEP-42); and notes record when they were last useful, which
separates them from notes that no search finds (SLEEP-20).
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime, time
from typing import Final

from circadia.ids import AgentId, BankId
from circadia.memory.context import Hit
from circadia.memory.context_lines import beginning
from circadia.memory.search.retrieval import SearchHit
from circadia.records.answer import AnswerBasis
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.fast_record import fast_record
from circadia.records.index_entry import Layer
from circadia.stores.base import Tx

MAX_WAITING: Final = 10_000
"""Unprocessed uses; beyond it the oldest are dropped and counted."""

MAX_MARKED: Final = 200_000
"""Notes known to be marked; beyond it the set is cleared and the database asked again."""

_NOTES: Final = Layer.NOTES  # an attribute lookup on the class would cost more than the rest of a hit


@fast_record
class BankUse:
    bank: BankId
    agent: AgentId
    upstream: str | None
    """Upstream of the call that it became part of; None for a tool or REST."""
    model: str | None
    """Model of that call; None for a tool or REST."""
    notes: Sequence[int]
    """Numbers, in order."""
    episodes: Sequence[int]
    blocks: Sequence[Block]
    """Blocks that rest on episodes."""
    known: Sequence[int]
    """Hashes of the beginnings of the texts in the call's own history."""


def build_use(
    bank: Bank, agent: AgentId, hits: Iterable[Hit | SearchHit], blocks: Iterable[Block] = (), *,
    known: Iterable[str] = (), upstream: str | None = None, model: str | None = None,
) -> BankUse | None:  # fmt: skip
    """Return the use to record for an answer; None for one without anything that passes wrote."""
    notes: list[int] = []
    episodes: list[int] = []
    for hit in hits:
        scored = hit.scored
        (notes if scored.layer is _NOTES else episodes).append(scored.number)
    resting = [block for block in blocks if block.spans]
    if not notes and not resting:
        return None
    return BankUse(
        bank=bank.id, agent=agent, upstream=upstream, model=model, notes=notes,
        episodes=list(dict.fromkeys(episodes)), blocks=resting,  # several passages of one may be found
        known=[hash(beginning(text)) for text in known],
    )  # fmt: skip


def build_uses(
    banks: Sequence[Bank], agent: AgentId, hits: Sequence[Hit | SearchHit], blocks: Sequence[Block] = (), *,
    known: Iterable[str] = (), upstream: str | None = None, model: str | None = None,
) -> Sequence[BankUse]:  # fmt: skip
    """Return the use of each bank that is to be recorded for an answer."""
    if len(banks) == 1:
        uses = [build_use(banks[0], agent, hits, blocks, known=known, upstream=upstream, model=model)]
    else:
        known = list(known)
        uses = [
            build_use(
                bank, agent, [hit for hit in hits if hit.bank == bank.id],
                [block for block in blocks if block.bank_id == bank.id], known=known, upstream=upstream, model=model,
            )
            for bank in banks
        ]  # fmt: skip
    return [use for use in uses if use is not None]


class UseQueue:
    def __init__(self) -> None:
        self._waiting: deque[BankUse] = deque(maxlen=MAX_WAITING)
        self.dropped = 0

    def add(self, *uses: BankUse) -> None:
        for use in uses:
            self.dropped += len(self._waiting) == MAX_WAITING
            self._waiting.append(use)

    def drain(self) -> Sequence[BankUse]:
        """Return the queued uses, oldest first, and empty the queue."""
        uses = list(self._waiting)
        self._waiting.clear()
        return uses


class UseMarks:
    """Marks notes as used, each once a day (UTC) to save writes."""

    def __init__(self) -> None:
        self._day = date.min
        self._marked: set[int] = set()

    def find_unmarked(self, uses: Iterable[BankUse | AnswerBasis], now: datetime) -> Collection[int]:
        """Return the numbers of used notes that are not marked today."""
        if self._day != now.date() or len(self._marked) > MAX_MARKED:
            self._day = now.date()
            self._marked = set()
        return {number for use in uses for number in use.notes} - self._marked

    async def write(self, tx: Tx, bank: BankId, due: Collection[int], now: datetime) -> None:
        """Mark the notes; call `remember_marked` after the commit."""
        await tx.notes.mark_used(bank, due, now, before=datetime.combine(now, time(), UTC))

    def remember_marked(self, due: Collection[int]) -> None:
        self._marked.update(due)
