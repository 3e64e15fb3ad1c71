"""Copies all rows of one database into another of either dialect, and compares both.

Values go as they are stored, not through records: JSON stays the same text, a time the same number.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Connection,
    Integer,
    String,
    Table,
    TableClause,
    Text,
    case,
    cast,
    column,
    false,
    func,
    insert,
    select,
    table,
    text,
    update,
)

from circadia.errors import Conflict, StorageUnavailable
from circadia.stores.sql.access_tokens import used_links
from circadia.stores.sql.members import hold_places, leads, members
from circadia.stores.sql.schema import delivery_counts, events, messages, write_probe
from circadia.stores.sql.tx import ALL_TABLES

_NOT_COPIED: Final = frozenset({members, leads, hold_places, used_links, write_probe, delivery_counts})
"""Rows of running processes, and counts that triggers build from the deliveries."""
_BATCH_ROWS: Final = 1_000
_CHECKSUM_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class _Digest:
    """Number of rows, and the sum of their checksums, which does not depend on their order."""

    rows: int
    checksum: int


def list_copied_tables() -> Sequence[Table]:
    """Return the tables in an order in which each comes after those that it refers to."""
    return [each for each in ALL_TABLES if each not in _NOT_COPIED]


def count_rows(source: Connection) -> int:
    """Return the number of rows to copy."""
    return sum(source.scalar(select(func.count()).select_from(each)) or 0 for each in list_copied_tables())


def require_empty(target: Connection) -> None:
    """Raise Conflict if the database has rows."""
    for each in list_copied_tables():
        if target.execute(select(each).limit(1)).first() is not None:
            raise Conflict(f"the database has rows in {each.name!r}; name an empty one in server.database_url")


def copy_tables(source: Connection, target: Connection, on_rows: Callable[[int], None]) -> None:
    """Copy all tables into an empty database of the same revision, in the open transactions of both.

    `on_rows` is called with the number of rows of each batch.

    Raises:
        StorageUnavailable: the target holds other rows than the source.
    """
    for each in list_copied_tables():
        copied = _copy_rows(source, target, each, on_rows)
        if _compute_digest(_read_batches(target, each)) != copied:
            raise StorageUnavailable(f"the copy of {each.name!r} differs from its source; nothing was stored")
    target.execute(update(messages).values(indexed=false()))  # the index is not copied: a server builds it
    for each in list_copied_tables():
        if any(each_column.identity is not None for each_column in each.columns):
            number = _fetch_last_number(source, each)
            _set_last_number(target, each, _number_events(target, number) if each is events else number)


def _build_raw_table(whole: Table) -> TableClause:
    """Return the table without the conversions of its columns, except of booleans, which SQLite stores as numbers."""
    return table(
        whole.name,
        *(column(each.name, each.type if isinstance(each.type, Boolean) else None) for each in whole.columns),
    )


def _read_batches(source: Connection, whole: Table) -> Iterator[Sequence[Any]]:
    raw = _build_raw_table(whole).c
    stored = (
        cast(raw[each.name], Text).label(each.name) if isinstance(each.type, JSON) else raw[each.name]
        for each in whole.columns
    )
    yield from source.execute(select(*stored).execution_options(yield_per=_BATCH_ROWS)).partitions()


def _copy_rows(source: Connection, target: Connection, whole: Table, on_rows: Callable[[int], None]) -> _Digest:
    def copy_batches() -> Iterator[Sequence[Any]]:
        for batch in _read_batches(source, whole):
            target.execute(insert(_build_raw_table(whole)), [dict(row._mapping) for row in batch])
            on_rows(len(batch))
            yield batch

    return _compute_digest(copy_batches())


def _compute_digest(batches: Iterator[Sequence[Any]]) -> _Digest:
    rows = checksum = 0
    for batch in batches:
        rows += len(batch)
        for row in batch:
            digest = blake2b(repr(tuple(row)).encode(), digest_size=_CHECKSUM_BYTES).digest()
            checksum = (checksum + int.from_bytes(digest)) % (1 << 8 * _CHECKSUM_BYTES)
    return _Digest(rows, checksum)


def _number_events(target: Connection, last: int) -> int:
    """Give the events that PostgreSQL had not numbered yet their numbers, by arrival; return the last number."""
    first_arrival = target.scalar(select(func.max(events.c.number)).where(events.c.number < 0))
    if first_arrival is not None:
        numbered = update(events).where(events.c.number < 0)
        target.execute(numbered.values(number=last + 1 + first_arrival - events.c.number))
    return max(last, target.scalar(select(func.max(events.c.number))) or 0)


def _fetch_last_number(source: Connection, whole: Table) -> int:
    """Return the greatest number that the table has ever given."""
    if source.dialect.name == "sqlite":
        sequences = table("sqlite_sequence", column("name", String), column("seq", Integer))
        number = source.scalar(select(sequences.c.seq).where(sequences.c.name == whole.name))
    else:
        sequence = table(_name_sequence(whole), column("last_value", BigInteger), column("is_called", Boolean))
        number = source.scalar(select(sequence.c.last_value - case((sequence.c.is_called, 0), else_=1)))
    return number or 0


def _set_last_number(target: Connection, whole: Table, number: int) -> None:
    if target.dialect.name == "sqlite":
        target.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": whole.name})
        values = {"name": whole.name, "number": number}
        target.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)"), values)
    elif number:
        target.execute(select(func.setval(_name_sequence(whole), number)))


def _name_sequence(whole: Table) -> str:
    return "event_numbers" if whole is events else f"{whole.name}_number_seq"
