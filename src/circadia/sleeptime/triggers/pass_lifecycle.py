"""Moves passes between statuses, with the effects of each move, in the caller's transaction (SLEEP-10 … SLEEP-13).

pending --take--> running --end--> succeeded | no_change | partial | failed
^                 |
+-- yield, died --+       pending | running --cancel--> cancelled; pending --> skipped
"""

import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import Conflict
from circadia.ids import IdSource, PassId
from circadia.jobs.leased_jobs import LEASE_SECONDS, fetch_claimed
from circadia.records.bank import Bank
from circadia.records.change import ChangeState
from circadia.records.event import EventType, PassChange
from circadia.records.sleep_call import WASTED, SleepCost
from circadia.records.sleep_pass import PASS_MOVES, Pass, PassStatus, Trigger
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog

_logger = logging.getLogger(__name__)

TOPIC: Final = "pass"
"""The signal that a pass has moved; its key is the bank's id."""
BATCH_TOPIC: Final = "batch"
"""Signal of what became of batched questions."""
ATTEMPTS: Final = 4
"""Starts of a pass whose processes died."""
BACK_OFF_SECONDS: Final = 30.0
"""Pause after a failed pass, doubled for each further failure in a row."""
LONGEST_BACK_OFF_SECONDS: Final = 3600.0
_NANOUSD: Final = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class NewPass:
    trigger: Trigger
    by: str = ""
    """Who asks, for people."""
    instructions: str = ""
    operations: Sequence[str] = ()
    """Empty for those of the bank's policy."""
    dry_run: bool = False
    review: bool = False
    """Whether its changes wait for a person."""
    full: bool = False
    """Whether it reads the whole bank again."""
    budget_tokens: int | None = None
    """Its own budget; it takes the place of an open pass that nobody asked for, and runs to its end (SLEEP-87)."""


