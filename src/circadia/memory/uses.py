"""Which notes and blocks were handed to which agents: noted by the hot path, worked through behind it (SLEEP-42)."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from circadia.ids import AgentId, BankId
from circadia.memory.context import beginning
from circadia.memory.index import Scored
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.index_entry import Layer
from circadia.records.per_call import per_call

BOUND: Final = 10_000
"""Uses that wait to be worked through; beyond it the oldest are dropped and counted."""

_NOTES: Final = Layer.NOTES  # to find it in its class takes longer than all the rest of a hit


class Shown(Protocol):
    """A hit of a search or a context."""

    @property
    def scored(self) -> Scored: ...


@per_call
class Use:
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


def use_of(
    bank: Bank, agent: AgentId, hits: Iterable[Shown], blocks: Iterable[Block] = (), *, known: Iterable[str] = (),
    upstream: str | None = None, model: str | None = None,
) -> Use | None:  # fmt: skip
    """Return what is to be noted of an answer; none if nothing that passes made stood in it."""
    notes: list[int] = []
    episodes: list[int] = []
    for hit in hits:
        scored = hit.scored
        (notes if scored.layer is _NOTES else episodes).append(scored.number)
    resting = [block for block in blocks if block.spans]
    if not notes and not resting:
        return None
    return Use(
        bank=bank.id, agent=agent, upstream=upstream, model=model, notes=notes,
        episodes=episodes, blocks=resting,
        known=[hash(beginning(text)) for text in known],
    )  # fmt: skip


class Uses:
    """What waits to be worked through."""

    def __init__(self) -> None:
        self._waiting: deque[Use] = deque(maxlen=BOUND)
        self.dropped = 0

    def note(self, use: Use | None) -> None:
        """Keep it until somebody takes it."""
        if use is not None:
            self.dropped += len(self._waiting) == BOUND
            self._waiting.append(use)

    def take(self) -> Sequence[Use]:
        """Return what waits, the oldest first, and forget it."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken
