"""Pulse rows: created, moved by the transition table, and recorded as events in the same transaction (WAKE-50)."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import Conflict
from circadia.ids import AgentId, IdSource, PulseId
from circadia.jobs.leased_jobs import fetch_claimed
from circadia.records.agent import Agent
from circadia.records.coordination import RESIDENT
from circadia.records.event import EventType, PulseChange
from circadia.records.pulse import PULSE_MOVES, Pulse, PulseKind, PulseStatus
from circadia.records.span import Span, SpanKind
from circadia.records.wake import Wake
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog

CLOCK_SET_SECONDS: Final = 5.0
"""Drift of the wall clock between two checks from which it counts as set."""


class ClockJumps:
    """How far the wall clock was set since the last check. One per process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = self._wall_offset()
        self._looked_at = clock.monotonic()

    @property
    def gained_seconds(self) -> float:
        """Seconds that the clock was set forward, or back if negative; 0 if it was not set."""
        gained = self._wall_offset() - self._offset
        return gained if abs(gained) > CLOCK_SET_SECONDS else 0.0

    @property
    def last_check_at(self) -> datetime:
        """Time of the last check on the current clock; what began since then is right."""
        return self._clock.now() - timedelta(seconds=self._clock.monotonic() - self._looked_at)

    def resync(self) -> None:
        """Accept the current clock: earlier starts were corrected, or it was not set."""
        self._offset = self._wall_offset()
        self._looked_at = self._clock.monotonic()

    def corrected_start(self, began: datetime) -> datetime:
        """Return the start of something unfinished, on the current clock."""
        now, gained = self._clock.now(), self.gained_seconds
        new_start = began + timedelta(seconds=gained)
        return began if new_start > now or self.last_check_at <= began <= now else new_start

    def _wall_offset(self) -> float:
        """Return how far the wall clock is ahead of the monotonic one."""
        return self._clock.now().timestamp() - self._clock.monotonic()


