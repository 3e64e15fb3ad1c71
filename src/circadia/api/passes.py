"""Passes over banks: request, list, show changes, undo, accept, refuse, cancel (SLEEP-61)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import Field, StrictBool, StrictFloat, StrictInt

from circadia.agents.access import require_operator
from circadia.api.banks import User
from circadia.api.bodies import Body, Instant, Names
from circadia.api.changes import MAX_WITH_TEXTS, change_views
from circadia.api.context import AfterNumber, ApiContext, Context, Limit, Who, fetch_page, noun_router
from circadia.clock import wait_for_event
from circadia.errors import InvalidRequest, NotFound
from circadia.ids import PassId
from circadia.memory.embedding.background import EMBEDDER_DOWN
from circadia.memory.episodes import is_text
from circadia.records.bank import Bank
from circadia.records.change import Change, ChangeState
from circadia.records.principal import Principal
from circadia.records.sleep_call import FORGOTTEN, SleepCost
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.schemas.passes import (
    BalanceView,
    ChangeList,
    ChangeView,
    EmbeddingView,
    PassChangeResult,
    PassCostLine,
    PassCostView,
    PassDecisionView,
    PassDetail,
    PassEstimateView,
    PassList,
    PassPage,
    PassView,
    SleeptimeStatusView,
)
from circadia.settings.sleeptime import MAX_COUNT
from circadia.sleeptime.budget.savings import Balance
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC, NewPass
from circadia.stores.base import Tx

NANOUSD: Final = 1e9
NO_COST: Final = SleepCost(calls=0, tokens=0, nanousd=0, seconds=0.0)


def _balance_view(each: Balance) -> BalanceView:
    return BalanceView.of(
        each,
        saved_seconds=round(each.saved_seconds, 3),
        saved_usd=each.saved_nanousd / NANOUSD,
        calls=each.spent.calls,
        spent_tokens=each.spent.tokens,
        spent_usd=each.spent.nanousd / NANOUSD,
        thinking_tokens=each.spent.thinking_tokens,
        thinking_usd=each.spent.thinking_nanousd / NANOUSD,
    )


def pass_cost_view(spent: SleepCost) -> PassCostView:
    return PassCostView.of(
        spent,
        usd=spent.nanousd / NANOUSD,
        seconds=round(spent.seconds, 3),
        thinking_usd=spent.thinking_nanousd / NANOUSD,
    )


async def pass_view(tx: Tx, bank: str, run: Pass) -> PassView:
    return _build_pass_view(bank, run, await tx.sleep_calls.sum_cost(pass_id=run.id))


async def pass_views(tx: Tx, runs: Sequence[Pass]) -> list[PassView]:
    """Return a page of passes, with the names of their banks."""
    costs = await tx.sleep_calls.sum_cost_by_pass([run.id for run in runs])
    names = await tx.banks.find_names({run.bank_id for run in runs})
    return [_build_pass_view(names[run.bank_id], run, costs.get(run.id, NO_COST)) for run in runs]


def _build_pass_view(bank: str, run: Pass, spent: SleepCost) -> PassView:
    return PassView.of(run, bank=bank, run_seconds=round(run.run_seconds, 3), spent=pass_cost_view(spent))


async def pass_detail(tx: Tx, bank: str, run: Pass) -> PassDetail:
    """Return the pass with its ledger (SLEEP-60)."""
    view = await pass_view(tx, bank, run)
    lines = [
        PassCostLine.of(line, **dict(pass_cost_view(line.spent)))
        for line in await tx.sleep_calls.sum_cost_by_model(run.id)
    ]
    calls = await tx.sleep_calls.find_by_pass(run.id)
    failed = [f"{call.operation}: {call.error}" for call in calls if call.error not in ("", FORGOTTEN)]
    return PassDetail.of(view, ledger=lines, errors=list(dict.fromkeys(failed)))


async def sleeptime_status_view(context: ApiContext, tx: Tx, bank: Bank) -> SleeptimeStatusView:
    status = await context.sleeptime.fetch_status(tx, bank)
    state, name = status.state, bank.name
    return SleeptimeStatusView.of(
        state,
        bank=name,
        model=context.sleeptime.model_name,
        policy=status.policy.model_dump(mode="json"),
        begins=status.begins,
        backlog=status.backlog,
        verdict=PassDecisionView.of(status.verdict, due=status.verdict.trigger is not None),
        running=None if status.running is None else await pass_view(tx, name, status.running),
        spent=pass_cost_view(status.spent),
        lag_seconds=round(status.lag_seconds, 3),
        balances=[_balance_view(balance) for balance in status.balances],
        embedding=None if context.memory.embedding is None else await _embedding_view(tx, bank),
        red=status.red,
    )


async def estimate_view(context: ApiContext, tx: Tx, bank: Bank) -> PassEstimateView:
    estimate = await context.sleeptime.estimate_pass(tx, bank)
    usd = None if estimate.nanousd is None else estimate.nanousd / NANOUSD
    return PassEstimateView.of(estimate, bank=bank.name, model=context.sleeptime.model_name, usd=usd)


async def _embedding_view(tx: Tx, bank: Bank) -> EmbeddingView:
    waiting = await tx.episodes.count_without_vector(bank.id) + await tx.notes.count_without_vector(bank.id)
    return EmbeddingView(waiting=waiting, failing_since=(await tx.alerts.find_alert_times(EMBEDDER_DOWN)).get(""))


router = noun_router("passes")

PassPath = Annotated[str, Path(alias="pass", description="Id of the pass.")]

MAX_INSTRUCTIONS: Final = 10_000
"""Maximum length in characters."""
MAX_SECONDS: Final = 600
"""Longest wait for the end of a pass in one call."""
LOOK_SECONDS: Final = 1.0
"""Polling interval of a waiting call, besides signals."""


class PassBody(Body):
    """A pass to request."""

    dry_run: StrictBool = Field(False, description="Only propose changes; write nothing and keep the input.")
    instructions: str = Field(
        "", max_length=MAX_INSTRUCTIONS, description="Instructions for this pass.", examples=["Keep the dates."]
    )
    operations: Names = Field(
        default_factory=list[str],
        max_length=20,
        description="Run only these operations and keep the input for the others; empty means those of the bank's "
        "policy.",
        examples=[["consolidate"]],
    )
    review: StrictBool = Field(False, description="Proposals wait until you `accept` them.")
    full: StrictBool = Field(False, description="Review all notes and beliefs again, not only new ones.")
    needed: StrictBool = Field(
        False,
        description="The next answer depends on this pass: it begins before others and yields to no turn and no wake.",
    )
    budget_tokens: StrictInt | None = Field(
        None,
        ge=1,
        le=MAX_COUNT,
        description="Its own budget in input and output tokens, in place of the limits of the bank and of all banks. "
        "It takes the place of an open pass that nobody asked for, and runs to the end.",
    )
    wait_seconds: StrictFloat | StrictInt = Field(
        0, ge=0, le=MAX_SECONDS, description="Longest time to wait for the end of the pass before the answer."
    )


class ChangeNumbersBody(Body):
    """The changes to accept, refuse or undo."""

    numbers: list[StrictInt] = Field(
        default_factory=list[int],
        max_length=10_000,
        description="Numbers of changes; by default all that wait, or for `undo` all that were published.",
    )


@router.post("/banks/{bank}/passes", status_code=202)
async def run_pass(bank: str, who: Who, context: Context, body: PassBody | None = None, user: User = None) -> PassView:
    """Request a pass over the backlog of a bank. Operator only.

    A worker runs it; with `wait_seconds` the server answers at its end, or with its status after that time.
    """
    require_operator(who)
    request = body or PassBody.model_validate({})
    if not is_text(request.instructions):
        raise InvalidRequest("body.instructions: the text holds a NUL or a lone surrogate; remove it")
    await context.sleeptime.flush_answered_calls()
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        context.sleeptime.require_operations(found_bank, request.operations)
        new = NewPass(
            trigger=Trigger.NEEDED if request.needed else Trigger.HAND,
            by=who.name,
            operations=tuple(dict.fromkeys(request.operations)),
            **request.model_dump(include={"instructions", "dry_run", "review", "full", "budget_tokens"}),
        )
        run = await context.sleeptime.request_pass(tx, found_bank, new)
    if request.wait_seconds:
        run = await _wait_for_end(context, run, float(request.wait_seconds))
    async with context.store.begin_read() as tx:
        return await pass_view(tx, found_bank.name, run)


@router.get("/banks/{bank}/passes")
async def list_passes(
    bank: str,
    who: Who,
    context: Context,
    user: User = None,
    status: Annotated[PassStatus | None, Query(description="Only with this status.")] = None,
    before: Annotated[str | None, Query(description="Id of the last pass on the previous page.")] = None,
    limit: Limit = 100,
) -> PassList:
    """List the passes over a bank. Access: operator, agents with access to the bank."""
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        last = None if before is None else await tx.passes.get(PassId(before))
        if before is not None and (last is None or last.bank_id != found_bank.id):
            raise InvalidRequest(
                f"bank {found_bank.name!r} has no pass {before!r}; `before` is that of the page before"
            )
        passes, more = await fetch_page(
            lambda row, most: tx.passes.find_all(
                bank_id=found_bank.id, status=status, before=getattr(row or last, "id", None), limit=most
            ),
            limit,
        )
        views = await pass_views(tx, passes)
    return PassList(bank=found_bank.name, passes=views, before=passes[-1].id if more else None)


@router.get("/passes")
async def list_passes_of_all(
    who: Who,
    context: Context,
    status: Annotated[list[PassStatus] | None, Query(description="Only with this status; may be repeated.")] = None,
    since: Annotated[Instant, Query(description="Requested at or after this date or time.")] = None,
    before: Annotated[str | None, Query(description="Id of the last pass on the previous page.")] = None,
    limit: Limit = 100,
) -> PassPage:
    """List the passes over all banks, newest request first. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        last = None if before is None else await tx.passes.get(PassId(before))
        if before is not None and last is None:
            raise InvalidRequest(f"there is no pass {before!r}; `before` is that of the page before")
        passes, more = await fetch_page(
            lambda row, most: tx.passes.find_newest(statuses=status or (), since=since, before=row or last, limit=most),
            limit,
        )
        views = await pass_views(tx, passes)
    return PassPage(passes=views, before=passes[-1].id if more else None)


