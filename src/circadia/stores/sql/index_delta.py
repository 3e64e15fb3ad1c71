"""Reads the rows that an index of a bank lacks, in one trip, or in none if the bank's row shows nothing new."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, Label, bindparam, literal_column, select

from circadia.ids import BankId
from circadia.records.index_entry import IndexDelta, Layer
from circadia.stores.sql.memory_tables import banks, episodes, notes
from circadia.stores.sql.searchable import (
    build_index_entry,
    fetch_vectors,
    select_greatest_number,
    select_index_rows,
    select_vectors,
)
from circadia.stores.sql.statement import Statement

_TABLES: Final = {Layer.EPISODES: episodes, Layer.NOTES: notes}
_INDEX_ROWS: Final = {layer: select_index_rows(table) for layer, table in _TABLES.items()}
_VECTORS: Final = {layer: select_vectors(table) for layer, table in _TABLES.items()}
# A step or two for each label: to group the rows by label would read all versions.
_WRITES: Final = literal_column(
    """(
    WITH RECURSIVE named(label) AS (
      SELECT min(label) FROM blocks WHERE bank_id = banks.id
      UNION ALL
      SELECT (SELECT min(label) FROM blocks WHERE bank_id = banks.id AND label > named.label) FROM named
        WHERE named.label IS NOT NULL)
    SELECT coalesce(sum((SELECT max(version) FROM blocks WHERE bank_id = banks.id AND label = named.label)), 0)
      FROM named)""",
    BigInteger,
)
HEADS: Final[tuple[Label[Any], ...]] = (
    *(select_greatest_number(table, banks.c.id).label(layer) for layer, table in _TABLES.items()),
    _WRITES.label("writes"),
)
"""Columns of a bank's row: the greatest number of each layer, by layer name, and the number of writes to blocks.

Old versions of blocks are deleted, so these are not the rows.
"""
_OF_BANK: Final = Statement(select(*HEADS, banks.c.vectors).where(banks.c.id == bindparam("bank")))


def fetch_heads(connection: Connection, bank_id: BankId) -> Any:
    """Return the bank's row with `HEADS` and its vectors, or none."""
    return _OF_BANK.first(connection, {"bank": bank_id})


def build_empty_delta(
    heads: Any, after: Mapping[Layer, int], waiting: Mapping[Layer, Collection[int]], seen: int | None
) -> IndexDelta | None:
    """Return the result of `Banks.fetch_index_delta` if the heads suffice, else none."""
    greatest = _greatest_numbers(heads)
    has_new_rows = any(greatest[layer] > number for layer, number in after.items())
    if has_new_rows or (heads.vectors != seen and any(waiting.values())):
        return None
    return IndexDelta(entries={}, vectors={}, writes=heads.writes, embedded=heads.vectors, heads=greatest)


def fetch_delta(
    connection: Connection,
    bank_id: BankId,
    heads: Any,
    after: Mapping[Layer, int],
    waiting: Mapping[Layer, Collection[int]],
    limit: int,
) -> IndexDelta:
    """Return the result of `Banks.fetch_index_delta`; vectors are read for the numbers in `waiting`."""
    greatest = _greatest_numbers(heads)
    entries = {
        layer: [
            build_index_entry(row)
            for row in _INDEX_ROWS[layer].all(connection, {"bank": bank_id, "after": number, "most": limit})
        ]
        for layer, number in after.items()
        if greatest[layer] > number
    }
    vectors = {
        layer: fetch_vectors(connection, _VECTORS[layer], numbers) for layer, numbers in waiting.items() if numbers
    }
    return IndexDelta(entries=entries, vectors=vectors, writes=heads.writes, embedded=heads.vectors, heads=greatest)


def _greatest_numbers(heads: Any) -> Mapping[Layer, int]:
    return {layer: getattr(heads, layer) or 0 for layer in Layer}
