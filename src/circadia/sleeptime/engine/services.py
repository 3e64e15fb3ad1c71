"""The tier's service: what entrances ask, and what the worker decides by. One function of what is known: `due.due`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, get_args

import orjson
from pydantic import ValidationError

from circadia.clock import Clock
from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.bank import Bank
from circadia.records.change import Change
from circadia.records.episode import Episode
from circadia.records.event import Event, EventType
from circadia.records.note import Note
from circadia.records.sleep_call import SleepCost
from circadia.records.sleep_pass import FARTHEST, ONCE, Pass, PassStatus, Trigger
from circadia.records.sleep_state import Backlog, OperationPause, SleepState
from circadia.settings.sleeptime import BudgetSettings, Operation, SleepPolicySettings, SleeptimeSettings
from circadia.sleeptime.budget.benefit import (
    Balance,
    BalanceStatus,
    compute_balances,
    list_paused_operations,
    window_of,
)
from circadia.sleeptime.budget.model_calls import Limit, Scope, Unit
from circadia.sleeptime.operations.importance_tuning import undo_tuning
from circadia.sleeptime.publish.publisher import Publisher
from circadia.sleeptime.triggers.due import ActivityEnd, BankSleepStatus, PassDecision, decide_pass, describe_triggers
from circadia.sleeptime.triggers.open_turns import BankBinding, OpenTurnTracker
from circadia.sleeptime.triggers.pass_lifecycle import NewPass, PassLifecycle
from circadia.sleeptime.triggers.schedule_hours import ScheduleHours
from circadia.stores.base import Tx
from circadia.suggestions import did_you_mean

_logger = logging.getLogger(__name__)

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
SETTLE_SECONDS: Final = 2.0
"""How long a pass waits at most until what was answered before is written."""
FAILURES: Final = 3
"""Passes that fail in a row until that is wrong."""
_NANOUSD: Final = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class SleeptimeStatus:
    """How sleep-time work stands in a bank."""

    bank: Bank
    """Whose memory."""
    policy: SleepPolicySettings
    """What holds for it."""
    begins: Mapping[Trigger, str]
    """What makes a pass due, by trigger, in words."""
    state: SleepState
    """How far the work has come."""
    backlog: Backlog
    """What waits."""
    verdict: PassDecision
    """Whether a pass would begin now, and why not."""
    running: Pass | None
    """The pass that has not ended."""
    spent: SleepCost
    """What its passes have spent within a day."""
    lag_seconds: float
    """How long the oldest turn has waited; 0 if none does."""
    balances: Sequence[Balance]
    """What each operation has brought and cost."""
    red: str
    """What is wrong with it, in words; empty if all is well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteHistory:
    """Where a note comes from."""

    note: Note
    """The note."""
    evidence: Sequence[Episode]
    """What it rests on, of what is still there."""
    changes: Sequence[Change]
    """What passes did to it, the oldest first."""


