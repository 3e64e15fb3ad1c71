"""Agents' waits for named events (WAKE-81)."""

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Final

from sqlalchemy import JSON, Column, ForeignKey, Index, Integer, String, Table, bindparam, delete, insert, select

from circadia.ids import AgentId, EventWaitId
from circadia.records.named_event import EventWait
from circadia.stores.locks import agent_key
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant, metadata
from circadia.stores.sql.statement import Statement

event_waits = Table(
    "event_waits",
    metadata,
    Column("id", String, primary_key=True),
    Column("agent_id", String, ForeignKey("agents.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("filter", JSON, nullable=False),
    Column("generation", Integer),
    Column("created_at", Instant, nullable=False),
    Column("until", Instant, nullable=False),
)
Index("event_waits_name", event_waits.c.name, event_waits.c.id)
Index("event_waits_agent", event_waits.c.agent_id)
Index("event_waits_until", event_waits.c.until)

_FIELDS: Final = tuple(field.name for field in fields(EventWait))
_read_wait = build_reader(EventWait)
_ADD: Final = Statement(insert(event_waits).inline(), _FIELDS)
_write_wait = build_writer(_FIELDS)
_SELECT_OF_AGENT: Final = Statement(
    select(event_waits).where(event_waits.c.agent_id == bindparam("agent_id")).order_by(event_waits.c.id),
    read=_read_wait,
)
_SELECT_PAGE: Final = Statement(
    select(event_waits)
    .where(event_waits.c.name == bindparam("name"), event_waits.c.id > bindparam("after"))
    .order_by(event_waits.c.id)
    .limit(bindparam("most")),
    read=_read_wait,
)
_DELETE: Final = Statement(delete(event_waits).where(event_waits.c.id == bindparam("key")))
_DELETE_OF_SLEEP: Final = Statement(
    delete(event_waits).where(event_waits.c.agent_id == bindparam("agent_id"), event_waits.c.generation.is_not(None))
)
_EXPIRED: Final = (
    select(event_waits.c.id)
    .where(event_waits.c.until <= bindparam("now"))
    .order_by(event_waits.c.until)
    .limit(bindparam("most"))
)
_DELETE_EXPIRED: Final = Statement(delete(event_waits).where(event_waits.c.id.in_(_EXPIRED)))


class EventWaits(Noun):
    """Waits for named events, each of one agent."""

    async def add(self, wait: EventWait) -> None:
        await self._hold(agent_key(wait.agent_id))
        await self._write(_ADD, _write_wait(wait))

    async def find_by_agent(self, agent_id: AgentId) -> Sequence[EventWait]:
        """Return the agent's waits, oldest first."""
        await self._hold(agent_key(agent_id))
        return await self._all(_SELECT_OF_AGENT, {"agent_id": agent_id})

    async def find_by_name(self, name: str, *, after: str = "", limit: int) -> Sequence[EventWait]:
        """Return waits for events of this name after the wait `after`, in the order of their ids."""
        return await self._all(_SELECT_PAGE, {"name": name, "after": after, "most": limit}, short=False)

    async def remove(self, agent_id: AgentId, waits: Collection[EventWaitId]) -> None:
        """Delete these waits of the agent."""
        await self._hold(agent_key(agent_id))
        for wait_id in waits:
            await self._execute(_DELETE, {"key": wait_id})

    async def end_sleep(self, agent_id: AgentId) -> None:
        """Delete the waits of the sleep that the agent has ended."""
        await self._hold(agent_key(agent_id))
        await self._execute(_DELETE_OF_SLEEP, {"agent_id": agent_id})

    async def delete_expired(self, now: datetime, *, limit: int) -> int:
        """Delete up to `limit` waits that are given up, and return their number."""
        return await self._execute(_DELETE_EXPIRED, {"now": now, "most": limit})
