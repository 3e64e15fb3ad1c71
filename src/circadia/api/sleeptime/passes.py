"""Passes over banks: ask for one, list, show what it changed, undo, accept, refuse, cancel (SLEEP-61)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from fastapi import Query
from pydantic import Field, StrictBool, StrictFloat, StrictInt

from circadia.agents.access import require_operator
from circadia.api.bodies import Body, Names
from circadia.api.memory.banks import User
from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.policies import MOST_COUNTED
from circadia.api.sleeptime.pass_views import (
    ChangeList,
    PassChangeResult,
    PassDetail,
    PassList,
    PassView,
    change_view,
    pass_detail,
    pass_view,
)
from circadia.errors import InvalidRequest, NotFound
from circadia.ids import PassId
from circadia.memory.episodes import is_text
from circadia.records.bank import Bank
from circadia.records.change import Change, ChangeState
from circadia.records.principal import Principal
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC, NewPass
from circadia.stores.base import Tx

router = noun_router("passes")

MAX_INSTRUCTIONS: Final = 10_000
"""Characters of what a person wants of a pass."""
MOST_SECONDS: Final = 600
"""Longest wait for the end of a pass in one call."""
LOOK_SECONDS: Final = 1.0
"""How often a call that waits looks, whatever signals say."""


class PassBody(Body):
    """A pass to ask for."""

    dry_run: StrictBool = Field(False, description="Only propose: nothing is written, and the input stays.")
    instructions: str = Field(
        "",
        max_length=MAX_INSTRUCTIONS,
        description="What you want of this pass in particular.",
        examples=["Keep the dates."],
    )
    operations: Names = Field(
        default_factory=list[str],
        max_length=20,
        description="Only these operations; what is new stays for all of them. Empty are those of the bank's policy.",
        examples=[["consolidate"]],
    )
    review: StrictBool = Field(False, description="What it proposes waits until you `accept` it.")
    full: StrictBool = Field(False, description="It looks at all notes and beliefs again, not only at what is new.")
    needed: StrictBool = Field(
        False, description="The next answer depends on it: it begins before others and yields to no turn and no wake."
    )
    wait_seconds: StrictFloat | StrictInt = Field(
        0, ge=0, le=MOST_SECONDS, description="Answer when it has ended, or after so long at the latest."
    )


class ChangeNumbersBody(Body):
    """Which of the changes that wait are meant."""

    numbers: list[StrictInt] = Field(
        default_factory=list[int], max_length=10_000, description="Numbers of changes; without any all that wait."
    )


@router.post("/banks/{b}/passes", status_code=202)
async def run_pass(b: str, who: Who, parts: Parts, body: PassBody | None = None, user: User = None) -> PassView:
    """Ask for a pass over all that waits in a bank now. The operator only.

    It is done by a worker; with `wait_seconds` the answer comes when it has ended, or as it stands after that time.
    """
    require_operator(who)
    asked = body or PassBody.model_validate({})
    if not is_text(asked.instructions):
        raise InvalidRequest("body.instructions: it is not text: it has a NUL or a lone surrogate")
    await parts.sleeptime.flush_answered_calls()
    async with parts.store.begin_write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        parts.sleeptime.require_operations(bank, asked.operations)
        new = NewPass(
            trigger=Trigger.NEEDED if asked.needed else Trigger.HAND,
            by=who.name,
            instructions=asked.instructions,
            operations=tuple(dict.fromkeys(asked.operations)),
            dry_run=asked.dry_run,
            review=asked.review,
            full=asked.full,
        )
        run = await parts.sleeptime.request_pass(tx, bank, new)
    if asked.wait_seconds:
        run = await _wait_for_end(parts, run, float(asked.wait_seconds))
    async with parts.store.begin_read() as tx:
        return await pass_view(tx, bank.name, run)


@router.get("/banks/{b}/passes")
async def list_passes(
    b: str,
    who: Who,
    parts: Parts,
    user: User = None,
    status: Annotated[PassStatus | None, Query(description="Of this status only.")] = None,
    before: Annotated[str | None, Query(description="Key of the last pass of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
) -> PassList:
    """List the passes over a bank. The operator, and agents that may open the bank."""
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.open_bank(tx, who, b, user=user)
        last = None if before is None else await tx.passes.get(PassId(before))
        if before is not None and (last is None or last.bank_id != bank.id):
            raise InvalidRequest(f"bank {bank.name!r} has no pass {before!r}; `before` is that of the page before")
        found = await tx.passes.find_all(
            bank_id=bank.id, status=status, before=None if last is None else last.id, limit=limit
        )
        shown = [await pass_view(tx, bank.name, each) for each in found]
    return PassList(bank=bank.name, passes=shown, before=found[-1].id if len(found) == limit else None)


@router.get("/passes/{run}")
async def show_pass(run: str, who: Who, parts: Parts) -> PassDetail:
    """Show a pass with its record. The operator, and agents that may open its bank."""
    async with parts.store.begin_read() as tx:
        found, bank = await _open_pass(tx, parts, who, run)
        return await pass_detail(tx, bank.name, found)


@router.get("/passes/{run}/changes")
async def list_changes(
    run: str,
    who: Who,
    parts: Parts,
    state: Annotated[ChangeState | None, Query(description="In this state only.")] = None,
    after: Annotated[int, Query(ge=0, le=MOST_COUNTED, description="Number of the last one of the page before.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 1000,
) -> ChangeList:
    """Show what a pass changed or proposes: before, after, where it stands, and why.

    The operator, and agents that may open its bank.
    """
    async with parts.store.begin_read() as tx:
        found, _ = await _open_pass(tx, parts, who, run)
        changes = [each for each in await tx.passes.find_changes(found.id, state=state) if each.number > after]
    page = changes[:limit]
    return ChangeList(
        changes=[change_view(each) for each in page], after=page[-1].number if len(changes) > limit else None
    )


@router.post("/passes/{run}/undo")
async def undo_pass(run: str, who: Who, parts: Parts) -> PassChangeResult:
    """Take back all that a pass did; what others have changed since stays as they left it. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        found, bank = await _open_pass(tx, parts, who, run)
        return await _change_result(tx, bank, found, await parts.sleeptime.undo(tx, bank, found, by=who.name))


