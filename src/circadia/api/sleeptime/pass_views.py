"""Passes, changes and how a bank's sleep-time work stands, as they are shown."""

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
    """What the model calls of passes cost; what a call that still runs has reserved is in it."""

    calls: int = Field(description="Model calls, failed ones too.")
    tokens: int = Field(description="Input and output tokens.")
    usd: float = Field(description="US dollars, at list prices.")
    seconds: float = Field(description="Seconds that models took.")


class PassView(BaseModel):
    """One run of sleep-time work over one bank."""

    id: str = Field(description="Key.", examples=["pas_0cwd…"])
    bank: str = Field(description="The bank's name.", examples=["support-ann"])
    trigger: Trigger = Field(description="What it was begun for.")
    by: str = Field(description="Who asked for it.", examples=["operator", "circadia"])
    instructions: str = Field(description="What a person wants of it in particular.")
    operations: list[str] = Field(description="Which operations it does; empty are those of the bank's policy.")
    dry_run: bool = Field(description="Whether it only proposes, and writes nothing.")
    review: bool = Field(description="Whether what it proposes waits for a person.")
    full: bool = Field(description="Whether it looks at the whole bank again.")
    status: PassStatus = Field(description="Where it stands.")
    detail: str = Field(description="How it ended, or why it waits, in words.")
    attempt: int = Field(description="Starts so far.")
    created_at: datetime = Field(description="When it was asked for.")
    not_before: datetime | None = Field(description="When it may begin, if it waits.")
    started_at: datetime | None = Field(description="When its present or last attempt began.")
    ended_at: datetime | None = Field(description="When it ended.")
    run_seconds: float = Field(description="How long its attempts that ended have run.")
    after: int = Field(description="Number of the last episode that is worked through.")
    upto: int = Field(description="Number of the last episode of its input.")
    generation_before: int | None = Field(description="Generation of the bank when it was asked for.")
    generation_after: int | None = Field(description="That after its last publication; null if nothing was published.")
    counts: dict[str, int] = Field(
        description="Published changes by kind, how many were refused or wait, and vectors and views made anew."
    )
    spent: PassCostView = Field(description="What its model calls cost.")


class PassCostLine(PassCostView):
    """What one operation of a pass asked one model."""

    operation: str = Field(description="The operation.")
    model: str = Field(description="The model.")
    failed: int = Field(description="Of the calls, those that gave no answer that was of use.")


class PassDetail(PassView):
    """A pass with its record."""

    ledger: list[PassCostLine] = Field(description="Its model calls by operation and model.")
    errors: list[str] = Field(description="What was wrong with calls that failed, in order; each cause once.")


class PassList(BaseModel):
    """Passes over a bank."""

    bank: str = Field(description="The bank's name.")
    passes: list[PassView] = Field(description="The newest first.")
    before: str | None = Field(description="What to send as `before` for the next page; null at the end.")


class ChangeView(BaseModel):
    """One change that a pass proposes, or has made."""

    pass_id: str = Field(serialization_alias="pass", description="Key of the pass.")
    number: int = Field(description="Its place in the pass, from 1.")
    operation: str = Field(description="The operation that proposes it.")
    kind: ChangeKind = Field(description="What kind of change it is.")
    target: str = Field(description="Id of the note or episode, or the block's label.")
    before: dict[str, Any] | None = Field(description="What was there, as far as it is changed.")
    after: dict[str, Any] | None = Field(description="What is to be there. Written by a model: data.")
    state: ChangeState = Field(description="Where it stands.")
    why: str = Field(description="Why it is proposed, or was refused or taken back, in words.")
    at: datetime = Field(description="When its state was written.")


class ChangeList(BaseModel):
    """Changes of a pass."""

    changes: list[ChangeView] = Field(description="In order.")
    after: int | None = Field(description="What to send as `after` for the next page; null at the end.")


class PassChangeResult(BaseModel):
    """What came of `undo`, `accept` or `refuse`."""

    run: PassView = Field(serialization_alias="pass", description="The pass.")
    changes: list[ChangeView] = Field(description="The changes that were looked at, as they stand now.")


class VerdictView(BaseModel):
    """Whether a pass would begin now, and why or why not."""

    due: bool = Field(description="Whether it would begin.")
    trigger: Trigger | None = Field(description="What for.")
    gate: PassBlocker | None = Field(description="The gate that is closed, the cheapest first.")
    why: str = Field(description="The same in words.")
    at: datetime | None = Field(description="When it is looked at again, if nothing happens before.")


