"""Statements and queries that episodes and notes share."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import prod
from typing import Any, ClassVar, Final, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    ScalarSelect,
    Table,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    update,
)

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.episode import Episode
from circadia.records.index_entry import TEXT, Excerpt, IndexEntry, Layer
from circadia.records.note import Note
from circadia.stores.sql.link import Runner
from circadia.stores.sql.memory_tables import banks
from circadia.stores.sql.short_reads import LongWork, ShortRead
from circadia.stores.sql.statement import Statement

Key = TypeVar("Key", EpisodeId, NoteId)
Row = TypeVar("Row", Episode, Note)

_INDEX_COLUMNS: Final = (
    "number",
    "at",
    "conversation",
    "speaker",
    "kind",
    "trust",
    "importance",
    "stale",
    "terms",
    "vector",
    "embedder",
)
"""Columns of an index entry, where the table has them."""
_EXCERPT_COLUMNS: Final = ("number", "at", "trust", "speaker", "kind")
"""Columns of an excerpt besides the text; notes have no speaker."""
_WHOLE: Final = 2**31 - 1
"""More characters than a text has."""
_PLACES: Final = tuple(f"number_{place}" for place in range(32))
"""Placeholders for a list of numbers or ids."""
_NO_NUMBER: Final = 0
"""Fills unused placeholders: no row has it."""
_NO_ID: Final = ""
"""Fills unused placeholders of ids."""
_ASKED_AT_ONCE: Final = 1_000
"""Ids per statement: both databases have a limit."""


def select_greatest_number(table: Table, bank: ColumnElement[str]) -> ScalarSelect[Any]:
    """Return the greatest number of a bank's rows.

    The bank is matched as a range, which only the index of banks and numbers serves in order. With an equality,
    PostgreSQL without fresh statistics assumes that most rows match and scans the table from its end.
    """
    numbers = select(table.c.number).where(table.c.bank_id >= bank, table.c.bank_id <= bank)
    return numbers.order_by(table.c.bank_id.desc(), table.c.number.desc()).limit(literal_column("1")).scalar_subquery()


def _select_lacking_vector_of(table: Table) -> Statement:
    """Select rows `after` a number without a vector by the `present` embedder, in order, up to `most`.

    It scans the table, for the rare case that another embedder's vectors may exist.
    """
    embedder = table.c.embedder
    return _select_in_order(table, or_(embedder.is_(None), embedder != bindparam("present")))


def _select_without_vector(table: Table) -> Statement:
    """Select rows `after` a number without any vector, in order, up to `most`; an index serves it."""
    return _select_in_order(table, table.c.embedder.is_(None))


def _select_outdated_vector(table: Table) -> Statement:
    """Select a row of a `bank` `after` a number whose vector is not by the `present` embedder."""
    rows = select(table.c.number).where(table.c.bank_id == bindparam("bank"), table.c.number > bindparam("after"))
    return Statement(rows.where(table.c.embedder != bindparam("present")).limit(1))


def _select_in_order(table: Table, which: ColumnElement[bool]) -> Statement:
    rows = select(table).where(which, table.c.number > bindparam("after"))
    return Statement(rows.order_by(table.c.number).limit(bindparam("most")))


def _update_vector(table: Table) -> Statement:
    """Write vectors: rows of number, vector, embedder."""
    return Statement(
        update(table)
        .where(table.c.number == bindparam("at_number"))
        .values(vector=bindparam("new_vector"), embedder=bindparam("new_embedder")),
        ("at_number", "new_vector", "new_embedder"),
    )


def _count_vector(table: Table) -> Statement:
    """Count written vectors in their banks: rows of number."""
    bank = select(table.c.bank_id).where(table.c.number == bindparam("at_number")).scalar_subquery()
    counted = update(banks).where(banks.c.id == bank).values(vectors=banks.c.vectors + literal_column("1"))
    return Statement(counted, ("at_number",))


def select_index_rows(table: Table) -> Statement:
    """Select index rows of a `bank` `after` a number, in order, up to `most`, without retired ones."""
    beginning = func.substr(table.c.text, literal_column("1"), literal_column(str(TEXT))).label("text")
    rows = select(*(table.c[name] for name in _INDEX_COLUMNS if name in table.c), beginning)
    rows = rows.where(table.c.bank_id == bindparam("bank"), table.c.number > bindparam("after"))
    if "retired_at" in table.c:
        rows = rows.where(table.c.retired_at.is_(None))
    return Statement(rows.order_by(table.c.number).limit(bindparam("most")))


def _select_count(table: Table) -> Statement:
    """Count the rows of a `bank` that are not retired."""
    counted = select(func.count()).where(table.c.bank_id == bindparam("bank"))
    return Statement(counted.where(table.c.retired_at.is_(None)) if "retired_at" in table.c else counted)


def build_index_entry(row: Any) -> IndexEntry:
    """Build an index entry from a row of `select_index_rows`."""
    at: datetime = row.at
    return IndexEntry(
        number=row.number,
        at=at.timestamp(),
        conversation=getattr(row, "conversation", None),
        speaker=getattr(row, "speaker", ""),
        kind=row.kind,
        trust=row.trust,
        importance=row.importance,
        weight=weight(getattr(row, "stale", ())),
        terms=row.terms,
        vector=row.vector,
        embedder=row.embedder,
        text=row.text,
    )


def weight(stale: Iterable[Mapping[str, Any]]) -> float:
    """Return the weight of an episode after these demotions."""
    return prod(demotion["weight"] for demotion in stale)


def _select_excerpts(table: Table) -> Statement:
    """Select excerpts of a `bank` by number, for `fetch_by_numbers`."""
    beginning = func.substr(table.c.text, literal_column("1"), bindparam("characters", type_=Integer)).label("text")
    rows = select(*(table.c[name] for name in _EXCERPT_COLUMNS if name in table.c), beginning)
    return Statement(rows.where(is_of_bank(table), is_one_of(table.c.number)))


def _select_by_numbers(table: Table) -> Statement:
    """Select rows of a `bank` by number, for `fetch_by_numbers`."""
    return Statement(select(table).where(is_of_bank(table), is_one_of(table.c.number)))


def select_by_ids(table: Table, columns: Sequence[str] = ()) -> Statement:
    """Select rows, or some of their columns, by id in all banks, for `fetch_by_ids`.

    With a bank in the condition, SQLite would scan all rows of the bank.
    """
    rows = select(*(table.c[name] for name in columns)) if columns else select(table)
    return Statement(rows.where(is_one_of(table.c.id)))


def select_vectors(table: Table) -> Statement:
    """Select number, vector and embedder by number, of rows that have a vector, for `fetch_by_numbers`."""
    rows = select(table.c.number, table.c.vector, table.c.embedder)
    return Statement(rows.where(is_one_of(table.c.number), table.c.vector.is_not(None)))


def is_of_bank(table: Table) -> ColumnElement[bool]:
    """Match the bank in a form that keeps PostgreSQL from choosing one of the bank indexes over the number."""
    return table.c.bank_id.op("||")(literal_column("''")) == bindparam("bank")


def is_one_of(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Match a list of fixed length, which is compiled once; SQLAlchemy's lists of any length take ten times as long."""
    places: list[Any] = [bindparam(name) for name in _PLACES]
    return column.in_(places)


