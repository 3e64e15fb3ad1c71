"""The append-only record."""

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
    """The append-only record, in one transaction.

    Numbers ascend in the order of commits, because a transaction that writes begins with a lock that no other has
    until its end (`Openings.write`).
    """

    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._keep = runner.queue_write

    async def add(self, events: Sequence[Event]) -> None:
        """Append events in the order given."""
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
        """Return events with a greater number, in order."""
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
        """Return the least number that is kept; 0 if there is none."""
        return await self._run(_FIRST.scalar)

    async def last_number(self) -> int:
        """Return the greatest number; 0 if there is none."""
        return await self._run(_LAST.scalar)


def _event(row: Row[Any]) -> Event:
    return Event(
        number=row.number,
        type=EventType(row.type),
        at=row.at,
        session=row.session,
        agent=row.agent,
        data=row.data,
    )
