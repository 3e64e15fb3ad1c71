"""Episodes: appended, demoted, never rewritten (MEM-03)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

import orjson
from pydantic import TypeAdapter
from sqlalchemy import Connection, Row, Select, Text, bindparam, cast, delete, insert, literal_column, select, update

from circadia.ids import BankId, EpisodeId
from circadia.records.bank import Trust
from circadia.records.conversation import display_alias
from circadia.records.episode import Demotion, Episode, EpisodeKind
from circadia.records.index_entry import Layer
from circadia.stores.locks import bank_key
from circadia.stores.sql.due_checks import queue_check, run_demotion
from circadia.stores.sql.link import Runner
from circadia.stores.sql.memory_tables import banks, episodes, evidence
from circadia.stores.sql.name_list import list_texts
from circadia.stores.sql.searchable import SearchableStatements, SqlSearchableRows, fetch_by_ids, select_by_ids, weight
from circadia.stores.sql.short_reads import LongWork
from circadia.stores.sql.statement import Statement

_STALE: Final = TypeAdapter(tuple[Demotion, ...])
_FIELDS: Final = tuple(field.name for field in fields(Episode) if field.name not in ("number", "stale"))
_ROW = attrgetter(*_FIELDS)
_ADD = Statement(insert(episodes).inline(), (*_FIELDS, "stale"))
_OF_BANK = select(episodes).where(episodes.c.bank_id == bindparam("bank"))
_GET = Statement(_OF_BANK.where(episodes.c.id == bindparam("key_id")))
_BY_KEY = Statement(_OF_BANK.where(episodes.c.key == bindparam("idempotency")))
_SAID = Statement(
    _OF_BANK.where(episodes.c.digest == bindparam("said"), episodes.c.stored_at >= bindparam("since"))
    .order_by(episodes.c.stored_at.desc())
    .limit(1)
)
_REPEAT = Statement(
    update(episodes).where(episodes.c.id == bindparam("key_id")).values(repeats=episodes.c.repeats + 1)
)  # fmt: skip
_DEMOTE = (
    Statement(
        update(banks)
        .where(banks.c.id == select(episodes.c.bank_id).where(episodes.c.id == bindparam("key_id")).scalar_subquery())
        .values(demotions=banks.c.demotions + 1)
        .returning(banks.c.id)
    ),
    Statement(
        update(episodes)
        .where(episodes.c.id == bindparam("key_id"))
        .values(
            stale=bindparam("new_stale"),
            demotion=select(banks.c.demotions).where(banks.c.id == episodes.c.bank_id).scalar_subquery(),
        )
    ),
)
_WEIGHTS = Statement(
    select(episodes.c.number, episodes.c.stale).where(
        episodes.c.bank_id == bindparam("bank"), episodes.c.demotion > bindparam("after")
    )
)
_DEMOTED = Statement(
    select(episodes.c.id, episodes.c.stale).where(
        episodes.c.bank_id == bindparam("bank"), cast(episodes.c.stale, Text) != literal_column("'[]'")
    )
)
_IDENTIFIED = select_by_ids(episodes)


def _build_keyed(connection: Connection) -> Select[Any, Any]:
    """Build the query for the times of a bank's episodes with these `keys`, or null: a JSON list."""
    keys = list_texts(connection, "keys")
    # One by one: for a list, PostgreSQL's plan for all values reads a bank's episodes, which it takes to be few.
    is_it = (episodes.c.bank_id == bindparam("bank"), episodes.c.key == keys.c.value)
    return select(keys.c.value.label("key"), select(episodes.c.stored_at).where(*is_it).scalar_subquery().label("at"))


_KEYED = Statement(_build_keyed)