def fetch_by_numbers(
    connection: Connection, statement: Statement, numbers: Collection[int], **values: object
) -> list[Any]:
    places = _bind_lists(list(numbers), _NO_NUMBER, values)
    return [row for some in places for row in statement.all(connection, some)]


def fetch_by_ids(connection: Connection, statement: Statement, ids: Collection[str], **values: object) -> list[Any]:
    places = _bind_lists(list(ids), _NO_ID, values)
    return [row for some in places for row in statement.all(connection, some)]


def run_by_numbers(connection: Connection, statement: Statement, numbers: Collection[int], **values: object) -> None:
    for some in _bind_lists(sorted(numbers), _NO_NUMBER, values):
        statement.execute(connection, some)


def _bind_lists(
    items: Sequence[object], nothing: object, values: Mapping[str, object]
) -> Iterator[Mapping[str, object]]:
    """Yield the values for each run of a statement with a list."""
    for start in range(0, len(items), len(_PLACES)):
        some: dict[str, object] = dict.fromkeys(_PLACES, nothing)
        some.update(zip(_PLACES, items[start : start + len(_PLACES)], strict=False))
        yield {**some, **values}


def fetch_vectors(
    connection: Connection, statement: Statement, numbers: Collection[int]
) -> Mapping[int, tuple[bytes, str]]:
    """Return vector and embedder by number; the statement is that of `select_vectors`."""
    return {row.number: (row.vector, row.embedder) for row in fetch_by_numbers(connection, statement, numbers)}


