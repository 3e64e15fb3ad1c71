"""The tier's service for entry points and the worker; `triggers/due.py` decides when passes begin."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, get_args

import orjson
from pydantic import ValidationError

from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.ids import BankId, EpisodeId, NoteId
from circadia.llm.chat_model import ChatModel
from circadia.records.bank import Bank
from circadia.records.change import Change, ChangeState
from circadia.records.episode import Episode
from circadia.records.event import EventType, PassReviewChange, PassSwitch, Review
from circadia.records.note import Note
from circadia.records.sleep_call import SleepCost
from circadia.records.sleep_pass import FARTHEST, ONCE, Backlog, Pass, PassStatus, SleepState, Trigger
from circadia.settings.sleeptime import BudgetSettings, Operation, SleepPolicySettings, SleeptimeSettings
from circadia.sleeptime.budget.model_calls import BYTES_A_TOKEN, Limit, Scope, Unit, estimate_usage
from circadia.sleeptime.budget.savings import WINDOW, Balance, compute_balances
from circadia.sleeptime.proposals.notebook import Notebook
from circadia.sleeptime.publish.publisher import Publisher
from circadia.sleeptime.triggers.due import (
    ActivityEnd,
    BankSleepStatus,
    PassDecision,
    ScheduleHours,
    decide_pass,
    describe_triggers,
)
from circadia.sleeptime.triggers.open_turns import MAX_BANKS, BankBinding, OpenTurnTracker
from circadia.sleeptime.triggers.pass_lifecycle import NewPass, PassLifecycle
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.suggestions import did_you_mean

_logger = logging.getLogger(__name__)

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
SETTLE_SECONDS: Final = 2.0
"""Maximum wait of a pass until answered calls are stored."""
MAX_REVIEWED: Final = 100
"""Changes that the event of a person's decision names."""
FAILURES: Final = 3
"""Failed passes in a row that count as trouble."""
_NANOUSD: Final = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class SleeptimeStatus:
    bank: Bank
    policy: SleepPolicySettings
    begins: Mapping[Trigger, str]
    """Descriptions of what makes a pass due, by trigger."""
    state: SleepState
    backlog: Backlog
    verdict: PassDecision
    running: Pass | None
    spent: SleepCost
    """The cost of its passes within a day."""
    lag_seconds: float
    """Wait of the oldest turn; 0 without one."""
    balances: Sequence[Balance]
    red: str
    """The problem; empty without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassEstimate:
    episodes: int
    """Episodes that wait, leftovers included."""
    tokens: int
    nanousd: int | None
    """None if no price is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteHistory:
    note: Note
    evidence: Sequence[Episode]
    """Its sources that still exist."""
    changes: Sequence[Change]
    """What passes did to it, oldest first."""


