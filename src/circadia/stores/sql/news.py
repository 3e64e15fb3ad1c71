"""What a bank has that an index of it lacks, in one trip; where nothing is new, in one statement."""

from collections.abc import Collection, Mapping
from typing import Final

from sqlalchemy import Connection, bindparam, func, select

from circadia.ids import BankId
from circadia.records.index_entry import Layer, News
from circadia.stores.sql.memory_tables import blocks, episodes, notes
from circadia.stores.sql.searchable import embedded, index_entry, kept, vectors
from circadia.stores.sql.statement import Statement

_TABLES: Final = {Layer.EPISODES: episodes, Layer.NOTES: notes}
_KEPT: Final = {layer: kept(table) for layer, table in _TABLES.items()}
_EMBEDDED: Final = {layer: embedded(table) for layer, table in _TABLES.items()}
_HEADS: Final = Statement(
    select(
        *(
            select(func.max(table.c.number)).where(table.c.bank_id == bindparam("bank")).scalar_subquery().label(layer)
            for layer, table in _TABLES.items()
        ),
        select(func.count())
        .select_from(blocks)
        .where(blocks.c.bank_id == bindparam("bank"))
        .scalar_subquery()
        .label("writes"),
    )
)


def news(
    connection: Connection,
    bank_id: BankId,
    after: Mapping[Layer, int],
    waiting: Mapping[Layer, Collection[int]],
    limit: int,
) -> News:
    """Return what `Banks.news` tells."""
    heads = _HEADS.first(connection, {"bank": bank_id})
    entries = {
        layer: [
            index_entry(row) for row in _KEPT[layer].all(connection, {"bank": bank_id, "after": number, "most": limit})
        ]
        for layer, number in after.items()
        if (getattr(heads, layer) or 0) > number
    }
    found = {layer: vectors(connection, _EMBEDDED[layer], numbers) for layer, numbers in waiting.items() if numbers}
    return News(entries=entries, vectors=found, writes=heads.writes if heads else 0)
