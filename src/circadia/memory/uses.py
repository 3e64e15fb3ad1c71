"""What was handed to which agents: noted by the hot path, worked through behind it.

What of it passes have made has spared the call something (SLEEP-42); and rows tell when they were last of use, so that
what is never found can be told from what is (SLEEP-20, MEM-18).
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Final, Protocol

from circadia.ids import AgentId, BankId
from circadia.memory.context import beginning
from circadia.memory.search.index import ScoredRow
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.index_entry import Layer
from circadia.records.per_call import per_call
from circadia.stores.base import Tx

MAX_WAITING: Final = 10_000
"""Uses that wait to be worked through; beyond it the oldest are dropped and counted."""

MAX_MARKED: Final = 200_000
"""Rows of which it is remembered that they are marked; beyond it the database is asked again."""

_NOTES: Final = Layer.NOTES  # to find it in its class takes longer than all the rest of a hit


class ScoredHit(Protocol):
    """A hit of a search or a context."""

    @property
    def scored(self) -> ScoredRow: ...


class CitedRows(Protocol):
    """What stands on notes and episodes."""

    @property
    def notes(self) -> Iterable[int]:
        """Return their numbers."""
        ...

    @property
    def episodes(self) -> Iterable[int]:
        """Return their numbers."""
        ...


@per_call
class BankUse:
    """One answer of a bank: what stood in it."""

    bank: BankId
    """Whose memory."""
    agent: AgentId
    """To whom it was handed."""
    upstream: str | None
    """The provider of the call that it was put into; none if a tool or REST handed it out."""
    model: str | None
    """The call's model; none likewise."""
    notes: Sequence[int]
    """Numbers of the notes, in order."""
    episodes: Sequence[int]
    """Numbers of the episodes."""
    blocks: Sequence[Block]
    """The blocks that rest on episodes."""
    known: Sequence[int]
    """Hashes of the beginnings of the texts that the call's own history holds."""


def build_use(
    bank: Bank, agent: AgentId, hits: Iterable[ScoredHit], blocks: Iterable[Block] = (), *, known: Iterable[str] = (),
    upstream: str | None = None, model: str | None = None,
) -> BankUse | None:  # fmt: skip
    """Return what is to be noted of an answer; none if nothing stood in it."""
    notes: list[int] = []
    episodes: list[int] = []
    for hit in hits:
        scored = hit.scored
        (notes if scored.layer is _NOTES else episodes).append(scored.number)
    resting = [block for block in blocks if block.spans]
    made = notes or resting
    if not made and not episodes:
        return None
    return BankUse(
        bank=bank.id, agent=agent, upstream=upstream, model=model, notes=notes,
        episodes=episodes, blocks=resting,
        known=[hash(beginning(text)) for text in known] if made else (),  # nothing else spares a call its reading
    )  # fmt: skip


class UseQueue:
    """What waits to be worked through."""

    def __init__(self) -> None:
        self._waiting: deque[BankUse] = deque(maxlen=MAX_WAITING)
        self.dropped = 0

    def add(self, use: BankUse | None) -> None:
        """Keep it until somebody takes it."""
        if use is not None:
            self.dropped += len(self._waiting) == MAX_WAITING
            self._waiting.append(use)

    def drain(self) -> Sequence[BankUse]:
        """Return what waits, the oldest first, and forget it."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


class UseMarks:
    """Marks rows as used: each once a day (UTC), so that little is written."""

    def __init__(self) -> None:
        self._day = date.min
        self._marked: dict[Layer, set[int]] = {layer: set() for layer in Layer}

    def find_unmarked(self, uses: Iterable[CitedRows], now: datetime) -> Mapping[Layer, Collection[int]]:
        """Return the numbers of what was handed out and is not marked today; empty if there is nothing."""
        if self._day != now.date() or sum(map(len, self._marked.values())) > MAX_MARKED:
            self._day = now.date()
            self._marked = {layer: set() for layer in Layer}
        found: dict[Layer, set[int]] = {Layer.NOTES: set(), Layer.EPISODES: set()}
        for use in uses:
            found[Layer.NOTES].update(use.notes)
            found[Layer.EPISODES].update(use.episodes)
        return {layer: left for layer, each in found.items() if (left := each - self._marked[layer])}

    async def write(self, tx: Tx, bank: BankId, due: Mapping[Layer, Collection[int]], now: datetime) -> None:
        """Mark them; `keep` it when the transaction has come about."""
        before = datetime.combine(now, time(), UTC)
        await tx.notes.mark_used(bank, due.get(Layer.NOTES, ()), now, before=before)
        await tx.episodes.mark_used(bank, due.get(Layer.EPISODES, ()), now, before=before)

    def remember_marked(self, due: Mapping[Layer, Collection[int]]) -> None:
        """Remember that these are marked."""
        for layer, numbers in due.items():
            self._marked[layer].update(numbers)
