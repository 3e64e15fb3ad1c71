"""Approvals of calls by people."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime, timedelta
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    String,
    Table,
    Text,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    text,
    type_coerce,
    update,
)

from circadia.ids import AgentId, ApprovalId
from circadia.records.approval import TRANSITIONS, Approval, ApprovalStatus
from circadia.stores.locks import agent_key
from circadia.stores.sql.noun import Noun, where_given
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant, day_of, metadata, only
from circadia.stores.sql.statement import Statement

approvals = Table(
    "approvals",
    metadata,
    Column("id", String, primary_key=True),
    Column("agent_id", String, nullable=False),
    Column("session", String, nullable=False),
    Column("agent", String, nullable=False),
    Column("door", String, nullable=False),
    Column("target", String, nullable=False),
    Column("what", String, nullable=False),
    Column("rule", String, nullable=False),
    Column("model", String, nullable=False),
    Column("nanousd", BigInteger),
    Column("digest", String, nullable=False),
    Column("preview", Text, nullable=False),
    Column("cut", Boolean, nullable=False),
    Column("valid_seconds", Double, nullable=False),
    Column("status", String, nullable=False),
    Column("requested_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("decided_by", String),
    Column("decided_at", Instant),
    Column("reason", Text, nullable=False),
    Column("closed_at", Instant),
)
Index("approvals_open", approvals.c.agent_id, approvals.c.digest, **only("closed_at IS NULL"))
Index("approvals_due", approvals.c.expires_at, approvals.c.id, **only("closed_at IS NULL"))
Index("approvals_closed", approvals.c.closed_at, **only("closed_at IS NOT NULL"))
Index("approvals_status", approvals.c.status, approvals.c.id)
Index("approvals_agent", approvals.c.agent_id, approvals.c.id)

_FIELDS: Final = tuple(field.name for field in fields(Approval))
_CHANGED: Final = ("status", "expires_at", "decided_by", "decided_at", "reason", "closed_at")
_read_approval = build_reader(Approval)
_write_approval = build_writer(_FIELDS)
_write_change = build_writer(_CHANGED)
_ADD = Statement(insert(approvals).inline(), _FIELDS)
_SELECT = Statement(select(approvals).where(approvals.c.id == bindparam("of")), read=_read_approval)
_SELECT_OPEN = Statement(
    select(approvals).where(
        approvals.c.agent_id == bindparam("agent"),
        approvals.c.digest == bindparam("of"),
        approvals.c.closed_at.is_(None),
    ),
    read=_read_approval,
)
_SELECT_DUE = Statement(
    select(approvals)
    .where(approvals.c.closed_at.is_(None), approvals.c.expires_at <= bindparam("now"))
    .order_by(approvals.c.expires_at, approvals.c.id)
    .limit(bindparam("most")),
    read=_read_approval,
)
_WAITED: Final = approvals.c.decided_at - approvals.c.requested_at
_DAY_CLOSED: Final[ColumnElement[int]] = literal_column("approvals.closed_at / 86400000000")  # whole days since 1970
_SUM_WAITS = Statement(
    select(_DAY_CLOSED.label("day"), approvals.c.model, func.sum(type_coerce(_WAITED, BigInteger)).label("waited"))
    .where(
        approvals.c.closed_at.is_not(None),
        approvals.c.closed_at >= bindparam("since"),
        approvals.c.status == ApprovalStatus.USED.value,
        approvals.c.door == "model",
    )
    .group_by(text("day"), approvals.c.model)
)


class Approvals(Noun):
    """Approvals of calls by people. They change under the key of their agent."""

    async def add(self, approval: Approval) -> None:
        """Store a new approval; the agent has no other open one for the same call."""
        await self._hold(agent_key(approval.agent_id))
        await self._write(_ADD, _write_approval(approval))

    async def save(self, now: Approval, *, was: ApprovalStatus) -> bool:
        """Write the new status of an approval, or that it is closed; return whether it had the status `was`."""
        assert now.status is was or now.status in TRANSITIONS[was], f"{was} does not become {now.status}"
        await self._hold(agent_key(now.agent_id))
        statement = (
            update(approvals)
            .where(approvals.c.id == now.id, approvals.c.status == was.value)
            .values(dict(zip(_CHANGED, _write_change(now), strict=True)))
        )
        return await self._run(lambda connection: connection.execute(statement).rowcount == 1)

    async def get(self, approval_id: ApprovalId) -> Approval | None:
        return await self._first(_SELECT, {"of": approval_id})

    async def find_open(self, agent_id: AgentId, digest: str) -> Approval | None:
        """Return what a call of this agent with this digest has to follow."""
        await self._hold(agent_key(agent_id))
        return await self._first(_SELECT_OPEN, {"agent": agent_id, "of": digest})

    async def find_decided(self, ids: Collection[ApprovalId]) -> Sequence[Approval]:
        """Return those of these that are no longer pending."""
        decided = approvals.c.status != ApprovalStatus.PENDING.value
        return await self._select(select(approvals).where(approvals.c.id.in_(ids), decided), _read_approval)

    async def find_due(self, now: datetime, *, limit: int) -> Sequence[Approval]:
        """Return open approvals whose time is over, the oldest first."""
        return await self._all(_SELECT_DUE, {"now": now, "most": limit})

    async def count_pending(self, *, limit: int) -> tuple[int, datetime | None]:
        """Return how many calls wait for a person, up to `limit`, and since when the first of these."""
        some = select(approvals.c.requested_at).where(approvals.c.status == ApprovalStatus.PENDING.value)
        first = some.order_by(approvals.c.id).limit(limit).subquery()
        counted = select(func.count().label("number"), func.min(first.c.requested_at).label("since"))
        row = await self._run(lambda connection: connection.execute(counted).one())
        return row.number, row.since

    async def sum_waits(self, since: datetime) -> Mapping[tuple[date, str], timedelta]:
        """Return how long the model calls that were sent since then had waited for a person, by day and model."""
        rows = await self._all(_SUM_WAITS, {"since": since})
        return {(day_of(int(row.day)), row.model): timedelta(microseconds=int(row.waited)) for row in rows}

    async def find_all(
        self,
        *,
        status: ApprovalStatus | None = None,
        agent_id: AgentId | None = None,
        before: ApprovalId | None = None,
        limit: int,
    ) -> Sequence[Approval]:
        """Return approvals, the newest first."""
        statement = select(approvals).order_by(approvals.c.id.desc()).limit(limit)
        statement = where_given(statement, (approvals.c.status, status), (approvals.c.agent_id, agent_id))
        if before is not None:
            statement = statement.where(approvals.c.id < before)
        return await self._select(statement, _read_approval)
