"""Starts due passes, runs them, preempts them for waiting calls, and recovers those of dead processes.

The rows hold what is due and who owns it; signals only speed things up, and a lost one costs some seconds. A claimed
pass belongs to this process until its lease runs out; a write with an older epoch is refused.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final, cast

from circadia.answers.cleanup import forget_expired
from circadia.clock import Clock
from circadia.errors import Conflict
from circadia.ids import AgentId, BankId, PassId
from circadia.jobs.due_watch import DueWatch
from circadia.jobs.leased_jobs import LeasedJobs
from circadia.memory.banks import USER
from circadia.records.bank import Bank
from circadia.records.event import EventType
from circadia.records.pulse import PULSE_MOVES, PulseStatus
from circadia.records.sleep_pass import Pass, PassBlocker, PassStatus, Trigger
from circadia.sleeptime.engine.pass_tasks import RESUME_SECONDS, ActivePass, PassTasks, SleepParts
from circadia.sleeptime.engine.services import binding_of, names_of
from circadia.sleeptime.operations.reindex import ASKINGS_SECONDS, forget_askings, write_askings
from circadia.sleeptime.triggers.due import ActivityEnd, PassDecision
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC, NewPass
from circadia.stores.base import Tx
from circadia.stores.locks import bank_key

EVERY_SECONDS: Final = 1.0
"""SLEEP-04: a pass yields within a second, even if the wake's signal is lost."""
LOOK_SECONDS: Final = 10.0
"""Interval between checks of a waiting bank, whatever signals arrive."""
GATHER_SECONDS: Final = 0.1
"""Minimum time between two steps, so that a burst of signals costs one."""
AT_ONCE: Final = 100
"""Banks that one step decides on, and passes that it tries to start."""
PAUSED_SECONDS: Final = 10.0
"""Interval between checks of a pass whose bank is paused."""
SCHEDULES_SECONDS: Final = 60.0
"""Interval between checks of banks with schedules and nothing new, or with too few changes by others."""
MOVED_SECONDS: Final = 10.0
"""Interval between searches for banks with edits or demotions by others, but no new episodes."""
FORGET_SECONDS: Final = 3600.0