class SleeptimeService:
    """Decides, tells and does what people ask of passes, in the caller's transaction."""

    def __init__(self, clock: Clock, settings: SleeptimeSettings, rows: PassLifecycle, publisher: Publisher) -> None:
        self._clock = clock
        self.settings = settings
        self.rows = rows
        self.publisher = publisher
        self.turns = OpenTurnTracker(clock)
        self.ended: dict[BankId, ActivityEnd] = {}
        """What of a bank's agents has ended last since a pass over it was begun, by bank; a hint."""
        self.filled: dict[BankBinding, float] = {}
        """Largest share of a model's context that a call has filled since the last pass, by what the bank is bound by
        (`bound_by`); a hint."""
        self.behind: Sequence[Callable[[], Awaitable[None]]] = ()
        """Each writes what is known of calls that were answered, and is not in the rows yet."""
        self._policies: dict[bytes, SleepPolicySettings] = {}

    def policy(self, bank: Bank) -> SleepPolicySettings:
        """Return what holds for the bank's passes."""
        key = orjson.dumps(dict(bank.policy.sleeptime))
        found = self._policies.get(key)
        if found is None:
            try:
                found = self.settings.policy_of(bank.policy.sleeptime)
            except ValidationError as error:  # stored when other keys or values were allowed
                _logger.warning("the policy of bank %r for passes does not hold any more: %s", bank.name, error)
                found = self.settings.policy_of({})
            self._policies[key] = found
        return found

    @property
    def operations(self) -> Sequence[str]:
        """Return the names of the operations that there are, the user's own too."""
        return (*get_args(Operation), *self.settings.own_operations)

    def require_operations(self, bank: Bank, wanted: Sequence[str]) -> None:
        """Raise InvalidRequest, with what there is, unless passes over the bank do all of these."""
        for each in wanted:
            if each not in self.operations:
                there = ", ".join(self.operations)
                raise InvalidRequest(f"operation {each!r} is none of {there}{did_you_mean(each, self.operations)}")
            if not self.policy(bank).is_operation_enabled(each):
                raise InvalidRequest(f"operation {each!r} is switched off for bank {bank.name!r}")

    def limits(self, bank: Bank) -> Sequence[Limit]:
        """Return all that a pass over the bank must keep to."""
        policy = self.policy(bank)
        found = [*_build_limits(policy.budget, Scope.BANK), *_build_limits(self.settings.fleet_budget, Scope.FLEET)]
        for name, each in policy.operations.items():
            found += [replace(limit, operation=name) for limit in _build_limits(each.budget, Scope.OPERATION)]
        return found

    async def fetch_verdict(self, tx: Tx, bank: Bank, *, own: Pass | None = None) -> PassDecision:
        """Return whether a pass over the bank begins now, and why or why not; `own` is one that waits to begin."""
        return (await self._evaluate(tx, bank, own))[1]

    async def fetch_status(self, tx: Tx, bank: Bank) -> SleeptimeStatus:
        """Return how the work stands."""
        known, verdict = await self._evaluate(tx, bank, None)
        now, policy = self._clock.now(), self.policy(bank)
        oldest = known.backlog.oldest_at
        lag = 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds())
        hours = await self.load_hours(tx, bank)
        return SleeptimeStatus(
            bank=bank,
            policy=policy,
            begins=describe_triggers(policy, hours.zone),
            state=known.state,
            backlog=known.backlog,
            verdict=verdict,
            running=await tx.passes.get_open(bank.id),
            spent=await tx.sleep_calls.sum_cost(since=now - DAY, bank_id=bank.id),
            lag_seconds=lag,
            balances=await self.fetch_balances(tx, bank),
            red=self.describe_problem(bank, known.state, known.backlog, hours),
        )

    async def flush_answered_calls(self) -> None:
        """Have what was answered until now written, so that a pass sees it; one that does not end soon goes on."""
        writing = [asyncio.ensure_future(write()) for write in self.behind]
        if writing:
            done, _ = await asyncio.wait(writing, timeout=SETTLE_SECONDS)
            for each in done:
                if error := each.exception():
                    _logger.warning("a pass may not see what was answered just now: %s", error)

    async def is_late(self, tx: Tx, bank: Bank) -> bool:
        """Return whether the bank's oldest turn has waited for longer than its policy allows."""
        state = await tx.sleep_states.get(bank.id)
        oldest = (await tx.sleep_states.fetch_backlog(bank.id, state.cursor)).oldest_at
        longest = self.policy(bank).max_lag_minutes
        if oldest is None or longest is None:
            return False
        return self._clock.now() - oldest >= timedelta(minutes=longest)

    async def request_pass(self, tx: Tx, bank: Bank, new: NewPass) -> Pass:
        """Ask for a pass over all that waits now.

        Raises:
            Conflict: the bank has one that has not ended.
        """
        policy = self.policy(bank)
        return await self.rows.request_pass(tx, bank, replace(new, review=new.review or policy.review))

    async def pause(self, tx: Tx, bank: Bank, *, by: str) -> None:
        """Let no more pass begin until `resume`; one that runs ends at its next step."""
        state = await tx.sleep_states.get(bank.id)
        await tx.sleep_states.put(replace(state, paused_by=by))
        await self._record_event(tx, EventType.PASSES_PAUSED, bank, by)

    async def resume(self, tx: Tx, bank: Bank, *, by: str) -> None:
        """Let passes begin again, at once if they waited after failures; what was set apart is tried again.

        Operations that were paused are done again too, and judged anew from now on.
        """
        state, now = await tx.sleep_states.get(bank.id), self._clock.now()
        again = tuple(replace(each, failures=0) for each in state.leftovers)
        pauses = tuple(replace(each, until=min(each.until, now)) for each in state.pauses)
        await tx.sleep_states.put(replace(state, paused_by=None, not_before=None, leftovers=again, pauses=pauses))
        await self.rows.expedite(tx, bank)
        await self._record_event(tx, EventType.PASSES_RESUMED, bank, by)

    async def fetch_balances(self, tx: Tx, bank: Bank) -> Sequence[Balance]:
        """Return what each operation has brought and cost lately (SLEEP-42)."""
        settings, now = self.policy(bank).benefit, self._clock.now()
        window = window_of(settings)
        return compute_balances(
            settings,
            (await tx.sleep_states.get(bank.id)).pauses,
            await tx.benefits.find_all(bank.id, since=(now - window).date()),
            await tx.sleep_calls.sum_cost_by_day(bank.id, since=now - 2 * window),
            now,
        )

    async def fetch_paused_operations(self, tx: Tx, bank: Bank) -> frozenset[str]:
        """Return the operations that passes over the bank leave out now."""
        state = await tx.sleep_states.get(bank.id)
        return list_paused_operations(self.policy(bank).benefit, state.pauses, self._clock.now())

    async def pause_unprofitable(self, tx: Tx, bank: Bank) -> None:
        """Pause the operations that bring less than they cost, and tell it in the record (SLEEP-42)."""
        short = [each for each in await self.fetch_balances(tx, bank) if each.standing is BalanceStatus.SHORT]
        if not short:
            return
        settings, now = self.policy(bank).benefit, self._clock.now()
        until, names = now + window_of(settings), {each.operation for each in short}
        state = await tx.sleep_states.get(bank.id)
        kept = [each for each in state.pauses if each.operation not in names]
        new = [OperationPause(operation=each.operation, at=now, until=until) for each in short]
        await tx.sleep_states.put(replace(state, pauses=(*kept, *new)))
        await tx.events.add([
            Event(
                type=EventType.OPERATION_PAUSED, at=now,
                data={
                    "bank": bank.name, "operation": each.operation, "unit": each.unit, "ratio": each.ratio,
                    "uses": each.uses, "saved_tokens": each.saved_tokens, "saved_usd": each.saved_nanousd / _NANOUSD,
                    "calls": each.calls, "spent_tokens": each.spent_tokens,
                    "spent_usd": each.spent_nanousd / _NANOUSD, "window_days": settings.window_days,
                    "until": until.isoformat(),
                },
            )
            for each in short
        ])  # fmt: skip

    async def cancel(self, tx: Tx, bank: Bank, run: Pass, *, by: str) -> Pass:
        """End a pass; what it has published stays. Raises Conflict: it has ended."""
        return await self.rows.end(tx, bank, run, PassStatus.CANCELLED, f"cancelled by {by}")

    async def accept(self, tx: Tx, bank: Bank, run: Pass, numbers: Collection[int] = ()) -> Sequence[Change]:
        """Publish what waits for a person, all of it or these changes; return it with what came of it.

        Raises:
            Conflict: the pass has not ended, or only proposed. NotFound: one of these does not wait.
        """
        _require_ended(run)
        if run.dry_run:
            raise Conflict(f"pass {run.id!r} was a dry run; run it again without one")
        return await self.publisher.accept(tx, run, bank, numbers)

    async def refuse(self, tx: Tx, run: Pass, numbers: Collection[int] = (), *, by: str) -> Sequence[Change]:
        """Refuse what waits for a person, all of it or these changes; return it as it stands.

        Raises:
            Conflict: the pass has not ended. NotFound: one of these does not wait.
        """
        _require_ended(run)
        return await self.publisher.refuse(tx, run, numbers, by=by)

    async def undo(self, tx: Tx, bank: Bank, run: Pass, *, by: str) -> Sequence[Change]:
        """Take back all that a pass did; return it with what came of it. Raises Conflict: it has not ended."""
        _require_ended(run)
        await undo_tuning(tx, bank, run, by=by, at=self._clock.now())
        return await self.publisher.undo(tx, run, bank, by=by)

    async def explain(self, tx: Tx, bank: Bank, note_id: str) -> NoteHistory:
        """Return where a note comes from. Raises NotFound."""
        note = await tx.notes.get(bank.id, NoteId(note_id))
        if note is None:
            raise NotFound(f"bank {bank.name!r} has no note {note_id!r}")
        found = [await tx.episodes.get(bank.id, EpisodeId(each)) for each in note.evidence]
        return NoteHistory(
            note=note, evidence=[each for each in found if each is not None],
            changes=await tx.passes.find_changes_of(bank.id, note.id),
        )  # fmt: skip

    async def _record_event(self, tx: Tx, kind: EventType, bank: Bank, by: str) -> None:
        data = {"bank": bank.name, "bank_id": bank.id, "by": by}
        await tx.events.add([Event(type=kind, at=self._clock.now(), data=data)])

    async def load_hours(self, tx: Tx, bank: Bank) -> ScheduleHours:
        """Return when its schedules are due, in its own zone or that of its agents."""
        policy = self.policy(bank)
        zone = policy.zone
        if zone is None and policy.schedules:
            zone = await tx.sleep_states.find_zone(names_of(bank))
        return ScheduleHours(policy, zone or "UTC", bank.id)

    async def reason_to_skip(self, tx: Tx, bank: Bank, run: Pass) -> str:
        """Return why a pass that waits is not to begin, or go on, any more; empty if it may."""
        if run.trigger in (Trigger.HAND, Trigger.NEEDED):
            return ""
        hours, now = await self.load_hours(tx, bank), self._clock.now()
        if run.trigger not in describe_triggers(self.policy(bank), hours.zone):
            return f"passes do not begin for {run.trigger.value!r} any more"
        until = hours.end_of_window(now) if run.trigger is Trigger.SCHEDULE else None
        return "" if until is None or now < until else "its hours are over; the next ones go on with what is left"

    def describe_problem(self, bank: Bank, state: SleepState, backlog: Backlog, hours: ScheduleHours) -> str:
        """Return what is wrong with a bank in which this waits; empty if all is well (SLEEP-60)."""
        policy, now, oldest = self.policy(bank), self._clock.now(), backlog.oldest_at
        if policy.enabled and state.paused_by is None and oldest is not None:
            longest, waited = policy.max_lag_minutes, (now - oldest) / timedelta(minutes=1)
            waits = f"the oldest turn has waited for {waited:.0f} minutes"
            if longest is not None and waited > 2 * longest:
                return f"{waits}; passes begin after {longest:g}"
            if (missed := hours.find_missed_hour(oldest, now)) is not None:
                return f"{waits}; its hour, {missed}, was missed"
        return f"{state.failures} passes failed in a row" if state.failures >= FAILURES else ""

    async def _evaluate(self, tx: Tx, bank: Bank, own: Pass | None) -> tuple[BankSleepStatus, PassDecision]:
        policy, now = self.policy(bank), self._clock.now()
        state = await tx.sleep_states.get(bank.id)
        running = await tx.passes.get_open(bank.id)
        hours = await self.load_hours(tx, bank)
        scheduled_at, full = hours.find_due_hour(state.scheduled_at or bank.created_at, now)
        if own is not None:  # it was begun for its hour, which counts as served
            scheduled_at = own.created_at if own.trigger is Trigger.SCHEDULE else None
        again = own is not None and own.started_at is not None  # it has been counted when it began
        hour = (now - HOUR, now + FARTHEST)  # what a clock that was set back has seen begin counts, if it can be true
        turn_at, replying_since = await self.turns.fetch_turn_times(tx, binding_of(bank))
        known = BankSleepStatus(
            state=state,
            backlog=await tx.sleep_states.fetch_backlog(bank.id, state.cursor),
            asleep_since=await tx.sleep_states.asleep_since(names_of(bank)),
            busy=running is not None and (own is None or running.id != own.id),
            begun=0 if again else await tx.passes.count_started(bank.id, *hour),
            fleet_begun=0 if again else await tx.passes.count_started(None, *hour),
            fleet_limit=self.settings.max_passes_per_hour,
            rested_at=state.succeeded_at or bank.created_at,
            turn_at=turn_at,
            replying_since=replying_since,
            ended=self.ended.get(bank.id),
            filled=self.filled.get(binding_of(bank), 0.0),
            stale=await _fetch_stale_share(tx, bank, state, policy.stale_share or 0),
            edited_at=bank.edited_at if bank.edited_at != state.edited_at else None,
            scheduled_at=scheduled_at,
            once=None if own is None or own.trigger not in ONCE else own.trigger,
            full=full,
            next_at=hours.next_hour(now),
        )
        return known, decide_pass(policy, known, now)


