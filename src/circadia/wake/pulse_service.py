"""Pulse transitions: take, start, end, requeue, each in one transaction (WAKE-14, WAKE-23, WAKE-50 …)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import Conflict
from circadia.ids import AgentId, MessageId, PulseId, WakeId, hash_token, new_token
from circadia.jobs.leased_jobs import LEASE_SECONDS
from circadia.memory.capture.attribution import prompt_provenance
from circadia.records.agent import Agent, Cause, SleepEvent
from circadia.records.coordination import RESIDENT
from circadia.records.event import DeadLetterAlert, EventType
from circadia.records.message import Delivery, DeliveryState
from circadia.records.pulse import PULSE_MOVES, Pulse, PulseStatus
from circadia.records.schedule import load_zone
from circadia.records.wake import Decision, Wake, WakeSource
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import LockKey, agent_key
from circadia.wake.admission.requests import remaining_run_seconds
from circadia.wake.inbox import Inbox
from circadia.wake.launchers.base import LaunchResult
from circadia.wake.pulse_lifecycle import PulseLifecycle, find_launched_run
from circadia.wake.pulse_prompt import build_prompt
from circadia.wake.scheduling.wall_clock import day_bounds
from circadia.wake.sleep_changes import SleepChanges

ATTEMPTS: Final = 4
"""Starts of a pulse: the first, and three after interruptions (WAKE-23)."""
BACK_OFF_SECONDS: Final = 5.0
"""Pause before the second start; it doubles for each later one."""
MIN_ATTEMPT_SECONDS: Final = 1.0
"""Shortest limit of an attempt, used when no minutes are left: it ends as timed out."""
_SAME_RUN: Final = timedelta(seconds=1)
"""How much earlier than the wake that began a run the clock of another process may show one that joined it."""
_MAX_SHOWN_MESSAGES: Final = 200
"""Unread messages that a prompt considers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeasedPulse:
    pulse: Pulse
    agent: Agent
    prompt: str
    token: str
    timeout_seconds: float | None
    """Limit of this attempt: the pulse's own, or the rest of the agent's day."""
    keys: Collection[LockKey]
    """Keys of the agent and of those that woke it, which hear of a failure; no wake can join any more."""


