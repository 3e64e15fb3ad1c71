"""The append-only event log."""

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import Row, bindparam, func, insert, select

from circadia.records.event import Event, EventType
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import events
from circadia.stores.sql.statement import Statement

_ROW = attrgetter("type", "at", "session", "agent", "data")
_ADD = Statement(insert(events).inline(), ("type", "at", "session", "agent", "data"))
_AFTER = select(events).where(events.c.number > bindparam("after")).order_by(events.c.number).limit(bindparam("most"))
_FIRST = Statement(select(func.coalesce(func.min(events.c.number), 0)))
_LAST = Statement(select(func.coalesce(func.max(events.c.number), 0)))


class SqlEvents:
    """The event log in one transaction.

    Numbers ascend in commit order, because each writing transaction holds an exclusive lock from its beginning to its
    end (`OpeningStatements.write`).
    """

    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._keep = runner.queue_write

    async def add(self, events: Sequence[Event]) -> None:
        for event in events:
            self._keep(_ADD, _ROW(event))

    async def find_after(
        self,
        number: int,
        *,
        limit: int = 1000,
        session: str | None = None,
        agent: str | None = None,
        types: Collection[EventType] | None = None,
    ) -> Sequence[Event]:
        statement = _AFTER
        if session is not None:
            statement = statement.where(events.c.session == session)
        if agent is not None:
            statement = statement.where(events.c.agent == agent)
        if types is not None:
            statement = statement.where(events.c.type.in_([kind.value for kind in types]))
        values = {"after": number, "most": limit}
        rows = await self._run(lambda connection: connection.execute(statement, values).all())
        return [_event(row) for row in rows]

    async def first_number(self) -> int:
        return await self._run(_FIRST.scalar)

    async def last_number(self) -> int:
        return await self._run(_LAST.scalar)


def _event(row: Row[Any]) -> Event:
    return Event(
        number=row.number, type=EventType(row.type), at=row.at, session=row.session, agent=row.agent, data=row.data
    )
