"""Turns in progress at all servers of a database."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import BigInteger, Column, Connection, Index, String, Table, bindparam, delete, func, select, update

from circadia.records.conversation import OpenTurn
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import Instant, metadata
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

open_turns = Table(
    "open_turns",
    metadata,
    Column("owner", String, primary_key=True),
    Column("id", BigInteger, primary_key=True),
    Column("bank", String, nullable=False),
    Column("end_user", String, nullable=False),
    Column("at", Instant, nullable=False),
    Column("lease_until", Instant, nullable=False),
)
Index("open_turns_bank", open_turns.c.bank, open_turns.c.end_user)

_COLUMNS = [column.name for column in open_turns.c]
_ADD = Statement(Upsert(open_turns, keys=("owner", "id"), new=("bank", "end_user", "at", "lease_until")), _COLUMNS)
_REMOVE = delete(open_turns).where(
    open_turns.c.owner == bindparam("of"), open_turns.c.id.in_(bindparam("ids", expanding=True))
)
_NEWEST = Statement(
    select(func.max(open_turns.c.at).label("at")).where(
        open_turns.c.bank == bindparam("name"),
        open_turns.c.end_user == bindparam("user"),
        open_turns.c.owner != bindparam("besides"),
        open_turns.c.lease_until > bindparam("now"),
    )
)
_BEAT = Statement(
    update(open_turns).where(open_turns.c.owner == bindparam("of")).values(lease_until=bindparam("until"))
)
_FORGET = Statement(delete(open_turns).where(open_turns.c.lease_until < bindparam("before")))


class SqlOpenTurns:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run

    async def add(self, turns: Sequence[OpenTurn]) -> None:
        def work(connection: Connection) -> None:
            for turn in turns:
                _ADD.execute(connection, asdict(turn))

        await self._run(work)

    async def remove(self, owner: str, ids: Collection[int]) -> None:
        if ids:
            await self._run(lambda connection: connection.execute(_REMOVE, {"of": owner, "ids": list(ids)}))

    async def find_newest_start(self, bank: str, end_user: str, *, besides: str, now: datetime) -> datetime | None:
        values = {"name": bank, "user": end_user, "besides": besides, "now": now}
        row = await self._run(lambda connection: _NEWEST.first(connection, values))
        return None if row is None else row.at

    async def renew_leases(self, owner: str, until: datetime) -> None:
        await self._run(lambda connection: _BEAT.execute(connection, {"of": owner, "until": until}))

    async def delete_expired(self, before: datetime) -> None:
        await self._run(lambda connection: _FORGET.execute(connection, {"before": before}))
