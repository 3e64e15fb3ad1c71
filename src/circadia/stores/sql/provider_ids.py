"""The agent that received each provider-side id (GATE-60)."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, select

from circadia.ids import AgentId
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import provider_ids
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_ADD = Statement(Upsert(provider_ids), [column.name for column in provider_ids.c])
_OWNER = Statement(
    select(provider_ids.c.agent_id).where(
        provider_ids.c.upstream == bindparam("upstream"), provider_ids.c.provider_id == bindparam("provider_id")
    )
)


class ProviderIds:
    """The agent that received each provider-side id (GATE-60)."""

    def __init__(self, runner: Runner) -> None:
        self._run = runner.run

    async def add(self, upstream: str, provider_id: str, agent_id: AgentId, at: datetime) -> None:
        """Record an owner, unless the id has one."""
        values = {"upstream": upstream, "provider_id": provider_id, "agent_id": agent_id, "at": at}

        def work(connection: Connection) -> None:
            _ADD.execute(connection, values)

        await self._run(work)

    async def owner(self, upstream: str, provider_id: str) -> AgentId | None:
        values = {"upstream": upstream, "provider_id": provider_id}
        agent_id = await self._run(lambda connection: _OWNER.scalar(connection, values))
        return None if agent_id is None else AgentId(agent_id)
