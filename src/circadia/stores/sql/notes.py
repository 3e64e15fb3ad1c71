"""Notes and their evidence."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, insert, or_, select, update

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.index_entry import Layer
from circadia.records.note import Note, NoteState
from circadia.stores.locks import bank_key
from circadia.stores.sql.memory_tables import episodes, evidence, notes
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.searchable import (
    SearchableRows,
    SearchableStatements,
    build_demotion,
    fetch_by_ids,
    fetch_by_numbers,
    is_of_bank,
    is_one_of,
    run_by_numbers,
)
from circadia.stores.sql.statement import Statement

_FIELDS: Final = tuple(field.name for field in fields(Note) if field.name not in ("number", "evidence", "returned"))
_write_note = build_writer(_FIELDS)
_read_note = build_reader(
    Note, without=("evidence",), of_row={"returned": lambda row: row.demotion is not None and row.retired_at is None}
)
_ADD = Statement(insert(notes).returning(notes.c.number), _FIELDS)
_ADD_ALL = Statement(insert(notes).inline(), _FIELDS)
_ADD_EVIDENCE = Statement(insert(evidence), ("note_id", "episode_id"))
_OF_BANK = select(notes).where(notes.c.bank_id == bindparam("bank"))
_SELECT = Statement(_OF_BANK.where(notes.c.id == bindparam("key_id")))
_SELECT_LIVE = Statement(
    _OF_BANK.where(notes.c.number > bindparam("after"), notes.c.retired_at.is_(None))
    .order_by(notes.c.number)
    .limit(bindparam("most"))
)
_SELECT_NEWEST = Statement(
    _OF_BANK.where(notes.c.retired_at.is_(None)).order_by(notes.c.number.desc()).limit(bindparam("most"))
)
_SELECT_ALL = Statement(
    _OF_BANK.where(notes.c.number > bindparam("after")).order_by(notes.c.number).limit(bindparam("most"))
)
_IN_STATE: Final = {NoteState.LIVE: notes.c.retired_at.is_(None), NoteState.RETIRED: notes.c.retired_at.is_not(None)}
_SELECT_HELD = Statement(
    _OF_BANK.where(
        notes.c.retired_at.is_not(None), notes.c.valid_to > bindparam("then"), notes.c.at <= bindparam("then")
    )
    .order_by(notes.c.number.desc())
    .limit(bindparam("most"))
)
_RETIRE = build_demotion(notes, retired_at=bindparam("now"), valid_to=bindparam("ends"))
_SELECT_WEIGHTS = Statement(
    select(notes.c.number, notes.c.retired_at).where(
        notes.c.bank_id == bindparam("bank"), notes.c.demotion > bindparam("after")
    )
)
_MARK_USED = Statement(
    update(notes)
    .where(
        is_of_bank(notes),
        is_one_of(notes.c.number),
        or_(notes.c.used_at.is_(None), notes.c.used_at < bindparam("before")),
    )
    .values(used_at=bindparam("now"))
)
_SELECT_USE_TIMES = Statement(
    select(notes.c.number, notes.c.used_at).where(
        notes.c.bank_id == bindparam("bank"),
        notes.c.number >= bindparam("first"),
        notes.c.used_at.is_not(None),
        notes.c.retired_at.is_(None),
    )
)

_SELECT_IDS = Statement(select(notes.c.id, notes.c.number).where(is_of_bank(notes), is_one_of(notes.c.number)))
_SELECT_LINKS = Statement(select(evidence).where(is_one_of(evidence.c.note_id)))
_SELECT_EPISODES = Statement(select(episodes.c.id, episodes.c.number).where(is_one_of(episodes.c.id)))


class Notes(SearchableRows[NoteId, Note]):
    _statements = SearchableStatements(notes, Layer.NOTES, evidence.c.note_id)

    def _build_records(self, connection: Connection, rows: Sequence[Row[Any]]) -> list[Note]:
        links: dict[str, list[EpisodeId]] = {row.id: [] for row in rows}
        if links:
            statement = select(evidence).where(evidence.c.note_id.in_(links)).order_by(evidence.c.episode_id)
            for link in connection.execute(statement).all():
                links[link.note_id].append(EpisodeId(link.episode_id))
        return [_read_note(row, evidence=tuple(links[row.id])) for row in rows]

    async def add(self, note: Note) -> int:
        """Store a note with its evidence; return its number."""
        await self._hold(bank_key(note.bank_id))

        def work(connection: Connection) -> int:
            number: int = _ADD.scalar(connection, dict(zip(_FIELDS, _write_note(note), strict=True)))
            _ADD_EVIDENCE.run_many(connection, [(note.id, episode) for episode in note.evidence])
            return number

        return await self._run(work)

    async def add_all(self, new: Sequence[Note]) -> None:
        """Store notes with their evidence, in this order."""
        await self._hold(*(bank_key(note.bank_id) for note in new))
        rows, links = (
            [_write_note(note) for note in new],
            [(note.id, episode) for note in new for episode in note.evidence],
        )
        await self._run(
            lambda connection: (_ADD_ALL.run_many(connection, rows), _ADD_EVIDENCE.run_many(connection, links))
        )

    async def get(self, bank_id: BankId, note_id: NoteId) -> Note | None:
        await self._hold(bank_key(bank_id))

        def work(connection: Connection) -> Note | None:
            row = _SELECT.first(connection, {"bank": bank_id, "key_id": note_id})
            return None if row is None else self._build_records(connection, [row])[0]

        return await self._run(work)

    async def find_all(
        self, bank_id: BankId, *, after: int = 0, limit: int = 100, retired: bool = False
    ) -> Sequence[Note]:
        """Return notes with a number greater than `after` in order, without retired ones by default."""
        values = {"bank": bank_id, "after": after, "most": limit}
        statement = _SELECT_ALL if retired else _SELECT_LIVE
        return await self._run(lambda connection: self._build_records(connection, statement.all(connection, values)))

    async def find_newest(self, bank_id: BankId, limit: int) -> Sequence[Note]:
        """Return the newest `limit` notes that are not retired, in ascending order."""
        values = {"bank": bank_id, "most": limit}
        notes = await self._run(
            lambda connection: self._build_records(connection, _SELECT_NEWEST.all(connection, values))
        )
        return notes[::-1]

    async def find_held(self, bank_id: BankId, at: datetime, *, limit: int) -> Sequence[Note]:
        """Return the newest `limit` retired notes that held at this time, in ascending order."""
        values = {"bank": bank_id, "then": at, "most": limit}
        held = await self._run(lambda connection: self._build_records(connection, _SELECT_HELD.all(connection, values)))
        return held[::-1]

    async def find_page(
        self, bank_id: BankId, *, state: NoteState | None = None, after: int = 0, limit: int = 100
    ) -> Sequence[Note]:
        """Return notes in this state, or all, newest first.

        `after` is the number of the last one on the previous page.
        """
        statement = _OF_BANK.order_by(notes.c.number.desc()).limit(limit)
        if state is not None:
            statement = statement.where(_IN_STATE[state])
        if after:
            statement = statement.where(notes.c.number < after)
        values = {"bank": bank_id}
        return await self._run(
            lambda connection: self._build_records(connection, connection.execute(statement, values).all())
        )

    async def find_citing(self, episodes: Collection[EpisodeId]) -> Sequence[NoteId]:
        """Return notes, retired ones too, that cite any of these episodes."""
        if not episodes:
            return []
        statement = select(evidence.c.note_id).where(evidence.c.episode_id.in_(episodes)).distinct()
        ids = await self._run(lambda connection: connection.execute(statement).scalars().all())
        return [NoteId(note_id) for note_id in ids]

    async def find_sources(self, bank_id: BankId, numbers: Collection[int]) -> Mapping[int, frozenset[int]]:
        """Return the numbers of the episodes that notes rest on, by the numbers of the notes."""
        if not numbers:
            return {}

        def work(connection: Connection) -> Sequence[tuple[int, int]]:
            """Look each up by its key: one statement with joins makes PostgreSQL read a bank's notes."""
            rows = fetch_by_numbers(connection, _SELECT_IDS, numbers, bank=bank_id)
            note_numbers = {row.id: row.number for row in rows}
            links = fetch_by_ids(connection, _SELECT_LINKS, list(note_numbers))
            episode_rows = fetch_by_ids(connection, _SELECT_EPISODES, list({link.episode_id for link in links}))
            episode_numbers = {row.id: row.number for row in episode_rows}
            pairs = [(note_numbers[link.note_id], episode_numbers.get(link.episode_id)) for link in links]
            return [(note, episode) for note, episode in pairs if episode is not None]

        rows = await self._run(work)
        sources: dict[int, list[int]] = {}
        for note, episode in rows:
            sources.setdefault(note, []).append(episode)
        return {note: frozenset(of_note) for note, of_note in sources.items()}

    async def retire(self, note_id: NoteId, at: datetime | None, *, valid_to: datetime | None = None) -> None:
        """Retire a note from search, or restore it; either counts as a demotion.

        Without `valid_to` it is not known to have held at any time.
        """
        values = {"key_id": note_id, "now": at, "ends": valid_to}
        await self._demote(_RETIRE, values)

    async def mark_used(self, bank_id: BankId, numbers: Collection[int], at: datetime, *, before: datetime) -> None:
        """Record that an agent received these notes, unless a use since `before` is recorded."""
        if numbers:
            await self._run(
                lambda connection: run_by_numbers(connection, _MARK_USED, numbers, bank=bank_id, now=at, before=before)
            )

    async def find_use_times(self, bank_id: BankId, *, first: int) -> Mapping[int, datetime]:
        """Return the last use by number, for used notes from `first` on that are not retired."""
        rows = await self._all(_SELECT_USE_TIMES, {"bank": bank_id, "first": first})
        return {row.number: row.used_at for row in rows}

    async def find_changed_weights(self, bank_id: BankId, *, after: int) -> Mapping[int, float]:
        """Return weight 0 for notes retired since the bank's demotion count was `after`, 1 for restored ones."""
        rows = await self._all(_SELECT_WEIGHTS, {"bank": bank_id, "after": after})
        return {row.number: 1.0 if row.retired_at is None else 0.0 for row in rows}