class SqlEpisodes(SqlSearchableRows[EpisodeId, Episode]):
    _statements = SearchableStatements(episodes, Layer.EPISODES)

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self._keep = runner.queue_write

    async def add(self, episode: Episode) -> None:
        await self._hold(bank_key(episode.bank_id))
        self._keep(_ADD, (*_ROW(episode), _STALE.dump_python(episode.stale, mode="json")))
        queue_check(self._runner, episode.bank_id)

    async def get(self, bank_id: BankId, episode_id: EpisodeId) -> Episode | None:
        await self._hold(bank_key(bank_id))
        return await self._first(_GET, {"bank": bank_id, "key_id": episode_id})

    async def get_by_key(self, bank_id: BankId, key: str) -> Episode | None:
        await self._hold(bank_key(bank_id))
        return await self._first(_BY_KEY, {"bank": bank_id, "idempotency": key})

    async def find_stored_times(self, bank_id: BankId, keys: Collection[str]) -> Mapping[str, datetime]:
        values = {"bank": bank_id, "keys": orjson.dumps(list(keys)).decode()}
        rows = await self._run(lambda connection: _KEYED.all(connection, values))
        return {row.key: row.at for row in rows if row.at is not None}

    async def find_repeated(self, bank_id: BankId, digest: str, since: datetime) -> Episode | None:
        await self._hold(bank_key(bank_id))
        return await self._first(_SAID, {"bank": bank_id, "said": digest, "since": since})

    async def count_repetition(self, episode_id: EpisodeId) -> None:
        await self._run(lambda connection: _REPEAT.execute(connection, {"key_id": episode_id}))

    async def find_all(
        self,
        bank_id: BankId,
        *,
        after: int = 0,
        conversation: str | None = None,
        newest_first: bool = False,
        limit: int = 100,
    ) -> Sequence[Episode]:
        number = episodes.c.number
        statement = _OF_BANK.order_by(number.desc() if newest_first else number).limit(limit)
        if after:
            statement = statement.where(number < after if newest_first else number > after)
        if conversation is not None:
            statement = statement.where(episodes.c.conversation == conversation)
        values = {"bank": bank_id}
        return await self._run(lambda connection: _episodes(connection.execute(statement, values).all()))

    async def find_matching_ids(
        self,
        bank_id: BankId,
        *,
        conversation: str | None = None,
        speaker: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> Sequence[EpisodeId]:
        statement = select(episodes.c.id).where(episodes.c.bank_id == bank_id)
        if conversation is not None:
            statement = statement.where(episodes.c.conversation == conversation)
        if speaker is not None:
            statement = statement.where(episodes.c.speaker.in_((speaker, display_alias(speaker))))
        if since is not None:
            statement = statement.where(episodes.c.at >= since)
        if until is not None:
            statement = statement.where(episodes.c.at < until)
        if limit is not None:
            statement = statement.order_by(episodes.c.at).limit(limit)
        ids = await self._run(LongWork(lambda connection: connection.execute(statement).scalars().all()))
        return [EpisodeId(episode_id) for episode_id in ids]

    async def get_by_ids(self, bank_id: BankId, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        if not ids:
            return {}
        records = await self._run(lambda connection: _episodes(fetch_by_ids(connection, _IDENTIFIED, ids)))
        return {episode.id: episode for episode in records if episode.bank_id == bank_id}

    async def demote(self, episode_id: EpisodeId, stale: Sequence[Demotion]) -> None:
        values = {"key_id": episode_id, "new_stale": _STALE.dump_python(tuple(stale), mode="json")}
        await run_demotion(self._runner, _DEMOTE, values)

    async def find_changed_weights(self, bank_id: BankId, *, after: int) -> Mapping[int, float]:
        values = {"bank": bank_id, "after": after}
        rows = await self._run(lambda connection: _WEIGHTS.all(connection, values))
        return {row.number: weight(row.stale) for row in rows}

    async def find_demotions(self, bank_id: BankId) -> Mapping[EpisodeId, Sequence[Demotion]]:
        rows = await self._run(LongWork(lambda connection: _DEMOTED.all(connection, {"bank": bank_id})))
        return {EpisodeId(row.id): _STALE.validate_python(row.stale) for row in rows}

    async def remove(self, ids: Collection[EpisodeId]) -> Sequence[int]:
        links = delete(evidence).where(evidence.c.episode_id.in_(ids))
        rows = delete(episodes).where(episodes.c.id.in_(ids)).returning(episodes.c.number)

        def work(connection: Connection) -> Sequence[int]:
            connection.execute(links)
            return connection.execute(rows).scalars().all()

        return await self._run(work) if ids else ()

    def _build_records(self, connection: Connection, rows: Iterable[Any]) -> list[Episode]:
        return _episodes(rows)

    async def _first(self, statement: Statement, values: Mapping[str, object]) -> Episode | None:
        row = await self._run(lambda connection: statement.first(connection, values))
        return None if row is None else _episode(row)


def _episodes(rows: Iterable[Any]) -> list[Episode]:
    """Build records from rows. It runs with the query, since a page of them would block the event loop."""
    return [_episode(row) for row in rows]


def _episode(row: Row[Any]) -> Episode:
    return Episode(
        id=EpisodeId(row.id),
        number=row.number,
        bank_id=BankId(row.bank_id),
        at=row.at,
        stored_at=row.stored_at,
        speaker=row.speaker,
        kind=EpisodeKind(row.kind),
        conversation=row.conversation,
        text=row.text,
        trust=Trust(row.trust),
        importance=row.importance,
        metadata=row.metadata,
        incomplete=row.incomplete,
        key=row.key,
        digest=row.digest,
        repeats=row.repeats,
        stale=_STALE.validate_python(row.stale),
        terms=row.terms,
        vector=row.vector,
        embedder=row.embedder,
    )
