"""Episodes: appended, demoted, never rewritten (MEM-03); those that agents have forgotten are kept apart (MEM-39)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Final

import orjson
from pydantic import TypeAdapter
from sqlalchemy import (
    Connection,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from circadia.ids import BankId, EpisodeId
from circadia.records.conversation import display_alias
from circadia.records.episode import Demotion, Episode, ForgottenEpisode, count_passages, find_passage, weight_at
from circadia.records.index_entry import Excerpt, Layer
from circadia.stores.locks import bank_key
from circadia.stores.sql.due_checks import queue_check
from circadia.stores.sql.memory_tables import episodes, evidence, forgotten_episodes
from circadia.stores.sql.name_list import list_texts
from circadia.stores.sql.noun import Noun, where_given
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant
from circadia.stores.sql.searchable import (
    SearchableRows,
    SearchableStatements,
    build_demotion,
    fetch_by_ids,
    is_unsplit,
    select_by_ids,
    weight,
)
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_STALE: Final = TypeAdapter(tuple[Demotion, ...])
_FIELDS: Final = tuple(field.name for field in fields(Episode) if field.name != "number")
_read_episode = build_reader(Episode, stale=_STALE.validate_python)
_write_episode = build_writer(_FIELDS, stale=lambda episode: _STALE.dump_python(episode.stale, mode="json"))
_ADD = Statement(insert(episodes).inline(), _FIELDS)
_OF_BANK = select(episodes).where(episodes.c.bank_id == bindparam("bank"))
_SELECT = Statement(_OF_BANK.where(episodes.c.id == bindparam("key_id")), read=_read_episode)
_SELECT_BY_KEY = Statement(_OF_BANK.where(episodes.c.key == bindparam("idempotency")), read=_read_episode)
_SELECT_BY_SPEAKER = Statement(
    _OF_BANK.where(episodes.c.digest == bindparam("said"), episodes.c.stored_at >= bindparam("since"))
    .order_by(episodes.c.stored_at.desc())
    .limit(1),
    read=_read_episode,
)
_COUNT_REPETITION = Statement(
    update(episodes).where(episodes.c.id == bindparam("key_id")).values(repeats=episodes.c.repeats + 1)
)  # fmt: skip
_SELECT_UNSPLIT = Statement(
    select(episodes)
    .where(*is_unsplit(episodes), episodes.c.number > bindparam("after"))
    .order_by(episodes.c.number)
    .limit(bindparam("most")),
    read=_read_episode,
)
_SAVE_PASSAGES = Statement(
    update(episodes)
    .where(episodes.c.number == bindparam("at_number"))
    .values(terms=bindparam("new_terms"), passages=bindparam("new_passages")),
    ("at_number", "new_terms", "new_passages"),
)
_DEMOTE = build_demotion(episodes, stale=bindparam("new_stale"))
_SELECT_WEIGHTS = Statement(
    select(episodes.c.number, episodes.c.stale).where(
        episodes.c.bank_id == bindparam("bank"), episodes.c.demotion > bindparam("after")
    )
)
_DEMOTED = select(episodes.c.id, episodes.c.number, episodes.c.stale).where(
    episodes.c.bank_id == bindparam("bank"), cast(episodes.c.stale, Text) != literal_column("'[]'")
)
_SELECT_EXPIRED = Statement(
    select(episodes.c.bank_id, episodes.c.id)
    .where(episodes.c.expires_at <= bindparam("now", type_=Instant))
    .order_by(episodes.c.expires_at)
    .limit(bindparam("most"))
)
_SELECT_METADATA = Statement(
    select(episodes.c.number, episodes.c.metadata)
    .where(
        episodes.c.bank_id == bindparam("bank"),
        episodes.c.number > bindparam("after"),
        episodes.c.number <= bindparam("upto"),
    )
    .order_by(episodes.c.number)
    .limit(bindparam("most"))
)
_SELECT_DEMOTED = Statement(_DEMOTED)
_SELECT_DEMOTED_BY = Statement(_DEMOTED.where(cast(episodes.c.stale, Text).like(bindparam("pattern"))))
_FEW_IDS: Final = 8
"""Ids that are looked for one by one; for more, all demotions are read."""
_SELECT_BY_IDS = Statement(select_by_ids(episodes), read=_read_episode)


def _build_keyed(connection: Connection) -> Select[Any, Any]:
    """Build the query for the times of a bank's episodes with these `keys`, or null: a JSON list."""
    keys = list_texts(connection, "keys")
    # One by one: for a list, PostgreSQL's plan for all values reads a bank's episodes, which it takes to be few.
    is_it = (episodes.c.bank_id == bindparam("bank"), episodes.c.key == keys.c.value)
    return select(keys.c.value.label("key"), select(episodes.c.stored_at).where(*is_it).scalar_subquery().label("at"))