class PulseLifecycle:
    def __init__(self, clock: Clock, ids: IdSource, events: EventLog) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events
        self._jumps = ClockJumps(clock)
        self._begun: set[PulseId] = set()

    async def add(
        self,
        tx: Tx,
        agent: Agent,
        *,
        kind: PulseKind,
        by: str,
        reason: str,
        running: bool,
        wake: Wake | None,
        timeout_seconds: float | None = None,
    ) -> Pulse:
        """Create a pulse, running or pending; without a wake it starts a chain."""
        now = self._clock.now()
        pulse_id = PulseId(self._ids.new("pls"))
        pulse = Pulse(
            id=pulse_id,
            agent_id=agent.id,
            agent=agent.reference,
            kind=kind,
            status=PulseStatus.RUNNING if running else PulseStatus.PENDING,
            launcher=RESIDENT if running else agent.coordination.launcher,
            by=by,
            reason=reason,
            attempt=int(running),
            created_at=now,
            started_at=now if running else None,
            timeout_seconds=timeout_seconds,
            root_id=wake.root_id if wake else pulse_id,
            depth=wake.depth if wake else 0,
            wake_id=wake and wake.id,
            routine=wake and wake.routine,
        )
        await tx.pulses.add(pulse)
        self._track_running(tx, pulse)
        await self._record_event(tx, agent.session, agent.name, pulse)
        return pulse

    async def move(
        self, tx: Tx, pulse: Pulse, to: PulseStatus, *, ran_until: datetime | None = None, **changes: Any
    ) -> Pulse:
        """Move a pulse, update the charge of its wakes, and return the new row.

        `ran_until` bounds the time until which its agent ran; the default is now.

        Raises:
            Conflict: the move is not allowed. The block raises it, at its end at the latest, if somebody else moved the
                pulse meanwhile.
        """
        if to not in PULSE_MOVES[pulse.status]:
            raise Conflict(f"pulse {pulse.id!r} is {pulse.status.value}; it cannot become {to.value}")
        now = self._clock.now()
        if pulse.started_at is not None:
            pulse = replace(pulse, started_at=self._jumps.corrected_start(pulse.started_at))
        new_row = replace(pulse, status=to, **changes)
        if not PULSE_MOVES[to]:
            new_row = replace(new_row, ended_at=now, lease_until=None, owner=None, not_before=None, token_hash=None)
        elif to is PulseStatus.PENDING:
            new_row = replace(new_row, lease_until=None, owner=None, started_at=None, prompted_at=None, token_hash=None)
        elif to is PulseStatus.SUSPENDED:
            new_row = replace(new_row, ended_at=now, lease_until=None, owner=None, started_at=None, token_hash=None)
        if to in (PulseStatus.PENDING, PulseStatus.SUSPENDED) and pulse.started_at is not None:
            ran = seconds_between(pulse.started_at, min(now, ran_until or now))
            new_row = replace(new_row, run_seconds=pulse.run_seconds + ran)
        new_row = await self._save(tx, new_row, pulse)
        session, _, name = new_row.agent.rpartition(":")
        session = session or "default"
        if to is PulseStatus.PENDING or not PULSE_MOVES[to]:
            await _add_span(tx, session, name, pulse, new_row, now)
        released = 0
        if to is PulseStatus.RUNNING:
            await tx.wakes.charge_reserved(pulse.id)
        elif not PULSE_MOVES[to] and pulse.status is not PulseStatus.RUNNING:
            released = await tx.wakes.release_reserved(pulse.id)
        self._track_running(tx, new_row)
        await self._record_event(tx, session, name, new_row, released)
        return new_row

    async def resume(
        self, tx: Tx, pulse: Pulse, wake: Wake, *, today: datetime, timeout_seconds: float | None
    ) -> Pulse:
        """Put a suspended pulse back to pending for this wake, to whose chain it belongs from now on.

        Its attempts count anew, and of its run time what belongs to `today`, which begins then.
        """
        is_of_today = pulse.ended_at is not None and pulse.ended_at >= today
        return await self.move(
            tx, pulse, PulseStatus.PENDING, epoch=pulse.epoch + 1, attempt=0, ended_at=None, detail="",
            run_seconds=pulse.run_seconds if is_of_today else 0.0, timeout_seconds=timeout_seconds, wake_id=wake.id,
            by=wake.sender, reason=wake.reason, routine=wake.routine, root_id=wake.root_id, depth=wake.depth,
        )  # fmt: skip

    async def _save(self, tx: Tx, new_row: Pulse, origin: Pulse) -> Pulse:
        """Save the row, and return it with its epoch. A worker may just have claimed a pending pulse that ends here."""
        if origin.status is not PulseStatus.PENDING or PULSE_MOVES[new_row.status]:
            await tx.pulses.queue_save(new_row, origin=origin)
            return new_row
        while not await tx.pulses.save(new_row, origin=origin):
            claimed = await fetch_claimed(tx.pulses, origin)
            if claimed is None:
                raise Conflict(f"pulse {origin.id!r} was moved by another process")
            origin, new_row = claimed, replace(new_row, epoch=claimed.epoch)
        return new_row

    def has_clock_jumped(self) -> bool:
        """Check the wall clock, about once a second; if it was set, call `shift_open_pulses`."""
        if self._jumps.gained_seconds:
            return True
        self._jumps.resync()
        return False

    async def shift_open_pulses(self, tx: Tx, *, of_all: bool) -> None:
        """Keep the run time of open pulses when the wall clock was set (WAKE-53).

        Without `of_all` those only that this process began: others have a process that looks after them.
        """
        of = None if of_all else tuple(self._begun)
        gained, fresh_from = self._jumps.gained_seconds, self._jumps.last_check_at
        await tx.pulses.shift_starts(gained, of=of, but_from=fresh_from, but_to=self._clock.now())
        tx.after_commit(self._jumps.resync)

    def _track_running(self, tx: Tx, pulse: Pulse) -> None:
        """Track the running pulses that this process began."""
        change = self._begun.add if pulse.status is PulseStatus.RUNNING else self._begun.discard
        tx.after_commit(lambda: change(pulse.id))

    async def _record_event(self, tx: Tx, session: str, name: str, pulse: Pulse, released: int = 0) -> None:
        now = self._clock.now()
        if pulse.kind is not PulseKind.GATE:  # sleep events cover gate pulses
            data = PulseChange(
                pulse=pulse.id,
                status=pulse.status,
                kind=pulse.kind,
                launcher=pulse.launcher,
                by=pulse.by,
                reason=pulse.reason,
                attempt=pulse.attempt,
                detail=pulse.detail,
                root=pulse.root_id,
                depth=pulse.depth,
                run_seconds=round(total_run_seconds(pulse, now), 3),
                released=released,
            )
            await self._events.record(tx, EventType.PULSE, data, session=session, agent=name, at=now)
        payload = {"agent": pulse.agent_id, "status": pulse.status.value, "released": released}
        self._events.signal(tx, "pulse", pulse.id, payload)


async def _add_span(tx: Tx, session: str, name: str, attempt: Pulse, new_row: Pulse, now: datetime) -> None:
    """Write the span of an attempt that has ended; a gate's is the agent's time awake."""
    if attempt.started_at is None or attempt.kind is PulseKind.GATE:
        return
    span = Span(
        agent_id=attempt.agent_id, session=session, agent=name, kind=SpanKind.PULSE,
        started_at=min(attempt.started_at, now), ended_at=now, by=attempt.by, reason=attempt.reason,
        outcome=new_row.status.value if new_row.ended_at else PulseStatus.INTERRUPTED.value, ref=attempt.id,
    )  # fmt: skip
    await tx.spans.add(span)


async def find_launched_run(tx: Tx, agent_id: AgentId, *, status: PulseStatus = PulseStatus.RUNNING) -> Pulse | None:
    """Return the agent's latest pulse that a launcher has started and that runs, if any, or is in another `status`."""
    pulses = [pulse for pulse in await tx.pulses.find_open(agent_id) if pulse.launcher != RESIDENT]
    return next((pulse for pulse in reversed(pulses) if pulse.status is status), None)


def total_run_seconds(pulse: Pulse, now: datetime) -> float:
    """Return the agent's run time in all attempts of the pulse."""
    if pulse.started_at is None:
        return pulse.run_seconds
    return pulse.run_seconds + seconds_between(pulse.started_at, pulse.ended_at or now)


def seconds_between(start: datetime, end: datetime) -> float:
    """Return the seconds, or 0 if a clock was set back."""
    return max(0.0, (end - start).total_seconds())
