"""Tools for dreams over memory folders: of the operator, and of agents that section `dreams` names (DREAM-31)."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.mcp_server.caller import Caller
from circadia.mcp_server.tool import ANSWER_CHARACTERS, Arguments, ToolResult, tool
from circadia.mcp_server.tools.memory import as_text
from circadia.records.dream_job import DreamJob, DreamSource, ReviewKind
from circadia.settings.sleeptime import DreamSettings
from circadia.sleeptime.markdown.dream_status import record_review

MAX_INSTRUCTIONS: Final = 10_000
"""Maximum length in characters, as in the other interfaces."""
Folder = Annotated[str | None, Field(description="Name of the memory folder, if you have several.")]
DreamKey = Annotated[str | None, Field(description="Id of a dream; the newest by default.")]


class DreamFolderArguments(Arguments):
    folder: Folder = None


class RunDreamArguments(Arguments):
    folder: Folder = None
    instructions: Annotated[str, BeforeValidator(as_text)] = Field(
        default="", max_length=MAX_INSTRUCTIONS, description="What to look for."
    )


class OneDreamArguments(Arguments):
    folder: Folder = None
    dream: DreamKey = None


class DreamJobResult(ToolResult):
    dream: str = Field(description="Id of the dream.")
    folder: str
    status: str
    summary: str = Field(description="What it did.")


class DreamFolderResult(ToolResult):
    folder: str
    entries: int
    next_dream: str = Field(description="What the next dream waits for.")
    waiting: str = Field(description="The dream that waits for a person; empty without one.")
    sessions: int = Field(description="Sessions that the next dream will read.")
    dreams: list[DreamJobResult] = Field(description="Newest first.")


class DreamDiffResult(ToolResult):
    dream: str
    diff: str
    cut: bool = Field(description="Whether the diff was longer.")


class DreamUndoResult(ToolResult):
    dream: str
    files: dict[str, str] = Field(description="What became of each file.")
    left_out: list[str] = Field(description="What was not restored, and why.")


def list_folders(caller: Caller) -> list[str]:
    """Return the names of the memory folders that the caller may dream over."""
    folders = caller.context.folders.requests.folders
    return [name for name, folder in folders.items() if _may_dream(caller, folder)]


def choose_folder(caller: Caller, name: str | None) -> str:
    """Return the folder of this name, or the caller's only one. Raises NotFound, InvalidRequest: it has several."""
    own = list_folders(caller)
    if name is None and len(own) == 1:
        return own[0]
    if name is None and own:
        raise InvalidRequest(f"name one of your memory folders: {', '.join(own)}")
    if name not in own:
        raise NotFound(f"no memory folder {name!r} is yours; you have {', '.join(own) or 'none'}")
    return name


def _may_dream(caller: Caller, folder: DreamSettings) -> bool:
    agent = caller.principal.agent
    return agent is None or not {agent.reference, f"{agent.session}:{agent.name}"}.isdisjoint(folder.agents)


@tool(
    "dream_status",
    "Show your memory folder: when it was last consolidated, what the next dream waits for, and recent dreams.",
    reads_only=True,
)
async def _status(caller: Caller, arguments: DreamFolderArguments) -> DreamFolderResult:
    folder = choose_folder(caller, arguments.folder)
    found = await caller.context.folders.fetch_status(folder)
    async with caller.context.store.begin_read() as tx:
        jobs = await tx.dream_jobs.find_all(source=DreamSource.FOLDER, name=folder, limit=10)
    return DreamFolderResult(
        folder=folder, entries=found.entries, next_dream=found.waits_for, waiting=found.waiting,
        sessions=found.sessions, dreams=[_describe(job) for job in jobs],
    )  # fmt: skip


@tool(
    "dream_run",
    "Begin a dream: new facts of your sessions are merged into your memory folder while you go on. A person "
    "may have to accept the changes. dream_status shows when it has ended.",
)
async def _run(caller: Caller, arguments: RunDreamArguments) -> DreamJobResult:
    return _describe(await request_dream(caller, arguments.folder, arguments.instructions))


async def request_dream(caller: Caller, folder: str | None, instructions: str) -> DreamJob:
    """Ask for a dream over the caller's folder. Raises NotFound, InvalidRequest, Conflict: one has not ended."""
    chosen = choose_folder(caller, folder)
    async with caller.context.store.begin_write() as tx:
        return await caller.context.folders.requests.request_folder(
            tx, chosen, None, instructions, by=caller.principal.name
        )


@tool("dream_diff", "Show what a dream changed in your memory folder, or proposes, as a unified diff.", reads_only=True)
async def _diff(caller: Caller, arguments: OneDreamArguments) -> DreamDiffResult:
    job = await _find_dream(caller, arguments)
    diff = str(job.report.get("diff", "")) or await caller.context.folders.show_diff(job.name, job.pass_id)
    return DreamDiffResult(dream=job.id, diff=diff[:ANSWER_CHARACTERS], cut=len(diff) > ANSWER_CHARACTERS)


@tool("dream_undo", "Restore what a dream has replaced in your memory folder; later changes of other lines stay.")
async def _undo(caller: Caller, arguments: OneDreamArguments) -> DreamUndoResult:
    job = await _find_dream(caller, arguments)
    folders = caller.context.folders
    result = await folders.undo(job.name, job.pass_id)
    act, by = ReviewKind.UNDONE, caller.principal.name
    await record_review(folders, caller.context.store, job, act, result.outcomes, by=by)
    files = {str(path): outcome.value for path, outcome in result.outcomes.items()}
    return DreamUndoResult(dream=job.id, files=files, left_out=list(result.problems))


async def _find_dream(caller: Caller, arguments: OneDreamArguments) -> DreamJob:
    """Return a dream that left something in the folder's history. Raises NotFound, Conflict: it changed nothing."""
    folder = choose_folder(caller, arguments.folder)
    async with caller.context.store.begin_read() as tx:
        jobs = await tx.dream_jobs.find_all(source=DreamSource.FOLDER, name=folder, limit=1000)
    job = next((job for job in jobs if arguments.dream in (None, job.id) and (job.pass_id or arguments.dream)), None)
    if job is None:
        raise NotFound(f"no dream {arguments.dream or 'with changes'!r} over {folder!r}; dream_status lists them")
    if not job.pass_id:
        raise Conflict(f"dream {job.id!r} is {job.status.value} and has changed nothing")
    return job


def _describe(job: DreamJob) -> DreamJobResult:
    summary = job.error or str(job.report.get("text", ""))
    return DreamJobResult(dream=job.id, folder=job.name, status=job.status.value, summary=summary)


DREAM_TOOLS: Final = (_status, _run, _diff, _undo)
"""In `tools/list` of those who may use them only: each agent pays for the tools that it is shown."""
