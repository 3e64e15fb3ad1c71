"""Write a bank as export lines (MEM-16)."""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Final

from circadia.memory.transfer.lines import bank_line, block_line, end_line, episode_line, note_line
from circadia.records.bank import Bank
from circadia.stores.base import Tx

READ_AT_ONCE: Final = 500


async def export_lines(tx: Tx, bank: Bank, at: datetime) -> AsyncGenerator[bytes]:
    """Yield the lines of a bank: itself, episodes, notes (also retired ones), and all versions of blocks."""
    yield bank_line(bank, at)
    lines = 1
    after = 0
    while episodes := await tx.episodes.find_all(bank.id, after=after, limit=READ_AT_ONCE):
        after = episodes[-1].number
        lines += len(episodes)
        yield b"".join(map(episode_line, episodes))
    after = 0
    while notes := await tx.notes.find_all(bank.id, after=after, limit=READ_AT_ONCE, retired=True):
        after = notes[-1].number
        lines += len(notes)
        yield b"".join(map(note_line, notes))
    for label in await tx.blocks.labels(bank.id):
        history = await tx.blocks.history(bank.id, label)
        lines += len(history)
        yield b"".join(map(block_line, history))
    yield end_line(lines)
