"""Starts due passes, runs them, preempts them for waiting calls, and recovers those of dead processes.

The rows hold what is due and who owns it; signals only speed things up, and a lost one costs some seconds. A claimed
pass belongs to this process until its lease runs out; a write with an older epoch is refused.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Final

from circadia.answers.cleanup import forget_expired
from circadia.clock import Clock
from circadia.errors import NotFound, StorageUnavailable
from circadia.ids import PassId
from circadia.jobs.leased_jobs import LeasedJobs
from circadia.jobs.loops import DueWatch
from circadia.records.bank import Bank
from circadia.records.sleep_pass import Pass, PassBlocker, PassStatus, Trigger
from circadia.sleeptime.engine.answer_reviewer import AnswerReviewer
from circadia.sleeptime.engine.pass_decider import LOOK_SECONDS, PassDecider
from circadia.sleeptime.engine.pass_runner import SleepContext
from circadia.sleeptime.engine.pass_tasks import RESUME_SECONDS, ActivePass, PassTasks
from circadia.sleeptime.engine.services import binding_of, names_of
from circadia.sleeptime.triggers.due import PassDecision
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC, NewPass
from circadia.stores.base import Tx
from circadia.stores.locks import bank_key

EVERY_SECONDS: Final = 1.0
"""SLEEP-04: a pass yields within a second, even if the wake's signal is lost."""
GATHER_SECONDS: Final = 0.1
"""Minimum time between two steps, so that a burst of signals costs one."""
PAUSED_SECONDS: Final = 10.0
"""Interval between checks of a pass whose bank is paused."""
FORGET_SECONDS: Final = 3600.0
IDLE_SECONDS: Final = 60.0
"""A pass that the worker has not begun, or gone on with, after so long will not run."""


