"""Pulses: the rows are the source of truth and the engine's outbox (WAKE-50)."""

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from itertools import takewhile
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, Row, and_, bindparam, insert, select, tuple_, type_coerce, update

from circadia.errors import Conflict
from circadia.ids import AgentId, PulseId, WakeId
from circadia.records.pulse import FAILED, Pulse, PulseKind, PulseStatus
from circadia.stores.locks import agent_key
from circadia.stores.sql.job_claims import JobClaims
from circadia.stores.sql.link import Runner, fetch_held
from circadia.stores.sql.schema import Instant, pulses
from circadia.stores.sql.statement import Statement

_FIELDS: Final = tuple(field.name for field in fields(Pulse))
_ROW = attrgetter(*_FIELDS)
_ADD = Statement(insert(pulses).inline(), _FIELDS)
_MOVING: Final = (
    "status", "attempt", "epoch", "owner", "lease_until", "not_before", "prompted_at", "started_at", "ended_at",
    "run_seconds", "timeout_seconds", "detail", "token_hash",
)  # fmt: skip
_SAVE = Statement(
    update(pulses)
    .where(
        pulses.c.id == bindparam("key_id"),
        pulses.c.status == bindparam("origin"),
        pulses.c.epoch == bindparam("origin_epoch"),
    )
    .values({name: bindparam(f"new_{name}") for name in _MOVING}),
    [*(f"new_{name}" for name in _MOVING), "key_id", "origin", "origin_epoch"],
    is_checked=True,
)
_MOST_LISTED: Final = 500
"""Maximum number of pulses listed in a statement."""
_IS_OPEN = pulses.c.ended_at.is_(None)
_GET = Statement(select(pulses).where(pulses.c.id == bindparam("key_id")))
# Unordered: an order would make SQLite read all pulses that the agent ever had.
_OPEN_OF = Statement(select(pulses).where(pulses.c.agent_id == bindparam("agent_id"), _IS_OPEN))
_BY_TOKEN = Statement(select(pulses).where(pulses.c.token_hash == bindparam("token_hash")))
_OF_ROOT = Statement(
    select(pulses).where(pulses.c.root_id == bindparam("root")).order_by(pulses.c.created_at, pulses.c.id)
)
CLAIMS: Final = JobClaims(
    pulses,
    pending=PulseStatus.PENDING.value,
    taken=(PulseStatus.STARTING.value, PulseStatus.RUNNING.value),
    first=(pulses.c.created_at, pulses.c.id),
    farthest=timedelta(minutes=1),  # longer than any retry delay (`wake/pulse_service.py`)
    kind=pulses.c.launcher,
)
_UNCLAIMED = Statement(
    select(pulses)
    .where(CLAIMS.is_startable, pulses.c.created_at <= bindparam("before"))
    .order_by(pulses.c.created_at, pulses.c.id)
    .limit(bindparam("most"))
)
IS_OVERDUE = and_(
    CLAIMS.is_taken,
    pulses.c.owner.is_(None),
    # The sum keeps type Instant; cast to a number, the parameter would be bound without conversion.
    type_coerce(type_coerce(pulses.c.started_at, BigInteger) + pulses.c.timeout_seconds * 1_000_000, Instant)
    <= bindparam("now"),
)
_BUSY_AGENTS = Statement(select(pulses.c.agent_id).where(_IS_OPEN).distinct())
_OVERDUE = Statement(select(pulses).where(IS_OVERDUE))
_ENDED = Statement(
    select(pulses.c.status, pulses.c.ended_at)
    .where(
        pulses.c.agent_id == bindparam("agent_id"),
        pulses.c.ended_at.is_not(None),
        pulses.c.kind != PulseKind.GATE.value,
    )
    .order_by(pulses.c.ended_at.desc())
    .limit(bindparam("most"))
)
_FAILED: Final = frozenset(status.value for status in FAILED)


