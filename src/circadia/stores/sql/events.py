"""The append-only event log, and how far its readers came."""

from collections.abc import Collection, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Select,
    String,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    union_all,
)

from circadia.errors import Conflict
from circadia.records.event import Event, EventType
from circadia.stores.locks import EVENTS_KEY, cursor_key
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import events, metadata
from circadia.stores.sql.statement import Statement, build_least
from circadia.stores.sql.upsert import Upsert

_FIELDS: Final = ("type", "at", "session", "agent", "data")
_write_event = build_writer(_FIELDS)
_read_event = build_reader(Event)
_ADD = Statement(insert(events).inline(), _FIELDS)
_SELECT_FIRST = Statement(select(func.coalesce(func.min(events.c.number), 0)).where(events.c.number > 0))
_SELECT_LAST = Statement(select(func.coalesce(func.max(events.c.number), 0)).where(events.c.number > 0))
HAS_UNNUMBERED: Final = func.coalesce(build_least(events.c.number) < 0, False, type_=Boolean)
_SELECT_UNNUMBERED = Statement(select(HAS_UNNUMBERED))
MAX_UNNUMBERED: Final = 10_000
"""Most events that are read before they have their number; others follow a moment later."""
_ASSIGN_NUMBERS = text(
    """
    UPDATE events SET number = numbered.number
    FROM (SELECT arrival, nextval('event_numbers') AS number
      FROM (SELECT number AS arrival FROM events WHERE number < 0 ORDER BY number DESC) AS arrived) AS numbered
    WHERE events.number = numbered.arrival
    """
)


class Events(Noun):
    """The append-only event log. A reader that has seen number n misses none below.

    Where blocks commit side by side (`Store.commits_in_order` is false: PostgreSQL), a new event has a negative number,
    the smaller the later, until `assign_numbers` gives it its place (see `EventSequencer`).
    """

    async def add(self, events: Sequence[Event]) -> None:
        for event in events:
            self._queue_write(_ADD, _write_event(event))

    async def has_unnumbered(self) -> bool:
        """Return whether any committed event waits for its number."""
        return bool(await self._scalar(_SELECT_UNNUMBERED))

    async def assign_numbers(self) -> None:
        """Give the committed events that have none their numbers, in the order in which they were written."""
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
        """Return events with a greater number, in order."""
        return await self._find(_Range.AFTER, limit, session, agent, types, number=number)

    async def find_unnumbered(self, *, types: Collection[EventType]) -> Sequence[Event]:
        return await self._find(_Range.UNNUMBERED, MAX_UNNUMBERED, None, None, types)

    async def find_newest(
        self,
        *,
        limit: int = 1000,
        session: str | None = None,
        agent: str | None = None,
        types: Collection[EventType] | None = None,
        only_numbered: bool = False,
    ) -> Sequence[Event]:
        """Return the latest events, newest first; those that wait for a number are among them, or are left out."""
        unnumbered = () if only_numbered else await self._find(_Range.UNNUMBERED, limit, session, agent, types)
        numbered = await self._find(_Range.NUMBERED_BACKWARD, limit, session, agent, types)
        return [*unnumbered, *numbered][:limit]

    async def _find(
        self,
        numbers: "_Range",
        limit: int,
        session: str | None,
        agent: str | None,
        types: Collection[EventType] | None,
        *,
        number: int = 0,
    ) -> Sequence[Event]:
        if types is None and session is not None and agent is not None:
            types = list(EventType)
        kinds = None if types is None else tuple(types)
        if kinds == ():
            return []
        statement = _build_find(numbers, kinds, by_session=session is not None, by_agent=agent is not None)
        return await self._all(statement, {"number": number, "session": session, "agent": agent, "most": limit})

    async def first_number(self) -> int:
        """Return the lowest stored number, or 0."""
        return await self._scalar(_SELECT_FIRST)

    async def last_number(self) -> int:
        return await self._scalar(_SELECT_LAST)


class _Range(Enum):
    AFTER = "after"
    UNNUMBERED = "unnumbered"
    NUMBERED_BACKWARD = "numbered, backward"


@lru_cache(maxsize=64)  # to build one takes longer than to run it
def _build_find(
    numbers: _Range, types: Sequence[EventType] | None, *, by_session: bool, by_agent: bool
) -> Statement[Event]:
    """Return the statement for the first events of a range of numbers.

    Events of several types are read one type after the other, in the order of an index: a single read would sort all
    that match, or pass over all others.
    """
    conditions = {
        _Range.AFTER: events.c.number > bindparam("number"),
        _Range.UNNUMBERED: events.c.number < 0,
        _Range.NUMBERED_BACKWARD: events.c.number > 0,
    }

    def first(rows: Select[Any], number: ColumnElement[int]) -> Select[Any]:
        order = number.desc() if numbers is _Range.NUMBERED_BACKWARD else number
        return rows.order_by(order).limit(bindparam("most"))

    rows = select(events).where(
        conditions[numbers],
        *([events.c.session == bindparam("session")] if by_session else []),
        *([events.c.agent == bindparam("agent")] if by_agent else []),
    )
    if types is None:
        return Statement(first(rows, events.c.number), read=_read_event)
    firsts = [select(first(rows.where(events.c.type == kind.value), events.c.number).subquery()) for kind in types]
    each = union_all(*firsts).subquery()
    return Statement(first(select(each), each.c.number), read=_read_event)


def _assign_numbers(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":  # SQLite commits in the order of its numbers
        connection.execute(_ASSIGN_NUMBERS)


cursors = Table(
    "cursors",
    metadata,
    Column("name", String, primary_key=True),
    Column("number", BigInteger, nullable=False),  # of the last event or entry that was dealt with
)

_SAVE_CURSOR = Statement(Upsert(cursors, keys=("name",), new=("number",)), [column.name for column in cursors.c])
_ADVANCE_CURSOR = Statement(
    Upsert(cursors, keys=("name",), new=("number",), only_if=lambda before, new: new.number > before.number),
    [column.name for column in cursors.c],
    is_checked=True,
)
_DELETE_CURSOR = Statement(delete(cursors).where(cursors.c.name == bindparam("of_name")))
_DELETE_CURSORS = Statement(delete(cursors).where(cursors.c.name.between(bindparam("first"), bindparam("last"))))
_SELECT_CURSOR = Statement(select(cursors.c.number).where(cursors.c.name == bindparam("of_name")))


class Cursors(Noun):
    """How far readers of the event log came, and how far backlogs are written, by their name."""

    async def get(self, name: str) -> int | None:
        return await self._scalar(_SELECT_CURSOR, {"of_name": name})

    async def save(self, name: str, number: int) -> None:
        await self._hold(cursor_key(name))
        await self._execute(_SAVE_CURSOR, {"name": name, "number": number})

    async def advance(self, name: str, number: int, *, or_raise: Conflict) -> None:
        """Set a number that ascends; if it is there already, the block raises `or_raise` by its end."""
        self._queue_write(_ADVANCE_CURSOR, (name, number), or_raise=or_raise)

    async def remove(self, name: str) -> None:
        await self._execute(_DELETE_CURSOR, {"of_name": name})

    async def retire(self, first: str, last: str) -> None:
        """Remove the cursors with names from `first` to `last`."""
        await self._execute(_DELETE_CURSORS, {"first": first, "last": last})