class SleepWorker:
    """One per process. `owner` names it in the rows; `alone` means that no other process uses this database."""

    def __init__(
        self,
        clock: Clock,
        context: SleepContext,
        *,
        owner: str,
        alone: bool,
        leads: Callable[[], bool] = lambda: True,
        due: DueWatch | None = None,
    ) -> None:
        """`leads` tells whether this process decides which passes are due; all processes run them."""
        self._clock, self._context = clock, context
        self._sleeptime = context.sleeptime
        self._owner = owner
        self._alone = alone
        self._leads = leads
        self._due = due or DueWatch(clock, context.store)
        self._jobs = LeasedJobs[Pass](
            clock,
            context.store,
            lambda tx: tx.passes,
            self._put_back,
            lambda tx, run: tx.hold(bank_key(run.bank_id)),
            self._fail,
            name="sleep-time work",
            owner=owner,
            alone=alone,
        )
        self._rung_for_pass = False
        self._decider = PassDecider(clock, context.store, context.signals, self._sleeptime, self._leads, self._due)
        self._forget_at = 0.0
        self._runs = PassTasks(clock, context, self._jobs, alone=alone)
        self._reviewer = AnswerReviewer(clock, context, alone=alone, leads=leads)
        self._running: dict[PassId, ActivePass] = {}
        if not alone:
            self._sleeptime.turns.owner = owner
        for topic, handler in (
            ("turn", self._on_turn_event),
            ("sleep", self._on_sleep_event),
            (TOPIC, self._on_pass_event),
        ):
            context.signals.listen(topic, handler)

    @property
    def running_count(self) -> int:
        return len(self._running)

    async def run(self) -> None:
        """Work until cancelled; log a failing step and try it again."""
        async with asyncio.TaskGroup() as works:
            for work in (self._work, self._watch_forever, self._share_turns, self._reviewer.run):
                works.create_task(work())

    async def run_one_pass(self, bank: Bank, new: NewPass) -> Pass:
        """Request a pass, or go on with an open one, and run it to its end: for folders, which have no running worker.

        Raises:
            StorageUnavailable: it does not run; the log says why.
        """
        store, ended = self._context.store, asyncio.Event()

        def on_signal(key: str, data: Mapping[str, object]) -> None:
            if key == bank.id and data["ended"]:
                ended.set()

        stop_listening = self._context.signals.listen(TOPIC, on_signal)
        try:
            async with store.begin_write() as tx:
                run = await tx.passes.get_open(bank.id) or await self._sleeptime.request_pass(tx, bank, new)
            tasks = [asyncio.ensure_future(work) for work in (ended.wait(), self.run())]
            try:
                while not ended.is_set():
                    done, _ = await asyncio.wait(tasks, timeout=IDLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    if not ended.is_set() and (done or not self._running):
                        raise StorageUnavailable(f"pass {run.id!r} does not run; the log says why; try again")
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            stop_listening()
        async with store.begin_read() as tx:
            done = await tx.passes.get(run.id)
        if done is None:
            raise NotFound(f"pass {run.id!r} is gone")
        return done

    async def _watch_forever(self) -> None:
        """Watch the running passes, however long the decisions on all banks take (SLEEP-04, SLEEP-10)."""
        while True:
            await self._watch()
            await self._clock.sleep(EVERY_SECONDS)

    async def _share_turns(self) -> None:
        """Share turns at this process's gateway with other processes (SLEEP-01, SLEEP-04)."""
        while True:
            await self._sleeptime.turns.some.wait()
            await self._clock.sleep(GATHER_SECONDS)  # a turn that is over by then is not worth a row
            await self._jobs.run_guarded(partial(self._sleeptime.turns.write_turns, self._context.store))

    async def _work(self) -> None:
        while True:
            await self.step()
            await self._clock.sleep(GATHER_SECONDS)
            await self._jobs.wait_for_bell(EVERY_SECONDS)

    async def step(self) -> None:
        works = (self._watch, self._start)
        if self._leads():
            works = (self._recover, self._watch, self._decide, self._start, self._forget)
        else:
            self._jobs.forget_leases()
        for work in works:
            await self._jobs.run_guarded(work)

    async def _decide(self) -> None:
        if not self._jobs.draining and await self._decider.decide():
            self._jobs.ring()

    async def _recover(self) -> None:
        if (await self._due.look()).claimed_passes:
            await self._jobs.recover()

    async def run_gateway(self) -> None:
        """Share the turns at this gateway with the workers, which run the passes."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._share_turns())
            both.create_task(self._keep_turns())

    async def _keep_turns(self) -> None:
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            await self._jobs.run_guarded(partial(self._sleeptime.turns.renew_leases, self._context.store))

    async def _watch(self) -> None:
        await self._jobs.run_guarded(self._preempt_passes)
        await self._jobs.run_guarded(self._jobs.renew_leases)
        await self._jobs.run_guarded(partial(self._sleeptime.turns.renew_leases, self._context.store))

    async def drain(self) -> None:
        """Start nothing more, and requeue the running passes for the next process."""
        await self._jobs.drain()
        await self._runs.close()

    def _on_pass_event(self, _: str, __: Mapping[str, object]) -> None:
        self._rung_for_pass = True
        self._jobs.ring()

    def _on_turn_event(self, key: str, data: Mapping[str, object]) -> None:
        bound = self._sleeptime.turns.on_turn_event(key, data)
        if data.get("ended"):
            self._decider.on_turn_end(bound)
            return
        for active_pass in self._running.values():
            if binding_of(active_pass.bank) == bound:
                active_pass.request_yield()

    def _on_sleep_event(self, _: str, data: Mapping[str, object]) -> None:
        if self._running and not data["asleep"]:  # a pass may have to yield
            self._jobs.ring()

    async def _put_back(self, tx: Tx, run: Pass) -> None:
        bank = await tx.banks.get(run.bank_id)
        if bank is not None:
            await self._sleeptime.rows.requeue(tx, bank, run, "its process died", seconds=0, died=True)

    async def _fail(self, tx: Tx, run: Pass, detail: str) -> Pass | None:
        bank = await tx.banks.get(run.bank_id)
        return None if bank is None else await self._sleeptime.rows.end(tx, bank, run, PassStatus.FAILED, detail)

    async def _preempt_passes(self) -> None:
        """Preempt passes for waiting calls, and drop those that another process has taken over."""
        for active_pass in tuple(self._running.values()):
            async with self._context.store.begin_read() as tx:
                run, state = await tx.passes.get(active_pass.run.id), await tx.sleep_states.get(active_pass.bank.id)
                newer = await tx.sleep_states.fetch_backlog(active_pass.bank.id, active_pass.newest)
                asleep = await tx.sleep_states.are_agents_asleep(names_of(active_pass.bank))
                late = await self._sleeptime.is_late(tx, active_pass.bank)
                _, turn_at = await self._sleeptime.turns.fetch_turn_times(tx, binding_of(active_pass.bank))
            if run is None or run.epoch != active_pass.run.epoch or run.status is not PassStatus.RUNNING:
                active_pass.task.cancel("it was taken over or has ended")
                continue
            active_pass.late = late
            until = active_pass.until
            if state.paused_by is not None or (until is not None and until <= self._clock.now()):
                active_pass.stop.set()
            elif newer.episodes or (active_pass.asleep and not asleep) or active_pass.started_before(turn_at):
                active_pass.newest, active_pass.asleep = max(active_pass.newest, newer.last), asleep
                active_pass.request_yield()

    def _seconds_until(self, verdict: PassDecision) -> float:
        if verdict.at is None:
            return LOOK_SECONDS
        return min(LOOK_SECONDS, max(0.0, (verdict.at - self._clock.now()).total_seconds()))

    async def _start(self) -> None:
        may_start = self._rung_for_pass or self._jobs.has_unanswered_claim or (await self._due.look()).passes
        if not may_start:
            return
        self._rung_for_pass = False
        while not self._jobs.draining and (places := self._count_free_places()) > 0:
            claimed = await self._jobs.claim(limit=places)
            if not claimed:
                return
            await self._sleeptime.flush_answered_calls()
            for run in claimed:
                # Else a run that another process requeued ends here first.
                if run.id in self._running or not await self._jobs.run_guarded(partial(self._take, run)):
                    return

    def _count_free_places(self) -> int:
        return self._sleeptime.settings.max_concurrent_passes - len(self._running)

    async def _take(self, run: Pass) -> None:
        """Run a claimed pass if its trigger still holds (SLEEP-03)."""
        async with self._context.store.begin_write() as tx:
            bank = await tx.banks.get(run.bank_id)
            if bank is None:
                return
            state = await tx.sleep_states.get(bank.id)
            if state.paused_by is not None:
                await self._sleeptime.rows.postpone(tx, run, f"paused by {state.paused_by}", seconds=PAUSED_SECONDS)
                return
            if run.trigger not in (Trigger.HAND, Trigger.NEEDED):  # a requested one begins anyway
                verdict = await self._sleeptime.fetch_verdict(tx, bank, own=run)
                if verdict.gate is PassBlocker.EMPTY and not run.attempt:
                    await self._sleeptime.rows.end(tx, bank, run, PassStatus.SKIPPED, verdict.detail)
                    return
                if over := await self._sleeptime.reason_to_skip(tx, bank, run):
                    await self._sleeptime.rows.end(tx, bank, run, PassStatus.SKIPPED, over)
                    return
                if verdict.gate not in (None, PassBlocker.EMPTY):
                    seconds = max(RESUME_SECONDS, self._seconds_until(verdict))
                    await self._sleeptime.rows.postpone(tx, run, verdict.detail, seconds=seconds)
                    return
            claimed_pass = await self._sleeptime.rows.start(tx, bank, run)
            asleep = await tx.sleep_states.are_agents_asleep(names_of(bank))
            newest = max(claimed_pass.upto, (await tx.sleep_states.fetch_backlog(bank.id, claimed_pass.upto)).last)
            late = await self._sleeptime.is_late(tx, bank)
            hours = await self._sleeptime.load_hours(tx, bank)
        active_pass = ActivePass(run=claimed_pass, bank=bank, newest=newest, asleep=asleep, late=late)
        if run.trigger is Trigger.SCHEDULE:
            active_pass.until = hours.end_of_window(self._clock.now())
        active_pass.task = self._jobs.start(run.id, self._runs.run_to_end(active_pass))
        self._running[run.id] = active_pass
        active_pass.task.add_done_callback(lambda _: self._running.pop(run.id, None))

    async def _forget(self) -> None:
        """Drop expired answers, and turns of dead processes."""
        now, today = self._clock.monotonic(), self._clock.now()
        if now < self._forget_at:
            return
        await forget_expired(self._context.store, today)
        async with self._context.store.begin_write() as tx:
            await tx.open_turns.delete_expired(today - timedelta(seconds=FORGET_SECONDS))
        self._forget_at = now + FORGET_SECONDS
