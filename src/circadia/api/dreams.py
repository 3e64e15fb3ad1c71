"""Dreams over memory folders and banks: ask, list, show, cancel, accept, refuse, undo (DREAM-31)."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from circadia.agents.access import require_operator
from circadia.api.bodies import Body
from circadia.api.context import ApiContext, Context, Limit, Who, fetch_page, noun_router
from circadia.api.passes import MAX_INSTRUCTIONS
from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.ids import DreamId, PassId
from circadia.memory.episodes import is_text
from circadia.records.dream_job import DreamJob, DreamJobStatus, DreamMode, DreamSource, ReviewKind
from circadia.schemas.dreams import (
    DreamDiffView,
    DreamErrorView,
    DreamHistoryView,
    DreamList,
    DreamPlaceView,
    DreamRefusalView,
    DreamUndoView,
    DreamUsageView,
    DreamView,
    MemoryFolderDetail,
    MemoryFolderList,
)
from circadia.sleeptime.markdown.dream_status import record_review
from circadia.sleeptime.markdown.publication import has_proposal

router = noun_router("dreams")

DreamPath = Annotated[str, Path(alias="dream", description="Id of the dream.")]


class DreamInputBody(Body):
    """What a dream reads."""

    type: DreamSource = Field(description="`folder` or `bank`.")
    name: str = Field(description="Name of the folder in section `dreams`, or of the bank.", examples=["app"])


class DreamBody(Body):
    """A dream to begin."""

    inputs: list[DreamInputBody] = Field(min_length=1, max_length=1, description="One folder, or one bank.")
    instructions: str = Field("", max_length=MAX_INSTRUCTIONS, description="What to look for, in your words.")
    mode: DreamMode | None = Field(
        None,
        description="For a folder: `propose` waits for you, `auto` writes once you have accepted one dream, `dry-run` "
        "only shows. By default that of its settings.",
    )


class DreamFilesBody(Body):
    """The files to accept or refuse."""

    files: list[str] = Field(
        default_factory=list[str], max_length=10_000, description="Paths in the folder; by default all that wait."
    )


@router.post("/dreams", status_code=202)
async def run_dream(who: Who, context: Context, body: DreamBody) -> DreamView:
    """Begin a dream over a memory folder, or over a bank, which stays as it is.

    The result of a dream over a bank is a new bank. Operator only.
    """
    require_operator(who)
    if not is_text(body.instructions):
        raise InvalidRequest("body.instructions: the text holds a NUL or a lone surrogate; remove it")
    source = body.inputs[0]
    async with context.store.begin_write() as tx:
        if source.type is DreamSource.FOLDER:
            job = await context.folders.requests.request_folder(
                tx, source.name, body.mode, body.instructions, by=who.name
            )
        elif body.mode is not None:
            raise InvalidRequest("body.mode is for folders; a dream over a bank makes a new bank")
        else:
            bank = await context.memory.banks.get(tx, source.name)
            job = await context.folders.requests.request_bank(tx, bank, body.instructions, by=who.name)
    return dream_view(job)


@router.get("/dreams")
async def list_dreams(
    who: Who,
    context: Context,
    status: Annotated[list[DreamJobStatus] | None, Query(description="Only with this status; may be repeated.")] = None,
    type: Annotated[DreamSource | None, Query(description="Only over folders, or over banks.")] = None,
    name: Annotated[str | None, Query(description="Only over the folder or bank of this name.")] = None,
    waits: Annotated[bool, Query(description="Only those whose changes wait for a person.")] = False,
    before: Annotated[str | None, Query(description="Id of the last dream on the previous page.")] = None,
    limit: Limit = 100,
) -> DreamList:
    """List the dreams that were asked for or due, newest first. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        first = None if before is None else DreamId(before)
        jobs, more = await fetch_page(
            lambda last, most: tx.dream_jobs.find_all(
                statuses=status or (),
                source=type,
                name=name,
                waits=waits,
                before=first if last is None else last.id,
                limit=most,
            ),
            limit,
        )
    return DreamList(dreams=[dream_view(job) for job in jobs], before=jobs[-1].id if more else None)


@router.get("/dreams/{dream}")
async def show_dream(dream: DreamPath, who: Who, context: Context) -> DreamView:
    """Show a dream. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        return dream_view(await context.folders.requests.get(tx, dream))


@router.post("/dreams/{dream}/cancel")
async def cancel_dream(dream: DreamPath, who: Who, context: Context) -> DreamView:
    """End a dream; what it has read is kept for the next one. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        job = await context.folders.requests.get(tx, dream)
        canceled = await context.folders.requests.cancel(tx, job, by=who.name)
        run = await tx.passes.get(PassId(job.pass_id)) if job.source is DreamSource.BANK and job.pass_id else None
        bank = None if run is None or not run.is_open else await tx.banks.get(run.bank_id)
        if run is not None and bank is not None:
            await context.sleeptime.cancel(tx, bank, run, by=who.name)
    return dream_view(canceled)