class PulseService:
    """Moves pulses between states, with their messages, gates and notices, in the caller's transaction."""

    def __init__(self, clock: Clock, events: EventLog, rows: PulseLifecycle, sleep: SleepChanges, inbox: Inbox) -> None:
        self._clock = clock
        self._events = events
        self._rows = rows
        self._sleep = sleep
        self._inbox = inbox

    async def hold_agents(self, tx: Tx, pulse_id: PulseId) -> None:
        """Hold the agent of a woken pulse and those that woke it, which hear of a failure; call it first in a block."""
        await tx.hold(*_list_keys(await tx.wakes.find_by_pulse(pulse_id)))

    async def take(self, tx: Tx, pulse: Pulse) -> LeasedPulse | None:
        """Build the prompt of a pulse that this process has claimed, and lease its messages.

        Return None if it is void: `end_void` then ends it, in a block of its own, which holds those that woke it.

        Raises:
            Conflict: it is no longer claimed by this process.
        """
        agent, pulse = await tx.agents.get(pulse.agent_id), await self._read_claimed(tx, pulse)
        if agent is None or agent.deleted_at is not None or not agent.enabled:
            return None
        wakes = _select_of_run(pulse, await tx.wakes.find_by_pulse(pulse.id))
        instructions = await self._fetch_instructions(tx, pulse.agent_id, wakes)
        if instructions is None:
            return None
        now = self._clock.now()
        waking = await self._fetch_waking_messages(tx, pulse, wakes)
        spare = await _fetch_remaining_seconds(tx, agent, pulse, now)
        unread, number = await self._fetch_unread(tx, pulse, waking)
        token = new_token("pulse")
        taken_pulse = await self._rows.move(
            tx,
            pulse,
            PulseStatus.STARTING,
            attempt=pulse.attempt + 1,
            lease_until=now + timedelta(seconds=LEASE_SECONDS),
            not_before=None,
            prompted_at=now,
            token_hash=hash_token(token),
        )
        prompt = build_prompt(
            taken_pulse,
            waking,
            unread,
            number,
            instructions=instructions,
            budgets=_describe_budgets(agent, spare, now),
            now=now.astimezone(load_zone(agent.coordination.zone)),
            max_tokens=agent.coordination.prompt_tokens,
        )
        shown_ids = [delivery.message.id for delivery in prompt.shown]
        await tx.deliveries.lease_for_pulse(agent.id, shown_ids, taken_pulse.id)
        await tx.provenances.add([prompt_provenance(agent, prompt.text, shown_ids, now)])
        limit = _bound_run_seconds(taken_pulse, wakes, spare)
        return LeasedPulse(
            pulse=taken_pulse, agent=agent, prompt=prompt.text, token=token, timeout_seconds=limit,
            keys={agent_key(agent.id), *_list_keys(wakes)},
        )  # fmt: skip

    async def give_up(self, tx: Tx, pulse: Pulse) -> None:
        """Let another process start a claimed pulse at once. Raises Conflict: it is no longer claimed by this one."""
        claimed = await self._read_claimed(tx, pulse)
        await tx.pulses.save(replace(claimed, owner=None, lease_until=None), origin=claimed)

    async def end_void(self, tx: Tx, pulse: Pulse) -> None:
        """End a claimed pulse if its agent is gone or disabled, or if it only served routines that are gone.

        Raises:
            Conflict: it is no longer claimed by this process.
        """
        await self.hold_agents(tx, pulse.id)
        agent, pulse = await tx.agents.get(pulse.agent_id), await self._read_claimed(tx, pulse)
        if agent is None or agent.deleted_at is not None or not agent.enabled:
            ended = await self.end(tx, pulse, PulseStatus.CANCELLED, "its agent is gone or disabled")
            await self._notify_wakers(tx, ended)
        elif (
            await self._fetch_instructions(tx, agent.id, _select_of_run(pulse, await tx.wakes.find_by_pulse(pulse.id)))
            is None
        ):
            await self._rows.move(tx, pulse, PulseStatus.CANCELLED, detail="its routine was removed or disabled")

    async def _read_claimed(self, tx: Tx, pulse: Pulse) -> Pulse:
        """Return the pulse as it is now: a wake may have joined it since its claim. Raises Conflict."""
        present = await tx.pulses.get(pulse.id)
        if present is None or (present.status, present.epoch) != (PulseStatus.PENDING, pulse.epoch):
            raise Conflict(f"pulse {pulse.id!r} was moved by another process")
        return present

    async def mark_started(self, tx: Tx, pulse: Pulse) -> Pulse:
        """Mark the pulse as running: charge its wakes, mark its messages as seen and open its gate."""
        now = self._clock.now()
        running = await self._rows.move(tx, pulse, PulseStatus.RUNNING, started_at=now)
        await tx.deliveries.mark_seen_by_pulse(pulse.agent_id, pulse.id, now)
        actor = f"{pulse.reason} by {pulse.by}"
        await self._sleep.change_sleep(tx, pulse.agent_id, asleep=False, cause=Cause.PULSE, actor=actor)
        return running

    async def end(self, tx: Tx, pulse: Pulse, status: PulseStatus, detail: str = "") -> Pulse:
        """End a pulse: the messages of its prompt become handled if it succeeded, else unread."""
        await tx.pulses.find_open(pulse.agent_id)  # here, since a read after writes sends these first
        ended = await self._rows.move(tx, pulse, status, detail=detail)
        is_read = status in (PulseStatus.SUCCEEDED, PulseStatus.SUSPENDED)
        await self._settle_messages(tx, ended, handled=is_read)
        await self._close_gate(tx, pulse, can_rouse=status is not PulseStatus.CANCELLED)
        if not is_read and status is not PulseStatus.CANCELLED:
            await self._notify_wakers(tx, ended)
        return ended

    async def report(self, tx: Tx, pulse: Pulse, ended: LaunchResult) -> Pulse:
        """End a taken pulse on the report of an external program; no process has to wait for it."""
        if pulse.status is PulseStatus.STARTING:  # the report overtook the response to the start
            pulse = await self.mark_started(tx, pulse)
        return await self.end(tx, pulse, ended.status, ended.detail)

    async def requeue(self, tx: Tx, pulse: Pulse, detail: str, *, died: bool = False, stopped: bool = False) -> Pulse:
        """Put an interrupted pulse back for another attempt, or end it for good after the last (WAKE-23).

        If its process `died`, run time counts only up to the end of the lease. If its process was `stopped`, the
        attempt does not count and the next one needs no pause (WAKE-55).
        """
        if stopped:
            next_time: dict[str, Any] = {"attempt": pulse.attempt - 1, "not_before": None}
        elif pulse.attempt >= ATTEMPTS:
            return await self._end_as_dead_letter(tx, pulse, detail)
        else:
            pause = BACK_OFF_SECONDS * 2 ** (pulse.attempt - 1)
            next_time = {"not_before": self._clock.now() + timedelta(seconds=pause)}
        again = await self._rows.move(
            tx, pulse, PulseStatus.PENDING, ran_until=pulse.lease_until if died else None, epoch=pulse.epoch + 1,
            detail=detail, **next_time,
        )  # fmt: skip
        await self._settle_messages(tx, again, handled=False)
        await self._close_gate(tx, pulse)
        return again

    async def time_out(self, tx: Tx, pulse: Pulse) -> Pulse:
        """End a time awake that is over its limit and close the gate (WAKE-56)."""
        await self.hold_agents(tx, pulse.id)
        ended = await self._rows.move(tx, pulse, PulseStatus.TIMED_OUT, detail=f"over {pulse.timeout_seconds:g} s")
        actor = "time limit of its pulse"
        await self._sleep.change_sleep(tx, pulse.agent_id, asleep=True, cause=Cause.PULSE, actor=actor, can_rouse=True)
        await self._notify_wakers(tx, ended)
        return ended

    async def cancel(self, tx: Tx, pulse: Pulse, *, by: str) -> Pulse:
        """Cancel a pulse; the process that runs its agent stops it. Raises Conflict if it has ended."""
        if not PULSE_MOVES[pulse.status]:
            raise Conflict(f"pulse {pulse.id!r} is {pulse.status.value} already")
        ended = await self.end(tx, pulse, PulseStatus.CANCELLED, f"cancelled by {by}")
        if pulse.launcher == RESIDENT:
            await self._sleep.change_sleep(tx, pulse.agent_id, asleep=True, cause=Cause.PULSE, actor=by)
        return ended

    async def on_launcher_change(self, tx: Tx, agent: Agent, *, by: str) -> Agent:
        """Put a launched agent to sleep unless a pulse of it runs; wake a resident one that slept as such (WAKE-87)."""
        actor = f"launcher set by {by}"
        if agent.coordination.launcher != RESIDENT:
            return await self.put_launched_to_sleep(tx, agent, actor=actor)
        if agent.cause is not Cause.PULSE or SleepEvent.AGENT_STARTED in agent.sleep_events:
            return agent
        return await self._sleep.change_sleep(tx, agent.id, asleep=False, cause=Cause.OPERATOR, actor=actor) or agent

    async def put_launched_to_sleep(self, tx: Tx, agent: Agent, *, actor: str) -> Agent:
        """Put a launched agent to sleep unless a pulse of it runs (WAKE-87)."""
        if await find_launched_run(tx, agent.id) is not None:
            return agent
        return await self._sleep.change_sleep(tx, agent.id, asleep=True, cause=Cause.PULSE, actor=actor) or agent

    async def on_agent_deleted(self, tx: Tx, agent: Agent) -> None:
        """End the pulses of a deleted agent, so that they free their fleet slots, and nobody resumes one."""
        for pulse in (*await tx.pulses.find_open(agent.id), *await tx.pulses.find_suspended(agent.id)):
            await self.end(tx, pulse, PulseStatus.CANCELLED, "its agent was deleted")

    async def _end_as_dead_letter(self, tx: Tx, pulse: Pulse, detail: str) -> Pulse:
        ended = await self._rows.move(tx, pulse, PulseStatus.INTERRUPTED, detail=detail)
        dead = await tx.deliveries.mark_dead(
            pulse.agent_id, await tx.deliveries.find_leased_by_pulse(pulse.id), self._clock.now()
        )
        await self._close_gate(tx, pulse, can_rouse=True)
        await self._notify_wakers(tx, ended)
        session, _, name = pulse.agent.rpartition(":")
        data = DeadLetterAlert(cause="dead_letter", pulse=pulse.id, messages=list(dead), detail=detail)
        await self._events.record(tx, EventType.ALERT, data, session=session or "default", agent=name)
        return ended

    async def _fetch_waking_messages(self, tx: Tx, pulse: Pulse, wakes: Sequence[Wake]) -> Sequence[Delivery]:
        """Return the unread messages behind the pulse's wakes, that of its first wake leading."""
        deliveries: list[Delivery] = []
        for wake in sorted(wakes, key=lambda wake: wake.id != pulse.wake_id):
            if wake.message_id is not None:
                delivery = await tx.deliveries.get(pulse.agent_id, wake.message_id)
                if delivery is not None and delivery.state is DeliveryState.UNREAD:
                    deliveries.append(delivery)
        return deliveries

    async def _fetch_unread(self, tx: Tx, pulse: Pulse, waking: Sequence[Delivery]) -> tuple[Sequence[Delivery], int]:
        """Return the agent's unread messages, and their number, without those that other pulses will show."""
        number = await tx.deliveries.count_unread(pulse.agent_id)
        if number == len(waking):
            return waking, number
        elsewhere = await self._fetch_messages_of_others(tx, pulse)
        unread = await tx.deliveries.fetch_inbox(pulse.agent_id, urgent_first=True, limit=_MAX_SHOWN_MESSAGES)
        return [delivery for delivery in unread if delivery.message.id not in elsewhere], number - len(elsewhere)

    async def _fetch_messages_of_others(self, tx: Tx, pulse: Pulse) -> frozenset[MessageId]:
        """Return the unread messages that the agent's other pending pulses will show."""
        message_ids: set[MessageId] = set()
        for other in await tx.pulses.find_open(pulse.agent_id):
            if other.id != pulse.id and other.status is PulseStatus.PENDING:
                waking = await self._fetch_waking_messages(tx, other, await tx.wakes.find_by_pulse(other.id))
                message_ids |= {delivery.message.id for delivery in waking}
        return frozenset(message_ids)

    async def _fetch_instructions(self, tx: Tx, agent_id: AgentId, wakes: Sequence[Wake]) -> str | None:
        """Return the instructions of the pulse's routines, or None if it only served routines that are gone."""
        names = [wake.routine for wake in wakes if wake.routine is not None]
        routines = [await tx.routines.get(agent_id, name) for name in dict.fromkeys(names)]
        active = [routine for routine in routines if routine is not None and routine.spec.enabled]
        if names and not active and len(names) == len(wakes):
            return None
        return "\n\n".join(routine.spec.instructions.strip() for routine in active if routine.spec.instructions.strip())

    async def _settle_messages(self, tx: Tx, pulse: Pulse, *, handled: bool) -> None:
        if handled:
            await tx.deliveries.mark_handled_by_pulse(pulse.agent_id, pulse.id, self._clock.now())
        elif leased := await tx.deliveries.find_leased_by_pulse(pulse.id):
            await tx.deliveries.release(pulse.agent_id, leased)
            self._events.signal(tx, "delivery", pulse.agent_id)

    async def _close_gate(self, tx: Tx, pulse: Pulse, *, can_rouse: bool = False) -> None:
        """Put a launched agent to sleep at the end of its last pulse; `pulse` is its state before that end."""
        if pulse.launcher == RESIDENT or pulse.status is not PulseStatus.RUNNING:
            return
        if await find_launched_run(tx, pulse.agent_id) is None:
            actor, agent_id = "end of its pulse", pulse.agent_id
            await self._sleep.change_sleep(
                tx, agent_id, asleep=True, cause=Cause.PULSE, actor=actor, can_rouse=can_rouse
            )

    async def _notify_wakers(self, tx: Tx, pulse: Pulse) -> None:
        """Notify the agents that woke this one of its failure (WAKE-54)."""
        notified: set[AgentId] = set()
        for wake in await tx.wakes.find_by_pulse(pulse.id):
            if wake.sender_id is None or wake.sender_id in notified or wake.source is not WakeSource.AGENT:
                continue
            notified.add(wake.sender_id)
            sender = await tx.agents.get(wake.sender_id)
            if sender is not None and sender.deleted_at is None:
                text = (
                    f"{pulse.agent} was woken for you ({wake.reason}), and its run {pulse.status.value}: "
                    f"{pulse.detail}. Your message {wake.message_id} is in its inbox."
                )
                await self._inbox.notify(tx, sender, text, root_id=wake.root_id)


