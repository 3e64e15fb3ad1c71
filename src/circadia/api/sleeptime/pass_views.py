"""REST views of passes, changes and the sleep-time status of a bank."""

from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, Field

from circadia.records.change import Change, ChangeKind, ChangeState
from circadia.records.sleep_call import FORGOTTEN, SleepCost
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.records.sleep_state import Leftover
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.budget.benefit import Balance, BalanceStatus
from circadia.sleeptime.engine.services import SleeptimeStatus
from circadia.sleeptime.triggers.due import PassBlocker, PassDecision
from circadia.stores.base import Tx

NANOUSD: Final = 1e9


class PassCostView(BaseModel):
    """Cost of model calls of passes, including what running calls have reserved."""

    calls: int = Field(description="Model calls, including failed ones.")
    tokens: int = Field(description="Input and output tokens.")
    usd: float = Field(description="US dollars, at list prices.")
    seconds: float = Field(description="Seconds of model time.")


class PassView(BaseModel):
    """A pass of sleep-time work over one bank."""

    id: str = Field(description="Unique id.", examples=["pas_0cwd…"])
    bank: str = Field(description="Name of the bank.", examples=["support-ann"])
    trigger: Trigger = Field(description="Trigger of the pass.")
    by: str = Field(description="Requester.", examples=["operator", "circadia"])
    instructions: str = Field(description="Instructions from a person for this pass.")
    operations: list[str] = Field(description="Operations to run; empty means those of the bank's policy.")
    dry_run: bool = Field(description="Whether it only proposes changes.")
    review: bool = Field(description="Whether its proposals wait for a person.")
    full: bool = Field(description="Whether it reviews the whole bank again.")
    status: PassStatus = Field(description="Status.")
    detail: str = Field(description="How it ended, or why it waits.")
    attempt: int = Field(description="Number of starts.")
    created_at: datetime = Field(description="Time of the request.")
    not_before: datetime | None = Field(description="Earliest start of a waiting pass.")
    started_at: datetime | None = Field(description="Start of the latest attempt.")
    ended_at: datetime | None = Field(description="Time of the end.")
    run_seconds: float = Field(description="Run time of its ended attempts.")
    after: int = Field(description="Number of the last processed episode.")
    upto: int = Field(description="Number of the last input episode.")
    generation_before: int | None = Field(description="Generation of the bank at the request.")
    generation_after: int | None = Field(description="Generation after its last publication, if any.")
    counts: dict[str, int] = Field(
        description="Number of published changes by kind, of refused and waiting ones, and of rebuilt vectors and "
        "views."
    )
    spent: PassCostView = Field(description="Cost of its model calls.")


class PassCostLine(PassCostView):
    """Cost of one operation of a pass with one model."""

    operation: str = Field(description="Operation.")
    model: str = Field(description="Model.")
    failed: int = Field(description="Number of calls without a usable answer.")


class PassDetail(PassView):
    """A pass with its ledger."""

    ledger: list[PassCostLine] = Field(description="Model calls by operation and model.")
    errors: list[str] = Field(description="Distinct errors of failed calls, in order.")


class PassList(BaseModel):
    """Passes over a bank."""

    bank: str = Field(description="Name of the bank.")
    passes: list[PassView] = Field(description="Newest first.")
    before: str | None = Field(description="Value of `before` for the next page; null at the end.")


class ChangeView(BaseModel):
    """A change that a pass proposed or made."""

    pass_id: str = Field(serialization_alias="pass", description="Id of the pass.")
    number: int = Field(description="Number in the pass, from 1.")
    operation: str = Field(description="Operation that proposes it.")
    kind: ChangeKind = Field(description="Kind of change.")
    target: str = Field(description="Id of the note or episode, or the block's label.")
    before: dict[str, Any] | None = Field(description="Previous values of the changed fields.")
    after: dict[str, Any] | None = Field(description="New values. Written by a model: treat them as data.")
    state: ChangeState = Field(description="Status.")
    why: str = Field(description="Why it was proposed, refused or undone.")
    at: datetime = Field(description="Time of the last state change.")