@router.post("/passes/{run}/accept")
async def accept_pass(run: str, who: Who, parts: Parts, body: ChangeNumbersBody | None = None) -> PassChangeResult:
    """Publish what of a pass waits for a person. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        found, bank = await _open_pass(tx, parts, who, run)
        done = await parts.sleeptime.accept(tx, bank, found, body.numbers if body else ())
        return await _change_result(tx, bank, found, done)


@router.post("/passes/{run}/refuse")
async def refuse_pass(run: str, who: Who, parts: Parts, body: ChangeNumbersBody | None = None) -> PassChangeResult:
    """Refuse what of a pass waits for a person: it will not come about. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        found, bank = await _open_pass(tx, parts, who, run)
        done = await parts.sleeptime.refuse(tx, found, body.numbers if body else (), by=who.name)
        return await _change_result(tx, bank, found, done)


@router.post("/passes/{run}/cancel")
async def cancel_pass(run: str, who: Who, parts: Parts) -> PassView:
    """End a pass; what it has published stays, and what it has not worked through waits. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        found, bank = await _open_pass(tx, parts, who, run)
        return await pass_view(tx, bank.name, await parts.sleeptime.cancel(tx, bank, found, by=who.name))


async def _change_result(tx: Tx, bank: Bank, run: Pass, done: Sequence[Change]) -> PassChangeResult:
    """Return the pass as it stands now, and what came of its changes."""
    present = await tx.passes.get(run.id) or run
    return PassChangeResult(run=await pass_view(tx, bank.name, present), changes=[change_view(each) for each in done])


async def _open_pass(tx: Tx, parts: ApiParts, who: Principal, pass_id: str) -> tuple[Pass, Bank]:
    """Return the pass and its bank, if the principal may open it.

    Raises:
        NotFound: there is none. Forbidden: it is over a bank that is not the principal's.
    """
    run = await tx.passes.get(PassId(pass_id))
    bank = None if run is None else await tx.banks.get(run.bank_id)
    if run is None or bank is None:
        raise NotFound(f"no pass {pass_id!r}; `circadia sleeptime passes` lists them")
    if not who.is_operator:
        await parts.memory.banks.open_bank(tx, who, bank.name)
    return run, bank


async def _wait_for_end(parts: ApiParts, run: Pass, seconds: float) -> Pass:
    """Return the pass when it has ended, or as it stands after that time or when the server stops."""
    bell = asyncio.Event()

    def ring(bank: str, _: Mapping[str, object]) -> None:
        if bank == run.bank_id:
            bell.set()

    deaf = parts.signals.listen(TOPIC, ring)
    until = parts.clock.monotonic() + seconds
    try:
        while True:
            bell.clear()  # before the look, so that no end is unheard in between
            async with parts.store.begin_read() as tx:
                present = await tx.passes.get(run.id)
            left = until - parts.clock.monotonic()
            if present is None or not present.is_open or left <= 0 or parts.presence.is_stopping:
                return present or run
            waits = (
                asyncio.ensure_future(bell.wait()),
                asyncio.ensure_future(parts.clock.sleep(min(LOOK_SECONDS, left))),
            )
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waits:
                    each.cancel()
    finally:
        deaf()
