"""Runs the passes that this process has claimed, each in a task that yields to waiting calls and records its end.

The bank's sleep-time agent is woken after each pass over the bank, and no more often.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from circadia.clock import Clock
from circadia.errors import Conflict, StorageUnavailable
from circadia.jobs.leased_jobs import LeasedJobs
from circadia.records.bank import Bank
from circadia.records.session import DEFAULT_SESSION
from circadia.records.sleep_pass import ONCE, Pass, PassStatus, Trigger
from circadia.records.wake import WakeSource
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.budget.batched_questions import BatchedQuestions, BatchPending
from circadia.sleeptime.budget.model_calls import PassModelClient, PassPreempted, PendingQuestions
from circadia.sleeptime.engine.operation_threads import OperationThreads
from circadia.sleeptime.engine.pass_outcome import PassOutcome
from circadia.sleeptime.engine.pass_runner import PassRunner, ProviderUnavailable, SleepContext
from circadia.stores.base import Tx
from circadia.telemetry.traces import record_pass_end
from circadia.wake.admission.requests import WakeRequests
from circadia.wake.wake_rows import NewWake

_logger = logging.getLogger(__name__)

THROTTLE_SECONDS: Final = 1.0
"""Pause before each step of a late pass that goes on though a call is waiting."""
RESUME_SECONDS: Final = 1.0
"""Minimum pause of a preempted pass."""
PROVIDER_SECONDS: Final = 60.0
"""Pause of a pass with its own budget while the provider does not answer."""
LONGEST_QUIET_SECONDS: Final = 60.0
"""Maximum quiet that a preempted pass waits for if its trigger fires only once."""
_AWAITED: Final = (Trigger.HAND, Trigger.NEEDED)
"""Triggers of passes that somebody waits for."""
_WAKING_ENDS: Final = (PassStatus.SUCCEEDED, PassStatus.NO_CHANGE, PassStatus.PARTIAL)
"""Ends after which a sleep-time agent has work: the input was processed, whatever the pass made of it."""


@dataclass(kw_only=True, slots=True)
class ActivePass:
    run: Pass
    bank: Bank
    newest: int
    """Highest episode number that was seen; a higher one is a new turn."""
    asleep: bool
    """Whether all agents of the bank slept at the last check."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    late: bool = False
    """Whether turns have waited too long, so that the pass is slowed down instead of stopped."""
    slowed: bool = False
    until: datetime | None = None
    """When its schedule's hours end; none if they do not."""
    task: asyncio.Task[None] = field(init=False)

    def started_before(self, turn_at: datetime | None) -> bool:
        """Return whether an open turn began after the pass did."""
        return turn_at is not None and self.run.started_at is not None and turn_at > self.run.started_at

    def request_yield(self) -> None:
        """Make way for a waiting call, unless the call needs this pass for its answer."""
        if self.run.trigger is Trigger.NEEDED:
            return
        if self.late:
            self.slowed = True
        else:
            self.stop.set()


