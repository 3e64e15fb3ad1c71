"""Wake requests: one function decides them for every entrance (WAKE-10 … WAKE-25).

The decision is made in the transaction that stores the cause of the request. A deferred request goes through the same
function again when a possible obstacle ends.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from circadia.agents.chains import NOWHERE, ChainPosition
from circadia.clock import Clock
from circadia.errors import Conflict
from circadia.ids import PulseId
from circadia.records.agent import Agent, Cause
from circadia.records.coordination import RESIDENT, Guardrails, OnBlock
from circadia.records.message import DeliveryState
from circadia.records.pulse import Pulse, PulseKind
from circadia.records.schedule import BlackoutPolicy, Routine
from circadia.records.wake import (
    DECISION_MOVES,
    FLEET,
    Charge,
    Decision,
    GuardrailCheck,
    GuardrailCounts,
    Wake,
    WakeSource,
    matches_override,
)
from circadia.stores.base import Tx
from circadia.wake.admission.budgets import MAX_ASKED, count_wake, counting_window
from circadia.wake.admission.guardrails import (
    CIRCUIT_FAILURES,
    AdmissionFacts,
    FleetLimits,
    WakeDecision,
    check_guardrails,
)
from circadia.wake.pulse_lifecycle import PulseLifecycle
from circadia.wake.scheduling.blackouts import blackout_at
from circadia.wake.scheduling.wall_clock import day_bounds
from circadia.wake.sleep_changes import SleepChanges
from circadia.wake.wake_rows import NewWake, WakeRows

DRAINING: Final = "draining"
"""Rule of a request that is deferred because the server is stopping (WAKE-55)."""
_QUEUED: Final = "other wakes wait for a pulse slot of the fleet; this one waits its turn"
AGEING_SECONDS: Final = 600.0
"""A deferred request gains one step of priority per interval, so that none starves (WAKE-25)."""
_ANY_NUMBER: Final = Guardrails(max_wakes_per_session=None)
_MAY_NOT_JOIN: Final = ("enabled", "max_wakes_per_session", "max_chain_depth")
"""Rules that refuse a request although the target's pulse has not begun: who may not ask adds nothing to its prompt."""
_KINDS: Final = {
    WakeSource.AGENT: PulseKind.WAKE, WakeSource.THREAD: PulseKind.WAKE, WakeSource.SCHEDULE: PulseKind.SCHEDULE,
    WakeSource.PERSON: PulseKind.MANUAL,
}  # fmt: skip


class RequestedWake(NamedTuple):
    wake: Wake
    counts: GuardrailCounts | None
    """The ledger with this wake, for the budgets of an answer; none if the wake was stored before."""