class BacklogView(BaseModel):
    """What waits in a bank."""

    episodes: int = Field(description="Episodes that no pass has worked through.")
    turns: int = Field(description="Completed turns among them.")
    conversations: int = Field(description="Conversations that they belong to.")
    importance: float = Field(description="Sum of their importance.")
    oldest_at: datetime | None = Field(description="When the first of them was stored.")
    newest_at: datetime | None = Field(description="When the last of them was stored.")


class LeftoverView(BaseModel):
    """Episodes that a pass could not work through."""

    first: int = Field(description="Number of the first.")
    last: int = Field(description="Number of the last.")
    failures: int = Field(description="How often these have failed by what they hold.")
    quarantined: bool = Field(description="Whether they are tried no more until `resume`.")
    cause: str = Field(description="What was wrong the last time, in words.")


class BalanceView(BaseModel):
    """What an operation has brought to the bank's calls, and what it has cost."""

    operation: str = Field(description="The operation.", examples=["consolidate"])
    uses: int = Field(description="How often something that it made was handed to a call.")
    saved_tokens: int = Field(description="Input tokens that hot calls did not have to read.")
    saved_seconds: float = Field(description="Seconds that those would have taken; 0 if that is not known.")
    saved_usd: float = Field(description="What they would have cost, where the price is known.")
    calls: int = Field(description="Its model calls, failed ones too.")
    spent_tokens: int = Field(description="Tokens of these.")
    spent_usd: float = Field(description="What these cost, where the price is known.")
    unit: str = Field(description="What is compared: `usd`, or `tokens` where a price is not known.")
    ratio: float | None = Field(description="Benefit over cost; null if it has cost nothing.")
    standing: BalanceStatus = Field(description="What follows from that.")
    paused_until: datetime | None = Field(description="When it is tried again, if it is paused.")


class SleeptimeStatusView(BaseModel):
    """How sleep-time work stands in a bank."""

    bank: str = Field(description="The bank's name.")
    policy: SleepPolicySettings = Field(description="What holds for it.")
    begins: dict[Trigger, str] = Field(
        description="What makes a pass due, by trigger, in words; a trigger that is switched off is left out."
    )
    paused_by: str | None = Field(description="Who has paused it.")
    cursor: int = Field(description="Number of the last episode that was worked through, or is among the leftovers.")
    leftovers: list[LeftoverView] = Field(description="What is to be tried again.")
    failures: int = Field(description="Passes that failed in a row.")
    not_before: datetime | None = Field(description="When the next pass may begin after failures.")
    succeeded_at: datetime | None = Field(description="When a pass last worked through all that there was.")
    backlog: BacklogView = Field(description="What waits.")
    verdict: VerdictView = Field(description="What the triggers and gates say now.")
    gate: str = Field(description="The gate that the server last found closed; empty if it has begun a pass since.")
    gate_at: datetime | None = Field(description="Since when it is that gate.")
    running: PassView | None = Field(description="The pass that has not ended.")
    spent: PassCostView = Field(description="What its passes have spent within a day.")
    lag_seconds: float = Field(description="How long the oldest turn has waited.")
    balances: list[BalanceView] = Field(description="What each operation has brought and cost within the window.")
    red: str = Field(description="What is wrong, in words; empty if all is well.")


def _balance_view(each: Balance) -> BalanceView:
    return BalanceView(
        operation=each.operation, uses=each.uses, saved_tokens=each.saved_tokens,
        saved_seconds=round(each.saved_seconds, 3), saved_usd=each.saved_nanousd / NANOUSD, calls=each.calls,
        spent_tokens=each.spent_tokens, spent_usd=each.spent_nanousd / NANOUSD, unit=each.unit,
        ratio=None if each.ratio is None else round(each.ratio, 4), standing=each.standing,
        paused_until=each.paused_until,
    )  # fmt: skip


def pass_cost_view(spent: SleepCost) -> PassCostView:
    """Return what was spent as it is shown."""
    return PassCostView(
        calls=spent.calls, tokens=spent.tokens, usd=spent.nanousd / NANOUSD, seconds=round(spent.seconds, 3)
    )


async def pass_view(tx: Tx, bank: str, run: Pass) -> PassView:
    """Return the pass as it is shown."""
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
    """Return the pass with its record (SLEEP-60)."""
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
    """Return the change as it is shown."""
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
    """Return the verdict as it is shown."""
    due = verdict.trigger is not None
    return VerdictView(due=due, trigger=verdict.trigger, gate=verdict.gate, why=verdict.detail, at=verdict.at)


async def sleeptime_status_view(tx: Tx, status: SleeptimeStatus) -> SleeptimeStatusView:
    """Return how the work stands as it is shown."""
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