@router.get("/passes/{pass}")
async def show_pass(run: PassPath, who: Who, context: Context) -> PassDetail:
    """Show a pass with its ledger. Access: operator, agents with access to the bank."""
    async with context.store.begin_read() as tx:
        run_found, bank = await _open_pass(tx, context, who, run)
        return await pass_detail(tx, bank.name, run_found)


@router.get("/passes/{pass}/changes")
async def list_changes(
    run: PassPath,
    who: Who,
    context: Context,
    state: Annotated[ChangeState | None, Query(description="Only in this state.")] = None,
    texts: Annotated[bool, Query(description="Add the texts that each change concerns and rests on.")] = False,
    after: AfterNumber = 0,
    limit: Limit = 1000,
) -> ChangeList:
    """List the changes that a pass made or proposes: before, after, state and reason.

    Access: operator, agents with access to the bank.
    """
    async with context.store.begin_read() as tx:
        run_found, bank = await _open_pass(tx, context, who, run)
        changes, more = await fetch_page(
            lambda last, most: tx.passes.find_changes(
                run_found.id, state=state, after=after if last is None else last.number, limit=most
            ),
            min(limit, MAX_WITH_TEXTS) if texts else limit,
        )
        views = await change_views(tx, bank.id, changes) if texts else _change_views(changes)

    return ChangeList(changes=views, after=changes[-1].number if more else None)