def names_of(bank: Bank) -> Sequence[str]:
    """Return by which names agents are bound to the bank."""
    return [each for each in (bank.name, bank.template) if each is not None]


def binding_of(bank: Bank) -> BankBinding:
    """Return what agents are bound to the bank by: its name, or its template and the end user."""
    return bank.template or bank.name, bank.end_user


async def _fetch_stale_share(tx: Tx, bank: Bank, state: SleepState, least: float) -> float:
    """Return the share of the bank that has gone stale since the last pass (`Known.stale`), 0 if less than `least`.

    It costs nothing where nothing was demoted; else as many steps in indexes as there are such rows, over `least`.
    """
    if not least or bank.demotions <= state.demotions:
        return 0.0
    gone = await tx.sleep_states.count_stale(bank.id, state.demotions)
    most = int(gone / least)
    items = await tx.sleep_states.count_items(bank.id, most + 1)
    return gone / items if gone and items <= most else 0.0


def _build_limits(budget: BudgetSettings, scope: Scope) -> Sequence[Limit]:
    found: list[Limit] = []
    for spend, window in ((budget.per_pass, None), (budget.per_hour, HOUR), (budget.per_day, DAY)):
        most: Mapping[Unit, float | None] = {
            Unit.CALLS: spend.calls, Unit.TOKENS: spend.tokens, Unit.SECONDS: spend.seconds,
            Unit.NANOUSD: None if spend.usd is None else spend.usd * _NANOUSD,
        }  # fmt: skip
        found += [
            Limit(scope=Scope.PASS if window is None else scope, unit=unit, most=limit, window=window)
            for unit, limit in most.items()
            if limit is not None
        ]
    return found


def _require_ended(run: Pass) -> None:
    if run.is_open:
        raise Conflict(f"pass {run.id!r} is {run.status.value}; wait for its end, or cancel it")
