"""The routines of agents.

A routine is unreadable if a newer release, or a machine with newer time zones, wrote it. It is skipped and logged, so
that the others still run.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy import Row, bindparam, delete, func, select, text, update

from circadia.errors import Conflict, InvalidRequest
from circadia.ids import AgentId, RoutineId
from circadia.records.schedule import Routine, RoutineSpec
from circadia.stores.locks import agent_key
from circadia.stores.sql.agents import save_next_wake
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import routines
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_logger = logging.getLogger(__name__)

_STATE: Final = ("spec", "enabled", "next_at", "deferred_from", "last_at", "skips", "missed", "own")
_CONVERSIONS: Final[Mapping[str, Callable[[Routine], object]]] = {
    "spec": lambda routine: routine.spec.model_dump(mode="json"),
    "enabled": lambda routine: routine.spec.enabled,
}
_read_routine = build_reader(Routine, spec=RoutineSpec.model_validate, own=bool, ends_on_wake=bool)
_FIELDS: Final = tuple(column.name for column in routines.c)
_write_routine = build_writer(_FIELDS, **_CONVERSIONS)
_write_state = build_writer((*_STATE, "id"), **_CONVERSIONS)
_ADD = Statement(Upsert(routines), _FIELDS)
_SAVE = Statement(
    update(routines)
    .where(routines.c.id == bindparam("key_id"), routines.c.next_at.is_not_distinct_from(bindparam("origin_next")))
    .values({name: bindparam(f"new_{name}") for name in _STATE}),
    [*(f"new_{name}" for name in _STATE), "key_id", "origin_next"],
)
_ROWS = select(routines).where(routines.c.agent_id == bindparam("agent_id")).order_by(routines.c.name)
_SELECT_OF_AGENT = Statement(_ROWS)
_SELECT = Statement(_ROWS.where(routines.c.name == bindparam("name")))
_DELETE = Statement(
    delete(routines).where(routines.c.agent_id == bindparam("agent_id"), routines.c.name == bindparam("name"))
)
_SELECT_DUE = Statement(
    select(routines)
    # The form of the partial index: SQLite does not see that `enabled = 1` is the same.
    .where(text("routines.enabled"), routines.c.next_at <= bindparam("now"))
    .order_by(routines.c.next_at)
    .limit(bindparam("most"))
)

_SELECT_DUE_AFTER = Statement(
    select(routines).where(text("routines.enabled"), routines.c.next_at > bindparam("instant"))
)
_SELECT_OWN = Statement(
    select(routines)
    .where(text("routines.own"), routines.c.id > bindparam("after"))
    .order_by(routines.c.id)
    .limit(bindparam("most"))
)
_SELECT_NEXT_DUE = Statement(
    select(func.min(routines.c.next_at)).where(text("routines.enabled"), routines.c.next_at > bindparam("now"))
)


class Routines(Noun):
    """Routines of agents; an unreadable row counts as missing and is logged."""

    async def add(self, routine: Routine) -> None:
        """Store a new routine. Raises Conflict if the agent has one of its name."""
        await self._hold(agent_key(routine.agent_id))
        if not await self._write(_ADD, _write_routine(routine)):
            raise Conflict(f"the agent has a routine {routine.name!r} already")
        await save_next_wake(self._runner, routine.agent_id)

    async def save(self, routine: Routine, *, origin: Routine) -> bool:
        """Write the routine if its next_at still matches `origin`; return whether it did."""
        await self._hold(agent_key(routine.agent_id))
        saved = await self._write(_SAVE, (*_write_state(routine), origin.next_at)) == 1
        await save_next_wake(self._runner, routine.agent_id)
        return saved

    async def remove(self, agent_id: AgentId, name: str) -> bool:
        """Delete a routine; return whether it existed."""
        await self._hold(agent_key(agent_id))
        removed = await self._execute(_DELETE, {"agent_id": agent_id, "name": name}) == 1
        await save_next_wake(self._runner, agent_id)
        return removed

    async def remove_ending_on_wake(self, agent_id: AgentId) -> Sequence[Routine]:
        """Delete the routines to come that a wake ends, and return them."""
        ending = [each for each in await self.find_by_agent(agent_id) if each.ends_on_wake and each.next_at is not None]
        for routine in ending:
            await self.remove(agent_id, routine.name)
        return ending

    async def remove_others(self, agent_id: AgentId, names: Collection[str]) -> None:
        """Delete what people set for the agent except these names, unreadable ones too."""
        await self._hold(agent_key(agent_id))
        others = delete(routines).where(
            routines.c.agent_id == agent_id, routines.c.name.not_in(names), routines.c.own.is_not(True)
        )
        await self._run(lambda connection: connection.execute(others))
        await save_next_wake(self._runner, agent_id)

    async def get(self, agent_id: AgentId, name: str) -> Routine | None:
        await self._hold(agent_key(agent_id))
        row = await self._first(_SELECT, {"agent_id": agent_id, "name": name})
        return None if row is None else next(iter(_load_readable([row])), None)

    async def find_by_agent(self, agent_id: AgentId) -> Sequence[Routine]:
        """Return the agent's routines by name."""
        await self._hold(agent_key(agent_id))
        return _load_readable(await self._all(_SELECT_OF_AGENT, {"agent_id": agent_id}))

    async def find_own(self, *, after: RoutineId | None = None, limit: int) -> Sequence[Routine]:
        """Return what agents have set for themselves, of all agents, after this one in the order of ids."""
        return _load_readable(await self._all(_SELECT_OWN, {"after": after or "", "most": limit}))

    async def find_due(self, now: datetime, *, limit: int) -> Sequence[Routine]:
        """Return enabled routines whose next_at has come, longest overdue first."""
        unread = 0
        while True:
            rows = await self._all(_SELECT_DUE, {"now": now, "most": limit + unread})
            readable = _load_readable(rows)
            if len(readable) >= limit or len(rows) < limit + unread:
                return readable
            unread = len(rows) - len(readable)

    async def find_due_after(self, instant: datetime) -> Sequence[Routine]:
        """Return enabled routines whose next_at is later."""
        rows = await self._all(_SELECT_DUE_AFTER, {"instant": instant}, short=False)
        return await asyncio.to_thread(_load_readable, rows)

    async def next_due_time(self, now: datetime) -> datetime | None:
        return await self._scalar(_SELECT_NEXT_DUE, {"now": now})


def _load_readable(rows: Sequence[Row[Any]]) -> list[Routine]:
    routines: list[Routine] = []
    for row in rows:
        try:
            routines.append(_read_routine(row))
        except (InvalidRequest, ValidationError) as error:
            why = (
                error.message
                if isinstance(error, InvalidRequest)
                else f"{error.error_count()} of its fields are unknown"
            )
            log_unreadable_once(row.agent_id, row.name, why)
    return routines


@lru_cache(maxsize=1_000)
def log_unreadable_once(agent_id: str, name: str, why: str) -> None:
    """Log that a routine is unreadable, once per process."""
    _logger.error(
        "routine %r of agent %s cannot be read and does not run: %s; write its schedule again, or start the release "
        "that wrote it", name, agent_id, why,
    )  # fmt: skip