class PassLifecycle:
    """The only writer of a pass's status."""

    def __init__(self, clock: Clock, ids: IdSource, events: EventLog) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events
        self._draw = random.Random()

    async def request_pass(self, tx: Tx, bank: Bank, new: NewPass) -> Pass:
        """Store a pass over everything that waits now. Raises Conflict: the bank has an open one."""
        present = None if new.budget_tokens is None else await tx.passes.get_open(bank.id)
        if present is not None and present.trigger not in (Trigger.HAND, Trigger.NEEDED):
            await self.end(tx, bank, present, PassStatus.CANCELLED, "a pass with a budget of its own takes its place")
        state = await tx.sleep_states.get(bank.id)
        backlog = await tx.sleep_states.fetch_backlog(bank.id, state.cursor)
        now = self._clock.now()
        run = Pass(
            id=PassId(self._ids.new("pas")), bank_id=bank.id, trigger=new.trigger, by=new.by,
            instructions=new.instructions, operations=tuple(new.operations), dry_run=new.dry_run, review=new.review,
            full=new.full, budget_tokens=new.budget_tokens,
            created_at=now, after=state.cursor, upto=max(state.cursor, backlog.last),
            generation_before=bank.published,
        )  # fmt: skip
        await tx.passes.add(run)
        scheduled = now if new.trigger is Trigger.SCHEDULE else state.scheduled_at
        await tx.sleep_states.put(replace(state, gate="", gate_detail="", gate_at=now, scheduled_at=scheduled))
        await self._publish_event(tx, bank, run, run.by)
        return run

    async def start(self, tx: Tx, bank: Bank, run: Pass) -> Pass:
        """Start a claimed pass, and include episodes since its request. Raises Conflict: another process has it."""
        upto = run.upto
        if run.attempt == 0:
            upto = max(upto, (await tx.sleep_states.fetch_backlog(bank.id, run.after)).last)
        now = self._clock.now()
        return await self._transition(
            tx, bank, run, PassStatus.RUNNING, attempt=run.attempt + 1,
            lease_until=now + timedelta(seconds=LEASE_SECONDS), started_at=now, not_before=None, upto=upto,
        )  # fmt: skip

    async def requeue(self, tx: Tx, bank: Bank, run: Pass, why: str, *, seconds: float, died: bool = False) -> Pass:
        """Let a preempted pass, or one whose process died, go on later; too many deaths end it. Raises Conflict."""
        if died and run.attempt >= ATTEMPTS:
            return await self.end(tx, bank, run, PassStatus.FAILED, f"{why}, {run.attempt} times")
        later = self._clock.now() + timedelta(seconds=seconds)
        return await self._transition(
            tx, bank, run, PassStatus.PENDING, owner=None, lease_until=None, not_before=later, detail=why,
            attempt=run.attempt if died else max(1, run.attempt - 1), run_seconds=self._total_run_seconds(run),
        )  # fmt: skip

    async def postpone(self, tx: Tx, run: Pass, why: str, *, seconds: float) -> None:
        """Delay a pending pass: its trigger no longer holds, or a gate is closed for now."""
        later = replace(
            run, not_before=self._clock.now() + timedelta(seconds=seconds), detail=why, owner=None, lease_until=None
        )
        await tx.passes.save(later, origin=run)

    async def expedite(self, tx: Tx, bank: Bank) -> None:
        """End the delay of a pending pass."""
        run = await tx.passes.get_open(bank.id)
        if run is not None and run.status is PassStatus.PENDING:
            await tx.passes.save(replace(run, not_before=None), origin=run)

    async def end(self, tx: Tx, bank: Bank, run: Pass, status: PassStatus, detail: str, *, by: str = "") -> Pass:
        """End a pass; after failures in a row the bank's next one is delayed, longer each time. Raises Conflict.

        A partial pass is no failure if its leftovers make the next one smaller. The next one waits a little, so that
        new turns are not held back by what will fail again. Batched questions whose answers were not used are
        wasted.
        """
        counts = await self._count_wasted(tx, bank, run)
        ended = await self._transition(
            tx, bank, run, status, event_by=by, ended_at=self._clock.now(), lease_until=None, detail=detail,
            counts=counts, run_seconds=self._total_run_seconds(run),
        )  # fmt: skip
        spent = await tx.sleep_calls.sum_cost(pass_id=run.id)
        tx.after_commit(lambda: _log_end(bank, ended, spent))
        if run.dry_run or status in (PassStatus.CANCELLED, PassStatus.SKIPPED):
            return ended
        state = await tx.sleep_states.get(bank.id)
        if status in (PassStatus.FAILED, PassStatus.PARTIAL):
            partial = status is PassStatus.PARTIAL
            smaller = partial and any(not leftover.is_quarantined for leftover in state.leftovers)
            failures = state.failures + (not smaller)
            doubled = 0 if partial else max(0, failures - 1)
            pause = min(LONGEST_BACK_OFF_SECONDS, BACK_OFF_SECONDS * 2.0**doubled)
            later = self._clock.now() + timedelta(seconds=pause * self._draw.uniform(0.75, 1.25))
            await tx.sleep_states.put(replace(state, failures=failures, not_before=later))
        else:
            now = self._clock.now()
            await tx.sleep_states.put(replace(state, failures=0, not_before=None, succeeded_at=now))
        return ended

    async def _count_wasted(self, tx: Tx, bank: Bank, run: Pass) -> Mapping[str, int]:
        """Drop the pass's batched questions whose answers it did not use; return its counts with theirs (SLEEP-44)."""
        wasted = await tx.sleep_calls.drop_batched(run.id)
        if not wasted:
            return run.counts
        self._events.signal(tx, BATCH_TOPIC, bank.id, {"outcome": WASTED, "count": wasted})
        return {**run.counts, WASTED: wasted}

    def _total_run_seconds(self, run: Pass) -> float:
        if run.status is not PassStatus.RUNNING or run.started_at is None:
            return run.run_seconds
        return run.run_seconds + max(0.0, (self._clock.now() - run.started_at).total_seconds())

    async def _transition(
        self, tx: Tx, bank: Bank, run: Pass, status: PassStatus, *, event_by: str = "", **more: Any
    ) -> Pass:
        if status not in PASS_MOVES[run.status]:
            raise Conflict(f"pass {run.id!r} is {run.status.value}; it cannot become {status.value}")
        now = replace(run, status=status, **more)
        while not await tx.passes.save(now, origin=run):
            claimed = None if PASS_MOVES[status] else await fetch_claimed(tx.passes, run)
            if claimed is None:
                raise Conflict(f"pass {run.id!r} was moved by another process")
            run, now = claimed, replace(now, epoch=claimed.epoch)
        await self._publish_event(tx, bank, now, event_by)
        return now

    async def _publish_event(self, tx: Tx, bank: Bank, run: Pass, by: str) -> None:
        more = {"by": by, "detail": run.detail, "counts": dict(run.counts)}
        stated = {name: value for name, value in more.items() if value}
        data = PassChange.model_validate(
            {"pass_id": run.id, "bank": bank.name, "status": run.status, "trigger": run.trigger, **stated}
        )
        await self._events.record(tx, EventType.PASS, data)
        message = {**data.to_json(), "counts": dict(run.counts), "ended": not run.is_open}
        self._events.signal(tx, TOPIC, bank.id, message)


def _log_end(bank: Bank, run: Pass, spent: SleepCost) -> None:
    """Write the line of the log that each pass has (SLEEP-88)."""
    changes = {name: number for name, number in run.counts.items() if name != ChangeState.REFUSED.value}
    refused, usd = run.counts.get(ChangeState.REFUSED.value, 0), spent.nanousd / _NANOUSD
    fields = {
        "pass": run.id, "bank": bank.name, "trigger": run.trigger.value, "status": run.status.value,
        "changes": changes, "refused": refused, "calls": spent.calls, "tokens": spent.tokens, "usd": usd,
        "detail": run.detail,
    }  # fmt: skip
    _logger.log(
        logging.WARNING if run.status in (PassStatus.FAILED, PassStatus.PARTIAL) else logging.INFO,
        "pass %s over bank %r (%s): %s; %s; refused %d; %d calls, %d tokens, $%.6f%s",
        run.id, bank.name, run.trigger.value, run.status.value,
        ", ".join(f"{name} {number}" for name, number in changes.items()) or "no change",
        refused, spent.calls, spent.tokens, usd, f"; {run.detail}" if run.detail else "", extra={"fields": fields},
    )  # fmt: skip
