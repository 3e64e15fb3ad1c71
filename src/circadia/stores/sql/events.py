"""The append-only event log."""

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, exists, func, insert, select, text, union_all

from circadia.records.event import Event, EventType
from circadia.stores.locks import EVENTS_KEY
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import events
from circadia.stores.sql.statement import Statement

_ROW = attrgetter("type", "at", "session", "agent", "data")
_ADD = Statement(insert(events).inline(), ("type", "at", "session", "agent", "data"))
_FIRST = Statement(select(func.coalesce(func.min(events.c.number), 0)).where(events.c.number > 0))
_LAST = Statement(select(func.coalesce(func.max(events.c.number), 0)).where(events.c.number > 0))
_UNNUMBERED = Statement(select(exists().where(events.c.number < 0)))
MAX_UNNUMBERED: Final = 10_000
"""Most events that are read before they have their number; others follow a moment later."""
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
        return await self._find(events.c.number > number, limit, session, agent, types)

    async def find_unnumbered(self, *, types: Collection[EventType]) -> Sequence[Event]:
        return await self._find(events.c.number < 0, MAX_UNNUMBERED, None, None, types)

    async def find_newest(
        self,
        *,
        limit: int = 1000,
        session: str | None = None,
        agent: str | None = None,
        types: Collection[EventType] | None = None,
    ) -> Sequence[Event]:
        unnumbered = await self._find(events.c.number < 0, limit, session, agent, types)
        numbered = await self._find(events.c.number > 0, limit, session, agent, types, descending=True)
        return [*unnumbered, *numbered][:limit]

    async def _find(
        self,
        numbers: ColumnElement[bool],
        limit: int,
        session: str | None,
        agent: str | None,
        types: Collection[EventType] | None,
        *,
        descending: bool = False,
    ) -> Sequence[Event]:
        """Return the first events of a range of numbers, one type after the other in the order of an index.

        A single read of several types would sort all that match, or pass over all others.
        """
        if types is None and session is not None and agent is not None:
            types = list(EventType)
        rows = select(events).where(
            numbers,
            *([] if session is None else [events.c.session == session]),
            *([] if agent is None else [events.c.agent == agent]),
        )
        statement = _first(rows, events.c.number, limit, descending=descending)
        if types is not None:
            kinds = [rows.where(events.c.type == kind.value) for kind in types]
            firsts = [select(_first(kind, events.c.number, limit, descending=descending).subquery()) for kind in kinds]
            if not firsts:
                return []
            each = union_all(*firsts).subquery()
            statement = _first(select(each), each.c.number, limit, descending=descending)
        return [_event(row) for row in await self._run(lambda connection: connection.execute(statement).all())]

    async def first_number(self) -> int:
        return await self._run(_FIRST.scalar)

    async def last_number(self) -> int:
        return await self._run(_LAST.scalar)


def _first(rows: Select[Any], number: ColumnElement[int], limit: int, *, descending: bool) -> Select[Any]:
    return rows.order_by(number.desc() if descending else number).limit(limit)


def _assign_numbers(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":  # SQLite commits in the order of its numbers
        connection.execute(_NUMBER)


def _event(row: Row[Any]) -> Event:
    return Event(
        number=row.number, type=EventType(row.type), at=row.at, session=row.session, agent=row.agent, data=row.data
    )