@router.get("/dreams/{dream}/diff")
async def show_dream_diff(dream: DreamPath, who: Who, context: Context) -> DreamDiffView:
    """Show what a dream over a folder changed or proposes. Operator only."""
    job = await _find_folder_dream(context, who, dream)
    diff = str(job.report.get("diff", ""))
    with suppress(NotFound):  # nothing is left of a refused dream
        diff = diff or await context.folders.show_diff(job.name, job.pass_id)
    return DreamDiffView(diff=diff)


@router.post("/dreams/{dream}/accept")
async def accept_dream(dream: DreamPath, who: Who, context: Context, body: DreamFilesBody | None = None) -> DreamView:
    """Write what a dream over a folder proposes, all of it or what concerns some files. Operator only."""
    job = await _find_proposal(context, who, dream)
    report = await context.folders.accept(job.name, _paths(body))
    job = await record_review(context.folders, context.store, job, ReviewKind.ACCEPTED, _paths(body), by=who.name)
    return dream_view(job, summary=report.describe())


@router.post("/dreams/{dream}/refuse")
async def refuse_dream(
    dream: DreamPath, who: Who, context: Context, body: DreamFilesBody | None = None
) -> DreamRefusalView:
    """Drop what a dream over a folder proposes, all of it or what concerns some files. Operator only."""
    job = await _find_proposal(context, who, dream)
    refused = await context.folders.refuse(job.name, _paths(body))
    await record_review(context.folders, context.store, job, ReviewKind.REFUSED, _paths(body), by=who.name)
    return DreamRefusalView(refused=refused)


@router.post("/dreams/{dream}/undo")
async def undo_dream(dream: DreamPath, who: Who, context: Context) -> DreamUndoView:
    """Restore what a dream over a folder has replaced; later changes of other lines stay. Operator only."""
    job = await _find_folder_dream(context, who, dream)
    result = await context.folders.undo(job.name, job.pass_id)
    await record_review(context.folders, context.store, job, ReviewKind.UNDONE, result.outcomes, by=who.name)
    files = {str(path): outcome.value for path, outcome in result.outcomes.items()}
    return DreamUndoView(undo=result.id, files=files, left_out=list(result.problems))


@router.get("/memory-folders")
async def list_memory_folders(who: Who, context: Context) -> MemoryFolderList:
    """List the memory folders of section `dreams`. Operator only."""
    require_operator(who)
    return MemoryFolderList(folders=list(context.folders.requests.folders))


@router.get("/memory-folders/{folder}")
async def show_memory_folder(
    folder: Annotated[str, Path(description="Name of the folder.")], who: Who, context: Context
) -> MemoryFolderDetail:
    """Show a memory folder: its history, what the next dream waits for, and about what it will cost. Operator only."""
    require_operator(who)
    settings = context.folders.requests.get_folder(folder)
    found = await context.folders.fetch_status(folder)
    history = await context.folders.list_history(folder)
    return MemoryFolderDetail.of(
        found, name=folder, mode=settings.mode, dreamed_at=found.state.dreamed_at, next_dream=found.waits_for,
        waiting=found.waiting or None, failures=found.state.failures, trouble=found.state.trouble,
        history=[
            DreamHistoryView.of(
                each, published=list(map(str, each.published)), proposed=list(map(str, each.proposed))
            )
            for each in history
        ],
    )  # fmt: skip


def dream_view(job: DreamJob, *, summary: str = "") -> DreamView:
    report = dict(job.report)
    text = report.pop("text", "")
    usage = DreamUsageView(calls=report.get("calls", 0), tokens=report.get("tokens", 0), usd=report.get("usd", 0.0))
    return DreamView.of(
        job, type="dream", inputs=[DreamPlaceView(type=job.source, name=job.name)],
        outputs=[DreamPlaceView(type=job.source, name=job.output)] if job.output else [], mode=job.mode or None,
        error=DreamErrorView(message=job.error) if job.error else None, usage=usage,
        summary=summary or text, report=report, entry=job.pass_id or None,
    )  # fmt: skip


async def _find_folder_dream(context: ApiContext, who: Who, dream: str) -> DreamJob:
    """Return a dream over a folder that left something there. Raises NotFound, InvalidRequest, Conflict."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        job = await context.folders.requests.get(tx, dream)
    if job.source is DreamSource.BANK:
        raise InvalidRequest(f"dream {dream!r} made bank {job.output!r}: use that one, or delete it")
    if job.is_open or not job.pass_id:
        raise Conflict(f"dream {dream!r} is {job.status.value} and has changed nothing")
    return job


async def _find_proposal(context: ApiContext, who: Who, dream: str) -> DreamJob:
    """Return a dream whose changes wait for a person. Raises also Conflict: they do not."""
    job = await _find_folder_dream(context, who, dream)
    if not has_proposal(await context.folders.list_history(job.name), job.pass_id):
        raise Conflict(f"nothing of dream {dream!r} waits for a person")
    return job


def _paths(body: DreamFilesBody | None) -> Collection[PurePosixPath]:
    return [PurePosixPath(file) for file in body.files] if body else []
