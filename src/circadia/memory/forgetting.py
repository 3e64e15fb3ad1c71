"""Forgets: deletes episodes with all that rests on them, and nothing else (MEM-03)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from circadia.ids import EpisodeId
from circadia.memory.blocks import without
from circadia.records.bank import Bank
from circadia.stores.base import Tx

AT_ONCE: Final = 1_000
"""Ids in one statement: databases take some ten thousand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten:
    """What went."""

    episodes: int
    """Episodes, with their vectors."""
    notes: int
    """Notes that rested on any of them."""
    versions: int
    """Versions of blocks that lost a part."""


async def forget(tx: Tx, bank: Bank, ids: Collection[EpisodeId], *, dry_run: bool = False) -> Forgotten:
    """Delete these episodes of the bank, notes that rest on them, and what rests on them in any version of a block.

    `dry_run` only counts what would go.
    """
    gone = frozenset([each for each in ids if await tx.episodes.get(bank.id, each) is not None])
    parts = [list(gone)[start : start + AT_ONCE] for start in range(0, len(gone), AT_ONCE)]
    notes = {note for part in parts for note in await tx.notes.resting_on(part)}
    cut = [
        block
        for block in await tx.blocks.versions(bank.id)
        if any(not gone.isdisjoint(span.episodes) for span in block.spans)
    ]
    if gone and not dry_run:
        for note in notes:
            await tx.notes.remove([note])
        for block in cut:
            await tx.blocks.cut(without(block, gone))
        for part in parts:
            await tx.episodes.remove(part)
        await tx.banks.bump(bank.id)
    return Forgotten(episodes=len(gone), notes=len(notes), versions=len(cut))
