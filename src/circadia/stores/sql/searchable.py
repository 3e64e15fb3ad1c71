"""What episodes and notes share: statements, and what is asked by them."""

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
from circadia.records.excerpt import Excerpt
from circadia.records.index_entry import TEXT, IndexEntry, Layer
from circadia.records.note import Note
from circadia.stores.sql.link import Runner
from circadia.stores.sql.memory_tables import banks
from circadia.stores.sql.short_reads import ShortRead
from circadia.stores.sql.statement import Statement

Key = TypeVar("Key", EpisodeId, NoteId)
Row = TypeVar("Row", Episode, Note)

_INDEX_COLUMNS: Final = (
    "number",
    "at",
    "session",
    "speaker",
    "kind",
    "trust",
    "importance",
    "stale",
    "terms",
    "vector",
    "embedder",
)
"""What an index keeps; a table that lacks some of it has none of it."""
_EXCERPT_COLUMNS: Final = ("number", "at", "trust", "speaker", "kind")
"""What an excerpt has beside its text; notes have no speaker."""
_WHOLE: Final = 2**31 - 1
"""More characters than a text has."""
_PLACES: Final = tuple(f"number_{place}" for place in range(32))
"""What a list of numbers or ids is passed in."""
_NO_NUMBER: Final = 0
"""Fills what is left of the places: no row has it."""
_NO_ID: Final = ""
"""The same for ids."""
_ASKED_AT_ONCE: Final = 1_000
"""Ids in one statement: both databases have a limit."""


def select_greatest_number(table: Table, bank: ColumnElement[str]) -> ScalarSelect[Any]:
    """Return the greatest number of a bank's rows.

    Asked for a range of banks, only the index of banks and numbers tells it in order. Asked for one, PostgreSQL without
    fresh statistics thinks that most rows are of it, and goes through the whole table from its end on.
    """
    found = select(table.c.number).where(table.c.bank_id >= bank, table.c.bank_id <= bank)
    return found.order_by(table.c.bank_id.desc(), table.c.number.desc()).limit(literal_column("1")).scalar_subquery()


def _select_lacking_vector_of(table: Table) -> Statement:
    """Return what finds rows `after` a number without a vector by the `present` embedder, in order, `most` at most.

    It goes through the table, so it is for the seldom case that there may be another embedder's.
    """
    embedder = table.c.embedder
    return _select_in_order(table, or_(embedder.is_(None), embedder != bindparam("present")))


def _select_without_vector(table: Table) -> Statement:
    """Return what finds rows `after` a number without any vector, in order, `most` at most; an index has them."""
    return _select_in_order(table, table.c.embedder.is_(None))


def _select_outdated_vector(table: Table) -> Statement:
    """Return what finds a row of a `bank` `after` a number whose vector is not by the `present` embedder."""
    found = select(table.c.number).where(table.c.bank_id == bindparam("bank"), table.c.number > bindparam("after"))
    return Statement(found.where(table.c.embedder != bindparam("present")).limit(1))


def _select_in_order(table: Table, which: ColumnElement[bool]) -> Statement:
    found = select(table).where(which, table.c.number > bindparam("after"))
    return Statement(found.order_by(table.c.number).limit(bindparam("most")))


def _update_vector(table: Table) -> Statement:
    """Return what writes a vector: rows of number, vector, embedder."""
    return Statement(
        update(table)
        .where(table.c.number == bindparam("at_number"))
        .values(vector=bindparam("new_vector"), embedder=bindparam("new_embedder")),
        ("at_number", "new_vector", "new_embedder"),
    )


def _count_vector(table: Table) -> Statement:
    """Return what counts a vector that is written to a row of its bank: rows of number."""
    bank = select(table.c.bank_id).where(table.c.number == bindparam("at_number")).scalar_subquery()
    counted = update(banks).where(banks.c.id == bank).values(vectors=banks.c.vectors + literal_column("1"))
    return Statement(counted, ("at_number",))


def _update_used_at(table: Table) -> Statement:
    """Return what notes on rows of a `bank` that they were used `now`, if not since `before`; by their numbers."""
    long_ago = or_(table.c.used_at.is_(None), table.c.used_at < bindparam("before"))
    rows = update(table).where(_is_of_bank(table), _is_one_of(table.c.number), long_ago)
    return Statement(rows.values(used_at=bindparam("now")))


def select_index_rows(table: Table) -> Statement:
    """Return what finds the rows of a `bank` numbered `after` this, in order, `most` at most; retired ones left out."""
    beginning = func.substr(table.c.text, literal_column("1"), literal_column(str(TEXT))).label("text")
    found = select(*(table.c[name] for name in _INDEX_COLUMNS if name in table.c), beginning)
    found = found.where(table.c.bank_id == bindparam("bank"), table.c.number > bindparam("after"))
    if "retired_at" in table.c:
        found = found.where(table.c.retired_at.is_(None))
    return Statement(found.order_by(table.c.number).limit(bindparam("most")))


