"""Runs the passes that this process has claimed, each in a task that yields to waiting calls and records its end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from circadia.answers.question_drafts import AnswerServices
from circadia.clock import Clock
from circadia.errors import Conflict, StorageUnavailable
from circadia.ids import IdSource
from circadia.jobs.leased_jobs import LeasedJobs
from circadia.llm.chat_model import ChatModel
from circadia.memory.search.retrieval import Retrieval
from circadia.records.bank import Bank
from circadia.records.sleep_pass import ONCE, Pass, PassStatus, Trigger
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.budget.model_calls import PassModelClient, PassPreempted, PendingQuestions
from circadia.sleeptime.engine.operation_threads import OperationThreads
from circadia.sleeptime.engine.pass_runner import PassOutcome, PassRunner
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.grounding.change_rules import Rule
from circadia.sleeptime.proposals.operation import Operation
from circadia.sleeptime.publish.claim_verifier import ClaimVerifier
from circadia.stores.base import Store, Tx
from circadia.stores.signals.base import Signals
from circadia.telemetry.traces import Traces, record_pass_end

_logger = logging.getLogger(__name__)

THROTTLE_SECONDS: Final = 1.0
"""Pause before each step of a late pass that goes on though a call is waiting."""
RESUME_SECONDS: Final = 1.0
"""Minimum pause of a preempted pass."""
LONGEST_QUIET_SECONDS: Final = 60.0
"""Maximum quiet that a preempted pass waits for if its trigger fires only once."""

Operations = Callable[[SleepPolicySettings, bool, Sequence[str]], Sequence[Operation]]
"""Returns a pass's operations, by the bank's policy, whether there is a model, and the requested names (empty: all)."""

PassEndHook = Callable[[Tx, Bank, SleepPolicySettings, Pass], Awaitable[None]]
"""Runs in the transaction that ends a pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepParts:
    store: Store
    signals: Signals
    ids: IdSource
    tier: SleeptimeService
    operations: Operations
    rules: Sequence[Rule] = ()
    verify: ClaimVerifier | None = None
    """Judges changes of banks whose policy asks for it."""
    retrieval: Retrieval
    mind: ChatModel | None = None
    """The tier's model; none for passes that ask no model."""
    minds: Callable[[str], ChatModel] | None = None
    """Returns another model of the tier's upstream by name, for operations that have their own."""
    embed: Callable[[], Awaitable[None]] | None = None
    """Makes missing vectors; none if searches use words alone."""
    on_pass_end: PassEndHook | None = None
    readying: AnswerServices | None = None
    """Makes ready answers; none if they are off."""
    traces: Traces = field(default_factory=Traces)


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
    def __init__(self, clock: Clock, parts: SleepParts, jobs: LeasedJobs[Pass], *, alone: bool) -> None:
        self._clock = clock
        self._alone = alone
        self._parts = parts
        self._jobs = jobs
        self._tier = parts.tier
        self._flying: PendingQuestions = {}
        self._notebook = parts.tier.notebook
        # A pass runs one step at a time, so no more threads can be busy.
        self._threads = ThreadPoolExecutor(self._tier.settings.max_concurrent_passes, thread_name_prefix="pass")

    async def close(self) -> None:
        """Cancel all questions: no pass runs any more."""
        flying = tuple(self._flying.values())
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run_to_end(self, each: ActivePass) -> None:
        """Run the pass until it ends or is requeued, and always record the result."""
        with self._parts.traces.pass_span(each.run, each.bank) as span:
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
        parts, run, bank = self._parts, each.run, each.bank
        policy = self._tier.policy(bank)
        operations = parts.operations(policy, parts.mind is not None, run.operations)
        asking = None
        if parts.mind is not None:
            named, stated = parts.minds, policy.operations.items()
            others = {} if named is None else {name: named(entry.model) for name, entry in stated if entry.model}
            asking = PassModelClient(
                self._clock, parts.ids, parts.store, parts.mind, run, self._tier.limits(bank), others=others,
                stop=each.stop, flying=self._flying, traces=parts.traces, alone=self._alone,
                bank=bank.name,
            )  # fmt: skip
        running = PassRunner(
            self._clock,
            parts.store,
            self._tier.publisher,
            operations,
            parts.rules,
            asking,
            lambda: self._check_stop(each),
            retrieval=parts.retrieval,
            embed=parts.embed,
            traces=parts.traces,
            readying=parts.readying,
            apart=OperationThreads(self._threads),
            notebook=self._notebook,
            verify=parts.verify if policy.verify == "model" else None,
        )
        return await running.run_pass(run, bank)

    async def _check_stop(self, each: ActivePass) -> None:
        """Return when the next step may begin. Raises PassPreempted: a call is waiting."""
        if each.stop.is_set():
            raise PassPreempted
        if each.slowed:
            await self._clock.sleep(THROTTLE_SECONDS)

    async def _requeue(self, tx: Tx, bank: Bank, run: Pass, why: str, *, yields: bool = False) -> Pass:
        """Requeue the pass until it is due again, or until a quiet time if its trigger fires only once."""
        idle = self._tier.policy(bank).idle_seconds
        quiet = LONGEST_QUIET_SECONDS if idle is None else min(idle, LONGEST_QUIET_SECONDS)
        seconds = max(quiet, RESUME_SECONDS) if yields and run.trigger in ONCE else RESUME_SECONDS
        return await self._tier.rows.requeue(tx, bank, run, why, seconds=seconds)

    async def _end_pass(self, tx: Tx, bank: Bank, run: Pass, status: PassStatus, detail: str) -> Pass:
        ended = await self._tier.rows.end(tx, bank, run, status, detail)
        if self._parts.on_pass_end is not None:
            await self._parts.on_pass_end(tx, bank, self._tier.policy(bank), ended)
        return ended

    async def _write_result(self, each: ActivePass, act: Callable[[Tx, Pass], Awaitable[Pass]]) -> None:
        """Record a pass's result if the pass is still ours; retry until it is stored."""
        present = await self._jobs.write_result(each.run, act)
        if present is not None:
            each.run = present