class SqlPulses:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._run = runner.run
        self._hold = runner.hold
        self._keep = runner.queue_write
        self._open: dict[AgentId, dict[PulseId, Pulse]] = {}
        """Open pulses by agent, as this block has read and changed them: their agents are held."""

    async def add(self, pulse: Pulse) -> None:
        await self._hold(agent_key(pulse.agent_id))
        self._note(pulse)
        self._keep(_ADD, _ROW(pulse))

    async def save(self, pulse: Pulse, *, origin: Pulse) -> bool:
        await self._hold(agent_key(pulse.agent_id))
        values = _build_save(pulse, origin)
        is_saved = await self._run(lambda connection: _SAVE.execute(connection, values) == 1)
        if is_saved:
            self._note(pulse)
        return is_saved

    async def queue_save(self, pulse: Pulse, *, origin: Pulse) -> None:
        await self._hold(agent_key(pulse.agent_id))
        self._note(pulse)
        moved = Conflict(f"pulse {pulse.id!r} was moved by another process")
        self._keep(_SAVE, list(_build_save(pulse, origin).values()), key=pulse.id, or_raise=moved)

    def _note(self, pulse: Pulse) -> None:
        open_pulses = self._open.get(pulse.agent_id)
        if open_pulses is not None:
            open_pulses.pop(pulse.id, None)
            if pulse.ended_at is None:
                open_pulses[pulse.id] = pulse

    async def get(self, pulse_id: PulseId) -> Pulse | None:
        def work(connection: Connection) -> Pulse | None:
            row = _GET.first(connection, {"key_id": pulse_id})
            return None if row is None else _pulse(row)

        return await fetch_held(self._runner, work, lambda pulse: agent_key(pulse.agent_id))

    async def get_by_token(self, token_hash: str) -> Pulse | None:
        rows = await self._run(lambda connection: _BY_TOKEN.all(connection, {"token_hash": token_hash}))
        # Checked here: in the query, PostgreSQL would scan the index of open pulses for the one with the token.
        return next((_pulse(row) for row in rows if row.ended_at is None), None)

    async def find_open(self, agent_id: AgentId) -> Sequence[Pulse]:
        await self._hold(agent_key(agent_id))
        open_pulses = self._open.get(agent_id)
        if open_pulses is None:
            rows = await self._run(lambda connection: _OPEN_OF.all(connection, {"agent_id": agent_id}), of=(pulses,))
            open_pulses = self._open[agent_id] = {pulse.id: pulse for pulse in map(_pulse, rows)}
        return sorted(open_pulses.values(), key=lambda pulse: (pulse.created_at, pulse.id))

    async def find_busy_agents(self) -> Collection[AgentId]:
        rows = await self._run(lambda connection: _BUSY_AGENTS.all(connection, {}))
        return frozenset(AgentId(row.agent_id) for row in rows)

    async def find_by_root(self, root_id: str) -> Sequence[Pulse]:
        rows = await self._run(lambda connection: _OF_ROOT.all(connection, {"root": root_id}))
        return [_pulse(row) for row in rows]

    async def has_startable(self, now: datetime, launchers: Collection[str]) -> bool:
        return await CLAIMS.has_startable(self._runner, now, launchers)

    async def claim(
        self, owner: str, launchers: Collection[str], *, now: datetime, until: datetime, limit: int,
        since: datetime | None = None,
    ) -> Sequence[Pulse]:  # fmt: skip
        self._open.clear()
        rows = await CLAIMS.claim(self._runner, owner, now=now, until=until, limit=limit, kinds=launchers, since=since)
        return sorted((_pulse(row) for row in rows), key=lambda pulse: (pulse.created_at, pulse.id))

    async def find_unclaimed(self, now: datetime, *, before: datetime, limit: int) -> Sequence[Pulse]:
        values = {**CLAIMS.build_values(now), "before": before, "most": limit}
        rows = await self._run(lambda connection: _UNCLAIMED.all(connection, values))
        return [_pulse(row) for row in rows]

    async def find_overdue(self, now: datetime) -> Sequence[Pulse]:
        rows = await self._run(lambda connection: _OVERDUE.all(connection, {"now": now}))
        return [_pulse(row) for row in rows]

    async def find_claimed(self) -> Sequence[Pulse]:
        return [_pulse(row) for row in await CLAIMS.find_owned(self._runner)]

    async def renew_leases(self, owner: str, until: datetime) -> None:
        self._open.clear()
        await CLAIMS.renew_leases(self._runner, owner, until)

    async def shift_starts(
        self, seconds: float, *, of: Collection[PulseId] | None, but_from: datetime, but_to: datetime
    ) -> None:
        self._open.clear()
        new_start = type_coerce(type_coerce(pulses.c.started_at, BigInteger) + int(seconds * 1_000_000), Instant)
        statement = (
            update(pulses).where(_IS_OPEN, ~pulses.c.started_at.between(but_from, but_to)).values(started_at=new_start)
        )
        keys = [None] if of is None else [list(of)[n : n + _MOST_LISTED] for n in range(0, len(of), _MOST_LISTED)]
        for some in keys:
            chosen = statement if some is None else statement.where(pulses.c.id.in_(some))
            await self._run(lambda connection, chosen=chosen: connection.execute(chosen))

    async def find_all(
        self,
        *,
        agent_id: AgentId | None = None,
        status: PulseStatus | None = None,
        since: datetime | None = None,
        before: PulseId | None = None,
        limit: int = 100,
    ) -> Sequence[Pulse]:
        statement = select(pulses).order_by(pulses.c.created_at.desc(), pulses.c.id.desc()).limit(limit)
        if agent_id is not None:
            statement = statement.where(pulses.c.agent_id == agent_id)
        if status is not None:
            statement = statement.where(pulses.c.status == status.value)
        if since is not None:
            statement = statement.where(pulses.c.created_at >= since)
        if before is not None:
            last = pulses.alias()
            created_at = select(last.c.created_at).where(last.c.id == before).scalar_subquery()
            statement = statement.where(tuple_(pulses.c.created_at, pulses.c.id) < tuple_(created_at, before))
        rows = await self._run(lambda connection: connection.execute(statement).all())
        return [_pulse(row) for row in rows]

    async def count_failures(self, agent_id: AgentId, *, limit: int) -> tuple[int, datetime | None]:
        await self._hold(agent_key(agent_id))
        values = {"agent_id": agent_id, "most": limit}
        rows = await self._run(lambda connection: _ENDED.all(connection, values), of=(pulses,))
        failed = list(takewhile(lambda row: row.status in _FAILED, rows))
        return len(failed), failed[0].ended_at if failed else None


def _build_save(pulse: Pulse, origin: Pulse) -> dict[str, Any]:
    values: dict[str, Any] = {f"new_{name}": getattr(pulse, name) for name in _MOVING}
    return {**values, "key_id": pulse.id, "origin": origin.status.value, "origin_epoch": origin.epoch}


def _pulse(row: Row[Any]) -> Pulse:
    return Pulse(
        id=PulseId(row.id),
        agent_id=AgentId(row.agent_id),
        agent=row.agent,
        kind=PulseKind(row.kind),
        status=PulseStatus(row.status),
        launcher=row.launcher,
        wake_id=None if row.wake_id is None else WakeId(row.wake_id),
        by=row.by,
        reason=row.reason,
        routine=row.routine,
        attempt=row.attempt,
        epoch=row.epoch,
        owner=row.owner,
        lease_until=row.lease_until,
        not_before=row.not_before,
        prompted_at=row.prompted_at,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        run_seconds=row.run_seconds,
        timeout_seconds=row.timeout_seconds,
        detail=row.detail,
        token_hash=row.token_hash,
        root_id=row.root_id,
        depth=row.depth,
    )
