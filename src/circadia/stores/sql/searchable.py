"""Statements and queries that episodes and notes share."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import prod
from typing import Any, ClassVar, Final, Generic, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Integer,
    ScalarSelect,
    Select,
    Table,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
)

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.episode import PASSAGE, Episode
from circadia.records.index_entry import TEXT, Excerpt, IndexEntry, Layer
from circadia.records.note import Note
from circadia.stores.sql.due_checks import queue_check
from circadia.stores.sql.memory_tables import banks
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.statement import Statement

R = TypeVar("R")
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
    "passages",
    "expires_at",
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


def build_demotion(table: Table, **values: ColumnElement[Any]) -> tuple[Statement[Any], Statement[Any]]:
    """Build a statement that counts a demotion in the bank of the row `key_id`, and one that changes the row.

    The first returns the bank.
    """
    row = table.c.id == bindparam("key_id")
    count = (
        update(banks)
        .where(banks.c.id == select(table.c.bank_id).where(row).scalar_subquery())
        .values(demotions=banks.c.demotions + 1)
        .returning(banks.c.id)
    )
    demotion = select(banks.c.demotions).where(banks.c.id == table.c.bank_id).scalar_subquery()
    return Statement(count), Statement(update(table).where(row).values(**values, demotion=demotion))


def select_index_rows(table: Table) -> Statement[Any]:
    """Select index rows of a `bank` `after` a number, in order, up to `most`, without retired ones."""
    text = func.substr(table.c.text, literal_column("1"), literal_column(str(TEXT)))
    if "passages" in table.c:
        text = case((table.c.passages.is_(None), text), else_=table.c.text)
    rows = select(*(table.c[name] for name in _INDEX_COLUMNS if name in table.c), text.label("text"))
    rows = rows.where(table.c.bank_id == bindparam("bank"), table.c.number > bindparam("after"))
    if "retired_at" in table.c:
        rows = rows.where(table.c.retired_at.is_(None))
    return Statement(rows.order_by(table.c.number).limit(bindparam("most")))


def build_index_entry(row: Any) -> IndexEntry:
    """Build an index entry from a row of `select_index_rows`."""
    at: datetime = row.at
    expires_at: datetime | None = getattr(row, "expires_at", None)
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
        passages=getattr(row, "passages", None),
        expires=None if expires_at is None else expires_at.timestamp(),
    )


def weight(stale: Iterable[Mapping[str, Any]]) -> float:
    """Return the weight of an episode after these demotions."""
    return prod(demotion["weight"] for demotion in stale)


def select_by_ids(table: Table, columns: Sequence[str] = ()) -> Select[Any]:
    """Return the query of rows, or some of their columns, by id in all banks, for `fetch_by_ids`.

    With a bank in the condition, SQLite would scan all rows of the bank.
    """
    rows = select(*(table.c[name] for name in columns)) if columns else select(table)
    return rows.where(is_one_of(table.c.id))


def select_vectors(table: Table) -> Statement[Any]:
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


def is_unsplit(table: Table) -> Sequence[ColumnElement[bool]]:
    """Match long texts without passages, in the table that has some."""
    if "passages" not in table.c:
        return ()
    return (table.c.passages.is_(None) & (func.length(table.c.text) > literal_column(str(PASSAGE))),)


def fetch_by_numbers(
    connection: Connection, statement: Statement[Any], numbers: Collection[int], **values: object
) -> list[Any]:
    places = _bind_lists(list(numbers), _NO_NUMBER, values)
    return [row for some in places for row in statement.all(connection, some)]


def fetch_by_ids(connection: Connection, statement: Statement[R], ids: Collection[str], **values: object) -> list[R]:
    places = _bind_lists(list(ids), _NO_ID, values)
    return [row for some in places for row in statement.all(connection, some)]


def run_by_numbers(
    connection: Connection, statement: Statement[Any], numbers: Collection[int], **values: object
) -> None:
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
    connection: Connection, statement: Statement[Any], numbers: Collection[int]
) -> Mapping[int, tuple[bytes, str]]:
    """Return vector and embedder by number; the statement is that of `select_vectors`."""
    return {row.number: (row.vector, row.embedder) for row in fetch_by_numbers(connection, statement, numbers)}


class SearchableStatements:
    """Statements for episodes or notes."""

    def __init__(self, table: Table, layer: Layer, evidence_id: Column[Any]) -> None:
        """`evidence_id` is the column by which notes and their sources are linked."""
        rows, number, embedder = select(table), table.c.number, table.c.embedder
        is_of_bank_only, is_after = table.c.bank_id == bindparam("bank"), number > bindparam("after")
        has_other_vector, at_number = embedder != bindparam("present"), number == bindparam("at_number")
        is_live = [table.c.retired_at.is_(None)] if "retired_at" in table.c else []
        beginning = func.substr(table.c.text, literal_column("1"), bindparam("characters", type_=Integer)).label("text")
        excerpt = select(*(table.c[name] for name in _EXCERPT_COLUMNS if name in table.c), beginning)
        bank_of_number = select(table.c.bank_id).where(at_number).scalar_subquery()

        def select_in_order(which: ColumnElement[bool]) -> Statement[Any]:
            return Statement(rows.where(which, is_after).order_by(number).limit(bindparam("most")))

        self.table = table
        self.layer = layer
        self.evidence_id = evidence_id
        # It scans the table, for the rare case that another embedder's vectors, or texts to split, may exist.
        self.lacking_vector = select_in_order(or_(embedder.is_(None), has_other_vector, *is_unsplit(table)))
        self.without_vector = select_in_order(embedder.is_(None))  # by an index
        # The bank is an expression that no index has: few rows lack a vector, whatever the bank has.
        self.count_without_vector = Statement(
            select(func.count()).where(embedder.is_(None), table.c.bank_id.concat("") == bindparam("bank"))
        )
        is_outdated = or_(has_other_vector, *is_unsplit(table))
        self.outdated_vector = Statement(select(number).where(is_of_bank_only, is_after, is_outdated).limit(1))
        self.save_vector = Statement(
            update(table).where(at_number).values(vector=bindparam("new_vector"), embedder=bindparam("new_embedder")),
            ("at_number", "new_vector", "new_embedder"),
        )
        self.count_vector = Statement(
            update(banks).where(banks.c.id == bank_of_number).values(vectors=banks.c.vectors + literal_column("1")),
            ("at_number",),
        )
        self.index_rows = select_index_rows(table)
        self.count = Statement(select(func.count()).where(is_of_bank_only, *is_live))
        self.excerpts = Statement(excerpt.where(is_of_bank(table), is_one_of(number)))
        self.by_number = Statement(rows.where(is_of_bank(table), is_one_of(number)))
        self.vectors = select_vectors(table)


class SearchableRows(Noun, ABC, Generic[Key, Row]):
    """Common access to episodes and notes: both are searched and given to agents."""

    _statements: ClassVar[SearchableStatements]

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

    async def find_excerpts(self, bank_id: BankId, ids: Collection[Key], *, characters: int) -> Mapping[str, Excerpt]:
        """Return excerpts of the bank's rows by id, with up to `characters` of each text."""
        keys, table, layer = list(ids), self._statements.table, self._statements.layer
        columns = [table.c.id, table.c.bank_id, *(column for column in table.c if column.name in _EXCERPT_COLUMNS)]
        cut = func.substr(table.c.text, 1, characters).label("text")

        def work(connection: Connection) -> Mapping[str, Excerpt]:
            found: dict[str, Excerpt] = {}
            for start in range(0, len(keys), _ASKED_AT_ONCE):
                some = keys[start : start + _ASKED_AT_ONCE]
                # By id alone: with the bank beside it, PostgreSQL's plan reads all rows of the bank.
                rows = connection.execute(select(*columns, cut).where(table.c.id.in_(some))).all()
                for row in [row for row in rows if row.bank_id == bank_id]:
                    found[row.id] = Excerpt(
                        layer, row.number, row.at, row.text, row.trust, getattr(row, "speaker", None), row.kind
                    )
            return found

        return await self._run(work) if keys else {}

    async def get_by_numbers(self, bank_id: BankId, numbers: Collection[int]) -> Mapping[int, Row]:
        """Return these rows by number."""
        if not numbers:
            return {}
        statement = self._statements.by_number
        records = await self._run(
            lambda connection: self._build_records(
                connection, fetch_by_numbers(connection, statement, numbers, bank=bank_id)
            )
        )
        return {record.number: record for record in records}

    async def excerpts(
        self, bank_id: BankId, numbers: Collection[int], *, characters: int | None = None
    ) -> Mapping[int, Excerpt]:
        """Return excerpts by number, with up to `characters` of each text, or all of it."""
        if not numbers:
            return {}
        statement, layer = self._statements.excerpts, self._statements.layer
        values = {"bank": bank_id, "characters": _WHOLE if characters is None else characters}

        def work(connection: Connection) -> Mapping[int, Excerpt]:
            return {
                row.number: Excerpt(
                    layer, row.number, row.at, row.text, row.trust, getattr(row, "speaker", None), row.kind
                )
                for row in fetch_by_numbers(connection, statement, numbers, **values)
            }

        # Whole texts are not read in the event loop: each may have a hundred thousand characters.
        is_short = characters is not None and len(numbers) <= len(_PLACES)
        return await self._run(work, short=is_short or None)

    async def index_entries(self, bank_id: BankId, *, after: int, limit: int) -> Sequence[IndexEntry]:
        """Return index entries with a number greater than `after`, in order."""
        statement, values = self._statements.index_rows, {"bank": bank_id, "after": after, "most": limit}
        return await self._run(lambda connection: [build_index_entry(row) for row in statement.all(connection, values)])

    async def vectors(self, numbers: Collection[int]) -> Mapping[int, tuple[bytes, str]]:
        """Return vector and embedder by number, for rows that have one."""
        return await self._run(lambda connection: fetch_vectors(connection, self._statements.vectors, numbers))

    async def count(self, bank_id: BankId) -> int:
        """Return the number of rows that are not retired."""
        return await self._run(
            lambda connection: self._statements.count.scalar(connection, {"bank": bank_id}), short=False
        )

    async def find_lacking_vector(self, embedder: str | None, *, after: int = 0, limit: int) -> Sequence[Row]:
        """Return rows of all banks after a number without a vector by this embedder, or without any, in order."""
        values = {"present": embedder, "after": after, "most": limit}
        statement = self._statements.without_vector if embedder is None else self._statements.lacking_vector
        return await self._run(lambda connection: self._build_records(connection, statement.all(connection, values)))

    async def count_without_vector(self, bank_id: BankId) -> int:
        """Return the number of the bank's rows that have no vector yet."""
        statement, values = self._statements.count_without_vector, {"bank": bank_id}
        return await self._run(lambda connection: statement.scalar(connection, values), short=False)

    async def has_outdated_vector(self, bank_id: BankId, embedder: str, *, after: int) -> bool:
        """Return whether a row of the bank after a number has a vector by another embedder."""
        statement, values = self._statements.outdated_vector, {"bank": bank_id, "present": embedder, "after": after}
        return await self._first(statement, values) is not None

    async def save_vectors(self, vectors: Mapping[int, bytes], embedder: str) -> None:
        """Write vectors by number and count them in their banks."""
        rows = [(number, vector, embedder) for number, vector in vectors.items()]

        def work(connection: Connection) -> None:
            self._statements.save_vector.run_many(connection, rows)
            self._statements.count_vector.run_many(connection, [(number,) for number in vectors])

        await self._run(work)

    async def remove(self, ids: Collection[Key]) -> Sequence[int]:
        """Delete rows, and the links between notes and episodes that they have; return their numbers."""
        table, evidence_id = self._statements.table, self._statements.evidence_id
        links = delete(evidence_id.table).where(evidence_id.in_(ids))
        rows = delete(table).where(table.c.id.in_(ids)).returning(table.c.number)

        def work(connection: Connection) -> Sequence[int]:
            connection.execute(links)
            return connection.execute(rows).scalars().all()

        return await self._run(work, short=False) if ids else ()

    async def _demote(self, statements: tuple[Statement[Any], Statement[Any]], values: Mapping[str, object]) -> None:
        """Run the statements of `build_demotion`, and ask for a check of the bank."""
        count, change = statements

        def work(connection: Connection) -> BankId | None:
            bank_id = count.scalar(connection, values)
            change.execute(connection, values)
            return bank_id

        bank_id = await self._run(work)
        if bank_id is not None:
            queue_check(self._runner, bank_id)
