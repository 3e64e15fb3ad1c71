"""Places of held calls: how many each gateway holds for each agent."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import Column, Index, Integer, String, Table, bindparam, delete, exists, func, select

from circadia.ids import AgentId, MemberId
from circadia.records.member import MemberHolds
from circadia.stores.locks import HOLDS_KEY
from circadia.stores.sql.members import members
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader
from circadia.stores.sql.schema import agents, metadata, sessions
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

hold_places = Table(
    "hold_places",
    metadata,
    Column("member_id", String, primary_key=True),
    Column("agent_id", String, primary_key=True),
    Column("holds", Integer, nullable=False),
)
Index("hold_places_agent", hold_places.c.agent_id)

_read_holds = build_reader(MemberHolds)
_PUT = Statement(
    Upsert(hold_places, keys=("member_id", "agent_id"), new=("holds",)), ("member_id", "agent_id", "holds")
)
_DROP = Statement(
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
_EXPIRE: Final = Statement(delete(hold_places).where(~exists().where(members.c.id == hold_places.c.member_id)))


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
        statement = _OF_OTHERS.limit(limit)
        if session is not None:
            statement = statement.where(sessions.c.name == session)
        if agent is not None:
            statement = statement.where(agents.c.name == agent)
        values = {"member": member_id, "now": now}
        rows = await self._run(lambda connection: connection.execute(statement, values).all())
        return [_read_holds(row) for row in rows], int(rows[0].total) if rows else 0

    async def put(self, member_id: MemberId, counts: Mapping[AgentId, int]) -> None:
        """Overwrite the counts of these agents."""
        await self._hold(HOLDS_KEY)
        for agent_id, holds in counts.items():
            if holds:
                self._queue_write(_PUT, (member_id, agent_id, holds), key=(member_id, agent_id))
            else:
                self._queue_write(_DROP, (member_id, agent_id), key=(member_id, agent_id))

    async def delete_of_gone_members(self) -> None:
        await self._hold(HOLDS_KEY)
        await self._execute(_EXPIRE)