class WakeRequests:
    """The only writer of wake requests."""

    def __init__(
        self,
        clock: Clock,
        rows: WakeRows,
        pulses: PulseLifecycle,
        sleep: SleepChanges,
        fleet: FleetLimits,
        resuming: Collection[str] = (),
    ) -> None:
        """`resuming` are the launchers whose suspended pulses go on with the next wake."""
        self._resuming = resuming
        self._clock = clock
        self._rows = rows
        self._pulses = pulses
        self._sleep = sleep
        self._fleet = fleet

    def drain(self) -> None:
        """Defer what would be admitted, for another process or the next start (WAKE-55)."""
        self._sleep.drain()

    async def ask(self, tx: Tx, ask: NewWake) -> Wake:
        return (await self.request(tx, ask)).wake

    async def request(self, tx: Tx, ask: NewWake) -> RequestedWake:
        """Decide a request and store it; return the stored one if the key was used before. Raises Conflict."""
        known = None if ask.key is None else await tx.wakes.get_by_key(ask.key)
        if known is not None:
            requested = (ask.target.id, ask.reason, ask.message_id)
            same = matches_override(known, override=ask.overridden_by is not None)
            if not same or (known.agent_id, known.reason, known.message_id) != requested:
                raise Conflict("this key belongs to another agent, reason, message or override; use a new key")
            return RequestedWake(known, None)
        wake, facts = await self._decide_new(tx, ask)
        if wake.decision is Decision.ADMITTED:
            wake = await self._admit(tx, wake, facts)
        elif wake.decision is not Decision.DEFERRED:
            wake = replace(wake, expires_at=None)
        await _extend_joined_pulse(tx, ask.target, wake)
        await tx.wakes.add(wake)
        await self._rows.record_decision(tx, wake, ask.target)
        return RequestedWake(wake, count_wake(facts.tally, wake))

    async def explain(self, tx: Tx, ask: NewWake) -> Wake:
        """Return the decision that a request would get now, with every guardrail's check; write nothing (WAKE-71)."""
        return (await self._decide_new(tx, ask, to_the_end=True))[0]

    async def reconsider(self, tx: Tx, agent: Agent | None, waiting: Sequence[Wake]) -> Sequence[Wake]:
        """Decide an agent's deferred requests again, by priority, then age (WAKE-25)."""
        now = self._clock.now()
        decided_wakes: list[Wake] = []
        opened: PulseId | None = None
        for wake in sorted(waiting, key=lambda wake: (-_aged_priority(wake, now), wake.at)):
            again = await self._decide_again(tx, wake, agent, opened, now)
            if not await tx.wakes.save(again):
                continue
            if again.decision is not Decision.DEFERRED:
                decided_wakes.append(again)
                if agent is not None:
                    await _extend_joined_pulse(tx, agent, again)
                    await self._rows.record_decision(tx, again, agent)
            if again.decision is Decision.ADMITTED:
                opened = again.pulse_id
        return decided_wakes

    async def cancel(self, tx: Tx, wake: Wake, agent: Agent, *, by: str) -> Wake:
        """Cancel a deferred request; its message stays. Raises Conflict if it is decided."""
        cancelled = self._move(wake, Decision.CANCELLED, detail=f"cancelled by {by}")
        if not await tx.wakes.save(cancelled):
            raise Conflict(f"wake {wake.id!r} is {wake.decision.value} already")
        await self._rows.record_decision(tx, cancelled, agent)
        return cancelled

    async def _decide_new(self, tx: Tx, ask: NewWake, *, to_the_end: bool = False) -> tuple[Wake, AdmissionFacts]:
        wake = self._rows.build(ask)
        facts = await self._gather_facts(tx, wake, ask.target, ask.sender, ask.place)
        wake = self._decide(wake, facts, ask.overridden_by, to_the_end=to_the_end)
        if ask.overridden_by is None and await self._must_queue(tx, wake, ask.target):
            wake = _put_in_queue(wake, ask.target)
        return wake, facts

    def _decide(
        self, wake: Wake, facts: AdmissionFacts, overridden_by: str | None, *, to_the_end: bool = False
    ) -> Wake:
        verdict = WakeDecision(decision=Decision.ADMITTED)
        enabled = facts.target.enabled  # no override wakes an agent that could not answer
        if not (enabled and _is_unguarded(wake, facts.target)):
            verdict = check_guardrails(facts, to_the_end=to_the_end or overridden_by is not None)
        overridden_by = overridden_by if enabled else None
        needed = verdict.decision is not Decision.ADMITTED
        if overridden_by is not None and needed:
            verdict = replace(verdict, decision=Decision.ADMITTED, detail=f"let pass by {overridden_by}")
        # While the server stops the override is kept in any case: the guardrails are checked again after the start.
        overridden_by = overridden_by if needed or self._sleep.is_draining else None
        if overridden_by != wake.overridden_by:
            wake = replace(wake, overridden_by=overridden_by)
        return self._apply_verdict(wake, verdict, facts.tally, facts.target)

    async def _decide_again(
        self, tx: Tx, wake: Wake, agent: Agent | None, opened: PulseId | None, now: datetime
    ) -> Wake:
        if agent is None or agent.deleted_at is not None:
            return self._move(wake, Decision.CANCELLED, detail="the agent was deleted")
        if await self._is_read(tx, wake):
            return self._move(wake, Decision.COALESCED, detail="its message was read meanwhile")
        if wake.expires_at is not None and wake.expires_at <= now:
            return self._move(wake, Decision.EXPIRED, detail="it waited too long; its message is in the inbox")
        if opened is not None:
            return replace(self._move(wake, Decision.COALESCED, detail="joined the pulse"), pulse_id=opened)
        policy, idle = BlackoutPolicy.RUN, None
        if wake.routine is not None:
            routine = await tx.routines.get(agent.id, wake.routine)
            if routine is None or not routine.spec.enabled:
                return self._move(wake, Decision.CANCELLED, detail="its routine was removed or disabled")
            wake = replace(wake, timeout_seconds=routine.spec.timeout_seconds)
            policy = routine.spec.effective_policy(agent.coordination.blackout_policies)
            idle = await find_idle_reason(tx, agent, routine)
        facts = await self._gather_facts(tx, wake, agent, None, NOWHERE)
        # The sender was free to ask at that time; its later requests do not count against this one.
        tally = replace(facts.tally, asked_in_session=0)
        if wake.rule == "cooldown_seconds" and wake.not_before is not None and wake.not_before <= now:
            last = tally.last_wake_at  # in the future only if the clock was set back: then once is enough
            tally = replace(tally, last_wake_at=None if last is not None and last > now else last)
        facts = replace(facts, tally=tally, asker=_ANY_NUMBER, routine_policy=policy)
        again = self._decide(wake, facts, wake.overridden_by)
        if again.decision is Decision.ADMITTED and idle is not None:
            return self._move(wake, Decision.CANCELLED, detail=f"skipped: {idle}")
        if again.decision is Decision.ADMITTED:
            again = await self._admit(tx, again, facts)
        return again

    async def _must_queue(self, tx: Tx, wake: Wake, target: Agent) -> bool:
        bounded = self._fleet.max_concurrent_pulses is not None
        if not bounded or wake.decision is not Decision.ADMITTED or _is_unguarded(wake, target):
            return False
        return await tx.wakes.has_deferred_by(FLEET)

    async def _is_read(self, tx: Tx, wake: Wake) -> bool:
        if wake.message_id is None:
            return False
        delivery = await tx.deliveries.get(wake.agent_id, wake.message_id)
        return delivery is not None and delivery.state in (DeliveryState.HANDLED, DeliveryState.DEAD)

    def _apply_verdict(self, wake: Wake, verdict: WakeDecision, tally: GuardrailCounts, target: Agent) -> Wake:
        joins = tally.joinable is not None and target.enabled and verdict.rule not in _MAY_NOT_JOIN
        if joins and tally.joinable is not None:
            joined = self._move(wake, Decision.COALESCED, detail="joined a pulse that had not begun")
            return replace(joined, pulse_id=tally.joinable, trace=verdict.trace)
        if self._sleep.is_draining and verdict.decision is Decision.ADMITTED:
            verdict = _defer_until_start(verdict, self._clock.now())
        return replace(
            wake,
            decision=verdict.decision,
            rule=verdict.rule,
            detail=verdict.detail,
            not_before=verdict.not_before,
            decided_at=self._clock.now(),
            trace=verdict.trace,
        )

    def _move(self, wake: Wake, to: Decision, *, detail: str) -> Wake:
        if to not in DECISION_MOVES[wake.decision]:
            raise Conflict(f"wake {wake.id!r} is {wake.decision.value} already")
        return replace(wake, decision=to, rule=None, detail=detail, not_before=None, decided_at=self._clock.now())

    async def _admit(self, tx: Tx, wake: Wake, facts: AdmissionFacts) -> Wake:
        target = facts.target
        unguarded = _is_unguarded(wake, target)
        if unguarded and target.coordination.launcher == RESIDENT:  # the time awake counts, and no wake is charged
            await self._open_gate(tx, target, wake, Cause.EVENT)
            return replace(wake, expires_at=None)
        limit = wake.timeout_seconds or target.coordination.pulse_timeout_seconds
        spare = remaining_run_seconds(target, facts.tally)
        if spare is not None and wake.overridden_by is None:
            limit = min(limit or spare, spare)
        pulse = await self._open_pulse(tx, target, wake, limit)
        charge = Charge.NONE
        if wake.source is not WakeSource.SCHEDULE and not unguarded:
            charge = Charge.CHARGED if pulse.launcher == RESIDENT else Charge.RESERVED
        return replace(wake, pulse_id=pulse.id, charge=charge, expires_at=None)

    async def _open_pulse(self, tx: Tx, target: Agent, wake: Wake, timeout_seconds: float | None) -> Pulse:
        """Create a pulse with this limit, or return the open pulse of a resident agent that is already awake."""
        resident = target.coordination.launcher == RESIDENT
        if resident and not target.asleep:
            running = [pulse for pulse in await tx.pulses.find_open(target.id) if pulse.launcher == RESIDENT]
            if running:
                return running[-1]
        for suspended in await self._find_suspended(tx, target):
            today, _ = day_bounds(target.coordination.zone, self._clock.now())
            return await self._pulses.resume(tx, suspended, wake, today=today, timeout_seconds=timeout_seconds)
        pulse = await self._pulses.add(
            tx,
            target,
            kind=_KINDS[wake.source],
            by=wake.sender,
            reason=wake.reason,
            running=resident,
            wake=wake,
            timeout_seconds=timeout_seconds,
        )
        if resident and target.asleep:
            await self._open_gate(tx, target, wake, Cause.PULSE)
        return pulse

    async def _find_suspended(self, tx: Tx, target: Agent) -> Sequence[Pulse]:
        """Return the target's pulses that its launcher can resume, oldest first."""
        launcher = target.coordination.launcher
        if launcher not in self._resuming:
            return ()
        return [pulse for pulse in await tx.pulses.find_suspended(target.id) if pulse.launcher == launcher]

    async def _open_gate(self, tx: Tx, target: Agent, wake: Wake, cause: Cause) -> None:
        actor = f"{wake.reason} by {wake.sender}"
        await self._sleep.change_sleep(tx, target.id, asleep=False, cause=cause, actor=actor, wake=wake)

    async def _gather_facts(
        self, tx: Tx, wake: Wake, target: Agent, sender: Agent | None, place: ChainPosition
    ) -> AdmissionFacts:
        now = self._clock.now()
        coordination = target.coordination
        starts, _ = day_bounds(coordination.zone, now)
        utc_day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        asked_since, asks_anew_at = counting_window(place, now)
        asker = None if sender is None else sender.coordination.wake_guardrails
        asked_most = (asker or coordination.wake_guardrails).max_wakes_per_session
        tally = await tx.wakes.tally(
            target.id,
            wake_id=wake.id,
            sender_id=wake.sender_id,
            sender_pulse=wake.sender_pulse,
            asked_since=asked_since,
            root_id=wake.root_id,
            day=starts,
            utc_day=utc_day,
            now=now,
            asked_most=asked_most or (MAX_ASKED if sender is not None else 0),
            failures_most=0 if coordination.launcher == RESIDENT else 2 * CIRCUIT_FAILURES,
            fleet_open_most=self._fleet.max_concurrent_pulses or 0,
            fleet_wakes_most=self._fleet.max_wakes_per_day or 0,
        )
        span = blackout_at(coordination.blackouts, coordination.zone, now) if coordination.blackouts else None
        spent = 0.0
        if target.policy.max_usd_per_day is not None:
            spent = (await tx.calls.sum_day(target, utc_day)).nanousd / 1e9
        return AdmissionFacts(
            target=target,
            source=wake.source,
            now=now,
            tally=tally,
            depth=wake.depth,
            blackout=None if span is None else (", ".join(span.labels), span.end or now + timedelta(days=15)),
            spent_usd=spent,
            failures=tally.failures,
            failed_at=tally.failed_at,
            fleet=self._fleet,
            asker=asker,
            asks_anew_at=asks_anew_at,
        )


