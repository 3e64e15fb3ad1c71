"""The routines of agents."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import Connection, Row, bindparam, delete, func, select, text, update

from circadia.errors import Conflict
from circadia.ids import AgentId, RoutineId
from circadia.records.schedule import Routine, RoutineSpec
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import routines
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_SPEC: Final = TypeAdapter(RoutineSpec)
_SPEC_FIELDS: Final = tuple(field.name for field in fields(RoutineSpec))
_STATE: Final = ("next_at", "deferred_from", "last_at", "skips", "missed")
_ADD = Statement(Upsert(routines), [column.name for column in routines.c])
_SAVE = Statement(
    update(routines)
    .where(routines.c.id == bindparam("key_id"), routines.c.next_at.is_not_distinct_from(bindparam("origin_next")))
    .values({name: bindparam(f"new_{name}") for name in ("spec", "enabled", *_STATE)})
)
_ROWS = select(routines).where(routines.c.agent_id == bindparam("agent_id")).order_by(routines.c.name)
_OF_AGENT = Statement(_ROWS)
_ONE = Statement(_ROWS.where(routines.c.name == bindparam("name")))
_REMOVE = Statement(
    delete(routines).where(routines.c.agent_id == bindparam("agent_id"), routines.c.name == bindparam("name"))
)
_DUE = Statement(
    select(routines)
    # As the partial index has it: SQLite does not see that `enabled = 1` is the same.
    .where(text("routines.enabled"), routines.c.next_at <= bindparam("now"))
    .order_by(routines.c.next_at)
    .limit(bindparam("most"))
)

_DUE_AFTER = Statement(select(routines).where(text("routines.enabled"), routines.c.next_at > bindparam("instant")))
_NEXT = Statement(
    select(func.min(routines.c.next_at)).where(text("routines.enabled"), routines.c.next_at > bindparam("now"))
)


class SqlRoutines:
    """The routines of agents, in one transaction."""

    def __init__(self, runner: Runner) -> None:
        self._run = runner.run

    async def add(self, routine: Routine) -> None:
        """Store a new one. Raises Conflict if the agent has one of its name."""
        values = {
            "id": routine.id, "agent_id": routine.agent_id, "name": routine.name, "created_at": routine.created_at,
            **_written(routine),
        }  # fmt: skip

        def work(connection: Connection) -> bool:
            return _ADD.count(connection, values) == 1

        if not await self._run(work):
            raise Conflict(f"the agent has a routine {routine.name!r} already")

    async def save(self, routine: Routine, *, origin: Routine) -> bool:
        """Write it if its next_at is still that of `origin`; return whether it was."""
        values: dict[str, Any] = {f"new_{name}": value for name, value in _written(routine).items()}
        values |= {"key_id": routine.id, "origin_next": origin.next_at}
        return await self._run(lambda connection: _SAVE.count(connection, values) == 1)

    async def remove(self, agent_id: AgentId, name: str) -> bool:
        """Delete it; return whether there was one."""
        values = {"agent_id": agent_id, "name": name}
        return await self._run(lambda connection: _REMOVE.count(connection, values) == 1)

    async def get(self, agent_id: AgentId, name: str) -> Routine | None:
        """Return the agent's routine of this name."""
        values = {"agent_id": agent_id, "name": name}
        row = await self._run(lambda connection: _ONE.first(connection, values))
        return None if row is None else _routine(row)

    async def of_agent(self, agent_id: AgentId) -> Sequence[Routine]:
        """Return the agent's routines by name."""
        rows = await self._run(lambda connection: _OF_AGENT.all(connection, {"agent_id": agent_id}))
        return [_routine(row) for row in rows]

    async def due(self, now: datetime, *, limit: int) -> Sequence[Routine]:
        """Return enabled ones whose next_at has come, the longest due first."""
        rows = await self._run(lambda connection: _DUE.all(connection, {"now": now, "most": limit}))
        return [_routine(row) for row in rows]

    async def due_after(self, instant: datetime) -> Sequence[Routine]:
        """Return enabled ones whose next_at is later than that."""
        rows = await self._run(lambda connection: _DUE_AFTER.all(connection, {"instant": instant}))
        return [_routine(row) for row in rows]

    async def next_after(self, now: datetime) -> datetime | None:
        """Return when the next enabled one will be due; none means that there is none."""
        return await self._run(lambda connection: _NEXT.scalar(connection, {"now": now}))


def _written(routine: Routine) -> dict[str, Any]:
    spec = RoutineSpec(**{name: getattr(routine, name) for name in _SPEC_FIELDS})
    return {
        "spec": _SPEC.dump_python(spec, mode="json"),
        "enabled": routine.enabled,
        **{name: getattr(routine, name) for name in _STATE},
    }


def _routine(row: Row[Any]) -> Routine:
    spec = _SPEC.validate_python(row.spec)
    return Routine(
        **{name: getattr(spec, name) for name in _SPEC_FIELDS},
        id=RoutineId(row.id),
        agent_id=AgentId(row.agent_id),
        created_at=row.created_at,
        **{name: getattr(row, name) for name in _STATE},
    )