def _select_count(table: Table) -> Statement:
    """Return what counts the rows of a `bank`; retired ones left out."""
    found = select(func.count()).where(table.c.bank_id == bindparam("bank"))
    return Statement(found.where(table.c.retired_at.is_(None)) if "retired_at" in table.c else found)


def build_index_entry(row: Any) -> IndexEntry:
    """Return a row of `kept`."""
    at: datetime = row.at
    return IndexEntry(
        number=row.number,
        at=at.timestamp(),
        session=getattr(row, "session", None),
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
    """Return what is left of an episode's weight after these demotions."""
    return prod(each["weight"] for each in stale)


def _select_excerpts(table: Table) -> Statement:
    """Return what finds excerpts of a `bank` by their numbers; `by_numbers` runs it."""
    beginning = func.substr(table.c.text, literal_column("1"), bindparam("characters", type_=Integer)).label("text")
    found = select(*(table.c[name] for name in _EXCERPT_COLUMNS if name in table.c), beginning)
    return Statement(found.where(_is_of_bank(table), _is_one_of(table.c.number)))


def _select_by_numbers(table: Table) -> Statement:
    """Return what finds rows of a `bank` by their numbers; `by_numbers` runs it."""
    return Statement(select(table).where(_is_of_bank(table), _is_one_of(table.c.number)))


def select_by_ids(table: Table, columns: Sequence[str] = ()) -> Statement:
    """Return what finds rows of any bank, or these columns of them, by their ids; `by_ids` runs it.

    With a bank, too, SQLite would go through all rows of it.
    """
    found = select(*(table.c[name] for name in columns)) if columns else select(table)
    return Statement(found.where(_is_one_of(table.c.id)))


def select_by_keys(table: Table) -> Statement:
    """Return what finds key and time of acceptance of rows of a `bank` by their keys; `by_ids` runs it."""
    found = select(table.c.key, table.c.stored_at)
    return Statement(found.where(table.c.bank_id == bindparam("bank"), _is_one_of(table.c.key)))


def select_vectors(table: Table) -> Statement:
    """Return what finds number, vector and embedder of rows that have one by their numbers; `by_numbers` runs it."""
    found = select(table.c.number, table.c.vector, table.c.embedder)
    return Statement(found.where(_is_one_of(table.c.number), table.c.vector.is_not(None)))


def _is_of_bank(table: Table) -> ColumnElement[bool]:
    """Rows that are found by their numbers: so said, PostgreSQL goes by no index of banks, of which it has several."""
    return table.c.bank_id.op("||")(literal_column("''")) == bindparam("bank")


def _is_one_of(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """A list of one length is compiled once; what SQLAlchemy does for one of any length takes ten times as long."""
    places: list[Any] = [bindparam(name) for name in _PLACES]
    return column.in_(places)


def fetch_by_numbers(
    connection: Connection, statement: Statement, numbers: Collection[int], **values: object
) -> list[Any]:
    """Return the rows of these numbers."""
    places = _bind_lists(list(numbers), _NO_NUMBER, values)
    return [row for some in places for row in statement.all(connection, some)]


def fetch_by_ids(connection: Connection, statement: Statement, ids: Collection[str], **values: object) -> list[Any]:
    """Return the rows of these ids."""
    places = _bind_lists(list(ids), _NO_ID, values)
    return [row for some in places for row in statement.all(connection, some)]


def _bind_lists(
    asked: Sequence[object], nothing: object, values: Mapping[str, object]
) -> Iterator[Mapping[str, object]]:
    """Return the values of a statement with a list, as often as it has to be run."""
    for start in range(0, len(asked), len(_PLACES)):
        some: dict[str, object] = dict.fromkeys(_PLACES, nothing)
        some.update(zip(_PLACES, asked[start : start + len(_PLACES)], strict=False))
        yield {**some, **values}


def fetch_vectors(
    connection: Connection, statement: Statement, numbers: Collection[int]
) -> Mapping[int, tuple[bytes, str]]:
    """Return vector and embedder by number, of those that have one; the statement is that of `embedded`."""
    return {row.number: (row.vector, row.embedder) for row in fetch_by_numbers(connection, statement, numbers)}


class SearchableStatements:
    """What is asked of episodes, or of notes."""

    def __init__(self, table: Table, layer: Layer) -> None:
        self.table = table
        self.layer = layer
        self.strangers = _select_lacking_vector_of(table)
        self.unembedded = _select_without_vector(table)
        self.outdated = _select_outdated_vector(table)
        self.embed = _update_vector(table)
        self.embedding = _count_vector(table)
        self.use = _update_used_at(table)
        self.kept = select_index_rows(table)
        self.count = _select_count(table)
        self.shown = _select_excerpts(table)
        self.numbered = _select_by_numbers(table)
        self.embedded = select_vectors(table)


class SqlSearchableRows(ABC, Generic[Key, Row]):
    """Episodes, or notes, in one transaction; see `SearchableRows`."""

    _statements: ClassVar[SearchableStatements]

    def __init__(self, runner: Runner) -> None:
        self._run = runner.run

    @abstractmethod
    def _build_records(self, connection: Connection, rows: Sequence[Any]) -> list[Row]:
        """Return what rows hold; done where they are read, since a page of them would keep the event loop for long."""

    async def find_bank_ids(self, ids: Collection[Key]) -> Mapping[Key, BankId]:
        """Return in which bank each of these is, of those that any bank has."""
        asked, table = list(ids), self._statements.table

        def work(connection: Connection) -> Mapping[Key, BankId]:
            found: dict[Key, BankId] = {}
            for start in range(0, len(asked), _ASKED_AT_ONCE):
                some = asked[start : start + _ASKED_AT_ONCE]
                rows = connection.execute(select(table.c.id, table.c.bank_id).where(table.c.id.in_(some))).all()
                found |= {row.id: BankId(row.bank_id) for row in rows}
            return found

        return await self._run(work)

    async def get_by_numbers(self, bank_id: BankId, numbers: Collection[int]) -> Mapping[int, Row]:
        """Return these, by number."""
        if not numbers:
            return {}
        statement = self._statements.numbered
        found = await self._run(
            lambda connection: self._build_records(
                connection, fetch_by_numbers(connection, statement, numbers, bank=bank_id)
            )
        )
        return {each.number: each for each in found}

    async def excerpts(
        self, bank_id: BankId, numbers: Collection[int], *, characters: int | None = None
    ) -> Mapping[int, Excerpt]:
        """Return what a context shows of these, by number."""
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

        # Whole ones are not read in the event loop: each may have a hundred thousand characters.
        return await self._run(work if characters is None or len(numbers) > len(_PLACES) else ShortRead(work))

    async def index_entries(self, bank_id: BankId, *, after: int, limit: int) -> Sequence[IndexEntry]:
        """Return those with a greater number in order, as an index keeps them."""
        statement, values = self._statements.kept, {"bank": bank_id, "after": after, "most": limit}
        return await self._run(lambda connection: [build_index_entry(row) for row in statement.all(connection, values)])

    async def vectors(self, numbers: Collection[int]) -> Mapping[int, tuple[bytes, str]]:
        """Return vector and embedder by number, of those that have one."""
        return await self._run(lambda connection: fetch_vectors(connection, self._statements.embedded, numbers))

    async def count(self, bank_id: BankId) -> int:
        """Return how many there are that are not retired."""
        return await self._run(lambda connection: self._statements.count.scalar(connection, {"bank": bank_id}))

    async def find_lacking_vector(self, embedder: str | None, *, after: int = 0, limit: int) -> Sequence[Row]:
        """Return those of all banks with a greater number and no vector by this embedder, or none, in order."""
        values = {"present": embedder, "after": after, "most": limit}
        statement = self._statements.unembedded if embedder is None else self._statements.strangers
        return await self._run(lambda connection: self._build_records(connection, statement.all(connection, values)))

    async def has_outdated_vector(self, bank_id: BankId, embedder: str, *, after: int) -> bool:
        """Return whether a row of the bank with a greater number has a vector by another embedder."""
        statement, values = self._statements.outdated, {"bank": bank_id, "present": embedder, "after": after}
        return await self._run(lambda connection: statement.first(connection, values)) is not None

    async def save_vectors(self, vectors: Mapping[int, bytes], embedder: str) -> None:
        """Write vectors by number, and count them on their banks."""
        rows = [(number, vector, embedder) for number, vector in vectors.items()]

        def work(connection: Connection) -> None:
            self._statements.embed.run_many(connection, rows)
            self._statements.embedding.run_many(connection, [(number,) for number in vectors])

        await self._run(work)

    async def mark_used(self, bank_id: BankId, numbers: Collection[int], at: datetime, *, before: datetime) -> None:
        """Note that these were handed to an agent, unless that is noted of them since `before`."""
        values = {"bank": bank_id, "now": at, "before": before}

        def work(connection: Connection) -> None:
            for some in _bind_lists(sorted(numbers), _NO_NUMBER, values):
                self._statements.use.execute(connection, some)

        if numbers:
            await self._run(work)
