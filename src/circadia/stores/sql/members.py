"""Members of the cluster with the row of the lead, the places of calls that each holds, and its turns in progress."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    String,
    Table,
    bindparam,
    delete,
    exists,
    func,
    select,
    update,
)

from circadia.ids import AgentId, MemberId
from circadia.records.conversation import OpenTurn
from circadia.records.member import Member, MemberHolds
from circadia.stores.locks import HOLDS_KEY, MEMBERS_KEY
from circadia.stores.sql.noun import Noun, where_given
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant, agents, metadata, sessions
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
_SAVE = Statement(Upsert(members, keys=("id",), new=[name for name in _FIELDS if name != "id"]), _FIELDS)
_DELETE = Statement(delete(members).where(members.c.id == bindparam("key")))
_DELETE_EXPIRED = Statement(delete(members).where(members.c.lease_until < bindparam("before")), ["before"])
LIVE_MEMBERS: Final = (
    select(members, leads.c.member_id)
    .outerjoin(leads, (leads.c.member_id == members.c.id) & (leads.c.lease_until > bindparam("now")))
    .where(members.c.lease_until > bindparam("now"))
    .order_by(members.c.started_at, members.c.id)
)
_SELECT_LIVE = Statement(LIVE_MEMBERS, read=read_member)
_SELECT_LEADER = Statement(select(leads).where(leads.c.name == _LEAD))
_TAKE_LEAD = Statement(
    Upsert(leads, keys=("name",), new=("member_id", "lease_until")), ("name", "member_id", "lease_until")
)
_RESIGN = Statement(delete(leads).where(leads.c.member_id == bindparam("key")))


class Members(Noun):
    async def put(self, member: Member) -> None:
        """Insert or overwrite a member, except for `leads`."""
        await self._hold(MEMBERS_KEY)
        self._queue_write(_SAVE, _write_member(member), key=member.id)

    async def lead(self, member_id: MemberId, *, now: datetime, until: datetime) -> bool:
        """Take or renew the lead until then, if no other member has it now; return whether it has it."""
        await self._hold(MEMBERS_KEY)

        def work(connection: Connection) -> bool:
            row = _SELECT_LEADER.first(connection)
            is_free = row is None or row.member_id == member_id or row.lease_until <= now
            if is_free:
                _TAKE_LEAD.run_many(connection, [(_LEAD, member_id, until)])
            return is_free

        return await self._run(work)

    async def resign(self, member_id: MemberId) -> None:
        await self._hold(MEMBERS_KEY)
        await self._execute(_RESIGN, {"key": member_id})

    async def remove(self, member_id: MemberId) -> None:
        """Remove a member, which gives up the lead."""
        await self.resign(member_id)
        await self._execute(_DELETE, {"key": member_id})

    async def delete_expired(self, before: datetime) -> None:
        """Remove the members whose lease ended before then."""
        await self._hold(MEMBERS_KEY)
        self._queue_write(_DELETE_EXPIRED, [before], key=before)

    async def find_all(self, now: datetime) -> Sequence[Member]:
        """Return the members whose lease has not ended, oldest first."""
        return await self._all(_SELECT_LIVE, {"now": now}, single="read")


hold_places = Table(
    "hold_places",
    metadata,
    Column("member_id", String, primary_key=True),
    Column("agent_id", String, primary_key=True),
    Column("holds", Integer, nullable=False),
)
Index("hold_places_agent", hold_places.c.agent_id)

_read_holds = build_reader(MemberHolds)
_SAVE_HOLDS = Statement(
    Upsert(hold_places, keys=("member_id", "agent_id"), new=("holds",)), ("member_id", "agent_id", "holds")
)
_DELETE_HOLDS = Statement(
    delete(hold_places).where(
        hold_places.c.member_id == bindparam("member"), hold_places.c.agent_id == bindparam("agent")
    ),
    ("member", "agent"),
)
_SUMS = (
    select(hold_places.c.agent_id, func.sum(hold_places.c.holds))
    .join(members, members.c.id == hold_places.c.member_id)
    .where(
        hold_places.c.agent_id.in_(bindparam("agents", expanding=True)),
        hold_places.c.member_id != bindparam("member"),
        members.c.lease_until > bindparam("now"),
    )
    .group_by(hold_places.c.agent_id)
)
_OF_OTHERS = (
    select(
        hold_places.c.member_id,
        members.c.address,
        agents.c.name.label("agent"),
        sessions.c.name.label("session"),
        hold_places.c.holds,
        func.sum(hold_places.c.holds).over().label("total"),
    )
    .join(members, members.c.id == hold_places.c.member_id)
    .join(agents, agents.c.id == hold_places.c.agent_id)
    .join(sessions, sessions.c.id == agents.c.session_id)
    .where(hold_places.c.member_id != bindparam("member"), members.c.lease_until > bindparam("now"))
    .order_by(hold_places.c.holds.desc(), sessions.c.name, agents.c.name, hold_places.c.member_id)
)
_DELETE_HOLDS_OF_GONE: Final = Statement(
    delete(hold_places).where(~exists().where(members.c.id == hold_places.c.member_id))
)


class HoldPlaceCounts(Noun):
    """How many calls each gateway holds for each agent; the agent `""` stands for all."""

    async def sum_of_others(
        self, member_id: MemberId, agents: Collection[AgentId], now: datetime
    ) -> Mapping[AgentId, int]:
        """Return the number of calls that other members hold now for each of these agents, if any."""
        await self._hold(HOLDS_KEY)
        values = {"member": member_id, "agents": list(agents), "now": now}
        rows = await self._run(lambda connection: connection.execute(_SUMS, values).all())
        return {AgentId(row[0]): int(row[1]) for row in rows}

    async def find_of_others(
        self, member_id: MemberId, now: datetime, *, session: str | None = None, agent: str | None = None, limit: int
    ) -> tuple[Sequence[MemberHolds], int]:
        """Return what other live members hold, most calls first, and the number of all these calls. One statement."""
        statement = where_given(_OF_OTHERS.limit(limit), (sessions.c.name, session), (agents.c.name, agent))
        values = {"member": member_id, "now": now}
        rows = await self._run(lambda connection: connection.execute(statement, values).all())
        return [_read_holds(row) for row in rows], int(rows[0].total) if rows else 0

    async def put(self, member_id: MemberId, counts: Mapping[AgentId, int]) -> None:
        """Overwrite the counts of these agents."""
        await self._hold(HOLDS_KEY)
        for agent_id, holds in counts.items():
            if holds:
                self._queue_write(_SAVE_HOLDS, (member_id, agent_id, holds), key=(member_id, agent_id))
            else:
                self._queue_write(_DELETE_HOLDS, (member_id, agent_id), key=(member_id, agent_id))

    async def delete_of_gone_members(self) -> None:
        await self._hold(HOLDS_KEY)
        await self._execute(_DELETE_HOLDS_OF_GONE)


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

_TURN_COLUMNS = [column.name for column in open_turns.c]
_write_turn = build_writer(_TURN_COLUMNS)
_ADD_TURN = Statement(
    Upsert(open_turns, keys=("owner", "id"), new=("bank", "end_user", "at", "lease_until")), _TURN_COLUMNS
)
_DELETE_TURNS = delete(open_turns).where(
    open_turns.c.owner == bindparam("of"), open_turns.c.id.in_(bindparam("ids", expanding=True))
)
_SELECT_NEWEST_START = Statement(
    select(func.max(open_turns.c.at).label("at")).where(
        open_turns.c.bank == bindparam("name"),
        open_turns.c.end_user == bindparam("user"),
        open_turns.c.owner != bindparam("besides"),
        open_turns.c.lease_until > bindparam("now"),
    )
)
_RENEW_LEASES = Statement(
    update(open_turns).where(open_turns.c.owner == bindparam("of")).values(lease_until=bindparam("until"))
)
_DELETE_OLD_TURNS = Statement(delete(open_turns).where(open_turns.c.lease_until < bindparam("before")))


class OpenTurns(Noun):
    """Turns in progress at the gateways of all processes."""

    async def add(self, turns: Sequence[OpenTurn]) -> None:
        rows = [_write_turn(turn) for turn in turns]
        await self._run(lambda connection: _ADD_TURN.run_many(connection, rows))

    async def remove(self, owner: str, ids: Collection[int]) -> None:
        if ids:
            await self._run(lambda connection: connection.execute(_DELETE_TURNS, {"of": owner, "ids": list(ids)}))

    async def find_newest_start(self, bank: str, end_user: str, *, besides: str, now: datetime) -> datetime | None:
        """Return the start of the newest turn of a bank at processes other than `besides`."""
        values = {"name": bank, "user": end_user, "besides": besides, "now": now}
        return await self._scalar(_SELECT_NEWEST_START, values)

    async def renew_leases(self, owner: str, until: datetime) -> None:
        await self._execute(_RENEW_LEASES, {"of": owner, "until": until})

    async def delete_expired(self, before: datetime) -> None:
        """Delete turns whose leases ran out before then."""
        await self._execute(_DELETE_OLD_TURNS, {"before": before})