class SleepWorker:
    """One per process. `owner` names it in the rows; `alone` means that no other process uses this database."""

    def __init__(
        self,
        clock: Clock,
        parts: SleepParts,
        *,
        owner: str,
        alone: bool,
        leads: Callable[[], bool] = lambda: True,
        due: DueWatch | None = None,
    ) -> None:
        """`leads` tells whether this process decides which passes are due; all processes run them."""
        self._clock = clock
        self._parts = parts
        self._tier = parts.tier
        self._owner = owner
        self._alone = alone
        self._leads = leads
        self._due = due or DueWatch(clock, parts.store)
        self._jobs = LeasedJobs[Pass](
            clock,
            parts.store,
            lambda tx: tx.passes,
            self._put_back,
            lambda tx, run: tx.hold(bank_key(run.bank_id)),
            self._fail,
            name="sleep-time work",
            owner=owner,
            alone=alone,
        )
        self._rung_for_pass = False
        self._look_at: dict[BankId, float] = {}
        self._names: dict[str, set[BankId]] = {}
        self._bound: dict[tuple[str, str | None], BankId] = {}
        self._heard: dict[tuple[AgentId, str | None], ActivityEnd | None] = {}
        """Agents, and end users of conversations, that signals have named since the last step, with what has ended."""
        self._schedules_at = self._moved_at = self._forget_at = self._askings_at = 0.0
        self._runs = PassTasks(clock, parts, self._jobs, alone=alone)
        self._running: dict[PassId, ActivePass] = {}
        if not alone:
            self._tier.turns.owner = owner
        for topic, handler in (
            ("memory", self._look_soon),
            (EventType.PASSES_RESUMED.value, self._look_soon),
            ("turn", self._on_turn_event),
            ("context", self._on_context_filled),
            ("sleep", self._on_agent_event),
            ("pulse", self._on_pulse_event),
            ("conversation", self._on_conversation_end),
            (TOPIC, self._on_pass_event),
        ):
            parts.signals.listen(topic, handler)

    @property
    def running_count(self) -> int:
        return len(self._running)

    async def run(self) -> None:
        """Work until cancelled; log a failing step and try it again."""
        async with asyncio.TaskGroup() as all_three:
            for work in (self._work, self._watch_forever, self._share_turns):
                all_three.create_task(work())

    async def _watch_forever(self) -> None:
        """Watch the running passes, however long the decisions on all banks take (SLEEP-04, SLEEP-10)."""
        while True:
            await self._watch()
            await self._clock.sleep(EVERY_SECONDS)

    async def _share_turns(self) -> None:
        """Share turns at this process's gateway with other processes (SLEEP-01, SLEEP-04)."""
        while True:
            await self._tier.turns.some.wait()
            await self._clock.sleep(GATHER_SECONDS)  # a turn that is over by then is not worth a row
            await self._jobs.run_guarded(partial(self._tier.turns.write_turns, self._parts.store))

    async def _work(self) -> None:
        while True:
            await self.step()
            await self._clock.sleep(GATHER_SECONDS)
            await self._jobs.wait_for_bell(EVERY_SECONDS)

    async def step(self) -> None:
        works = (self._watch, self._start, self._write_askings)
        if self._leads():
            works = (self._recover, self._watch, self._decide, self._start, self._write_askings, self._forget)
        else:
            self._jobs.forget_leases()
        for work in works:
            await self._jobs.run_guarded(work)

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
            await self._jobs.run_guarded(partial(self._tier.turns.renew_leases, self._parts.store))

    async def _watch(self) -> None:
        await self._jobs.run_guarded(self._preempt_passes)
        await self._jobs.run_guarded(self._jobs.renew_leases)
        await self._jobs.run_guarded(partial(self._tier.turns.renew_leases, self._parts.store))

    async def drain(self) -> None:
        """Start nothing more, and requeue the running passes for the next process."""
        await self._jobs.drain()
        await self._runs.close()

    def _look_soon(self, key: str, _: Mapping[str, object]) -> None:
        self._look_at.pop(BankId(key), None)  # the next step is soon enough

    def _on_pass_event(self, key: str, _: Mapping[str, object]) -> None:
        self._look_at.pop(BankId(key), None)
        self._rung_for_pass = True
        self._jobs.ring()

    def _on_turn_event(self, key: str, data: Mapping[str, object]) -> None:
        bound = self._tier.turns.on_turn_event(key, data)
        bank_id = self._bound.get(bound)
        if bank_id is None:
            return
        if data.get("ended"):
            self._look_at.pop(bank_id, None)
            return
        for active_pass in self._running.values():
            if active_pass.bank.id == bank_id:
                active_pass.request_yield()

    def _on_context_filled(self, key: str, data: Mapping[str, object]) -> None:
        """Record the share if this process decides on passes, wherever the call was made."""
        bound = key, str(data["user"]) if USER in key else None
        filled = cast("float", data["filled"])
        if self._leads() and filled > self._tier.filled.get(bound, 0.0):
            self._tier.filled[bound] = filled
            bank_id = self._bound.get(bound)
            if bank_id is not None:
                self._look_at.pop(bank_id, None)

    def _on_agent_event(self, key: str, data: Mapping[str, object]) -> None:
        if self._leads():
            self._heard.setdefault((AgentId(key), None), None)
        if self._running and not data["asleep"]:  # a pass may have to yield
            self._jobs.ring()

    def _on_pulse_event(self, _: str, data: Mapping[str, object]) -> None:
        if self._leads() and not PULSE_MOVES[PulseStatus(str(data["status"]))]:
            self._heard[AgentId(str(data["agent"])), None] = ActivityEnd(of="pulse", at=self._clock.now())

    def _on_conversation_end(self, key: str, data: Mapping[str, object]) -> None:
        if self._leads():
            end = ActivityEnd(of="conversation", at=self._clock.now())
            self._heard[AgentId(key), cast("str | None", data.get("user"))] = end

    async def _put_back(self, tx: Tx, run: Pass) -> None:
        bank = await tx.banks.get(run.bank_id)
        if bank is not None:
            await self._tier.rows.requeue(tx, bank, run, "its process died", seconds=0, died=True)

    async def _fail(self, tx: Tx, run: Pass, detail: str) -> Pass | None:
        bank = await tx.banks.get(run.bank_id)
        return None if bank is None else await self._tier.rows.end(tx, bank, run, PassStatus.FAILED, detail)

    async def _preempt_passes(self) -> None:
        """Preempt passes for waiting calls, and drop those that another process has taken over."""
        for active_pass in tuple(self._running.values()):
            async with self._parts.store.begin_read() as tx:
                run, state = await tx.passes.get(active_pass.run.id), await tx.sleep_states.get(active_pass.bank.id)
                newer = await tx.sleep_states.fetch_backlog(active_pass.bank.id, active_pass.newest)
                since = await tx.sleep_states.asleep_since(names_of(active_pass.bank))
                late = await self._tier.is_late(tx, active_pass.bank)
                _, turn_at = await self._tier.turns.fetch_turn_times(tx, binding_of(active_pass.bank))
            if run is None or run.epoch != active_pass.run.epoch or run.status is not PassStatus.RUNNING:
                active_pass.task.cancel("it was taken over or has ended")
                continue
            active_pass.late = late
            until = active_pass.until
            if state.paused_by is not None or (until is not None and until <= self._clock.now()):
                active_pass.stop.set()
            elif newer.episodes or (active_pass.asleep and since is None) or active_pass.started_before(turn_at):
                active_pass.newest, active_pass.asleep = max(active_pass.newest, newer.last), since is not None
                active_pass.request_yield()

    async def _decide(self) -> None:
        """Request the passes that are due, and record which gate blocks the others."""
        if self._jobs.draining:
            return
        await self._apply_agent_events()
        now = self._clock.monotonic()
        async with self._parts.store.begin_single_read() as tx:
            waiting = list(await tx.sleep_states.find_banks_with_backlog())
        if now >= self._moved_at:
            self._moved_at = now + MOVED_SECONDS
            async with self._parts.store.begin_single_read() as tx:
                waiting += await tx.sleep_states.find_banks_with_changes()
        if now >= self._schedules_at:
            self._schedules_at = now + SCHEDULES_SECONDS
            async with self._parts.store.begin_read() as tx:
                waiting += [bank.id for bank in await tx.banks.find_all() if self._tier.policy(bank).schedules]
        due = [bank_id for bank_id in dict.fromkeys(waiting) if self._look_at.get(bank_id, now) <= now]
        due.sort(key=lambda bank_id: self._look_at.get(bank_id, 0.0))
        for bank_id in due[:AT_ONCE]:
            self._look_at[bank_id] = now + LOOK_SECONDS  # even if it fails: the others must not wait for it
            await self._jobs.run_guarded(partial(self._decide_bank, bank_id))
        if len(due) > AT_ONCE:
            self._jobs.ring()

    async def _apply_agent_events(self) -> None:
        for signal_key, end in tuple(self._heard.items()):
            for bank_id in await self._banks_of(*signal_key):
                if end is not None:
                    self._tier.ended[bank_id] = end
                self._look_at.pop(bank_id, None)
            if self._heard[signal_key] is end:  # else another signal came meanwhile
                del self._heard[signal_key]

    async def _banks_of(self, agent_id: AgentId, user: str | None) -> Collection[BankId]:
        """Return the banks that the agent is bound to: only the end user's if each end user has one."""
        async with self._parts.store.begin_read() as tx:
            agent = await tx.agents.get(agent_id)
            name = None if agent is None else agent.policy.bank
            if name is None:
                return ()
            if USER in name and user is not None:
                bank = await tx.banks.get_by_end_user(name, user)
                return () if bank is None else (bank.id,)
            if name not in self._names and (bank := await tx.banks.get_by_name(name)) is not None:
                self._register(bank)
        return self._names.get(name, ())

    async def _decide_bank(self, bank_id: BankId) -> None:
        async with self._parts.store.begin_read() as tx:
            bank = await tx.banks.get(bank_id)
            if bank is None:
                return
            verdict = await self._tier.fetch_verdict(tx, bank)
            state = await tx.sleep_states.get(bank.id)
        self._register(bank)
        if verdict.trigger is not None:
            self._tier.ended.pop(bank.id, None)
            self._tier.filled.pop(binding_of(bank), None)
            with suppress(Conflict):
                async with self._parts.store.begin_write() as tx:
                    new = NewPass(trigger=verdict.trigger, by="circadia", full=verdict.full)
                    await self._tier.request_pass(tx, bank, new)
        else:
            self._look_at[bank_id] = self._clock.monotonic() + self._seconds_until(verdict)
            if verdict.gate is not None and state.gate != verdict.gate.value:
                await self._record_gate(bank, verdict.gate, verdict.detail)

    def _register(self, bank: Bank) -> None:
        """Register the names by which signals refer to the bank."""
        for name in names_of(bank):
            self._names.setdefault(name, set()).add(bank.id)
        self._bound[binding_of(bank)] = bank.id

    def _seconds_until(self, verdict: PassDecision) -> float:
        if verdict.at is None:
            return SCHEDULES_SECONDS if verdict.gate is PassBlocker.EMPTY else LOOK_SECONDS
        return min(LOOK_SECONDS, max(0.0, (verdict.at - self._clock.now()).total_seconds()))

    async def _record_gate(self, bank: Bank, gate: PassBlocker, detail: str) -> None:
        async with self._parts.store.begin_write() as tx:
            state = await tx.sleep_states.get(bank.id)
            new_state = replace(state, gate=gate.value, gate_detail=detail, gate_at=self._clock.now())
            await tx.sleep_states.put(new_state)

    async def _start(self) -> None:
        may_start = self._rung_for_pass or self._jobs.has_unanswered_claim or (await self._due.look()).passes
        if not may_start:
            return
        self._rung_for_pass = False
        while not self._jobs.draining and (places := self._count_free_places()) > 0:
            claimed = await self._jobs.claim(limit=places)
            if not claimed:
                return
            await self._tier.flush_answered_calls()
            await self._write_askings(now=True)
            for run in claimed:
                # Else a run that another process requeued ends here first.
                if run.id in self._running or not await self._jobs.run_guarded(partial(self._take, run)):
                    return

    def _count_free_places(self) -> int:
        return self._tier.settings.max_concurrent_passes - len(self._running)

    async def _take(self, run: Pass) -> None:
        """Run a claimed pass if its trigger still holds (SLEEP-03)."""
        async with self._parts.store.begin_write() as tx:
            bank = await tx.banks.get(run.bank_id)
            if bank is None:
                return
            state = await tx.sleep_states.get(bank.id)
            if state.paused_by is not None:
                await self._tier.rows.postpone(tx, run, f"paused by {state.paused_by}", seconds=PAUSED_SECONDS)
                return
            if run.trigger not in (Trigger.HAND, Trigger.NEEDED):  # a requested one begins anyway
                verdict = await self._tier.fetch_verdict(tx, bank, own=run)
                if verdict.gate is PassBlocker.EMPTY and not run.attempt:
                    await self._tier.rows.end(tx, bank, run, PassStatus.SKIPPED, verdict.detail)
                    return
                if over := await self._tier.reason_to_skip(tx, bank, run):
                    await self._tier.rows.end(tx, bank, run, PassStatus.SKIPPED, over)
                    return
                if verdict.gate not in (None, PassBlocker.EMPTY):
                    seconds = max(RESUME_SECONDS, self._seconds_until(verdict))
                    await self._tier.rows.postpone(tx, run, verdict.detail, seconds=seconds)
                    return
            claimed_pass = await self._tier.rows.start(tx, bank, run)
            since = await tx.sleep_states.asleep_since(names_of(bank))
            newest = max(claimed_pass.upto, (await tx.sleep_states.fetch_backlog(bank.id, claimed_pass.upto)).last)
            late = await self._tier.is_late(tx, bank)
            hours = await self._tier.load_hours(tx, bank)
        self._register(bank)
        active_pass = ActivePass(run=claimed_pass, bank=bank, newest=newest, asleep=since is not None, late=late)
        if run.trigger is Trigger.SCHEDULE:
            active_pass.until = hours.end_of_window(self._clock.now())
        active_pass.task = self._jobs.start(run.id, self._runs.run_to_end(active_pass))
        self._running[run.id] = active_pass
        active_pass.task.add_done_callback(lambda _: self._running.pop(run.id, None))

    async def _write_askings(self, *, now: bool = False) -> None:
        """Store frequent questions, rarely and in batches, since searches do not wait for it."""
        at = self._clock.monotonic()
        if now or at >= self._askings_at:
            self._askings_at = at + ASKINGS_SECONDS
            await write_askings(self._parts.store, self._parts.retrieval.askings, self._tier.policy)

    async def _forget(self) -> None:
        """Drop expired answers, turns of dead processes, and questions that a bank may not keep."""
        now, today = self._clock.monotonic(), self._clock.now()
        if now < self._forget_at:
            return
        await forget_expired(self._parts.store, today)
        async with self._parts.store.begin_write() as tx:
            await tx.open_turns.delete_expired(today - timedelta(seconds=FORGET_SECONDS))
        await forget_askings(self._parts.store, self._tier.policy)
        self._forget_at = now + FORGET_SECONDS
