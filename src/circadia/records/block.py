"""A block: a labelled, size-limited piece of the learned context, with every version that it had (MEM-09, MEM-11)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from circadia.ids import BankId, EpisodeId


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSpan:
    """A part of a block's value that rests on episodes, so that forgetting them takes it out (MEM-03)."""

    start: int
    """First character."""
    end: int
    """Character after the last."""
    episodes: Sequence[EpisodeId]
    """What it rests on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One version of a block; the one with the greatest number is what readers see."""

    bank_id: BankId
    """Where it is kept."""
    label: str
    """Its name in the bank, such as `human`."""
    version: int
    """1 for the first; each write makes another."""
    parent: int | None
    """The version that it was made from; not the one before where an undo came between."""
    value: str
    """The text."""
    description: str = ""
    """What it is for; whoever writes it reads this."""
    limit: int
    """Characters that the value may have."""
    pinned: bool = True
    """Whether it is always in the context, and not only where it fits the question."""
    read_only: bool = False
    """Whether only people may write it."""
    deleted: bool = False
    """Whether this version says that there is no block any more."""
    spans: Sequence[BlockSpan] = ()
    """What its parts rest on."""
    by: str
    """Who wrote it: `operator`, an agent's reference, a pass."""
    operation: str | None = None
    """The operation of a pass that wrote what rests on episodes in it; none if none did, or it is not known."""
    why: str = ""
    """What for, in words."""
    at: datetime
    """When."""