_SELECT_TIMES_BY_KEY = Statement(_build_keyed)


class Episodes(SearchableRows[EpisodeId, Episode]):
    """Episodes: appended and demoted, never rewritten."""

    _statements = SearchableStatements(episodes, Layer.EPISODES, evidence.c.episode_id)

    async def add(self, episode: Episode) -> None:
        """Store an episode. The block fails with Conflict if the bank has one of its key."""
        await self._hold(bank_key(episode.bank_id))
        self._queue_write(_ADD, _write_episode(episode))
        queue_check(self._runner, episode.bank_id)

    async def get(self, bank_id: BankId, episode_id: EpisodeId) -> Episode | None:
        await self._hold(bank_key(bank_id))
        return await self._first(_SELECT, {"bank": bank_id, "key_id": episode_id})

    async def get_by_key(self, bank_id: BankId, key: str) -> Episode | None:
        await self._hold(bank_key(bank_id))
        return await self._first(_SELECT_BY_KEY, {"bank": bank_id, "idempotency": key})

    async def find_stored_times(self, bank_id: BankId, keys: Collection[str]) -> Mapping[str, datetime]:
        """Return the storage times of the bank's episodes with these idempotency keys, by key."""
        rows = await self._all(_SELECT_TIMES_BY_KEY, {"bank": bank_id, "keys": orjson.dumps(list(keys)).decode()})
        return {row.key: row.at for row in rows if row.at is not None}

    async def find_repeated(self, bank_id: BankId, digest: str, since: datetime) -> Episode | None:
        """Return the newest episode with this digest of speaker and text that was stored since then."""
        await self._hold(bank_key(bank_id))
        return await self._first(_SELECT_BY_SPEAKER, {"bank": bank_id, "said": digest, "since": since})

    async def count_repetition(self, episode_id: EpisodeId) -> None:
        await self._execute(_COUNT_REPETITION, {"key_id": episode_id})

    async def find_all(
        self,
        bank_id: BankId,
        *,
        after: int = 0,
        conversation: str | None = None,
        newest_first: bool = False,
        now: datetime | None = None,
        limit: int = 100,
    ) -> Sequence[Episode]:
        """Return episodes after a number in order; with `newest_first` those before it, descending, and 0 means all.

        With `now`, those whose time has passed are left out.
        """
        number = episodes.c.number
        statement = _OF_BANK.order_by(number.desc() if newest_first else number).limit(limit)
        if after:
            statement = statement.where(number < after if newest_first else number > after)
        if now is not None:
            statement = statement.where(or_(episodes.c.expires_at.is_(None), episodes.c.expires_at > now))
        statement = where_given(statement, (episodes.c.conversation, conversation))
        return await self._select(statement, _read_episode, {"bank": bank_id})

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
        """Return the ids of episodes that match all given conditions, forgotten ones last; `until` is exclusive."""

        def select_ids(table: Table) -> Select[Any]:
            statement = select(table.c.id).where(table.c.bank_id == bank_id)
            statement = where_given(
                statement, (table.c.conversation, conversation), time=table.c.at, since=since, until=until
            )
            if speaker is not None:
                statement = statement.where(table.c.speaker.in_((speaker, display_alias(speaker))))
            return statement if limit is None else statement.order_by(table.c.at).limit(limit)

        statements = [select_ids(table) for table in (episodes, forgotten_episodes)]
        ids = await self._run(
            lambda connection: [key for each in statements for key in connection.execute(each).scalars()], short=False
        )
        return [EpisodeId(episode_id) for episode_id in ids[:limit]]

    async def find_expired(self, now: datetime, *, limit: int) -> Mapping[BankId, Sequence[EpisodeId]]:
        """Return the ids of up to `limit` episodes of all banks whose time has passed, by bank."""
        expired: dict[BankId, list[EpisodeId]] = {}
        for row in await self._all(_SELECT_EXPIRED, {"now": now, "most": limit}):
            expired.setdefault(BankId(row.bank_id), []).append(EpisodeId(row.id))
        return expired

    async def find_metadata(
        self, bank_id: BankId, *, after: int, upto: int, limit: int
    ) -> Sequence[tuple[int, Mapping[str, Any]]]:
        """Return number and metadata of episodes after a number, up to another, in order."""
        values = {"bank": bank_id, "after": after, "upto": upto, "most": limit}
        rows = await self._all(_SELECT_METADATA, values, short=False)
        return [(row.number, row.metadata) for row in rows]

    async def get_by_ids(self, bank_id: BankId, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        """Return the bank's episodes of these ids, by id."""
        if not ids:
            return {}
        records = await self._run(lambda connection: fetch_by_ids(connection, _SELECT_BY_IDS, ids))
        return {episode.id: episode for episode in records if episode.bank_id == bank_id}

    async def passage_excerpts(
        self, bank_id: BankId, places: Collection[tuple[int, int]]
    ) -> Mapping[tuple[int, int], Excerpt]:
        """Return the excerpts of passages, from 1, by number and passage."""
        rows = await self.get_by_numbers(bank_id, {number for number, _ in places})
        return {
            place: Excerpt(
                Layer.EPISODES, row.number, row.at, row.text[found.start : found.end], found.trust.value, row.speaker,
                row.kind.value, place[1], count_passages(row), found.start,
            )
            for place in places
            if (row := rows.get(place[0])) is not None and (found := find_passage(row, place[1])) is not None
        }  # fmt: skip

    async def find_unsplit(self, *, after: int, limit: int) -> Sequence[Episode]:
        """Return episodes of all banks after a number with a long text without passages, in order."""
        return await self._all(_SELECT_UNSPLIT, {"after": after, "most": limit})

    async def save_passages(self, split: Mapping[int, tuple[bytes, bytes | None]]) -> None:
        """Write the terms and passages of long texts, by number."""
        rows = [(number, *indexed) for number, indexed in split.items()]
        if rows:
            await self._run(lambda connection: _SAVE_PASSAGES.run_many(connection, rows))

    async def demote(self, episode_id: EpisodeId, stale: Sequence[Demotion]) -> None:
        """Write an episode's demotions, and count the change in its bank."""
        values = {"key_id": episode_id, "new_stale": _STALE.dump_python(tuple(stale), mode="json")}
        await self._demote(_DEMOTE, values)

    async def find_changed_weights(self, bank_id: BankId, *, after: int) -> Mapping[int, float]:
        """Return current weights, by number, of episodes demoted or restored since the bank's count was `after`."""
        rows = await self._all(_SELECT_WEIGHTS, {"bank": bank_id, "after": after})
        return {row.number: weight(row.stale) for row in rows}

    async def find_demotions(
        self, bank_id: BankId, evidence: Collection[str]
    ) -> Mapping[EpisodeId, Sequence[Demotion]]:
        """Return all demotions by id, of episodes that have one with this evidence; of others, too, if it is much."""
        values: dict[str, object] = {"bank": bank_id}

        def work(connection: Connection) -> Sequence[Any]:
            if len(evidence) > _FEW_IDS:
                return _SELECT_DEMOTED.all(connection, values)
            patterns = [{**values, "pattern": f"%{key}%"} for key in evidence]
            return [row for pattern in patterns for row in _SELECT_DEMOTED_BY.all(connection, pattern)]

        rows = await self._run(work, short=False)
        return {EpisodeId(row.id): _STALE.validate_python(row.stale) for row in rows}

    async def find_weights(self, bank_id: BankId, at: datetime) -> Mapping[int, float]:
        """Return the weights at a time, by number, of the episodes that are demoted now."""
        rows = await self._all(_SELECT_DEMOTED, {"bank": bank_id}, short=False)
        return {row.number: weight_at(_STALE.validate_python(row.stale), at) for row in rows}

    def _build_records(self, connection: Connection, rows: Iterable[Any]) -> list[Episode]:
        return [_read_episode(row) for row in rows]


_EPISODE: Final = TypeAdapter(Episode)
_COLUMNS: Final = tuple(column.name for column in forgotten_episodes.columns)
_write_forgotten = build_writer(
    _COLUMNS,
    id=lambda row: row.episode.id,
    bank_id=lambda row: row.episode.bank_id,
    at=lambda row: row.episode.at,
    speaker=lambda row: row.episode.speaker,
    conversation=lambda row: row.episode.conversation,
    episode=lambda row: _EPISODE.dump_python(row.episode, mode="json"),
)
_read_forgotten = build_reader(ForgottenEpisode, episode=_EPISODE.validate_python)
_SAVE_FORGOTTEN = Statement(Upsert(forgotten_episodes, keys=("id",), new=("episode",)), _COLUMNS)
_FORGOTTEN_OF_BANK = select(forgotten_episodes).where(forgotten_episodes.c.bank_id == bindparam("bank"))
_SELECT_FORGOTTEN = Statement(
    _FORGOTTEN_OF_BANK.where(forgotten_episodes.c.id == bindparam("key_id")), read=_read_forgotten
)
_SELECT_ALL_FORGOTTEN = Statement(
    _FORGOTTEN_OF_BANK.order_by(forgotten_episodes.c.forgotten_at.desc()), read=_read_forgotten
)


class ForgottenEpisodes(Noun):
    """Episodes that agents have forgotten: no search, context, export or pass reads them."""

    async def save(self, forgotten: ForgottenEpisode) -> None:
        """Write one, in the place of a row that is there."""
        await self._hold(bank_key(forgotten.episode.bank_id))
        bare = replace(forgotten.episode, number=0, terms=b"", vector=None, embedder=None, passages=None)
        await self._write(_SAVE_FORGOTTEN, _write_forgotten(replace(forgotten, episode=bare)))

    async def get(self, bank_id: BankId, episode_id: EpisodeId) -> ForgottenEpisode | None:
        await self._hold(bank_key(bank_id))
        return await self._first(_SELECT_FORGOTTEN, {"bank": bank_id, "key_id": episode_id})

    async def find_all(self, bank_id: BankId) -> Sequence[ForgottenEpisode]:
        """Return the bank's, the newest first; a bank has few, since agents may forget a few a day."""
        return await self._all(_SELECT_ALL_FORGOTTEN, {"bank": bank_id}, short=False)

    async def find_ids(self, bank_id: BankId, ids: Collection[str]) -> Sequence[EpisodeId]:
        """Return those of the ids that are the bank's."""
        columns = forgotten_episodes.c
        statement = select(columns.id).where(columns.bank_id == bank_id, columns.id.in_(ids))
        return await self._select(statement, lambda row: EpisodeId(row.id)) if ids else ()

    async def remove(self, ids: Collection[EpisodeId]) -> None:
        statement = delete(forgotten_episodes).where(forgotten_episodes.c.id.in_(ids))
        await self._run(lambda connection: connection.execute(statement))
