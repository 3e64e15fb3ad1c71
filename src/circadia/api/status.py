"""Sleep-time status of one bank and of all, pause and resume, and notes with their sources (SLEEP-61)."""

from datetime import timedelta
from typing import Annotated

from fastapi import Query
from pydantic import Field

from circadia.agents.access import require_operator
from circadia.api.banks import User
from circadia.api.bodies import Body
from circadia.api.context import AfterNumber, Context, Limit, Who, fetch_page, noun_router
from circadia.api.passes import estimate_view, pass_cost_view, sleeptime_status_view
from circadia.ids import NoteId
from circadia.memory.banks import USER
from circadia.records.agent import Name
from circadia.records.event import EventType, NotePromotion
from circadia.records.note import NoteState
from circadia.records.sleep_pass import PassStatus
from circadia.schemas.banks import EpisodeView, StoredEpisodeView
from circadia.schemas.passes import NoteDetail, NotePage, NoteView, PassEstimateView, SleeptimeStatusView, SleeptimeView
from circadia.stores.locks import bank_key

router = noun_router("sleeptime")

DAY = timedelta(days=1)


@router.get("/sleeptime")
async def show_sleeptime_of_all(
    who: Who,
    context: Context,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of banks.")] = 100,
) -> SleeptimeView:
    """Show all banks with a backlog or an open pass. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        running = [
            sleep_pass.bank_id
            for status in (PassStatus.RUNNING, PassStatus.PENDING)
            for sleep_pass in await tx.passes.find_newest(statuses=(status,), limit=limit)
        ]
        bank_ids = list(dict.fromkeys([*running, *await tx.sleep_states.find_banks_with_backlog()]))
        banks = [await tx.banks.get(bank_id) for bank_id in bank_ids[:limit]]
        statuses = [await sleeptime_status_view(context, tx, bank) for bank in banks if bank is not None]
        spent = await tx.sleep_calls.sum_cost(since=context.clock.now() - DAY)
        counts = await tx.passes.count_by_status()
    return SleeptimeView(
        banks=statuses,
        more=max(0, len(bank_ids) - limit),
        passes=dict(counts),
        spent=pass_cost_view(spent),
        lag_seconds=max((status.lag_seconds for status in statuses), default=0.0),
        red=[f"{status.bank}: {status.red}" for status in statuses if status.red],
    )


@router.get("/banks/{bank}/sleeptime")
async def show_sleeptime(bank: str, who: Who, context: Context, user: User = None) -> SleeptimeStatusView:
    """Show the sleep-time status of a bank: its backlog, whether a pass would begin now, and why.

    Access: operator, agents with access to the bank.
    """
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        return await sleeptime_status_view(context, tx, found_bank)


@router.get("/banks/{bank}/sleeptime/estimate")
async def estimate_pass(bank: str, who: Who, context: Context, user: User = None) -> PassEstimateView:
    """Estimate what a pass over all that waits in a bank takes, such as an imported history. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        return await estimate_view(context, tx, await context.memory.banks.get(tx, bank, user))


@router.post("/banks/{bank}/sleeptime/pause")
async def pause_sleeptime(bank: str, who: Who, context: Context, user: User = None) -> SleeptimeStatusView:
    """Stop new passes over a bank; a running one ends at its next step. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        await context.sleeptime.pause(tx, found_bank, by=who.name)
    async with context.store.begin_read() as tx:
        return await sleeptime_status_view(context, tx, found_bank)


@router.post("/banks/{bank}/sleeptime/resume")
async def resume_sleeptime(bank: str, who: Who, context: Context, user: User = None) -> SleeptimeStatusView:
    """Allow passes again, also those that wait after failures, and retry what was set aside. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        await context.sleeptime.resume(tx, found_bank, by=who.name)
    async with context.store.begin_read() as tx:
        return await sleeptime_status_view(context, tx, found_bank)


@router.get("/banks/{bank}/notes")
async def list_notes(
    bank: str,
    who: Who,
    context: Context,
    user: User = None,
    state: Annotated[NoteState | None, Query(description="`live` (in searches) or `retired`; by default both.")] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> NotePage:
    """List a bank's notes, newest first. Access: operator, agents with access to the bank."""
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        notes, more = await fetch_page(
            lambda last, most: tx.notes.find_page(
                found_bank.id, state=state, after=after if last is None else last.number, limit=most
            ),
            limit,
        )
    return NotePage(
        notes=[NoteView.of(note, bank=found_bank.name, evidence_count=len(note.evidence)) for note in notes],
        after=notes[-1].number if more else None,
    )


@router.get("/banks/{bank}/notes/{note}")
async def explain_note(bank: str, note: str, who: Who, context: Context, user: User = None) -> NoteDetail:
    """Show a note with its source episodes and the changes that passes made to it.

    Access: operator, agents with access to the bank.
    """
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        explanation = await context.sleeptime.explain(tx, found_bank, note)
    return NoteDetail.of(
        explanation.note,
        bank=found_bank.name,
        evidence=[EpisodeView.of(episode, bank=found_bank.name) for episode in explanation.evidence],
        changes=explanation.changes,
    )


class PromotionBody(Body):
    """Where a note is copied to."""

    to: Name = Field(description="Bank that gets the copy.", examples=["team"])


@router.post("/banks/{bank}/notes/{note}/promote", status_code=201)
async def promote_note(
    bank: str, note: str, body: PromotionBody, who: Who, context: Context, user: User = None
) -> StoredEpisodeView:
    """Copy a note into another bank, once, with who and when and the id of the note.

    The copy is an episode there; it is forgotten with the note. Access: operator, agents with access to the bank and
    write access to the other.
    """
    banks = context.memory.banks
    async with context.store.begin_read() as tx:
        source = await banks.open_bank(tx, who, bank, user=user if USER in bank else None)
    async with context.store.begin_write() as tx:  # alone, since it may make the bank
        target = await banks.open_bank(tx, who, body.to, write=True, user=user if USER in body.to else None)
    async with context.store.begin_write(bank_key(source.id), bank_key(target.id)) as tx:
        stored = await context.memory.episodes.promote(tx, source, NoteId(note), target, by=who.name)
        if stored.new:
            data = NotePromotion(
                bank=target.name, by=who.name, source=source.name, note=note, episode=stored.episode.id
            )
            await context.memory.events.record(tx, EventType.PROMOTED, data)
        episode = await context.memory.episodes.get(tx, target, stored.episode.id)
    return StoredEpisodeView.of(episode, bank=target.name, new=stored.new)