@router.post("/passes/{pass}/undo")
async def undo_pass(
    run: PassPath, who: Who, context: Context, body: ChangeNumbersBody | None = None
) -> PassChangeResult:
    """Undo all changes of a pass, or single ones; later changes by others remain. Operator only.

    A single change is not undone while later changes of the pass rest on it: the answer is a conflict that names them.
    """
    require_operator(who)
    async with context.store.begin_write() as tx:
        run_found, bank = await _open_pass(tx, context, who, run)
        done = await context.sleeptime.undo(tx, bank, run_found, body.numbers if body else (), by=who.name)
        return await _change_result(tx, bank, run_found, done)


@router.post("/passes/{pass}/accept")
async def accept_pass(
    run: PassPath, who: Who, context: Context, body: ChangeNumbersBody | None = None
) -> PassChangeResult:
    """Publish changes of a pass that wait for a person. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        run_found, bank = await _open_pass(tx, context, who, run)
        done = await context.sleeptime.accept(tx, bank, run_found, body.numbers if body else (), by=who.name)
        return await _change_result(tx, bank, run_found, done)


@router.post("/passes/{pass}/refuse")
async def refuse_pass(
    run: PassPath, who: Who, context: Context, body: ChangeNumbersBody | None = None
) -> PassChangeResult:
    """Refuse changes of a pass that wait for a person. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        run_found, bank = await _open_pass(tx, context, who, run)
        done = await context.sleeptime.refuse(tx, bank, run_found, body.numbers if body else (), by=who.name)
        return await _change_result(tx, bank, run_found, done)


