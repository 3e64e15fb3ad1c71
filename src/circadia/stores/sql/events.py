"""The append-only event log."""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, exists, func, insert, select, text

from circadia.records.event import Event, EventType
from circadia.stores.locks import EVENTS_KEY
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import events
from circadia.stores.sql.statement import Statement

_ROW = attrgetter("type", "at", "session", "agent", "data")
_ADD = Statement(insert(events).inline(), ("type", "at", "session", "agent", "data"))
_EVENTS = select(events)
_AFTER = _EVENTS.where(events.c.number > bindparam("after")).order_by(events.c.number).limit(bindparam("most"))
_NEWEST = _EVENTS.order_by((events.c.number < 0).desc(), func.abs(events.c.number).desc()).limit(bindparam("most"))
_FIRST = Statement(select(func.coalesce(func.min(events.c.number), 0)).where(events.c.number > 0))
_LAST = Statement(select(func.coalesce(func.max(events.c.number), 0)).where(events.c.number > 0))
_UNNUMBERED = Statement(select(exists().where(events.c.number < 0)))
_NUMBER = text(
    """
    UPDATE events SET number = numbered.number
    FROM (SELECT arrival, nextval('event_numbers') AS number
      FROM (SELECT number AS arrival FROM events WHERE number < 0 ORDER BY number DESC) AS arrived) AS numbered
    WHERE events.number = numbered.arrival
    """
)


class SqlEvents:
    """The event log in one transaction.

    In PostgreSQL a new event has a negative number, the smaller the later, until `assign_numbers` gives it its place.
    """

    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._keep = runner.queue_write
        self._hold = runner.hold

    async def add(self, events: Sequence[Event]) -> None:
        for event in events:
            self._keep(_ADD, _ROW(event))

    async def has_unnumbered(self) -> bool:
        return bool(await self._run(_UNNUMBERED.scalar))

    async def assign_numbers(self) -> None:
        await self._hold(EVENTS_KEY)
        await self._run(_assign_numbers)

    async def find_after(
        self,
        number: int,
        *,
        limit: int = 1000,
        session: str | None = None,
        agent: str | None = None,
        types: Collection[EventType] | None = None,
    ) -> Sequence[Event]:
        return await self._find(_AFTER, {"after": number, "most": limit}, session, agent, types)

    async def find_unnumbered(self, *, types: Collection[EventType]) -> Sequence[Event]:
        return await self._find(_EVENTS.where(events.c.number < 0), {}, None, None, types)

    async def find_newest(
        self,
        *,
        limit: int = 1000,
        session: str | None = None,
        agent: str | None = None,
        types: Collection[EventType] | None = None,
    ) -> Sequence[Event]:
        return await self._find(_NEWEST, {"most": limit}, session, agent, types)

    async def _find(
        self,
        statement: Select[Any],
        values: Mapping[str, int],
        session: str | None,
        agent: str | None,
        types: Collection[EventType] | None,
    ) -> Sequence[Event]:
        if session is not None:
            statement = statement.where(events.c.session == session)
        if agent is not None:
            statement = statement.where(events.c.agent == agent)
        if types is not None:
            statement = statement.where(events.c.type.in_([kind.value for kind in types]))
        rows = await self._run(lambda connection: connection.execute(statement, values).all())
        return [_event(row) for row in rows]

    async def first_number(self) -> int:
        return await self._run(_FIRST.scalar)

    async def last_number(self) -> int:
        return await self._run(_LAST.scalar)


def _assign_numbers(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":  # SQLite commits in the order of its numbers
        connection.execute(_NUMBER)


def _event(row: Row[Any]) -> Event:
    return Event(
        number=row.number, type=EventType(row.type), at=row.at, session=row.session, agent=row.agent, data=row.data
    )
