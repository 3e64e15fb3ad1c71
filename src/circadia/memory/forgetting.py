"""Forgets: deletes episodes with all that rests on them, and nothing else (MEM-03)."""

from collections.abc import Collection
from dataclasses import dataclass

from circadia.ids import EpisodeId
from circadia.memory.blocks import without
from circadia.records.bank import Bank
from circadia.stores.base import Tx


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten:
    """What went."""

    episodes: int
    """Episodes, with their vectors."""
    notes: int
    """Notes that rested on any of them."""
    versions: int
    """Versions of blocks that lost a part."""


async def forget(tx: Tx, bank: Bank, ids: Collection[EpisodeId]) -> Forgotten:
    """Delete these episodes of the bank, notes that rest on them, and what rests on them in any version of a block."""
    gone = frozenset([each for each in ids if await tx.episodes.get(bank.id, each) is not None])
    notes = await tx.notes.resting_on(gone)
    await tx.notes.remove(notes)
    cut = 0
    for block in await tx.blocks.versions(bank.id):
        if any(not gone.isdisjoint(span.episodes) for span in block.spans):
            await tx.blocks.cut(without(block, gone))
            cut += 1
    await tx.episodes.remove(gone)
    if gone:
        await tx.banks.bump(bank.id)
    return Forgotten(episodes=len(gone), notes=len(notes), versions=cut)
