"""What a bank has that an index of it lacks, in one trip; where nothing is new, the bank's own row has told so."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Label, bindparam, func, select

from circadia.ids import BankId
from circadia.records.index_entry import Layer, News
from circadia.stores.sql.memory_tables import banks, blocks, episodes, notes
from circadia.stores.sql.searchable import embedded, greatest, index_entry, kept, vectors
from circadia.stores.sql.statement import Statement

_TABLES: Final = {Layer.EPISODES: episodes, Layer.NOTES: notes}
_KEPT: Final = {layer: kept(table) for layer, table in _TABLES.items()}
_EMBEDDED: Final = {layer: embedded(table) for layer, table in _TABLES.items()}
HEADS: Final[tuple[Label[Any], ...]] = (
    *(greatest(table, banks.c.id).label(layer) for layer, table in _TABLES.items()),
    select(func.count()).select_from(blocks).where(blocks.c.bank_id == banks.c.id).scalar_subquery().label("writes"),
)
"""Columns of a bank's row: the greatest number of each layer, by its name, and how many versions its blocks have."""
_OF_BANK: Final = Statement(select(*HEADS, banks.c.vectors).where(banks.c.id == bindparam("bank")))


def heads_of(connection: Connection, bank_id: BankId) -> Any:
    """Return the row of a bank with `HEADS` and its vectors; none if there is no such bank."""
    return _OF_BANK.first(connection, {"bank": bank_id})


def without_news(
    heads: Any, after: Mapping[Layer, int], waiting: Mapping[Layer, Collection[int]], seen: int | None
) -> News | None:
    """Return what `Banks.news` tells if the heads alone tell it; else none."""
    wanted = any((getattr(heads, layer) or 0) > number for layer, number in after.items())
    if wanted or (heads.vectors != seen and any(waiting.values())):
        return None
    return News(entries={}, vectors={}, writes=heads.writes, embedded=heads.vectors)


def news(
    connection: Connection,
    bank_id: BankId,
    heads: Any,
    after: Mapping[Layer, int],
    waiting: Mapping[Layer, Collection[int]],
    limit: int,
) -> News:
    """Return what `Banks.news` tells; `waiting` are those whose vectors are to be read."""
    entries = {
        layer: [
            index_entry(row) for row in _KEPT[layer].all(connection, {"bank": bank_id, "after": number, "most": limit})
        ]
        for layer, number in after.items()
        if (getattr(heads, layer) or 0) > number
    }
    found = {layer: vectors(connection, _EMBEDDED[layer], numbers) for layer, numbers in waiting.items() if numbers}
    return News(entries=entries, vectors=found, writes=heads.writes, embedded=heads.vectors)