class PassTasks:
    def __init__(self, clock: Clock, context: SleepContext, jobs: LeasedJobs[Pass], *, alone: bool) -> None:
        self._clock = clock
        self._alone = alone
        self._context = context
        self._jobs = jobs
        self._sleeptime = context.sleeptime
        self._open_questions: PendingQuestions = {}
        # A pass runs one step at a time, so no more threads can be busy.
        self._threads = ThreadPoolExecutor(self._sleeptime.settings.max_concurrent_passes, thread_name_prefix="pass")

    async def close(self) -> None:
        """Cancel all questions: no pass runs any more."""
        open_questions = tuple(self._open_questions.values())
        for task in open_questions:
            task.cancel()
        await asyncio.gather(*open_questions, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run_to_end(self, each: ActivePass) -> None:
        """Run the pass until it ends or is requeued, and always record the result."""
        with self._context.traces.pass_span(each.run, each.bank) as span:
            try:
                await self._run_guarded(each)
            finally:
                record_pass_end(span, each.run)

    async def _run_guarded(self, each: ActivePass) -> None:
        run, bank = each.run, each.bank
        try:
            outcome = await self._run_pass(each)
        except PassPreempted:
            await self._write_result(
                each, lambda tx, now: self._requeue(tx, bank, now, "it yields to whoever waits", yields=True)
            )
        except BatchPending as pending:
            why, seconds = str(pending), pending.seconds
            await self._write_result(
                each, lambda tx, now: self._sleeptime.rows.requeue(tx, bank, now, why, seconds=seconds)
            )
        except ProviderUnavailable as error:
            why = str(error)
            await self._write_result(
                each, lambda tx, now: self._sleeptime.rows.requeue(tx, bank, now, why, seconds=PROVIDER_SECONDS)
            )
        except asyncio.CancelledError:
            await asyncio.shield(
                self._write_result(each, lambda tx, now: self._requeue(tx, bank, now, "the server stopped"))
            )
            raise
        except (Conflict, StorageUnavailable) as error:
            why = error.message
            await self._write_result(each, lambda tx, now: self._requeue(tx, bank, now, why))
        except Exception:
            _logger.exception("pass %s over bank %r has failed", run.id, bank.name)
            detail = "internal error; see the log"
            await self._write_result(each, lambda tx, now: self._end_pass(tx, bank, now, PassStatus.FAILED, detail))
        else:
            await self._write_result(
                each, lambda tx, now: self._end_pass(tx, bank, now, outcome.status, outcome.detail)
            )

    async def _run_pass(self, each: ActivePass) -> PassOutcome:
        context, run, bank = self._context, each.run, each.bank
        policy = self._sleeptime.policy(bank)
        operations = context.operations(policy, context.model is not None, run.operations)
        asking = None
        if context.model is not None:
            named, stated = context.models, policy.operations.items()
            others = {} if named is None else {name: named(entry.model) for name, entry in stated if entry.model}
            asking = PassModelClient(
                self._clock, context.ids, context.store, context.model, run, self._sleeptime.limits(bank, run),
                others=others, stop=each.stop, open_questions=self._open_questions, traces=context.traces,
                alone=self._alone, bank=bank.name,
            )  # fmt: skip
            asking = self._batch_questions(each, policy, asking)
        verify = context.verify if policy.verify == "model" else None
        threads = OperationThreads(self._threads)
        runner = PassRunner(
            self._clock, context, operations, asking, lambda: self._check_stop(each), verify=verify, threads=threads
        )
        try:
            return await runner.run_pass(run, bank)
        except BatchPending:
            if asking is not None:
                await asking.submit()
            raise

    def _batch_questions(
        self, each: ActivePass, policy: SleepPolicySettings, asking: PassModelClient
    ) -> PassModelClient | BatchedQuestions:
        """Have operations ask in batches whose policy says so, unless somebody waits for the pass."""
        batched = [name for name, entry in policy.operations.items() if entry.batch]
        open_batches = self._context.open_batches
        if not batched or open_batches is None or each.run.dry_run or each.run.trigger in _AWAITED:
            return asking
        return BatchedQuestions(
            self._clock, self._context.ids, self._context.store, self._context.signals, asking, each.run, batched,
            open_batches,
        )  # fmt: skip

    async def _check_stop(self, each: ActivePass) -> None:
        """Return when the next step may begin. Raises PassPreempted: a call is waiting."""
        if each.stop.is_set():
            raise PassPreempted
        if each.slowed:
            await self._clock.sleep(THROTTLE_SECONDS)

    async def _requeue(self, tx: Tx, bank: Bank, run: Pass, why: str, *, yields: bool = False) -> Pass:
        """Requeue the pass until it is due again, or until a quiet time if its trigger fires only once."""
        idle = self._sleeptime.policy(bank).idle_seconds
        quiet = LONGEST_QUIET_SECONDS if idle is None else min(idle, LONGEST_QUIET_SECONDS)
        seconds = max(quiet, RESUME_SECONDS) if yields and run.trigger in ONCE else RESUME_SECONDS
        return await self._sleeptime.rows.requeue(tx, bank, run, why, seconds=seconds)

    async def _end_pass(self, tx: Tx, bank: Bank, run: Pass, status: PassStatus, detail: str) -> Pass:
        ended = await self._sleeptime.rows.end(tx, bank, run, status, detail)
        if self._context.wakes is not None:
            await wake_sleeptime_agent(self._context.wakes, tx, bank, self._sleeptime.policy(bank), ended)
        return ended

    async def _write_result(self, each: ActivePass, act: Callable[[Tx, Pass], Awaitable[Pass]]) -> None:
        """Record a pass's result if the pass is still ours; retry until it is stored."""
        present = await self._jobs.write_result(each.run, act)
        if present is not None:
            each.run = present


async def wake_sleeptime_agent(
    requests: WakeRequests, tx: Tx, bank: Bank, policy: SleepPolicySettings, run: Pass
) -> None:
    """Ask for a wake of the agent in the bank's policy if it is asleep and the pass was no dry run.

    The agent's guardrails and pauses apply as to its own schedule.
    """
    if policy.agent is None or run.dry_run or run.status not in _WAKING_ENDS:
        return
    session_name, _, name = policy.agent.rpartition(":")
    session = await tx.sessions.get_by_name(session_name or DEFAULT_SESSION)
    agent = None if session is None else await tx.agents.get_by_name(session.id, name)
    if agent is None or not agent.enabled:
        _logger.warning(
            "bank %r names the sleep-time agent %r, which does not exist or is disabled", bank.name, policy.agent
        )
        return
    if not agent.asleep:
        return  # awake, it sees new rows by itself
    ask = NewWake(
        target=agent, source=WakeSource.SCHEDULE, by=f"pass {run.id}", reason=f"new in bank {bank.name}",
        key=f"pass {run.id}",
    )  # fmt: skip
    await requests.ask(tx, ask)