async def _extend_joined_pulse(tx: Tx, target: Agent, wake: Wake) -> None:
    """Extend the pulse that the wake joined, if any, to the longest limit of its wakes."""
    if wake.decision is not Decision.COALESCED or wake.pulse_id is None:
        return
    pulse = await tx.pulses.get(wake.pulse_id)
    if pulse is None or pulse.timeout_seconds is None:
        return
    limit = wake.timeout_seconds or target.coordination.pulse_timeout_seconds
    if limit is None or limit > pulse.timeout_seconds:
        await tx.pulses.save(replace(pulse, timeout_seconds=limit), origin=pulse)


def _is_unguarded(wake: Wake, target: Agent) -> bool:
    """Return whether no guardrail applies: a thread event that became a request only because it opens no gate."""
    return wake.source is WakeSource.THREAD and not target.coordination.guard_thread_events


def _put_in_queue(wake: Wake, target: Agent) -> Wake:
    trace = tuple(
        replace(check, passed=False, detail=_QUEUED) if check.rule == FLEET else check for check in wake.trace
    )
    wake = replace(wake, decision=Decision.REFUSED, rule=FLEET, detail=_QUEUED, trace=trace)
    if target.coordination.on_concurrency is OnBlock.DEFER:
        return replace(wake, decision=Decision.DEFERRED, not_before=wake.decided_at)
    return wake


