"""Wake worker: runs pulses, reconsiders deferred wakes, fires routines and recovers pulses of dead processes.

Rows are the truth; signals only say sooner that there is work, and of which kind. A lost signal costs a second. A pulse
belongs to the process that took it until its lease runs out. A write with an older epoch is refused, so two processes
never both end a pulse.

    pending --take--> starting --started--> running --end--> succeeded | failed | timed out | cancelled
       ^                  |                    |
       +---- give_back ---+---- lease lost ----+      after four attempts: interrupted
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, TypeVar

from circadia.clock import Clock
from circadia.errors import CircadiaError, Conflict, StorageUnavailable
from circadia.ids import AgentId, PulseId
from circadia.jobs.leases import LeaseMonitor
from circadia.records.pulse import PULSE_MOVES, Pulse, PulseStatus
from circadia.records.schedule import Routine
from circadia.records.wake import Decision, Wake
from circadia.stores.base import Tx
from circadia.wake.admission.requests import AGEING_SECONDS, FLEET
from circadia.wake.pulse.attempts import Attempt, WorkerParts
from circadia.wake.pulse.transitions import LEASE_SECONDS, LeasedPulse

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_CAME_TO_NOTHING: Final = (Decision.REFUSED, Decision.EXPIRED, Decision.CANCELLED)
EVERY_SECONDS: Final = 1.0
"""The longest delay that a lost signal causes."""
BEAT_SECONDS: Final = LEASE_SECONDS / 3
AT_ONCE: Final = 100
RETRY_SECONDS: Final = 1.0
"""Pause before the end of a pulse is written again after a database failure."""


class WakeWorker:
    """One per process. `owner` names it in the rows; `alone` means that no other process uses this database."""

    def __init__(self, clock: Clock, parts: WorkerParts, *, owner: str, alone: bool) -> None:
        self._clock = clock
        self._parts = parts
        self._owner = owner
        self._alone = alone
        self._bell = asyncio.Event()
        self._rung: set[Callable[[], Awaitable[None]]] = set()
        self._ended: set[AgentId] = set()
        self._look_at_all = True
        self._clock_set = False
        self._clearing: set[asyncio.Task[None]] = set()
        self._running: dict[PulseId, asyncio.Task[None]] = {}
        self._taking = asyncio.Lock()  # a drain waits until a pulse being taken is running or put back
        self._draining = False
        self._beat_at = 0.0
        self._next_at: datetime | None = None
        self._leases = LeaseMonitor[tuple[PulseId, int, datetime | None]](clock, seconds=LEASE_SECONDS)
        for topic, heard in (
            ("pulse", self._on_pulse_moved),
            ("routine", self._on_routine_changed),
            ("coordination", self._on_agent_changed),
            ("sleep", self._on_agent_moved),
        ):
            parts.signals.listen(topic, heard)

    async def run(self) -> None:
        """Work until cancelled; log a failing step and try it again."""
        while True:
            until = self._clock.monotonic() + EVERY_SECONDS
            await self.step()
            while (left := until - self._clock.monotonic()) > 0:
                if self._next_at is not None:
                    left = min(left, (self._next_at - self._clock.now()).total_seconds())
                await self._wait_for_bell(left)
                await self._run_queued_work()

    async def step(self) -> None:
        for work in (
            self._check_clock, self._recover, self._time_out, self._reconsider, self._fire, self._start, self._beat,
        ):  # fmt: skip
            await self._run_guarded(work)

    async def drain(self, seconds: float) -> None:
        """Admit and start nothing more, wait `seconds` for running pulses, then put back the rest (WAKE-55)."""
        self._draining = True
        self._parts.requests.drain()
        async with self._taking:
            pass
        if self._running:
            await asyncio.wait(self._running.values(), timeout=seconds)
        for task in tuple(self._running.values()):
            task.cancel("the server is stopping")
        await asyncio.gather(*self._running.values(), *self._clearing, return_exceptions=True)

    @property
    def running_count(self) -> int:
        return len(self._running)

    def _queue_work(self, work: Callable[[], Awaitable[None]]) -> None:
        self._rung.add(work)
        self._bell.set()

    def _on_pulse_moved(self, key: str, data: Mapping[str, object]) -> None:
        status = PulseStatus(str(data["status"]))
        if status is PulseStatus.PENDING:
            self._queue_work(self._start)
        elif not PULSE_MOVES[status]:
            self._on_agent_changed(str(data["agent"]), data)
            self._stop_if_running(PulseId(key), status)

    def _on_routine_changed(self, _: str, __: Mapping[str, object]) -> None:
        self._queue_work(self._fire)

    def _on_agent_moved(self, key: str, data: Mapping[str, object]) -> None:
        if data["asleep"]:  # it may have been awake outside of all pulses
            self._on_agent_changed(key, data)

    def _on_agent_changed(self, key: str, _: Mapping[str, object]) -> None:
        self._ended.add(AgentId(key))
        self._queue_work(self._reconsider)

    async def _run_queued_work(self) -> None:
        rung, self._rung = self._rung, set()
        if self._next_at is not None and self._next_at <= self._clock.now():
            rung.add(self._fire)
        for work in (self._reconsider, self._fire, self._start):
            if work in rung:
                await self._run_guarded(work)

    def _stop_if_running(self, pulse_id: PulseId, status: PulseStatus) -> None:
        task = self._running.get(pulse_id)
        if task is not None and status is PulseStatus.CANCELLED:
            task.cancel()

    async def _wait_for_bell(self, seconds: float) -> None:
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        bell = asyncio.ensure_future(self._bell.wait())
        try:
            await asyncio.wait((timer, bell), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            bell.cancel()
            self._bell.clear()

    async def _run_guarded(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Run `work`, log its failure, and return whether it succeeded."""
        try:
            await work()
        except CircadiaError as error:
            _logger.warning("the wake worker waits: %s", error)
        except Exception:  # the next try may pass, and nobody else does this work
            _logger.exception("the wake worker failed in a step")
        else:
            return True
        return False

    async def _run_each(self, work: Callable[[T], Awaitable[None]], things: Sequence[T]) -> bool:
        """Run `work` for all of them; their transactions keep this order and share commits.

        Returns whether any succeeded: if none did, the rest would fail too, and waits for the next step.
        """
        done: list[bool] = []
        for first in range(0, len(things), AT_ONCE):
            group = things[first : first + AT_ONCE]
            done += await asyncio.gather(*(self._run_guarded(lambda thing=thing: work(thing)) for thing in group))
        return any(done)

    async def _check_clock(self) -> None:
        """If the wall clock was set, keep the elapsed time of running pulses, and reconsider all that waits.

        The clock may also have been set while no process ran, so a start checks routines in any case.
        """
        was_set = self._parts.rows.has_clock_jumped()
        if was_set or self._look_at_all:
            async with self._parts.store.begin_read() as tx:
                ahead = await self._parts.routines.fetch_planned_ahead(tx)
            await self._run_each(self._replan, ahead)
        if was_set:
            async with self._parts.store.begin_write() as tx:
                await self._parts.rows.shift_open_pulses(tx, of_all=self._alone)
            self._clock_set, self._look_at_all = not self._alone, True

    async def _replan(self, routine: Routine) -> None:
        async with self._parts.store.begin_write() as tx:
            await self._parts.routines.replan(tx, routine)

    async def _recover(self) -> None:
        """Put back the pulses of dead processes: those whose lease was not renewed for one lease period.

        A process that is alone on the database knows that all others are dead. A pulse that it owns but does not run
        was taken while the database was unreachable, so the answer got lost.
        """
        try:
            async with self._parts.store.begin_read() as tx:
                taken = await tx.pulses.find_claimed()
        except StorageUnavailable:
            self._leases.reset()
            raise
        seen = {(each.id, each.epoch, each.lease_until): each for each in taken if each.owner != self._owner}
        lost = [each for each in taken if each.owner == self._owner and each.id not in self._running]
        for pulse in [*map(seen.__getitem__, seen if self._alone else self._leases.find_expired(seen)), *lost]:
            await self._put_back(pulse)

    async def _put_back(self, pulse: Pulse) -> None:
        with suppress(Conflict):  # another process was first
            async with self._parts.store.begin_write() as tx:
                await self._parts.pulses.requeue(tx, pulse, "its process died", died=True)
            clearing = asyncio.create_task(self._clear(pulse))
            self._clearing.add(clearing)
            clearing.add_done_callback(self._clearing.discard)

    async def _clear(self, pulse: Pulse) -> None:
        """Kill at once what a dead process left running: the next attempt comes later, or never."""
        launcher = self._parts.launchers.get(pulse.launcher)
        if launcher is not None:
            await self._run_guarded(lambda: launcher.clear(pulse.id, below_epoch=pulse.epoch + 1))

    async def _time_out(self) -> None:
        if self._parts.rows.has_clock_jumped() or self._clock_set:
            self._clock_set = False  # other processes have yet to shift their own pulses
            return
        async with self._parts.store.begin_read() as tx:
            overdue = await tx.pulses.find_overdue(self._clock.now())
        await self._run_each(self._time_out_pulse, overdue)

    async def _time_out_pulse(self, pulse: Pulse) -> None:
        with suppress(Conflict):
            async with self._parts.store.begin_write() as tx:
                await self._parts.pulses.time_out(tx, pulse)

    async def _reconsider(self) -> None:
        """Decide again the wakes that are due, and those that wait for an ended pulse or a fleet slot."""
        if self._draining:
            return
        everything, ended, now = self._look_at_all, self._ended, self._clock.now()
        self._ended = set()
        try:
            async with self._parts.store.begin_read() as tx:
                due = list(
                    await tx.wakes.find_due_agents(now, ageing_seconds=AGEING_SECONDS, of=None if everything else ended)
                )
                if ended and not everything:
                    due += await tx.wakes.find_due_agents(now, ageing_seconds=AGEING_SECONDS, rule=FLEET, limit=AT_ONCE)
        except CircadiaError:
            self._ended |= ended
            raise
        self._look_at_all = False
        due.sort(key=lambda each: (-each.pressing, each.since))
        await self._run_each(self._reconsider_agent, list(dict.fromkeys(each.agent_id for each in due)))

    async def _reconsider_agent(self, agent_id: AgentId) -> None:
        try:
            async with self._parts.store.begin_write() as tx:
                agent = await tx.agents.get(agent_id)
                moved = await self._parts.requests.reconsider(tx, agent, await tx.wakes.find_deferred(agent_id))
                for wake in moved:
                    if wake.decision in _CAME_TO_NOTHING and wake.sender_id is not None:
                        await self._notify_sender(tx, wake, wake.sender_id)
                    if agent is not None and wake.decision in _CAME_TO_NOTHING:
                        await self._parts.routines.record_skip(tx, agent, wake)
        except CircadiaError:
            self._ended.add(agent_id)  # no other signal reports the end that these requests waited for
            raise

    async def _notify_sender(self, tx: Tx, wake: Wake, sender_id: AgentId) -> None:
        """Notify the sender that its wake came to nothing (WAKE-22)."""
        sender = await tx.agents.get(sender_id)
        if sender is not None and sender.deleted_at is None:
            what = "expired" if wake.decision is Decision.EXPIRED else f"was {wake.decision.value}: {wake.detail}"
            gone = wake.message_id is None or wake.decision is Decision.CANCELLED
            hint = "" if gone else " Its message is in the inbox there."
            text = f"Your wake of {wake.agent} ({wake.reason}) {what}.{hint}"
            await self._parts.inbox.notify(tx, sender, text, root_id=wake.root_id)

    async def _fire(self) -> None:
        self._next_at = None
        if self._draining:
            return
        now = self._clock.now()
        async with self._parts.store.begin_read() as tx:
            due = await tx.routines.find_due(now, limit=AT_ONCE)
            self._next_at = await tx.routines.next_due_time(now)
        if await self._run_each(self._fire_routine, due) and len(due) == AT_ONCE:
            self._queue_work(self._fire)

    async def _fire_routine(self, routine: Routine) -> None:
        with suppress(Conflict):
            async with self._parts.store.begin_write() as tx:
                await self._parts.routines.fire(tx, routine)

    async def _start(self) -> None:
        if self._draining:
            return
        async with self._parts.store.begin_read() as tx:
            startable = await tx.pulses.find_startable(self._clock.now(), limit=AT_ONCE)
        async with self._taking:
            any_started = await self._run_each(
                self._start_pulse, [pulse for pulse in startable if pulse.id not in self._running]
            )
        if any_started and len(startable) == AT_ONCE:
            self._queue_work(self._start)

    async def _start_pulse(self, pulse: Pulse) -> None:
        try:
            async with self._parts.store.begin_write() as tx:
                taken = None if self._draining else await self._parts.pulses.take(tx, pulse, self._owner)
        except Conflict:
            return  # another process was first
        if taken is None:
            return
        if self._draining:
            await self._requeue_interrupted(taken.pulse, "the server stopped", stopped=True)
            return
        task = asyncio.create_task(self._run(taken))
        self._running[pulse.id] = task
        task.add_done_callback(lambda _: self._running.pop(pulse.id, None))

    async def _beat(self) -> None:
        """Renew the leases of this process, and stop the pulses that it has lost."""
        now = self._clock.monotonic()
        if not self._running or now < self._beat_at:
            return
        self._beat_at = now + BEAT_SECONDS
        async with self._parts.store.begin_write() as tx:
            await tx.pulses.renew_leases(self._owner, self._clock.now() + timedelta(seconds=LEASE_SECONDS))
        async with self._parts.store.begin_read() as tx:
            own = {pulse.id for pulse in await tx.pulses.find_claimed() if pulse.owner == self._owner}
        for pulse_id in self._running.keys() - own:
            task = self._running[pulse_id]
            if not task.done():
                task.cancel()

    async def _run(self, taken: LeasedPulse) -> None:
        launcher = self._parts.launchers.get(taken.pulse.launcher)
        if launcher is None:
            detail = f"there is no launcher {taken.pulse.launcher!r} in the configuration"
            await asyncio.shield(self._end(taken.pulse, PulseStatus.FAILED, detail))
            return
        attempt = Attempt(self._parts, taken, launcher)
        try:
            status, detail = await attempt.run()
        except asyncio.CancelledError:
            await asyncio.shield(self._requeue_interrupted(attempt.pulse, "the server stopped", stopped=True))
            raise
        except StorageUnavailable as error:
            await asyncio.shield(self._requeue_interrupted(attempt.pulse, error.message))
            return
        await asyncio.shield(self._end(attempt.pulse, status, detail))

    async def _requeue_interrupted(self, pulse: Pulse, detail: str, *, stopped: bool = False) -> None:
        """Put the pulse back, unless its end or the loss of its lease was the interruption."""

        async def requeue(tx: Tx, present: Pulse) -> None:
            await self._parts.pulses.requeue(tx, present, detail, stopped=stopped)

        await self._update_until_written(pulse, requeue, at_once=stopped)

    async def _end(self, pulse: Pulse, status: PulseStatus, detail: str) -> None:
        async def end(tx: Tx, present: Pulse) -> None:
            if status is PulseStatus.SUCCEEDED and present.status is PulseStatus.STARTING:
                present = await self._parts.pulses.mark_started(tx, present)  # its launcher did not report the start
            await self._parts.pulses.end(tx, present, status, detail)

        await self._update_until_written(pulse, end)

    async def _update_until_written(
        self, pulse: Pulse, act: Callable[[Tx, Pulse], Awaitable[None]], *, at_once: bool = False
    ) -> None:
        """Apply `act` to the current row if this attempt still owns it; retry until that is written.

        Nobody else would: meanwhile the pulse counts as running. At the end of the process (`at_once`) one try is
        enough, because the next process puts the pulse back.
        """
        while True:
            try:
                async with self._parts.store.begin_write() as tx:
                    present = await tx.pulses.get(pulse.id)
                    if present is not None and present.epoch == pulse.epoch and PULSE_MOVES[present.status]:
                        await act(tx, present)
                return
            except CircadiaError as error:
                _logger.warning("the end of pulse %s is not written yet: %s", pulse.id, error)
            except Exception:  # a pulse that never ends would keep its agent busy forever
                _logger.exception("the end of pulse %s is not written yet", pulse.id)
            if at_once or self._draining:
                return
            await self._clock.sleep(RETRY_SECONDS)
