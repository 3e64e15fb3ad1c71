"""Member rows, and the row of the lead."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Final

from sqlalchemy import Column, Connection, Integer, String, Table, bindparam, delete, select

from circadia.ids import MemberId
from circadia.records.member import Member
from circadia.stores.locks import MEMBERS_KEY
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant, metadata
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

members = Table(
    "members",
    metadata,
    Column("id", String, primary_key=True),
    Column("role", String, nullable=False),
    Column("version", String, nullable=False),
    Column("schema", String),
    Column("host", String, nullable=False),
    Column("address", String, nullable=False),
    Column("token_check", String, nullable=False),
    Column("config_check", String),
    Column("started_at", Instant, nullable=False),
    Column("lease_until", Instant, nullable=False),
    Column("connections", Integer, nullable=False, server_default="0"),
    Column("holds", Integer, nullable=False),
    Column("running", Integer, nullable=False),
)
leads = Table(
    "leads",
    metadata,
    Column("name", String, primary_key=True),
    Column("member_id", String, nullable=False),
    Column("lease_until", Instant, nullable=False),
)

_LEAD: Final = "sweeps"
_FIELDS: Final = tuple(field.name for field in fields(Member) if field.name != "leads")
_write_member = build_writer(_FIELDS)
read_member = build_reader(Member, of_row={"leads": lambda row: row.member_id is not None})
_PUT = Statement(Upsert(members, keys=("id",), new=[name for name in _FIELDS if name != "id"]), _FIELDS)
_REMOVE = Statement(delete(members).where(members.c.id == bindparam("key")))
_EXPIRE = Statement(delete(members).where(members.c.lease_until < bindparam("before")), ["before"])
LIVE_MEMBERS: Final = (
    select(members, leads.c.member_id)
    .outerjoin(leads, (leads.c.member_id == members.c.id) & (leads.c.lease_until > bindparam("now")))
    .where(members.c.lease_until > bindparam("now"))
    .order_by(members.c.started_at, members.c.id)
)
_ALIVE = Statement(LIVE_MEMBERS, read=read_member)
_LEADER = Statement(select(leads).where(leads.c.name == _LEAD))
_TAKE = Statement(Upsert(leads, keys=("name",), new=("member_id", "lease_until")), ("name", "member_id", "lease_until"))
_RESIGN = Statement(delete(leads).where(leads.c.member_id == bindparam("key")))


class Members(Noun):
    async def put(self, member: Member) -> None:
        """Insert or overwrite a member, except for `leads`."""
        await self._hold(MEMBERS_KEY)
        self._queue_write(_PUT, _write_member(member), key=member.id)

    async def lead(self, member_id: MemberId, *, now: datetime, until: datetime) -> bool:
        """Take or renew the lead until then, if no other member has it now; return whether it has it."""
        await self._hold(MEMBERS_KEY)

        def work(connection: Connection) -> bool:
            row = _LEADER.first(connection)
            is_free = row is None or row.member_id == member_id or row.lease_until <= now
            if is_free:
                _TAKE.run_many(connection, [(_LEAD, member_id, until)])
            return is_free

        return await self._run(work)

    async def resign(self, member_id: MemberId) -> None:
        await self._hold(MEMBERS_KEY)
        await self._execute(_RESIGN, {"key": member_id})

    async def remove(self, member_id: MemberId) -> None:
        """Remove a member, which gives up the lead."""
        await self.resign(member_id)
        await self._execute(_REMOVE, {"key": member_id})

    async def delete_expired(self, before: datetime) -> None:
        """Remove the members whose lease ended before then."""
        await self._hold(MEMBERS_KEY)
        self._queue_write(_EXPIRE, [before], key=before)

    async def find_all(self, now: datetime) -> Sequence[Member]:
        """Return the members whose lease has not ended, oldest first."""
        return await self._all(_ALIVE, {"now": now}, single="read")