class SearchableStatements:
    """Statements for episodes or notes."""

    def __init__(self, table: Table, layer: Layer) -> None:
        self.table = table
        self.layer = layer
        self.strangers = _select_lacking_vector_of(table)
        self.unembedded = _select_without_vector(table)
        self.outdated = _select_outdated_vector(table)
        self.embed = _update_vector(table)
        self.embedding = _count_vector(table)
        self.kept = select_index_rows(table)
        self.count = _select_count(table)
        self.shown = _select_excerpts(table)
        self.numbered = _select_by_numbers(table)
        self.embedded = select_vectors(table)


class SqlSearchableRows(ABC, Generic[Key, Row]):
    """Episodes or notes in one transaction; see `SearchableRows`."""

    _statements: ClassVar[SearchableStatements]

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._run = runner.run
        self._hold = runner.hold

    @abstractmethod
    def _build_records(self, connection: Connection, rows: Sequence[Any]) -> list[Row]:
        """Build records from rows. It runs with the query, since a page of them would block the event loop."""

    async def find_bank_ids(self, ids: Collection[Key]) -> Mapping[Key, BankId]:
        keys, table = list(ids), self._statements.table

        def work(connection: Connection) -> Mapping[Key, BankId]:
            bank_ids: dict[Key, BankId] = {}
            for start in range(0, len(keys), _ASKED_AT_ONCE):
                some = keys[start : start + _ASKED_AT_ONCE]
                rows = connection.execute(select(table.c.id, table.c.bank_id).where(table.c.id.in_(some))).all()
                bank_ids |= {row.id: BankId(row.bank_id) for row in rows}
            return bank_ids

        return await self._run(work)

    async def get_by_numbers(self, bank_id: BankId, numbers: Collection[int]) -> Mapping[int, Row]:
        if not numbers:
            return {}
        statement = self._statements.numbered
        records = await self._run(
            lambda connection: self._build_records(
                connection, fetch_by_numbers(connection, statement, numbers, bank=bank_id)
            )
        )
        return {record.number: record for record in records}

    async def excerpts(
        self, bank_id: BankId, numbers: Collection[int], *, characters: int | None = None
    ) -> Mapping[int, Excerpt]:
        if not numbers:
            return {}
        statement, layer = self._statements.shown, self._statements.layer
        values = {"bank": bank_id, "characters": _WHOLE if characters is None else characters}

        def work(connection: Connection) -> Mapping[int, Excerpt]:
            return {
                row.number: Excerpt(
                    layer, row.number, row.at, row.text, row.trust, getattr(row, "speaker", None), row.kind
                )
                for row in fetch_by_numbers(connection, statement, numbers, **values)
            }

        # Whole texts are not read in the event loop: each may have a hundred thousand characters.
        return await self._run(work if characters is None or len(numbers) > len(_PLACES) else ShortRead(work))

    async def index_entries(self, bank_id: BankId, *, after: int, limit: int) -> Sequence[IndexEntry]:
        statement, values = self._statements.kept, {"bank": bank_id, "after": after, "most": limit}
        return await self._run(lambda connection: [build_index_entry(row) for row in statement.all(connection, values)])

    async def vectors(self, numbers: Collection[int]) -> Mapping[int, tuple[bytes, str]]:
        return await self._run(lambda connection: fetch_vectors(connection, self._statements.embedded, numbers))

    async def count(self, bank_id: BankId) -> int:
        return await self._run(
            LongWork(lambda connection: self._statements.count.scalar(connection, {"bank": bank_id}))
        )

    async def find_lacking_vector(self, embedder: str | None, *, after: int = 0, limit: int) -> Sequence[Row]:
        values = {"present": embedder, "after": after, "most": limit}
        statement = self._statements.unembedded if embedder is None else self._statements.strangers
        return await self._run(lambda connection: self._build_records(connection, statement.all(connection, values)))

    async def has_outdated_vector(self, bank_id: BankId, embedder: str, *, after: int) -> bool:
        statement, values = self._statements.outdated, {"bank": bank_id, "present": embedder, "after": after}
        return await self._run(lambda connection: statement.first(connection, values)) is not None

    async def save_vectors(self, vectors: Mapping[int, bytes], embedder: str) -> None:
        rows = [(number, vector, embedder) for number, vector in vectors.items()]

        def work(connection: Connection) -> None:
            self._statements.embed.run_many(connection, rows)
            self._statements.embedding.run_many(connection, [(number,) for number in vectors])

        await self._run(work)