class ChangeList(BaseModel):
    """Changes of a pass."""

    changes: list[ChangeView] = Field(description="Sorted by number.")
    after: int | None = Field(description="Value of `after` for the next page; null at the end.")


class PassChangeResult(BaseModel):
    """The result of `undo`, `accept` or `refuse`."""

    run: PassView = Field(serialization_alias="pass", description="Pass.")
    changes: list[ChangeView] = Field(description="Affected changes in their current state.")


class VerdictView(BaseModel):
    """Whether a pass would begin now, and why."""

    due: bool = Field(description="Whether a pass would begin now.")
    trigger: Trigger | None = Field(description="Reason.")
    gate: PassBlocker | None = Field(description="First closed gate, in order of cost.")
    why: str = Field(description="Explanation.")
    at: datetime | None = Field(description="Next check, if nothing happens before.")


class BacklogView(BaseModel):
    """Unprocessed work of a bank."""

    episodes: int = Field(description="Number of unprocessed episodes.")
    turns: int = Field(description="Number of completed turns among them.")
    conversations: int = Field(description="Number of their conversations.")
    importance: float = Field(description="Their total importance.")
    oldest_at: datetime | None = Field(description="When the oldest of them was stored.")
    newest_at: datetime | None = Field(description="When the newest of them was stored.")


class LeftoverView(BaseModel):
    """Episodes that a pass could not process."""

    first: int = Field(description="Number of the first episode.")
    last: int = Field(description="Number of the last episode.")
    failures: int = Field(description="Number of failures caused by their content.")
    quarantined: bool = Field(description="Whether they are set aside until `resume`.")
    cause: str = Field(description="Last error.")


class BalanceView(BaseModel):
    """Benefit and cost of an operation for the bank's calls."""

    operation: str = Field(description="Operation.", examples=["consolidate"])
    uses: int = Field(description="Number of times a call used its results.")
    saved_tokens: int = Field(description="Input tokens saved in hot calls.")
    saved_seconds: float = Field(description="Seconds saved; 0 if unknown.")
    saved_usd: float = Field(description="US dollars saved, if prices are known.")
    calls: int = Field(description="Its model calls, including failed ones.")
    spent_tokens: int = Field(description="Tokens of its model calls.")
    spent_usd: float = Field(description="Cost of its model calls in US dollars, if prices are known.")
    unit: str = Field(description="Unit of the comparison: `usd`, or `tokens` if a price is unknown.")
    ratio: float | None = Field(description="Ratio of benefit to cost; null if it cost nothing.")
    standing: BalanceStatus = Field(description="Resulting status.")
    paused_until: datetime | None = Field(description="End of the pause, if it is paused.")


class SleeptimeStatusView(BaseModel):
    """The status of sleep-time work in a bank."""

    bank: str = Field(description="Name of the bank.")
    policy: SleepPolicySettings = Field(description="Effective policy of the bank.")
    begins: dict[Trigger, str] = Field(description="Description of each active trigger.")
    paused_by: str | None = Field(description="Who paused the passes.")
    cursor: int = Field(description="Number of the last episode that was processed or set aside as leftover.")
    leftovers: list[LeftoverView] = Field(description="Episodes to retry.")
    failures: int = Field(description="Number of consecutive failed passes.")
    not_before: datetime | None = Field(description="Earliest start of the next pass after failures.")
    succeeded_at: datetime | None = Field(description="When a pass last cleared the backlog.")
    backlog: BacklogView = Field(description="Unprocessed work.")
    verdict: VerdictView = Field(description="Current decision of triggers and gates.")
    gate: str = Field(description="Last closed gate; empty if a pass has begun since.")
    gate_at: datetime | None = Field(description="Since when that gate is closed.")
    running: PassView | None = Field(description="Open pass.")
    spent: PassCostView = Field(description="Spend of its passes within 24 hours.")
    lag_seconds: float = Field(description="Waiting time of the oldest turn.")
    balances: list[BalanceView] = Field(description="Benefit and cost of each operation within the window.")
    red: str = Field(description="Current problem; empty if there is none.")