def _defer_until_start(verdict: WakeDecision, now: datetime) -> WakeDecision:
    """Return the verdict as deferred; another process on the same database may take the wake at once."""
    detail = "the server is stopping; the wake continues after the next start"
    trace = (*verdict.trace, GuardrailCheck(rule=DRAINING, passed=False, detail=detail))
    return replace(verdict, decision=Decision.DEFERRED, rule=DRAINING, detail=detail, not_before=now, trace=trace)


def remaining_run_seconds(agent: Agent, tally: GuardrailCounts) -> float | None:
    """Return the seconds of pulses that are left in the agent's day, or None without a limit."""
    minutes = agent.coordination.wake_guardrails.max_daily_session_minutes
    return None if minutes is None else max(0.0, minutes * 60 - tally.run_seconds_today)


def _aged_priority(wake: Wake, now: datetime) -> int:
    waited = max(0.0, (now - wake.at).total_seconds())
    return wake.priority.rank + int(waited / AGEING_SECONDS)


async def find_idle_reason(tx: Tx, agent: Agent, routine: Routine) -> str | None:
    """Return why a pulse of the routine has nothing to do, or None if it has something."""
    if agent.coordination.launcher == RESIDENT and not agent.asleep:
        return "the agent is already awake"
    if routine.is_alarm or routine.spec.instructions.strip() or await tx.deliveries.count_unread(agent.id):
        return None
    return "no instructions and nothing unread"
