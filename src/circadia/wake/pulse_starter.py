"""Starts an admitted pulse: opens a resident agent's gate, or adds a row for the engine (WAKE-56)."""

from dataclasses import replace

from circadia.records.agent import Agent, Cause
from circadia.records.coordination import RESIDENT
from circadia.records.pulse import Pulse, PulseKind
from circadia.records.wake import Decision, Wake
from circadia.stores.base import Tx
from circadia.wake.pulse_lifecycle import PulseLifecycle
from circadia.wake.sleep_changes import SleepChanges


class PulseStarter:
    def __init__(self, rows: PulseLifecycle, sleep: SleepChanges) -> None:
        self._rows = rows
        self._sleep = sleep

    def drain(self) -> None:
        self._sleep.drain()

    async def open_gate(self, tx: Tx, target: Agent, wake: Wake) -> None:
        """Open the gate for a wake that needs no admission: the time awake counts, and no wake is charged (WAKE-56)."""
        actor = f"{wake.reason} by {wake.sender}"
        await self._sleep.change_sleep(tx, target.id, asleep=False, cause=Cause.EVENT, actor=actor, wake=wake)

    async def open_pulse(
        self,
        tx: Tx,
        target: Agent,
        *,
        kind: PulseKind,
        by: str,
        reason: str,
        wake: Wake | None = None,
        timeout_seconds: float | None = None,
    ) -> Pulse:
        """Create a pulse with this limit, or return the open pulse of a resident agent that is already awake."""
        resident = target.coordination.launcher == RESIDENT
        if resident and not target.asleep:
            running = [pulse for pulse in await tx.pulses.find_open(target.id) if pulse.launcher == RESIDENT]
            if running:
                return running[-1]
        pulse = await self._rows.add(
            tx,
            target,
            kind=kind,
            by=by,
            reason=reason,
            running=resident,
            root_id=wake.root_id if wake else None,
            depth=wake.depth if wake else 0,
            timeout_seconds=timeout_seconds,
            wake_id=wake.id if wake else None,
            routine=wake.routine if wake else None,
        )
        if resident and target.asleep:
            actor = f"{reason} by {by}"
            await self._sleep.change_sleep(tx, target.id, asleep=False, cause=Cause.PULSE, actor=actor, wake=wake)
        return pulse

    async def extend_joined_pulse(self, tx: Tx, target: Agent, wake: Wake) -> None:
        """Extend the pulse that the wake joined, if any, to the longest limit of its wakes."""
        if wake.decision is not Decision.COALESCED or wake.pulse_id is None:
            return
        pulse = await tx.pulses.get(wake.pulse_id)
        if pulse is None or pulse.timeout_seconds is None:
            return
        limit = wake.timeout_seconds or target.coordination.pulse_timeout_seconds
        if limit is None or limit > pulse.timeout_seconds:
            await tx.pulses.save(replace(pulse, timeout_seconds=limit), origin=pulse)
