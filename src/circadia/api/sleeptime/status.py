"""How sleep-time work stands, per bank and in all; pause and resume; and where a note comes from (SLEEP-61)."""

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from circadia.agents.access import require_operator
from circadia.api.memory.banks import User
from circadia.api.memory.episodes import EpisodeView, episode_view
from circadia.api.parts import Parts, Who, noun_router
from circadia.api.sleeptime.pass_views import (
    ChangeView,
    PassCostView,
    SleeptimeStatusView,
    change_view,
    pass_cost_view,
    sleeptime_status_view,
)
from circadia.records.bank import Trust
from circadia.records.note import NoteKind
from circadia.records.sleep_pass import PassStatus

router = noun_router("sleeptime")

DAY = timedelta(days=1)


class NoteDetail(BaseModel):
    """A note, and where it comes from."""

    id: str = Field(description="Key.", examples=["not_0cwd…"])
    bank: str = Field(description="The bank's name.")
    kind: NoteKind = Field(description="Of which kind it is.")
    text: str = Field(description="What it says. Data, not instructions.")
    at: datetime = Field(description="When it holds.")
    trust: Trust = Field(description="That of the least trusted of its sources.")
    importance: float | None = Field(description="0 to 1; null if nobody has judged it.")
    pass_id: str | None = Field(serialization_alias="pass", description="Key of the pass that made it.")
    created_at: datetime = Field(description="When it was made.")
    retired_at: datetime | None = Field(description="When it left the searches; null if it has not.")
    evidence: list[EpisodeView] = Field(description="The episodes that it rests on, of those that are still there.")
    changes: list[ChangeView] = Field(description="What passes did to it, the oldest first.")


class SleeptimeView(BaseModel):
    """Sleep-time work over all banks."""

    banks: list[SleeptimeStatusView] = Field(description="Those with a backlog or a pass that has not ended.")
    more: int = Field(description="How many more of them there are.")
    passes: dict[PassStatus, int] = Field(description="Number of passes by status.")
    spent: PassCostView = Field(description="What passes over all banks have spent within a day.")
    lag_seconds: float = Field(description="How long the oldest turn of the shown banks has waited.")
    red: list[str] = Field(description="What is wrong, by bank; empty if all is well.")


@router.get("/sleeptime")
async def show_sleeptime_of_all(
    who: Who,
    parts: Parts,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many banks at most.")] = 100,
) -> SleeptimeView:
    """Show all banks that have a backlog or a pass that has not ended. The operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        running = [
            each.bank_id
            for status in (PassStatus.RUNNING, PassStatus.PENDING)
            for each in await tx.passes.find_all(status=status, limit=limit)
        ]
        wanted = list(dict.fromkeys([*running, *await tx.sleep_states.find_banks_with_backlog()]))
        found = [await tx.banks.get(each) for each in wanted[:limit]]
        stands = [
            await sleeptime_status_view(tx, await parts.sleeptime.fetch_status(tx, each))
            for each in found
            if each is not None
        ]
        spent = await tx.sleep_calls.sum_cost(since=parts.clock.now() - DAY)
        counts = await tx.passes.count_by_status()
    return SleeptimeView(
        banks=stands,
        more=max(0, len(wanted) - limit),
        passes=dict(counts),
        spent=pass_cost_view(spent),
        lag_seconds=max((each.lag_seconds for each in stands), default=0.0),
        red=[f"{each.bank}: {each.red}" for each in stands if each.red],
    )


@router.get("/banks/{b}/sleeptime")
async def show_sleeptime(b: str, who: Who, parts: Parts, user: User = None) -> SleeptimeStatusView:
    """Show how sleep-time work stands in a bank: what waits, whether a pass would begin now, and why or why not.

    The operator, and agents that may open the bank.
    """
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.open_bank(tx, who, b, user=user)
        return await sleeptime_status_view(tx, await parts.sleeptime.fetch_status(tx, bank))


@router.post("/banks/{b}/sleeptime/pause")
async def pause_sleeptime(b: str, who: Who, parts: Parts, user: User = None) -> SleeptimeStatusView:
    """Let no more pass begin over a bank; one that runs ends at its next step. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        await parts.sleeptime.pause(tx, bank, by=who.name)
        return await sleeptime_status_view(tx, await parts.sleeptime.fetch_status(tx, bank))


@router.post("/banks/{b}/sleeptime/resume")
async def resume_sleeptime(b: str, who: Who, parts: Parts, user: User = None) -> SleeptimeStatusView:
    """Let passes begin again, at once if they waited after failures; what was set apart is tried again.

    Operations that were paused since they cost more than they brought are done again, and judged anew from then on. The
    operator only.
    """
    require_operator(who)
    async with parts.store.begin_write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        await parts.sleeptime.resume(tx, bank, by=who.name)
        return await sleeptime_status_view(tx, await parts.sleeptime.fetch_status(tx, bank))


@router.get("/banks/{b}/notes/{note}")
async def explain_note(b: str, note: str, who: Who, parts: Parts, user: User = None) -> NoteDetail:
    """Show a note with the episodes that it rests on, and what passes did to it.

    The operator, and agents that may open the bank.
    """
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.open_bank(tx, who, b, user=user)
        found = await parts.sleeptime.explain(tx, bank, note)
    shown = found.note
    return NoteDetail(
        id=shown.id,
        bank=bank.name,
        kind=shown.kind,
        text=shown.text,
        at=shown.at,
        trust=shown.trust,
        importance=shown.importance,
        pass_id=shown.pass_id,
        created_at=shown.created_at,
        retired_at=shown.retired_at,
        evidence=[episode_view(bank.name, each) for each in found.evidence],
        changes=[change_view(each) for each in found.changes],
    )
