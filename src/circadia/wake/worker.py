"""Wake worker: runs pulses, reconsiders deferred wakes, fires routines and recovers pulses of dead processes.

Rows are the truth; signals only say sooner that there is work, and of which kind. A lost signal costs a second. A pulse
belongs to the process that took it until its lease runs out. A write with an older epoch is refused, so two processes
never both end a pulse.

    pending --take--> starting --started--> running --end--> succeeded | failed | timed out | cancelled
       ^                  |                    |
       +---- give_back ---+---- lease lost ----+      after four attempts: interrupted
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar

from circadia.clock import Clock
from circadia.errors import CircadiaError, Conflict, StorageUnavailable
from circadia.ids import AgentId, PulseId
from circadia.jobs.leased_jobs import LeasedJobs
from circadia.jobs.loops import DueWatch
from circadia.records.pulse import Pulse, PulseStatus
from circadia.records.schedule import Routine
from circadia.records.wake import Decision, Wake
from circadia.stores.base import Tx
from circadia.stores.locks import agent_key
from circadia.wake.admission.requests import AGEING_SECONDS, FLEET
from circadia.wake.pulse_attempts import Attempt, WorkerContext
from circadia.wake.pulse_service import LeasedPulse

T = TypeVar("T")

_ENDED_WITHOUT_PULSE: Final = (Decision.REFUSED, Decision.EXPIRED, Decision.CANCELLED)
AT_ONCE: Final = 100


class StartablePulses:
    """The rows of pulses as `LeasedJobs` sees them. A pulse of another launcher stays for a process that has it."""

    def __init__(self, tx: Tx, launchers: Collection[str]) -> None:
        self._rows = tx.pulses
        self._launchers = launchers

    async def get(self, pulse_id: PulseId) -> Pulse | None:
        return await self._rows.get(pulse_id)

    async def has_startable(self, now: datetime) -> bool:
        return await self._rows.has_startable(now, self._launchers)

    async def claim(
        self, owner: str, *, now: datetime, until: datetime, limit: int, since: datetime | None = None
    ) -> Sequence[Pulse]:
        return await self._rows.claim(owner, self._launchers, now=now, until=until, limit=limit, since=since)

    async def find_claimed(self) -> Sequence[Pulse]:
        return await self._rows.find_claimed()

    async def renew_leases(self, owner: str, until: datetime) -> None:
        await self._rows.renew_leases(owner, until)


class WakeWorker:
    """One per process. `owner` names it in the rows; `alone` means that no other process uses this database."""

    def __init__(
        self,
        clock: Clock,
        context: WorkerContext,
        *,
        owner: str,
        alone: bool,
        leads: Callable[[], bool] = lambda: True,
        due: DueWatch | None = None,
    ) -> None:
        """`leads` tells whether this process does what one at a time does: all but running pulses."""
        self._clock = clock
        self._context = context
        self._wakes = context.wakes
        self._owner = owner
        self._alone = alone
        self._leads = leads
        self._due = due or DueWatch(clock, context.store, launchers=context.launchers)
        self._led = False
        self._rung: set[Callable[[], Awaitable[None]]] = set()
        self._ended: set[AgentId] = set()
        self._look_at_all = True
        self._clock_set = False
        self._clearing: set[asyncio.Task[None]] = set()
        self._jobs = LeasedJobs[Pulse](
            clock,
            context.store,
            lambda tx: StartablePulses(tx, context.launchers),
            self._put_back,
            lambda tx, pulse: context.wakes.pulses.hold_agents(tx, pulse.id),
            lambda tx, pulse, detail: context.wakes.pulses.end(tx, pulse, PulseStatus.FAILED, detail),
            name="the wake worker",
            owner=owner,
            alone=alone,
        )
        self._next_at: datetime | None = None
        for topic, handler in (
            ("pulse", self._on_pulse_moved),
            ("routine", self._on_routine_changed),
            ("coordination", self._on_agent_changed),
            ("sleep", self._on_agent_moved),
        ):
            context.signals.listen(topic, handler)

    async def run(self) -> None:
        """Work until cancelled; log a failing step and try it again."""
        while True:
            until = self._due.next_tick_at
            await self.step()
            while (left := until - self._clock.monotonic()) > 0:
                if self._next_at is not None:
                    left = min(left, (self._next_at - self._clock.now()).total_seconds())
                await self._jobs.wait_for_bell(left)
                await self._run_queued_work()

    async def step(self) -> None:
        for work in (self._check_clock, self._do_due_work, self._jobs.renew_leases):
            await self._jobs.run_guarded(work)

    async def _do_due_work(self) -> None:
        leads = self._leads()
        self._look_at_all |= leads and not self._led  # the leader before may have died in the middle of it
        self._led = leads
        try:
            due = await self._due.look()
        except StorageUnavailable:
            self._jobs.forget_leases()
            raise
        any_done = False
        if leads:
            self._next_at = due.routine_at
            is_routine_due = due.routine_at is not None and due.routine_at <= self._clock.now()
            for is_due, work in (
                (due.claimed_pulses, self._jobs.recover),
                (due.overdue_pulses, self._time_out),
                (due.wakes or self._ended or self._look_at_all, self._reconsider),
                (is_routine_due, self._fire),
            ):
                if is_due:
                    any_done |= await self._jobs.run_guarded(work)
        else:
            self._ended.clear()
            self._next_at = None
            self._jobs.forget_leases()
        # What was just decided may start.
        if due.pulses or any_done or self._jobs.has_unanswered_claim:
            await self._jobs.run_guarded(self._start)

    async def drain(self, seconds: float | None = None) -> None:
        """Admit and start nothing more, wait `seconds` for running pulses, then put back the rest (WAKE-55).

        Without `seconds` there is no limit.
        """
        self._wakes.requests.drain()
        await self._jobs.drain(seconds)
        await asyncio.gather(*self._clearing, return_exceptions=True)

    @property
    def running_count(self) -> int:
        return len(self._jobs.running)

    def _queue_work(self, work: Callable[[], Awaitable[None]]) -> None:
        self._rung.add(work)
        self._jobs.ring()

    def _on_pulse_moved(self, key: str, data: Mapping[str, object]) -> None:
        status = PulseStatus(str(data["status"]))
        if status is PulseStatus.PENDING:
            self._queue_work(self._start)
        elif status.is_over:
            self._on_agent_changed(str(data["agent"]), data)
            self._stop_if_running(PulseId(key), status)

    def _on_routine_changed(self, _: str, __: Mapping[str, object]) -> None:
        self._queue_work(self._fire)

    def _on_agent_moved(self, key: str, data: Mapping[str, object]) -> None:
        if data["asleep"]:  # it may have been awake outside of all pulses
            self._on_agent_changed(key, data)

    def _on_agent_changed(self, key: str, _: Mapping[str, object]) -> None:
        if self._leads():  # who begins to lead looks at all agents
            self._ended.add(AgentId(key))
            self._queue_work(self._reconsider)

    async def _run_queued_work(self) -> None:
        rung, self._rung = self._rung, set()
        if self._next_at is not None and self._next_at <= self._clock.now():
            rung.add(self._fire)
        for work in (self._reconsider, self._fire, self._start) if self._leads() else (self._start,):
            if work in rung:
                await self._jobs.run_guarded(work)

    def _stop_if_running(self, pulse_id: PulseId, status: PulseStatus) -> None:
        task = self._jobs.running.get(pulse_id)
        if task is not None and status is PulseStatus.CANCELLED:
            task.cancel()

    async def _run_each(self, work: Callable[[T], Awaitable[None]], things: Sequence[T]) -> bool:
        """Run `work` for all of them; their transactions keep this order and share commits.

        Returns whether any succeeded: if none did, the rest would fail too, and waits for the next step.
        """
        done: list[bool] = []
        for first in range(0, len(things), AT_ONCE):
            group = things[first : first + AT_ONCE]
            done += await asyncio.gather(*(self._jobs.run_guarded(lambda thing=thing: work(thing)) for thing in group))
        return any(done)

    async def _check_clock(self) -> None:
        """If the wall clock was set, keep the elapsed time of running pulses, and reconsider all that waits.

        The clock may also have been set while no process ran, so a start checks routines in any case.
        """
        was_set = self._wakes.rows.has_clock_jumped()
        if was_set or self._look_at_all:
            async with self._context.store.begin_read() as tx:
                ahead = await self._wakes.routines.fetch_planned_ahead(tx)
            await self._run_each(self._replan, ahead)
        if was_set:
            async with self._context.store.begin_write() as tx:
                await self._wakes.rows.shift_open_pulses(tx, of_all=self._alone)
            self._clock_set, self._look_at_all = not self._alone, True

    async def _replan(self, routine: Routine) -> None:
        async with self._context.store.begin_write() as tx:
            await self._wakes.routines.replan(tx, routine)

    async def _put_back(self, tx: Tx, pulse: Pulse) -> None:
        await self._wakes.pulses.requeue(tx, pulse, "its process died", died=True)
        tx.after_commit(lambda: self._start_clearing(pulse))

    def _start_clearing(self, pulse: Pulse) -> None:
        clearing = asyncio.create_task(self._clear(pulse))
        self._clearing.add(clearing)
        clearing.add_done_callback(self._clearing.discard)

    async def _clear(self, pulse: Pulse) -> None:
        """Kill at once what a dead process left running: the next attempt comes later, or never."""
        launcher = self._context.launchers.get(pulse.launcher)
        if launcher is not None:
            await self._jobs.run_guarded(lambda: launcher.clear(pulse.id, below_epoch=pulse.epoch + 1))

    async def _time_out(self) -> None:
        if self._wakes.rows.has_clock_jumped() or self._clock_set:
            self._clock_set = False  # other processes have yet to shift their own pulses
            return
        async with self._context.store.begin_read() as tx:
            overdue = await tx.pulses.find_overdue(self._clock.now())
        await self._run_each(self._time_out_pulse, overdue)

    async def _time_out_pulse(self, pulse: Pulse) -> None:
        with suppress(Conflict):
            async with self._context.store.begin_write() as tx:
                await self._wakes.pulses.time_out(tx, pulse)

    async def _reconsider(self) -> None:
        """Decide again the wakes that are due, and those that wait for an ended pulse or a fleet slot."""
        if self._jobs.draining:
            return
        everything, ended, now = self._look_at_all, self._ended, self._clock.now()
        self._ended = set()
        try:
            async with self._context.store.begin_read() as tx:
                due = list(
                    await tx.wakes.find_due_agents(now, ageing_seconds=AGEING_SECONDS, of=None if everything else ended)
                )
                if ended and not everything:
                    due += await tx.wakes.find_due_agents(now, ageing_seconds=AGEING_SECONDS, rule=FLEET, limit=AT_ONCE)
                due.sort(key=lambda due_agent: (-due_agent.pressing, due_agent.since))
                agents = list(dict.fromkeys(due_agent.agent_id for due_agent in due))
                waiting = [(agent_id, await tx.wakes.find_deferred(agent_id)) for agent_id in agents]
        except CircadiaError:
            self._ended |= ended
            raise
        self._look_at_all = False
        keys = [{agent_id, *(wake.sender_id or agent_id for wake in wakes)} for agent_id, wakes in waiting]
        await self._run_each(self._reconsider_agent, list(zip(agents, keys, strict=True)))

    async def _reconsider_agent(self, due: tuple[AgentId, Collection[AgentId]]) -> None:
        """Decide an agent's deferred wakes again; `due` also has the senders, which hear of what came to nothing."""
        agent_id, concerned = due
        try:
            held = set(concerned)
            while newcomers := await self._decide_deferred(agent_id, held):
                held |= newcomers
        except CircadiaError:
            self._ended.add(agent_id)  # no other signal reports the end that these requests waited for
            raise

    async def _decide_deferred(self, agent_id: AgentId, held: Set[AgentId]) -> Set[AgentId]:
        """Decide an agent's deferred wakes by the held senders; if others have come, only return who they are."""
        async with self._context.store.begin_write(*map(agent_key, held)) as tx:
            agent, wakes = await tx.agents.get(agent_id), await tx.wakes.find_deferred(agent_id)
            newcomers = {wake.sender_id for wake in wakes if wake.sender_id} - held
            if newcomers:  # their keys would come out of order
                return newcomers
            for wake in await self._wakes.requests.reconsider(tx, agent, wakes):
                if wake.decision in _ENDED_WITHOUT_PULSE and wake.sender_id is not None:
                    await self._notify_sender(tx, wake, wake.sender_id)
                if agent is not None and wake.decision in _ENDED_WITHOUT_PULSE:
                    await self._wakes.routines.record_skip(tx, agent, wake)
        return frozenset()

    async def _notify_sender(self, tx: Tx, wake: Wake, sender_id: AgentId) -> None:
        """Notify the sender that its wake came to nothing (WAKE-22)."""
        sender = await tx.agents.get(sender_id)
        if sender is not None and sender.deleted_at is None:
            what = "expired" if wake.decision is Decision.EXPIRED else f"was {wake.decision.value}: {wake.detail}"
            is_dropped = wake.message_id is None or wake.decision is Decision.CANCELLED
            hint = "" if is_dropped else " Its message is in the inbox there."
            text = f"Your wake of {wake.agent} ({wake.reason}) {what}.{hint}"
            await self._wakes.inbox.notify(tx, sender, text, root_id=wake.root_id)

    async def _fire(self) -> None:
        self._next_at = None
        if self._jobs.draining:
            return
        now = self._clock.now()
        async with self._context.store.begin_read() as tx:
            due = await tx.routines.find_due(now, limit=AT_ONCE)
            self._next_at = await tx.routines.next_due_time(now)
        if await self._run_each(self._fire_routine, due) and len(due) == AT_ONCE:
            self._queue_work(self._fire)

    async def _fire_routine(self, routine: Routine) -> None:
        with suppress(Conflict):
            async with self._context.store.begin_write() as tx:
                await self._wakes.routines.fire(tx, routine)

    async def _start(self) -> None:
        if self._jobs.draining:
            return
        async with self._jobs.claiming:
            claimed = await self._jobs.claim(limit=AT_ONCE)
            any_started = await self._run_each(
                self._start_pulse, [pulse for pulse in claimed if pulse.id not in self._jobs.running]
            )
        if any_started and len(claimed) == AT_ONCE:
            self._queue_work(self._start)

    async def _start_pulse(self, pulse: Pulse) -> None:
        try:
            async with self._context.store.begin_write(agent_key(pulse.agent_id)) as tx:
                if self._jobs.draining:
                    await self._wakes.pulses.give_up(tx, pulse)
                    return
                leased = await self._wakes.pulses.take(tx, pulse)
            if leased is None:
                async with self._context.store.begin_write() as tx:
                    await self._wakes.pulses.end_void(tx, pulse)
                return
        except Conflict:
            return  # another process was first
        if self._jobs.draining:
            await self._requeue_interrupted(leased.pulse, "the server stopped", stopped=True)
            return
        self._jobs.start(pulse.id, self._run(leased))

    async def _run(self, leased: LeasedPulse) -> None:
        attempt = Attempt(self._context, leased, self._context.launchers[leased.pulse.launcher])
        try:
            status, detail = await attempt.run()
        except asyncio.CancelledError:
            await asyncio.shield(self._requeue_interrupted(attempt.pulse, "the server stopped", stopped=True))
            raise
        except StorageUnavailable as error:
            await asyncio.shield(self._requeue_interrupted(attempt.pulse, error.message))
            return
        await asyncio.shield(self._end(leased, attempt.pulse, status, detail))

    async def _requeue_interrupted(self, pulse: Pulse, detail: str, *, stopped: bool = False) -> None:
        """Put the pulse back, unless its end or the loss of its lease was the interruption."""

        async def requeue(tx: Tx, present: Pulse) -> Pulse:
            return await self._wakes.pulses.requeue(tx, present, detail, stopped=stopped)

        await self._jobs.write_result(pulse, requeue, at_once=stopped)

    async def _end(self, leased: LeasedPulse, pulse: Pulse, status: PulseStatus, detail: str) -> None:
        async def end(tx: Tx, present: Pulse) -> Pulse:
            is_run = status in (PulseStatus.SUCCEEDED, PulseStatus.SUSPENDED)
            if is_run and present.status is PulseStatus.STARTING:
                present = await self._wakes.pulses.mark_started(tx, present)  # its launcher did not report the start
            return await self._wakes.pulses.end(tx, present, status, detail)

        await self._jobs.write_result(pulse, end, keys=leased.keys)
