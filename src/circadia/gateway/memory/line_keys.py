"""The ids of the lines that the gateway added to turns, as a conversation's row keeps them (MEM-37)."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from enum import StrEnum
from typing import Any, Final

import orjson

from circadia.memory.context import Hit
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.index_entry import Layer


class LineKind(StrEnum):
    DAY = "d"
    """The day of the agent, in ISO 8601."""
    CHANGES = "c"
    """What passes have changed: the counts."""
    HINT = "h"
    """A ready answer: its id, and whether with its reasoning."""
    NEWER = "t"
    """The beginning of a turn that the ready answer before it does not know."""
    SUPERSEDED_EPISODE = "se"
    SUPERSEDED_NOTE = "sn"
    LEFT_OUT = "a"
    """The names of banks that are not there."""
    BANK = "k"
    """The heading above the lines of one of several banks: its id. The lines before it are of the first."""
    BLOCK = "b"
    """Its label and version."""
    EPISODE = "e"
    NOTE = "n"
    WAKE = "w"
    """The notice of a woken agent, alone and unfenced: its numbers (`notice_key`)."""


SHOWN_AS: Final = {Layer.EPISODES: LineKind.EPISODE, Layer.NOTES: LineKind.NOTE}
LineKey = tuple[str, str | int, int, int]
"""Kind, then id, number or label, then a version, passage or flag, then `ScoredRow.times` of a row, 1 for others."""
BlockKey = tuple[str, int]
"""Label and version; with version 0, the id of the bank whose blocks follow, as `LineKind.BANK`."""


def short_key(line: LineKey) -> Sequence[str | int]:
    return line[:3] if line[3] == 1 else line


def whole_key(kept: Sequence[Any]) -> LineKey:
    kind, key, version, times = kept if len(kept) > 3 else (*kept, 1)
    return kind, key, version, times


def hit_key(hit: Hit) -> LineKey:
    return (SHOWN_AS[hit.scored.layer].value, hit.scored.number, hit.scored.passage, hit.scored.times)


def block_key(block: Block) -> LineKey:
    return (LineKind.BLOCK.value, block.label, block.version, 1)


def day_key(today: date) -> LineKey:
    return (LineKind.DAY.value, today.isoformat(), 0, 1)


def bank_key(bank: Bank) -> LineKey:
    return (LineKind.BANK.value, bank.id, 0, 1)


def left_out_key(names: Sequence[str]) -> LineKey:
    return (LineKind.LEFT_OUT.value, ", ".join(names), 0, 1)


_ROWS: Final = frozenset({LineKind.BANK, LineKind.BLOCK, LineKind.EPISODE, LineKind.NOTE})


def encode_memory(first_bank: str, stable: Iterable[BlockKey], lines: Iterable[LineKey]) -> str:
    """Return the text that a call's ledger line keeps of the memory for its newest turn; empty without any rows."""
    head: LineKey = (LineKind.BANK.value, first_bank, 0, 1)
    kinds = {True: LineKind.BLOCK.value, False: LineKind.BANK.value}
    blocks: list[LineKey] = [(kinds[version > 0], key, version, 1) for key, version in stable]
    kept = [head, *blocks, head, *(line for line in lines if line[0] in _ROWS)]
    has_rows = any(line[0] != LineKind.BANK for line in kept)
    return orjson.dumps(list(map(short_key, kept))).decode() if has_rows else ""


def decode_memory(kept: str) -> Iterator[tuple[str, LineKind, str | int, int]]:
    """Yield bank id, kind, number or label, and version or passage of each row of memory, each once."""
    lines = map(whole_key, orjson.loads(kept)) if kept else ()
    seen: dict[tuple[str, LineKind, str | int, int], None] = {}
    for _, bank_id, group in split_by_bank(lines):
        seen |= {(bank_id, LineKind(kind), key, version): None for kind, key, version, _ in group}
    yield from seen


def split_by_bank(lines: Iterable[LineKey]) -> Iterator[tuple[LineKey | None, str, Sequence[LineKey]]]:
    """Yield the lines of each bank with its heading and id; first, without both, those of an agent's first bank."""
    heading: LineKey | None = None
    group: list[LineKey] = []
    for line in lines:
        if line[0] == LineKind.BANK:
            yield heading, "" if heading is None else str(heading[1]), group
            heading, group = line, []
        else:
            group.append(line)
    yield heading, "" if heading is None else str(heading[1]), group
