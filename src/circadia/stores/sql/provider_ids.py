"""The agent that received each provider-side id (GATE-60)."""

from datetime import datetime

from sqlalchemy import bindparam, select

from circadia.ids import AgentId
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.schema import provider_ids
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_ADD = Statement(Upsert(provider_ids), [column.name for column in provider_ids.c])
_OWNER = Statement(
    select(provider_ids.c.agent_id).where(
        provider_ids.c.upstream == bindparam("upstream"), provider_ids.c.provider_id == bindparam("provider_id")
    )
)


class ProviderIds(Noun):
    """The agent that received each provider-side id (GATE-60)."""

    async def add(self, upstream: str, provider_id: str, agent_id: AgentId, at: datetime) -> None:
        """Record an owner, unless the id has one."""
        await self._write(_ADD, (upstream, provider_id, agent_id, at))

    async def owner(self, upstream: str, provider_id: str) -> AgentId | None:
        return await self._scalar(_OWNER, {"upstream": upstream, "provider_id": provider_id})