def _select_of_run(pulse: Pulse, wakes: Sequence[Wake]) -> Sequence[Wake]:
    """Return the pulse's wakes without those of earlier runs of it, which were suspended."""
    begun_at = next((wake.decided_at - _SAME_RUN for wake in wakes if wake.id == pulse.wake_id), None)
    return [
        wake for wake in wakes
        if wake.id == pulse.wake_id
        or (wake.decision is not Decision.ADMITTED and (begun_at is None or wake.decided_at >= begun_at))
    ]  # fmt: skip


def _list_keys(wakes: Iterable[Wake]) -> set[LockKey]:
    return {agent_key(agent_id) for wake in wakes for agent_id in (wake.agent_id, wake.sender_id) if agent_id}


async def _fetch_remaining_seconds(tx: Tx, agent: Agent, pulse: Pulse, now: datetime) -> float | None:
    """Return the seconds of pulses that are left in the agent's day, or None without a limit."""
    if agent.coordination.wake_guardrails.max_daily_session_minutes is None:
        return None
    tally = await tx.wakes.tally(
        agent.id,
        wake_id=pulse.wake_id or WakeId(""),
        sender_id=None,
        sender_pulse=None,
        asked_since=now,
        root_id=pulse.root_id,
        day=day_bounds(agent.coordination.zone, now)[0],
        utc_day=now,
        now=now,
    )
    return remaining_run_seconds(agent, tally)


def _bound_run_seconds(pulse: Pulse, wakes: Sequence[Wake], spare: float | None) -> float | None:
    """Return the limit of an attempt: earlier ones and parallel pulses may have used minutes left at admission."""
    if spare is None or any(wake.overridden_by for wake in wakes):
        return pulse.timeout_seconds
    spare = max(MIN_ATTEMPT_SECONDS, spare)
    return min(pulse.timeout_seconds or spare, spare)


def _describe_budgets(agent: Agent, spare: float | None, now: datetime) -> str:
    most = agent.coordination.wake_guardrails.max_wakes_per_session
    allowance = "any number of" if most is None else f"at most {most}"
    zone = agent.coordination.zone
    day = day_bounds(zone, now)[1].astimezone(load_zone(zone)).isoformat(timespec="seconds")
    left = "no limit of minutes a day" if spare is None else f"{spare / 60:.0f} minutes of pulses until {day}"
    return f"Budgets left: {allowance} wake_agent calls in this run; {left}."
