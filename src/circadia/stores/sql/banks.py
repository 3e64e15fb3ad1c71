"""Memory banks, and the rows that an index of a bank lacks: read in one trip, or in none if nothing is new."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Final

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    Label,
    Row,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    not_,
    or_,
    select,
    text,
    tuple_,
    update,
)

from circadia.errors import Conflict
from circadia.ids import BankId
from circadia.records.bank import Bank, BankPolicy
from circadia.records.index_entry import IndexDelta, Layer
from circadia.stores.locks import bank_key
from circadia.stores.sql.answer_tables import answer_days, answer_frames, answer_uses, answer_verdicts, answers
from circadia.stores.sql.due_checks import queue_check
from circadia.stores.sql.link import Runner
from circadia.stores.sql.memory_tables import (
    KEEPS_DAYS,
    banks,
    blocks,
    episodes,
    evidence,
    forgotten_episodes,
    notes,
    removals,
)
from circadia.stores.sql.noun import NamesNear, Noun, where_given
from circadia.stores.sql.promotions import promotions
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import number_of
from circadia.stores.sql.searchable import (
    build_index_entry,
    fetch_vectors,
    select_greatest_number,
    select_index_rows,
    select_vectors,
)
from circadia.stores.sql.sleep_tables import benefits, next_checks, pass_changes, passes, sleep_calls, sleep_states
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

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


_COLUMNS: Final = [column.name for column in banks.c if column.name in {field.name for field in fields(Bank)}]
_CACHED_POLICIES: Final = 4096
"""Number of cached policies: validating one costs more than reading the row."""


@lru_cache(maxsize=_CACHED_POLICIES)
def _load_policy(stored: bytes) -> BankPolicy:
    """Return the policy without keys that only a newer version knows."""
    return BankPolicy.model_validate_json(stored)


def _dump_policy(bank: Bank) -> object:
    return bank.policy.model_dump(mode="json")


_read_bank = build_reader(Bank, policy=lambda stored: _load_policy(orjson.dumps(stored)))
_write_bank = build_writer(_COLUMNS, policy=_dump_policy)
_SETTINGS: Final = ("name", "description", "policy", "automatic")
_write_settings = build_writer((*_SETTINGS, "id"), policy=_dump_policy)
_ADD = Statement(Upsert(banks), _COLUMNS)
_IS = banks.c.id == bindparam("key")
_IS_NAMED = banks.c.name == bindparam("key")
_IS_OF_USER = (banks.c.template == bindparam("of_template"), banks.c.end_user == bindparam("person"))
_GET = Statement(select(banks).where(_IS))
_BY_NAME = Statement(select(banks).where(_IS_NAMED))
_OF_USER = Statement(select(banks).where(*_IS_OF_USER))
# A reader usually searches the bank next, and needs to know what is new.
_CACHED_LISTS: Final = 64
"""Numbers of names and templates that agents bind together."""
_WITH_HEADS = {
    _GET: Statement(select(banks, *HEADS).where(_IS)),
    _BY_NAME: Statement(select(banks, *HEADS).where(_IS_NAMED)),
    _OF_USER: Statement(select(banks, *HEADS).where(*_IS_OF_USER)),
}


@lru_cache(maxsize=_CACHED_LISTS)
def _select_layers(names: int, templates: int) -> Statement[Any]:
    """Select the banks of so many names and, of so many templates, those of one end user, with their heads."""
    is_named = [banks.c.name == bindparam(f"name{number}") for number in range(names)]
    is_of_user = [
        and_(banks.c.template == bindparam(f"template{number}"), banks.c.end_user == bindparam("person"))
        for number in range(templates)
    ]
    return Statement(select(banks, *HEADS).where(or_(*is_named, *is_of_user)))


_SAVE = Statement(
    update(banks).where(banks.c.id == bindparam("key")).values({name: bindparam(f"new_{name}") for name in _SETTINGS}),
    [*(f"new_{name}" for name in _SETTINGS), "key"],
)
_BUMP_GENERATION = Statement(
    update(banks)
    .where(banks.c.id == bindparam("key"))
    .values(generation=banks.c.generation + 1)
    .returning(banks.c.generation)
)
_ADD_REMOVALS = Statement(insert(removals), ("bank_id", "generation", "numbers"))
_DELETE_OLD_REMOVALS = Statement(
    delete(removals).where(removals.c.bank_id == bindparam("bank"), removals.c.generation <= bindparam("upto"))
)
_SELECT_REMOVALS = Statement(
    select(removals.c.numbers).where(
        removals.c.bank_id == bindparam("bank"),
        removals.c.generation > bindparam("after"),
        removals.c.generation <= bindparam("upto"),
    )
)
_COUNT_PUBLICATION = Statement(
    update(banks).where(banks.c.id == bindparam("key")).values(published=banks.c.published + 1)
)  # fmt: skip
_IS_TODAY = func.coalesce(banks.c.corrected_on, 0) == bindparam("today")
_COUNT_CORRECTION = Statement(
    update(banks)
    .where(banks.c.id == bindparam("key"), or_(not_(_IS_TODAY), banks.c.corrections < bindparam("most")))
    .values(
        corrections=case((_IS_TODAY, banks.c.corrections + literal_column("1")), else_=literal_column("1", Integer)),
        corrected_on=bindparam("today"),
    )
)
_TOUCH = Statement(
    update(banks).where(banks.c.id == bindparam("key")).values(written_at=bindparam("now")), ("key", "now")
)  # fmt: skip
_MARK_EDITED = Statement(update(banks).where(banks.c.id == bindparam("key")).values(edited_at=bindparam("now")))
_SAVE_SKIPPED = Statement(update(banks).where(banks.c.id == bindparam("key")).values(skipped=bindparam("new_skipped")))
REMOVED_ROWS: Final = 2_000
"""Rows of a table that are deleted in one block when a bank is removed: some 20 ms."""
_OF_ANSWERS: Final = (answers, answer_uses, answer_verdicts, answer_frames, answer_days)
_OF_SLEEP: Final = (passes, sleep_states, sleep_calls, benefits)
_OF_NOTES: Final = ((evidence, evidence.c.note_id, notes), (pass_changes, pass_changes.c.pass_id, passes))


def _delete_page(table: Table) -> Statement[Any]:
    """Delete up to `most` rows of a bank."""
    keys = table.primary_key.columns.values()
    page = select(*keys).where(table.c.bank_id == bindparam("bank")).limit(bindparam("most"))
    return Statement(delete(table).where(tuple_(*keys).in_(page)))


def _delete_children_page(child: Table, parent_id: Column[Any], parent: Table) -> Statement[Any]:
    """Delete up to `most` rows that belong to the notes or passes of a bank."""
    keys = child.primary_key.columns.values()
    of_bank = select(*keys).join(parent, parent.c.id == parent_id).where(parent.c.bank_id == bindparam("bank"))
    return Statement(delete(child).where(tuple_(*keys).in_(of_bank.limit(bindparam("most")))))


_REMOVE_CHILDREN: Final = tuple(_delete_children_page(*each) for each in _OF_NOTES)
_REMOVE: Final = tuple(
    _delete_page(table)
    for table in (
        notes,
        episodes,
        forgotten_episodes,
        promotions,
        removals,
        blocks,
        next_checks,
        *_OF_SLEEP,
        *_OF_ANSWERS,
    )
)
_REMOVE_BANK: Final = Statement(delete(banks).where(banks.c.id == bindparam("bank")))
_SHORT_PAGE: Final = 100
"""Maximum number of rows in a short read."""
MAX_REMOVAL_GENERATIONS: Final = 64
"""Generations of a bank whose removed rows are recorded, for indexes that have not seen them."""
MAX_REMOVED_NUMBERS: Final = 1_000
"""Maximum number of recorded rows per generation: for more, reloading an index is faster."""
_NAMES = NamesNear(select(banks), banks.c.name)


class Banks(Noun):
    def __init__(self, runner: Runner, *, steady: bool = False) -> None:
        """With `steady` nothing changes during the transaction, since it only reads."""
        super().__init__(runner)
        self._steady = steady
        self._heads: dict[BankId, Any] = {}
        """Bank rows with `HEADS` that were read, if `steady`."""

    async def add(self, bank: Bank) -> None:
        """Store a new bank. Raises Conflict if its name is taken."""
        if not await self._write(_ADD, _write_bank(bank)):
            raise Conflict(f"there is a bank {bank.name!r} already")
        queue_check(self._runner, bank.id)

    async def get(self, bank_id: BankId) -> Bank | None:
        await self._hold(bank_key(bank_id))
        return await self._read(_GET, {"key": bank_id})

    async def get_by_name(self, name: str) -> Bank | None:
        return await self._read(_BY_NAME, {"key": name})

    async def find_by_names(self, names: Collection[str]) -> Sequence[Bank]:
        statement = select(banks).where(banks.c.name.in_(names)).order_by(banks.c.name)
        return await self._select(statement, _read_bank) if names else ()

    async def find_names(self, ids: Collection[BankId]) -> Mapping[BankId, str]:
        statement = select(banks.c.id, banks.c.name).where(banks.c.id.in_(ids))
        rows = await self._run(lambda connection: connection.execute(statement).all())
        return {BankId(row.id): row.name for row in rows}

    async def get_by_end_user(self, template: str, end_user: str) -> Bank | None:
        """Return the bank that this person has from the template."""
        return await self._read(_OF_USER, {"of_template": template, "person": end_user})

    async def find_layers(self, names: Sequence[str], templates: Sequence[str], end_user: str) -> Sequence[Bank]:
        """Return the banks of these names, and this person's from the templates, by one statement of a read block."""
        values: dict[str, object] = {f"name{at}": name for at, name in enumerate(names)}
        values |= {f"template{at}": name for at, name in enumerate(templates)} | {"person": end_user}
        statement = _select_layers(len(names), len(templates))
        rows = await self._run(lambda connection: statement.all(connection, values), short=True, single="read")
        if self._steady:
            self._heads |= {row.id: row for row in rows}
        return [_read_bank(row) for row in rows]

    async def names_near(self, name: str) -> Sequence[str]:
        """Return a few names that are alphabetically near this one."""
        return await self._run(lambda connection: _NAMES.find(connection, name, {}))

    async def find_all(
        self,
        *,
        template: str | None = None,
        named: Collection[str] | None = None,
        expiring: bool = False,
        least: str = "",
        after: str = "",
        limit: int | None = None,
    ) -> Sequence[Bank]:
        """Return banks by name that match all given conditions.

        `named` holds names and templates, one of which must match. With `expiring`, only those whose policy has
        `keep_days`. `least` and `after` are lower bounds of the name, the second one exclusive.
        """
        statement = select(banks).where(banks.c.name > after).order_by(banks.c.name).limit(limit)
        statement = statement.where(banks.c.name >= least) if least else statement
        statement = where_given(statement, (banks.c.template, template))

        def work(connection: Connection) -> Sequence[Row[Any]]:
            every = statement.where(text(KEEPS_DAYS[connection.dialect.name])) if expiring else statement
            if named is None:
                return connection.execute(every).all()
            # Each by an index of its own: for one statement, the database would sort all banks of the templates.
            parts = [every.where(banks.c.name.in_(named)), *(every.where(banks.c.template == name) for name in named)]
            rows = {row.id: row for part in parts for row in connection.execute(part)}
            return sorted(rows.values(), key=lambda row: row.name)[:limit]

        return [_read_bank(row) for row in await self._run(work)]

    async def fetch_index_delta(
        self,
        bank_id: BankId,
        *,
        after: Mapping[Layer, int],
        waiting: Mapping[Layer, Collection[int]],
        limit: int,
        seen: int | None = None,
    ) -> IndexDelta:
        """Return the rows after these numbers, up to `limit` per layer, and vectors of rows that waited for one.

        Vectors are not read if none was written since `IndexDelta.embedded` was `seen`. It runs no query if a bank row
        read earlier shows nothing new.
        """
        known = self._heads.get(bank_id)
        nothing = None if known is None else build_empty_delta(known, after, waiting, seen)
        if nothing is not None:
            return nothing

        def work(connection: Connection) -> IndexDelta:
            heads = fetch_heads(connection, bank_id) if known is None else known
            if heads is None:
                return IndexDelta(entries={}, vectors={}, writes=0, embedded=0, heads={})
            wait = dict[Layer, Collection[int]]() if heads.vectors == seen else waiting
            return fetch_delta(connection, bank_id, heads, after, wait, limit)

        waiting_count = 0 if known is not None and known.vectors == seen else sum(map(len, waiting.values()))
        return await self._run(work, short=limit + waiting_count <= _SHORT_PAGE or None)

    async def save(self, bank: Bank) -> None:
        """Write name, description and policy. Raises Conflict if the name is taken."""
        await self._hold(bank_key(bank.id))
        await self._write(_SAVE, _write_settings(bank))
        queue_check(self._runner, bank.id)

    async def bump_generation(self, bank_id: BankId, removed: Mapping[Layer, Sequence[int]] | None = None) -> None:
        """Increment the generation: readers remove these rows from their index, or reload it if there are none.

        The removed rows are recorded unless there are many.
        """
        await self._hold(bank_key(bank_id))

        def work(connection: Connection) -> None:
            generation = _BUMP_GENERATION.scalar(connection, {"key": bank_id})
            _DELETE_OLD_REMOVALS.execute(connection, {"bank": bank_id, "upto": generation - MAX_REMOVAL_GENERATIONS})
            if removed is not None and sum(map(len, removed.values())) <= MAX_REMOVED_NUMBERS:
                _ADD_REMOVALS.run_many(
                    connection,
                    [(bank_id, generation, {layer.value: list(numbers) for layer, numbers in removed.items()})],
                )

        await self._run(work)

    async def find_removed(self, bank_id: BankId, *, after: int, upto: int) -> Mapping[Layer, Collection[int]] | None:
        """Return the rows removed by these generations; none if some are unknown, since only the last are stored."""
        logged = await self._all(_SELECT_REMOVALS, {"bank": bank_id, "after": after, "upto": upto}, short=True)
        if len(logged) < upto - after:
            return None
        return {layer: [number for row in logged for number in row.numbers.get(layer, ())] for layer in Layer}

    async def count_publication(self, bank_id: BankId) -> None:
        await self._hold(bank_key(bank_id))
        await self._execute(_COUNT_PUBLICATION, {"key": bank_id})

    async def mark_edited(self, bank_id: BankId, at: datetime) -> None:
        """Record that someone other than the sleep tier wrote a block."""
        await self._hold(bank_key(bank_id))
        await self._execute(_MARK_EDITED, {"key": bank_id, "now": at})
        queue_check(self._runner, bank_id)

    async def touch(self, bank_id: BankId, at: datetime) -> None:
        """Record that something was stored."""
        await self._hold(bank_key(bank_id))
        self._queue_write(_TOUCH, (bank_id, at), key=bank_id)

    async def count_correction(self, bank_id: BankId, today: date, *, limit: int) -> bool:
        """Count a correction by an agent; return False, without a change, if this day has had `limit` of them."""
        await self._hold(bank_key(bank_id))
        return bool(await self._execute(_COUNT_CORRECTION, {"key": bank_id, "today": number_of(today), "most": limit}))

    async def count_skipped_turn(self, bank_id: BankId, why: str) -> None:
        """Count a turn that the write policy skipped."""
        await self._hold(bank_key(bank_id))
        await self._run(lambda connection: _skip(connection, bank_id, why))

    async def remove(self, bank_id: BankId) -> bool:
        """Delete a page of the bank's contents, and the bank with the last one; return whether it is gone."""
        await self._hold(bank_key(bank_id))
        return await self._run(lambda connection: _remove(connection, bank_id), short=False)

    async def _read(self, statement: Statement[Any], values: Mapping[str, object]) -> Bank | None:
        query = _WITH_HEADS[statement] if self._steady else statement
        row = await self._fetch_held(
            lambda connection: query.first(connection, values),
            lambda found: bank_key(found.id),
            short=True,
            single="read",
        )
        if row is None:
            return None
        if self._steady:
            self._heads[row.id] = row
        return _read_bank(row)


def _remove(connection: Connection, bank_id: BankId) -> bool:
    page = {"bank": bank_id, "most": REMOVED_ROWS}
    for statements in (_REMOVE_CHILDREN, _REMOVE):  # what others refer to goes last
        if max([statement.execute(connection, page) for statement in statements]) == REMOVED_ROWS:
            return False
    _REMOVE_BANK.execute(connection, page)
    return True


def _skip(connection: Connection, bank_id: BankId, why: str) -> None:
    row = _GET.first(connection, {"key": bank_id})
    if row is not None:
        skipped: Mapping[str, int] = row.skipped
        _SAVE_SKIPPED.execute(connection, {"key": bank_id, "new_skipped": {**skipped, why: skipped.get(why, 0) + 1}})
