"""A block: a labelled, size-limited part of the learned context, with its version history (MEM-09, MEM-11)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from circadia.ids import BankId, EpisodeId


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSpan:
    """A part of a block's value that was derived from episodes; forgetting them removes it (MEM-03)."""

    start: int
    """Index of the first character."""
    end: int
    """Index after the last character."""
    episodes: Sequence[EpisodeId]


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One version of a block; readers see the one with the greatest number."""

    bank_id: BankId
    label: str
    """Unique in the bank, such as `human`."""
    version: int
    """Starts at 1; each write adds a version."""
    parent: int | None
    """The version that was edited; after an undo it is not the previous one."""
    value: str
    description: str = ""
    """Its purpose, for those who write to it."""
    limit: int
    """Maximum length of the value in characters."""
    pinned: bool = True
    """Always part of the context; otherwise only when it fits the question."""
    read_only: bool = False
    """Only people may write it."""
    deleted: bool = False
    """This version marks the deletion of the block."""
    spans: Sequence[BlockSpan] = ()
    by: str
    """Author: `operator`, an agent's reference, or a pass."""
    operation: str | None = None
    """The operation that wrote the parts derived from episodes; none if unknown or not written by a pass."""
    why: str = ""
    """Reason in words."""
    at: datetime
