"""Deliveries: the one table behind waits and inbox (GATE-71)."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection, Update, bindparam, func, select, update

from circadia.ids import AgentId, MessageId, ThreadId
from circadia.records.message import DELIVERY_MOVES, Delivery, DeliveryState
from circadia.stores.sql.link import Runner
from circadia.stores.sql.messages import message_of
from circadia.stores.sql.schema import deliveries, messages, threads

_UNREAD = (
    select(
        messages,
        deliveries.c.agent_id,
        deliveries.c.state,
        deliveries.c.mentioned,
        threads.c.name.label("thread"),
    )
    .select_from(deliveries)
    .join(messages, messages.c.id == deliveries.c.message_id)
    .join(threads, threads.c.id == messages.c.thread_id)
    .where(deliveries.c.agent_id == bindparam("agent_id"), deliveries.c.state == DeliveryState.UNREAD.value)
    .order_by(deliveries.c.number)
    .limit(bindparam("most"))
)
_COUNT = select(func.count()).where(
    deliveries.c.agent_id == bindparam("agent_id"), deliveries.c.state == DeliveryState.UNREAD.value
)


def _move(to: DeliveryState, *origins: DeliveryState) -> Update:
    """Return the statement that moves deliveries of one agent from `origins`, as the table of moves allows."""
    allowed = [state.value for state in origins if to in DELIVERY_MOVES[state]]
    return (
        update(deliveries)
        .where(
            deliveries.c.agent_id == bindparam("agent"),
            deliveries.c.message_id.in_(bindparam("ids", expanding=True)),
            deliveries.c.state.in_(allowed),
        )
        .values(state=to.value, leased_until=bindparam("until"))
        .returning(deliveries.c.message_id)
    )


_LEASE = _move(DeliveryState.LEASED, DeliveryState.UNREAD)
_HANDLE = _move(DeliveryState.HANDLED, DeliveryState.UNREAD, DeliveryState.LEASED)
_RELEASE = _move(DeliveryState.UNREAD, DeliveryState.LEASED)
_EXPIRE = (
    update(deliveries)
    .where(deliveries.c.state == DeliveryState.LEASED.value, deliveries.c.leased_until <= bindparam("now"))
    .values(state=DeliveryState.UNREAD.value, leased_until=None)
    .returning(deliveries.c.agent_id)
)


class SqlDeliveries:
    """Deliveries, in one transaction."""

    def __init__(self, runner: Runner) -> None:
        self._run = runner.run

    async def unread(
        self,
        agent_id: AgentId,
        *,
        mentioned: bool | None = None,
        sender: str | None = None,
        thread_id: ThreadId | None = None,
        limit: int = 50,
    ) -> Sequence[Delivery]:
        """Return unread ones, oldest first."""
        statement = _UNREAD
        if mentioned is not None:
            statement = statement.where(deliveries.c.mentioned.is_(mentioned))
        if sender is not None:
            statement = statement.where(messages.c.sender == sender)
        if thread_id is not None:
            statement = statement.where(messages.c.thread_id == thread_id)
        values = {"agent_id": agent_id, "most": limit}
        rows = await self._run(lambda connection: connection.execute(statement, values).all())
        return [
            Delivery(
                message=message_of(row),
                agent_id=AgentId(row.agent_id),
                thread=row.thread,
                state=DeliveryState(row.state),
                mentioned=row.mentioned,
            )
            for row in rows
        ]

    async def count_unread(self, agent_id: AgentId) -> int:
        """Return how many are unread."""
        values = {"agent_id": agent_id}
        return await self._run(lambda connection: connection.execute(_COUNT, values).scalar_one())

    async def lease(self, agent_id: AgentId, messages: Collection[MessageId], until: datetime) -> Sequence[MessageId]:
        """Move unread ones to leased; return which were unread, in the order given."""
        moved = await self._moved(_LEASE, agent_id, messages, until)
        return [message for message in messages if message in moved]

    async def handle(self, agent_id: AgentId, messages: Collection[MessageId]) -> None:
        """Move leased or unread ones to handled."""
        await self._moved(_HANDLE, agent_id, messages, None)

    async def release(self, agent_id: AgentId, messages: Collection[MessageId]) -> None:
        """Move leased ones back to unread."""
        await self._moved(_RELEASE, agent_id, messages, None)

    async def release_expired(self, now: datetime) -> Collection[AgentId]:
        """Move leases that ran out back to unread; return whose they were."""
        found = await self._run(lambda connection: connection.execute(_EXPIRE, {"now": now}).scalars().all())
        return {AgentId(agent_id) for agent_id in found}

    async def _moved(
        self, statement: Update, agent_id: AgentId, messages: Collection[MessageId], until: datetime | None
    ) -> set[str]:
        if not messages:
            return set()
        values = {"agent": agent_id, "ids": list(messages), "until": until}

        def work(connection: Connection) -> set[str]:
            return set(connection.execute(statement, values).scalars())

        return await self._run(work)