class SleeptimeService:
    """Decides, reports and does what people ask of passes, in the caller's transaction."""

    def __init__(
        self,
        clock: Clock,
        events: EventLog,
        settings: SleeptimeSettings,
        rows: PassLifecycle,
        publisher: Publisher,
        *,
        model: ChatModel | None = None,
    ) -> None:
        """`model` is the tier's model, none if passes ask none."""
        self._model = model
        self._clock = clock
        self.events = events
        self.settings = settings
        self.rows = rows
        self.publisher = publisher
        self.turns = OpenTurnTracker(clock)
        self.notebook = Notebook()
        self.ended: BoundedDict[BankBinding, ActivityEnd] = BoundedDict(MAX_BANKS)
        """The last ended activity of agents by their binding; a hint."""
        self._used_ends: BoundedDict[BankId, ActivityEnd] = BoundedDict(MAX_BANKS)
        """The last end for which a pass of the bank has begun."""
        self.filled: dict[BankBinding, float] = {}
        """Largest share of a model's context that a call has filled since the last pass; a hint."""
        self.behind: Sequence[Callable[[], Awaitable[None]]] = ()
        """Each flushes answered calls that are not in the rows yet."""
        self._policies: dict[bytes, SleepPolicySettings] = {}

    def policy(self, bank: Bank) -> SleepPolicySettings:
        key = orjson.dumps(dict(bank.policy.sleeptime))
        policy = self._policies.get(key)
        if policy is None:
            try:
                policy = self.settings.policy_of(bank.policy.sleeptime)
            except ValidationError as error:  # stored by a version with other keys or values
                _logger.warning("bank %r gets the default pass policy, since its own is invalid: %s", bank.name, error)
                policy = self.settings.policy_of({})
            self._policies[key] = policy
        return policy

    @property
    def model_name(self) -> str | None:
        """Return the name of the tier's model; none if passes ask none."""
        return None if self._model is None else self._model.name

    @property
    def operations(self) -> Sequence[str]:
        return (*get_args(Operation), *self.settings.own_operations)

    def require_operations(self, bank: Bank, wanted: Sequence[str]) -> None:
        """Raise InvalidRequest, with the valid names, unless passes over the bank run all of these."""
        for name in wanted:
            if name not in self.operations:
                names = ", ".join(self.operations)
                raise InvalidRequest(
                    f"operation {name!r} is unknown; choose from {names}{did_you_mean(name, self.operations)}"
                )
            if not self.policy(bank).is_operation_enabled(name):
                raise InvalidRequest(f"operation {name!r} is switched off for bank {bank.name!r}")

    def limits(self, bank: Bank, run: Pass) -> Sequence[Limit]:
        """Return the limits of a pass: those of the bank and of all banks, or its own; and those of operations."""
        policy = self.policy(bank)
        if run.budget_tokens is None:
            limits = [
                *_build_limits(policy.budget, Scope.BANK),
                *_build_limits(self.settings.fleet_budget, Scope.FLEET),
            ]
        else:
            limits = [Limit(scope=Scope.PASS, unit=Unit.TOKENS, most=run.budget_tokens)]
        for name, operation in policy.operations.items():
            limits += [replace(limit, operation=name) for limit in _build_limits(operation.budget, Scope.OPERATION)]
        return limits

    def find_end(self, bank: Bank) -> ActivityEnd | None:
        """Return the last ended activity of the bank's agents, if no pass has begun for it."""
        bindings = {binding_of(bank), *((name, None) for name in names_of(bank))}
        ends = [self.ended[binding] for binding in bindings if binding in self.ended]
        newest = max(ends, key=lambda end: end.at, default=None)
        return None if newest is self._used_ends.get(bank.id) else newest

    def use_hints(self, bank: Bank) -> None:
        """Record that a pass begins for what signals have told of the bank."""
        end = self.find_end(bank)
        if end is not None:
            self._used_ends[bank.id] = end
        self.filled.pop(binding_of(bank), None)

    async def fetch_verdict(self, tx: Tx, bank: Bank, *, own: Pass | None = None) -> PassDecision:
        """Return whether a pass over the bank begins now, and why; `own` is a pending one that would begin."""
        return (await self.evaluate(tx, bank, own))[1]

    async def fetch_status(self, tx: Tx, bank: Bank) -> SleeptimeStatus:
        status, verdict = await self.evaluate(tx, bank)
        now, policy = self._clock.now(), self.policy(bank)
        oldest = status.backlog.oldest_at
        lag = 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds())
        hours = await self.load_hours(tx, bank)
        return SleeptimeStatus(
            bank=bank,
            policy=policy,
            begins=describe_triggers(policy, hours.zone),
            state=status.state,
            backlog=status.backlog,
            verdict=verdict,
            running=await tx.passes.get_open(bank.id),
            spent=await tx.sleep_calls.sum_cost(since=now - DAY, bank_id=bank.id),
            lag_seconds=lag,
            balances=await self.fetch_balances(tx, bank),
            red=self.describe_problem(bank, status.state, status.backlog, hours),
        )

    async def estimate_pass(self, tx: Tx, bank: Bank) -> PassEstimate:
        """Return about what a pass over all that waits would take (SLEEP-87)."""
        state = await tx.sleep_states.get(bank.id)
        last = (await tx.sleep_states.fetch_backlog(bank.id, state.cursor)).last
        spans = [(state.cursor + 1, last), *((span.first, span.last) for span in state.leftovers)]
        sizes = [await tx.sleep_states.measure_texts(bank.id, *span) for span in spans]
        episodes = sum(number for number, _ in sizes)
        if self._model is None:
            return PassEstimate(episodes=episodes, tokens=0, nanousd=0)
        used = estimate_usage(self._model, sum(size for _, size in sizes) // BYTES_A_TOKEN)
        tokens = (used.input_tokens or 0) + (used.output_tokens or 0)
        return PassEstimate(episodes=episodes, tokens=tokens, nanousd=self._model.price(used))

    async def flush_answered_calls(self) -> None:
        """Flush answered calls so that a pass sees them; a slow flush goes on in the background."""
        writing = [asyncio.ensure_future(write()) for write in self.behind]
        if writing:
            done, _ = await asyncio.wait(writing, timeout=SETTLE_SECONDS)
            for task in done:
                if error := task.exception():
                    _logger.warning("a pass may not see what was answered just now: %s", error)

    async def is_late(self, tx: Tx, bank: Bank) -> bool:
        """Return whether the bank's oldest turn has waited longer than its policy allows."""
        state = await tx.sleep_states.get(bank.id)
        oldest = (await tx.sleep_states.fetch_backlog(bank.id, state.cursor)).oldest_at
        longest = self.policy(bank).max_lag_minutes
        if oldest is None or longest is None:
            return False
        return self._clock.now() - oldest >= timedelta(minutes=longest)

    async def request_pass(self, tx: Tx, bank: Bank, new: NewPass) -> Pass:
        """Request a pass over everything that waits now. Raises Conflict: the bank has an open one."""
        policy = self.policy(bank)
        return await self.rows.request_pass(tx, bank, replace(new, review=new.review or policy.review))

    async def pause(self, tx: Tx, bank: Bank, *, by: str) -> None:
        """Keep passes from beginning until `resume`; a running one ends at its next step."""
        state = await tx.sleep_states.get(bank.id)
        await tx.sleep_states.put(replace(state, paused_by=by))
        await self._record_event(tx, EventType.PASSES_PAUSED, bank, by)

    async def resume(self, tx: Tx, bank: Bank, *, by: str) -> None:
        """Let passes begin again, at once after failures; retry what was quarantined."""
        state = await tx.sleep_states.get(bank.id)
        again = tuple(replace(leftover, failures=0) for leftover in state.leftovers)
        await tx.sleep_states.put(replace(state, paused_by=None, not_before=None, leftovers=again))
        await self.rows.expedite(tx, bank)
        await self._record_event(tx, EventType.PASSES_RESUMED, bank, by)

    async def fetch_balances(self, tx: Tx, bank: Bank) -> Sequence[Balance]:
        """Return the recent use and cost of each operation."""
        since = self._clock.now() - WINDOW
        return compute_balances(
            await tx.benefits.find_all(bank.id, since=since.date()),
            await tx.sleep_calls.sum_cost_by_operation(bank.id, since=since),
        )

    async def cancel(self, tx: Tx, bank: Bank, run: Pass, *, by: str) -> Pass:
        """End a pass; published changes stay. Raises Conflict: it has ended."""
        return await self.rows.end(tx, bank, run, PassStatus.CANCELLED, f"cancelled by {by}", by=by)

    async def accept(
        self, tx: Tx, bank: Bank, run: Pass, numbers: Collection[int] = (), *, by: str
    ) -> Sequence[Change]:
        """Publish staged changes, all or these; return them with their results. Raises Conflict, NotFound."""
        _require_ended(run)
        if run.dry_run:
            raise Conflict(f"pass {run.id!r} was a dry run; run it again without one")
        done = await self.publisher.accept(tx, run, bank, numbers, by=by)
        await self._record_review(tx, bank, run, "accepted", done, ChangeState.PUBLISHED, by)
        return done

    async def refuse(
        self, tx: Tx, bank: Bank, run: Pass, numbers: Collection[int] = (), *, by: str
    ) -> Sequence[Change]:
        """Refuse staged changes, all or these; return them. Raises Conflict, NotFound."""
        _require_ended(run)
        done = await self.publisher.refuse(tx, run, numbers, by=by)
        await self._record_review(tx, bank, run, "refused", done, ChangeState.REFUSED, by)
        return done

    async def undo(self, tx: Tx, bank: Bank, run: Pass, numbers: Collection[int] = (), *, by: str) -> Sequence[Change]:
        """Undo a pass, or only these of its changes; return them with their results.

        Raises:
            Conflict: It has not ended, or others of its changes rest on these. NotFound: one is not published.
        """
        _require_ended(run)
        done = await self.publisher.undo(tx, run, bank, numbers, by=by)
        await self._record_review(tx, bank, run, "undone", done, ChangeState.UNDONE, by)
        return done

    async def _record_review(
        self, tx: Tx, bank: Bank, run: Pass, act: Review, done: Sequence[Change], wanted: ChangeState, by: str
    ) -> None:
        if not done:
            return
        succeeded = sum(change.state is wanted for change in done)
        data = PassReviewChange(
            bank=bank.name, by=by, pass_id=run.id, act=act, changes=succeeded, failed=len(done) - succeeded,
            numbers=[change.number for change in done[:MAX_REVIEWED]],
        )  # fmt: skip
        await self.events.record(tx, EventType.REVIEWED, data)

    async def explain(self, tx: Tx, bank: Bank, note_id: str) -> NoteHistory:
        """Return the origin of a note. Raises NotFound."""
        note = await tx.notes.get(bank.id, NoteId(note_id))
        if note is None:
            raise NotFound(f"bank {bank.name!r} has no note {note_id!r}; `circadia banks notes {bank.name}` lists them")
        rows = [await tx.episodes.get(bank.id, EpisodeId(episode_id)) for episode_id in note.evidence]
        return NoteHistory(
            note=note, evidence=[episode for episode in rows if episode is not None],
            changes=await tx.passes.find_changes_of(bank.id, note.id),
        )  # fmt: skip

    async def _record_event(self, tx: Tx, kind: EventType, bank: Bank, by: str) -> None:
        data = PassSwitch(bank=bank.name, bank_id=bank.id, by=by)
        await self.events.record(tx, kind, data)

    async def find_zone(self, tx: Tx, bank: Bank) -> str:
        """Return the time zone of the bank, by its policy or else by its oldest agent."""
        return self.policy(bank).zone or await tx.sleep_states.find_zone(names_of(bank)) or "UTC"

    async def load_hours(self, tx: Tx, bank: Bank) -> ScheduleHours:
        """Return the schedules of the bank, in its zone."""
        policy = self.policy(bank)
        zone = await self.find_zone(tx, bank) if policy.schedules else policy.zone or "UTC"
        return ScheduleHours(policy, zone, bank.id)

    async def reason_to_skip(self, tx: Tx, bank: Bank, run: Pass) -> str:
        """Return why a pending pass should not begin or go on; empty if it may."""
        if run.trigger in (Trigger.HAND, Trigger.NEEDED):
            return ""
        hours, now = await self.load_hours(tx, bank), self._clock.now()
        if run.trigger not in describe_triggers(self.policy(bank), hours.zone):
            return f"passes no longer begin for {run.trigger.value!r}"
        until = hours.end_of_window(now) if run.trigger is Trigger.SCHEDULE else None
        return "" if until is None or now < until else "its hours are over; the next ones go on with what is left"

    def describe_problem(self, bank: Bank, state: SleepState, backlog: Backlog, hours: ScheduleHours) -> str:
        """Return the bank's problem with this backlog; empty without one (SLEEP-60)."""
        policy, now, oldest = self.policy(bank), self._clock.now(), backlog.oldest_at
        if policy.enabled and state.paused_by is None and oldest is not None:
            longest, waited = policy.max_lag_minutes, (now - oldest) / timedelta(minutes=1)
            waits = f"the oldest turn has waited for {waited:.0f} minutes"
            if longest is not None and waited > 2 * longest:
                return f"{waits}; passes begin after {longest:g}"
            if (missed := hours.find_missed_hour(oldest, now)) is not None:
                return f"{waits}; its hour, {missed}, was missed"
        return f"{state.failures} passes failed in a row" if state.failures >= FAILURES else ""

    async def evaluate(self, tx: Tx, bank: Bank, own: Pass | None = None) -> tuple[BankSleepStatus, PassDecision]:
        """Return what a decision on the bank rests on, and the decision; see `fetch_verdict`."""
        policy, now = self.policy(bank), self._clock.now()
        state = await tx.sleep_states.get(bank.id)
        running = await tx.passes.get_open(bank.id)
        hours = await self.load_hours(tx, bank)
        scheduled_at, full = hours.find_due_hour(state.scheduled_at or bank.created_at, now)
        if own is not None:  # its hour counts as served
            scheduled_at = own.created_at if own.trigger is Trigger.SCHEDULE else None
        again = own is not None and own.started_at is not None  # it was counted when it began
        hour = (now - HOUR, now + FARTHEST)  # starts seen by a clock that was set back count, if they are plausible
        turn_at, replying_since = await self.turns.fetch_turn_times(tx, binding_of(bank))
        backlog = await tx.sleep_states.fetch_backlog(bank.id, state.cursor)
        status = BankSleepStatus(
            state=state,
            backlog=replace(backlog, turns=backlog.turns + state.unstored_turns),
            asleep=await tx.sleep_states.are_agents_asleep(names_of(bank)),
            busy=running is not None and (own is None or running.id != own.id),
            begun=0 if again else await tx.passes.count_started(bank.id, *hour),
            fleet_begun=0 if again else await tx.passes.count_started(None, *hour),
            fleet_limit=self.settings.max_passes_per_hour,
            rested_at=state.succeeded_at or bank.created_at,
            turn_at=turn_at,
            replying_since=replying_since,
            ended=self.find_end(bank),
            filled=self.filled.get(binding_of(bank), 0.0),
            stale=await _fetch_stale_share(tx, bank, state, policy.stale_share or 0),
            edited_at=bank.edited_at if bank.edited_at != state.edited_at else None,
            scheduled_at=scheduled_at,
            once=None if own is None or own.trigger not in ONCE else own.trigger,
            full=full,
            next_at=hours.next_hour(now),
        )
        return status, decide_pass(policy, status, now)


def names_of(bank: Bank) -> Sequence[str]:
    """Return the names by which agents can be bound to the bank."""
    return [name for name in (bank.name, bank.template) if name is not None]


def binding_of(bank: Bank) -> BankBinding:
    """Return how agents are bound to the bank: by its name, or by its template and end user."""
    return bank.template or bank.name, bank.end_user


async def _fetch_stale_share(tx: Tx, bank: Bank, state: SleepState, min_share: float) -> float:
    """Return the stale share of the bank since the last pass (`BankSleepStatus.stale`), 0 if below `min_share`.

    It costs nothing without demotions; else as many index steps as there are such rows, divided by `min_share`.
    """
    if not min_share or bank.demotions <= state.demotions:
        return 0.0
    stale_count = await tx.sleep_states.count_stale(bank.id, state.demotions)
    max_items = int(stale_count / min_share)
    items = await tx.sleep_states.count_items(bank.id, max_items + 1)
    return stale_count / items if stale_count and items <= max_items else 0.0


def _build_limits(budget: BudgetSettings, scope: Scope) -> Sequence[Limit]:
    limits: list[Limit] = []
    for spend, window in ((budget.per_pass, None), (budget.per_hour, HOUR), (budget.per_day, DAY)):
        limits_by_unit: Mapping[Unit, float | None] = {
            Unit.CALLS: spend.calls, Unit.TOKENS: spend.tokens, Unit.SECONDS: spend.seconds,
            Unit.NANOUSD: None if spend.usd is None else spend.usd * _NANOUSD,
        }  # fmt: skip
        limits += [
            Limit(scope=Scope.PASS if window is None else scope, unit=unit, most=limit, window=window)
            for unit, limit in limits_by_unit.items()
            if limit is not None
        ]
    return limits


def _require_ended(run: Pass) -> None:
    if run.is_open:
        raise Conflict(f"pass {run.id!r} is {run.status.value}; wait for its end, or cancel it")
