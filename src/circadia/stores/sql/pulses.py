"""Pulses: the rows are the source of truth and the engine's outbox (WAKE-50)."""

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, Final

from sqlalchemy import BigInteger, and_, bindparam, insert, select, text, tuple_, type_coerce, update

from circadia.errors import Conflict
from circadia.ids import AgentId, PulseId
from circadia.records.pulse import FAILED, Pulse, PulseKind, PulseStatus
from circadia.stores.locks import agent_key
from circadia.stores.sql.job_claims import JobClaims
from circadia.stores.sql.link import Runner
from circadia.stores.sql.noun import Noun, where_given
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant, pulses
from circadia.stores.sql.statement import Statement

_FIELDS: Final = tuple(field.name for field in fields(Pulse))
_write_pulse = build_writer(_FIELDS)
_read_pulse = build_reader(Pulse)
_ADD = Statement(insert(pulses).inline(), _FIELDS)
_MOVING: Final = (
    "status", "attempt", "epoch", "owner", "lease_until", "not_before", "prompted_at", "started_at", "ended_at",
    "run_seconds", "timeout_seconds", "detail", "token_hash", "wake_id", "by", "reason", "routine", "root_id", "depth",
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
_MAX_LISTED: Final = 500
"""Maximum number of pulses listed in a statement."""
_IS_OPEN = pulses.c.ended_at.is_(None)
_SELECT = Statement(select(pulses).where(pulses.c.id == bindparam("key_id")), read=_read_pulse)
# Unordered: an order would make SQLite read all pulses that the agent ever had.
_SELECT_OPEN = Statement(select(pulses).where(pulses.c.agent_id == bindparam("agent_id"), _IS_OPEN))
_SELECT_SUSPENDED = Statement(
    select(pulses).where(pulses.c.agent_id == bindparam("agent_id"), text("pulses.status = 'suspended'")),
    read=_read_pulse,
)
_SELECT_BY_TOKEN = Statement(select(pulses).where(pulses.c.token_hash == bindparam("token_hash")))
_SELECT_OF_ROOT = Statement(
    select(pulses).where(pulses.c.root_id == bindparam("root")).order_by(pulses.c.created_at, pulses.c.id),
    read=_read_pulse,
)
CLAIMS: Final = JobClaims(
    pulses,
    pending=PulseStatus.PENDING.value,
    taken=(PulseStatus.STARTING.value, PulseStatus.RUNNING.value),
    first=(pulses.c.created_at, pulses.c.id),
    farthest=timedelta(minutes=1),  # longer than any retry delay (`wake/pulse_service.py`)
    kind=pulses.c.launcher,
    read=_read_pulse,
)
_SELECT_UNCLAIMED = Statement(
    select(pulses)
    .where(CLAIMS.is_startable, pulses.c.created_at <= bindparam("before"))
    .order_by(pulses.c.created_at, pulses.c.id)
    .limit(bindparam("most")),
    read=_read_pulse,
)
IS_OVERDUE = and_(
    CLAIMS.is_taken,
    pulses.c.owner.is_(None),
    # The sum keeps type Instant; cast to a number, the parameter would be bound without conversion.
    type_coerce(type_coerce(pulses.c.started_at, BigInteger) + pulses.c.timeout_seconds * 1_000_000, Instant)
    <= bindparam("now"),
)
_SELECT_BUSY_AGENTS = Statement(select(pulses.c.agent_id).where(_IS_OPEN).distinct())
_SELECT_OVERDUE = Statement(select(pulses).where(IS_OVERDUE), read=_read_pulse)
_SELECT_ENDED = Statement(
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


class Pulses(Noun):
    """Pulses: the rows are the source of truth and the engine's outbox (WAKE-50)."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self._open: dict[AgentId, dict[PulseId, Pulse]] = {}
        """Open pulses by agent, as this block has read and changed them: their agents are held."""

    async def add(self, pulse: Pulse) -> None:
        await self._hold(agent_key(pulse.agent_id))
        self._note(pulse)
        self._queue_write(_ADD, _write_pulse(pulse))

    async def save(self, pulse: Pulse, *, origin: Pulse) -> bool:
        """Write the pulse if its stored state, epoch included, matches `origin`; return whether it did."""
        await self._hold(agent_key(pulse.agent_id))
        values = _build_save(pulse, origin)
        is_saved = await self._execute(_SAVE, values) == 1
        if is_saved:
            self._note(pulse)
        return is_saved

    async def queue_save(self, pulse: Pulse, *, origin: Pulse) -> None:
        """Write the pulse by the end of the block, which fails with Conflict if its state does not match `origin`."""
        await self._hold(agent_key(pulse.agent_id))
        self._note(pulse)
        moved = Conflict(f"pulse {pulse.id!r} was moved by another process")
        self._queue_write(_SAVE, list(_build_save(pulse, origin).values()), key=pulse.id, or_raise=moved)

    def _note(self, pulse: Pulse) -> None:
        open_pulses = self._open.get(pulse.agent_id)
        if open_pulses is not None:
            open_pulses.pop(pulse.id, None)
            if pulse.ended_at is None:
                open_pulses[pulse.id] = pulse

    async def get(self, pulse_id: PulseId) -> Pulse | None:
        return await self._fetch_held(
            lambda connection: _SELECT.first(connection, {"key_id": pulse_id}), lambda pulse: agent_key(pulse.agent_id)
        )

    async def get_by_token(self, token_hash: str) -> Pulse | None:
        """Return the open pulse with this token."""
        rows = await self._all(_SELECT_BY_TOKEN, {"token_hash": token_hash})
        # Checked here: in the query, PostgreSQL would scan the index of open pulses for the one with the token.
        return next((_read_pulse(row) for row in rows if row.ended_at is None), None)

    async def find_open(self, agent_id: AgentId) -> Sequence[Pulse]:
        """Return the agent's pulses that have not ended, oldest first."""
        await self._hold(agent_key(agent_id))
        open_pulses = self._open.get(agent_id)
        if open_pulses is None:
            rows = await self._all(_SELECT_OPEN, {"agent_id": agent_id}, of=(pulses,))
            open_pulses = self._open[agent_id] = {pulse.id: pulse for pulse in map(_read_pulse, rows)}
        return sorted(open_pulses.values(), key=lambda pulse: (pulse.created_at, pulse.id))

    async def find_running(self, agent_ids: Collection[AgentId]) -> Sequence[Pulse]:
        """Return the open pulses of these agents that have begun, except for gates, oldest first."""
        rows = select(pulses).where(
            _IS_OPEN,
            pulses.c.agent_id.in_(agent_ids),
            pulses.c.started_at.is_not(None),
            pulses.c.kind != PulseKind.GATE.value,
        )
        found = await self._select(rows, _read_pulse) if agent_ids else ()
        return sorted(found, key=lambda pulse: (pulse.created_at, pulse.id))

    async def find_busy_agents(self) -> Collection[AgentId]:
        """Return the agents with a pulse that has not ended."""
        rows = await self._all(_SELECT_BUSY_AGENTS)
        return frozenset(AgentId(row.agent_id) for row in rows)

    async def find_by_root(self, root_id: str) -> Sequence[Pulse]:
        """Return the pulses of a chain in order."""
        return await self._all(_SELECT_OF_ROOT, {"root": root_id})

    async def has_startable(self, now: datetime, launchers: Collection[str]) -> bool:
        """Return whether a pending pulse of these launchers that nobody has claimed may start."""
        return await CLAIMS.has_startable(self._runner, now, launchers)

    async def claim(
        self, owner: str, launchers: Collection[str], *, now: datetime, until: datetime, limit: int,
        since: datetime | None = None,
    ) -> Sequence[Pulse]:  # fmt: skip
        """Claim the oldest pending pulses of these launchers that may start and that nobody else is claiming.

        A claimed pulse stays pending, with the next epoch and a lease `until` then. Those that the owner has claimed
        until `since` or later, in a claim whose answer was lost, are among them.
        """
        self._open.clear()
        claimed = await CLAIMS.claim(
            self._runner, owner, now=now, until=until, limit=limit, kinds=launchers, since=since
        )
        return sorted(claimed, key=lambda pulse: (pulse.created_at, pulse.id))

    async def find_unclaimed(self, now: datetime, *, before: datetime, limit: int) -> Sequence[Pulse]:
        """Return pulses of any launcher that may start, that nobody has claimed, and that were made before then."""
        return await self._all(_SELECT_UNCLAIMED, {**CLAIMS.build_values(now), "before": before, "most": limit})

    async def find_overdue(self, now: datetime) -> Sequence[Pulse]:
        """Return running pulses that no process claimed (waking periods) and whose time is up."""
        return await self._all(_SELECT_OVERDUE, {"now": now})

    async def find_claimed(self) -> Sequence[Pulse]:
        return await CLAIMS.find_owned(self._runner)

    async def renew_leases(self, owner: str, until: datetime) -> None:
        self._open.clear()
        await CLAIMS.renew_leases(self._runner, owner, until)

    async def shift_starts(
        self, seconds: float, *, of: Collection[PulseId] | None, but_from: datetime, but_to: datetime
    ) -> None:
        """Shift the start of these open pulses, or of all with None, except those that started in the given time."""
        self._open.clear()
        new_start = type_coerce(type_coerce(pulses.c.started_at, BigInteger) + int(seconds * 1_000_000), Instant)
        statement = (
            update(pulses).where(_IS_OPEN, ~pulses.c.started_at.between(but_from, but_to)).values(started_at=new_start)
        )
        keys = [None] if of is None else [list(of)[n : n + _MAX_LISTED] for n in range(0, len(of), _MAX_LISTED)]
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
        """Return pulses, newest first; `before` is the last one of the previous page."""
        statement = where_given(
            select(pulses).order_by(pulses.c.created_at.desc(), pulses.c.id.desc()).limit(limit),
            (pulses.c.agent_id, agent_id),
            (pulses.c.status, status),
            time=pulses.c.created_at,
            since=since,
        )
        if before is not None:
            last = pulses.alias()
            created_at = select(last.c.created_at).where(last.c.id == before).scalar_subquery()
            statement = statement.where(tuple_(pulses.c.created_at, pulses.c.id) < tuple_(created_at, before))
        return await self._select(statement, _read_pulse)

    async def find_suspended(self, agent_id: AgentId) -> Sequence[Pulse]:
        """Return the agent's suspended pulses, oldest first."""
        await self._hold(agent_key(agent_id))
        suspended = await self._all(_SELECT_SUSPENDED, {"agent_id": agent_id}, of=(pulses,), short=False)
        return sorted(suspended, key=lambda pulse: (pulse.created_at, pulse.id))

    async def count_failures(self, agent_id: AgentId, *, limit: int) -> tuple[int, datetime | None]:
        """Return how many of the last `limit` ended pulses failed in a row, and when the newest of them ended."""
        await self._hold(agent_key(agent_id))
        values = {"agent_id": agent_id, "most": limit}
        rows = await self._all(_SELECT_ENDED, values, of=(pulses,))
        failed = list(takewhile(lambda row: row.status in _FAILED, rows))
        return len(failed), failed[0].ended_at if failed else None


def _build_save(pulse: Pulse, origin: Pulse) -> dict[str, Any]:
    values: dict[str, Any] = {f"new_{name}": getattr(pulse, name) for name in _MOVING}
    return {**values, "key_id": pulse.id, "origin": origin.status.value, "origin_epoch": origin.epoch}