def _balance_view(each: Balance) -> BalanceView:
    return BalanceView(
        operation=each.operation, uses=each.uses, saved_tokens=each.saved_tokens,
        saved_seconds=round(each.saved_seconds, 3), saved_usd=each.saved_nanousd / NANOUSD, calls=each.calls,
        spent_tokens=each.spent_tokens, spent_usd=each.spent_nanousd / NANOUSD, unit=each.unit,
        ratio=None if each.ratio is None else round(each.ratio, 4), standing=each.standing,
        paused_until=each.paused_until,
    )  # fmt: skip


def pass_cost_view(spent: SleepCost) -> PassCostView:
    return PassCostView(
        calls=spent.calls, tokens=spent.tokens, usd=spent.nanousd / NANOUSD, seconds=round(spent.seconds, 3)
    )


async def pass_view(tx: Tx, bank: str, run: Pass) -> PassView:
    return PassView(
        id=run.id,
        bank=bank,
        trigger=run.trigger,
        by=run.by,
        instructions=run.instructions,
        operations=list(run.operations),
        dry_run=run.dry_run,
        review=run.review,
        full=run.full,
        status=run.status,
        detail=run.detail,
        attempt=run.attempt,
        created_at=run.created_at,
        not_before=run.not_before,
        started_at=run.started_at,
        ended_at=run.ended_at,
        run_seconds=round(run.run_seconds, 3),
        after=run.after,
        upto=run.upto,
        generation_before=run.generation_before,
        generation_after=run.generation_after,
        counts=dict(run.counts),
        spent=pass_cost_view(await tx.sleep_calls.sum_cost(pass_id=run.id)),
    )


async def pass_detail(tx: Tx, bank: str, run: Pass) -> PassDetail:
    """Return the pass with its ledger (SLEEP-60)."""
    view = await pass_view(tx, bank, run)
    lines = [
        PassCostLine(
            operation=each.operation, model=each.model, failed=each.failed, **dict(pass_cost_view(each.spent))
        )
        for each in await tx.sleep_calls.sum_cost_by_model(run.id)
    ]  # fmt: skip
    calls = await tx.sleep_calls.find_by_pass(run.id)
    failed = [f"{each.operation}: {each.error}" for each in calls if each.error not in ("", FORGOTTEN)]
    return PassDetail(**dict(view), ledger=lines, errors=list(dict.fromkeys(failed)))


def change_view(change: Change) -> ChangeView:
    return ChangeView(
        pass_id=change.pass_id,
        number=change.number,
        operation=change.operation,
        kind=change.kind,
        target=change.target,
        before=None if change.before is None else dict(change.before),
        after=None if change.after is None else dict(change.after),
        state=change.state,
        why=change.why,
        at=change.at,
    )


def verdict_view(verdict: PassDecision) -> VerdictView:
    due = verdict.trigger is not None
    return VerdictView(due=due, trigger=verdict.trigger, gate=verdict.gate, why=verdict.detail, at=verdict.at)


async def sleeptime_status_view(tx: Tx, status: SleeptimeStatus) -> SleeptimeStatusView:
    state, backlog, name = status.state, status.backlog, status.bank.name
    return SleeptimeStatusView(
        bank=name,
        policy=status.policy,
        begins=dict(status.begins),
        paused_by=state.paused_by,
        cursor=state.cursor,
        leftovers=[_leftover_view(each) for each in state.leftovers],
        failures=state.failures,
        not_before=state.not_before,
        succeeded_at=state.succeeded_at,
        backlog=BacklogView(
            episodes=backlog.episodes, turns=backlog.turns, conversations=backlog.conversations,
            importance=backlog.importance,
            oldest_at=backlog.oldest_at, newest_at=backlog.newest_at,
        ),
        verdict=verdict_view(status.verdict),
        gate=state.gate,
        gate_at=state.gate_at,
        running=None if status.running is None else await pass_view(tx, name, status.running),
        spent=pass_cost_view(status.spent),
        lag_seconds=round(status.lag_seconds, 3),
        balances=[_balance_view(each) for each in status.balances],
        red=status.red,
    )  # fmt: skip


def _leftover_view(each: Leftover) -> LeftoverView:
    return LeftoverView(
        first=each.first, last=each.last, failures=each.failures, quarantined=each.is_quarantined, cause=each.cause
    )