@router.post("/passes/{pass}/cancel")
async def cancel_pass(run: PassPath, who: Who, context: Context) -> PassView:
    """End a pass; its published changes remain, and its unprocessed input waits. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        run_found, bank = await _open_pass(tx, context, who, run)
        return await pass_view(tx, bank.name, await context.sleeptime.cancel(tx, bank, run_found, by=who.name))


async def _change_result(tx: Tx, bank: Bank, run: Pass, done: Sequence[Change]) -> PassChangeResult:
    """Return the current pass and the affected changes."""
    present = await tx.passes.get(run.id) or run
    return PassChangeResult(run=await pass_view(tx, bank.name, present), changes=_change_views(done))


def _change_views(changes: Sequence[Change]) -> list[ChangeView]:
    return [ChangeView.of(change, texts=[]) for change in changes]


async def _open_pass(tx: Tx, context: ApiContext, who: Principal, pass_id: str) -> tuple[Pass, Bank]:
    """Return the pass and its bank.

    Raises:
        NotFound: there is none. Forbidden: the principal has no access to the bank.
    """
    run = await tx.passes.get(PassId(pass_id))
    bank = None if run is None else await tx.banks.get(run.bank_id)
    if run is None or bank is None:
        raise NotFound(f"no pass {pass_id!r}; `circadia passes BANK` lists them")
    if not who.is_operator:
        await context.memory.banks.open_bank(tx, who, bank.name)
    return run, bank


async def _wait_for_end(context: ApiContext, run: Pass, seconds: float) -> Pass:
    """Return the pass when it has ended, or its state after `seconds` or when the server stops."""
    bell = asyncio.Event()

    def ring(bank: str, _: Mapping[str, object]) -> None:
        if bank == run.bank_id:
            bell.set()

    unsubscribe = context.signals.listen(TOPIC, ring)
    until = context.clock.monotonic() + seconds
    try:
        while True:
            bell.clear()  # before the read, so that no signal is missed in between
            async with context.store.begin_read() as tx:
                present = await tx.passes.get(run.id)
            left = until - context.clock.monotonic()
            if present is None or not present.is_open or left <= 0 or context.presence.is_stopping:
                return present or run
            await wait_for_event(context.clock, bell, min(LOOK_SECONDS, left))
    finally:
        unsubscribe()
