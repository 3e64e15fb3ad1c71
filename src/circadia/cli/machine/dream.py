"""`circadia dream`: dreams over the Markdown memory folder of a coding agent, on this machine."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import Console

from circadia.cli.arguments import Yes
from circadia.cli.machine.serve import Config, config_file
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import AsJson, Output, console, display_text, dollars, local_time, note, table
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.records.dream_job import DreamMode
from circadia.server.dream_wiring import DreamWatch, open_dream
from circadia.server.sleeptime_wiring import build_sleep_models
from circadia.settings import load_settings
from circadia.sleeptime.markdown import publication
from circadia.sleeptime.markdown.dream import Dream
from circadia.sleeptime.markdown.dream_state import (
    DreamOutcome,
    DreamReport,
    count_nouns,
    load_state,
    read_diary,
    save_state,
)
from circadia.sleeptime.markdown.dream_status import DreamStatus, fetch_status
from circadia.sleeptime.markdown.sessions import SessionIntake, find_memory_folder, find_transcripts

T = TypeVar("T")

CONSENT: Final = (
    "Dreams over {root} read its entries and the sessions of your agent, send what was said there to the sleep-time "
    "model, and propose changes; they write nothing until you accept. Their own data is in {root}/.circadia."
)

app = typer.Typer(cls=NounGroup)


def _find_folder(path: Path, repository: bool = False) -> Path:
    return find_memory_folder(path, os.environ, repository=repository)


Repository = Annotated[
    bool, typer.Option("--repository", help="DIR is a repository all of whose Markdown files are memory.")
]
Programs = Annotated[
    bool, typer.Option("--programs", help="Read sessions of `claude -p`, `codex exec` and SDKs too, as a person's.")
]
Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="Memory folder: an index `MEMORY.md` and topic files; or a project that Claude Code keeps one for.",
    ),
]
Transcripts = Annotated[
    Path | None,
    typer.Option(
        "--transcripts",
        metavar="DIR",
        help="Folder of the agent's sessions; by default the last one, that around the memory folder, or OpenClaw's.",
    ),
]
Project = Annotated[str | None, typer.Option("--project", metavar="ROOT", help="Read only sessions of this project.")]
Files = Annotated[
    list[str] | None, typer.Option("--file", metavar="FILE", help="Only what concerns this file; may be repeated.")
]
DreamKey = Annotated[str | None, typer.Argument(metavar="DREAM", help="ID of a dream; the newest by default.")]


@app.callback(epilog="Example: circadia dream ~/.claude/projects/app/memory --transcripts ~/.claude/projects/app")
def dream(
    folder: Folder,
    transcripts: Transcripts = None,
    project: Project = None,
    programs: Programs = False,
    repository: Repository = False,
    mode: Annotated[
        DreamMode | None,
        typer.Option("--mode", help="`propose` waits for you, `auto` writes, `dry-run` only shows the changes."),
    ] = None,
    instructions: Annotated[
        str, typer.Option("--instructions", metavar="TEXT", help="What to look for, in your words.")
    ] = "",
    config: Config = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> Output:
    """Consolidate a coding agent's Markdown memory from its sessions. The first dream of a folder proposes."""
    folder = _find_folder(folder, repository)
    _require_consent(folder, yes, as_json)
    state = load_state(folder)
    chosen = mode or state.mode
    intake = _intake(folder, transcripts, project, programs)
    report = _run(folder, config, lambda opened: opened.run(chosen, intake, instructions=instructions), "dreaming")
    if mode in (DreamMode.PROPOSE, DreamMode.AUTO):
        save_state(folder, load_state(folder), mode=mode)
    return _report_output(folder, report)


@app.command(epilog="Example: circadia dream status ~/.claude/projects/app/memory")
def status(
    folder: Folder, transcripts: Transcripts = None, project: Project = None, programs: Programs = False,
    repository: Repository = False, config: Config = None,
) -> Output:  # fmt: skip
    """Show when a dream begins by itself, what it does if you begin one, what it will read, and what it will cost."""
    folder = _find_folder(folder, repository)
    clock = SystemClock()
    intake = _intake(folder, transcripts, project, programs)

    async def fetch() -> DreamStatus:
        async with AsyncExitStack() as stack:
            settings = load_settings(config_file(config))
            model, _ = build_sleep_models(settings, os.environ, clock, stack)
            return await asyncio.to_thread(fetch_status, folder, intake, clock, model)

    status = asyncio.run(fetch())
    state = status.state.model_dump(mode="json", exclude={"sessions", "read", "bank", "refused"})
    document = {
        **state, "next": status.waits_for, "due": not status.waits_for, "waiting": status.waiting,
        "entries": status.entries, "files": status.files, "sessions": status.sessions,
        "excluded": dict(status.excluded), "worktrees": list(status.worktrees),
        "outlook": status.outlook, "tokens": status.tokens, "usd": status.usd, "model": status.model,
        "findings": list(status.findings),
    }  # fmt: skip
    return Output(document, lambda _: _show_status(status))


def _show_status(status: DreamStatus) -> None:
    excluded = "; ".join(f"{number} not: {reason}" for reason, number in status.excluded.items())
    rows = [
        ("switched on", _time(status.state.enabled_at)),
        ("last dream", _time(status.state.dreamed_at)),
        ("begins by itself", f"no: {status.waits_for}" if status.waits_for else "yes, at the next look"),
        ("if you begin one", status.outlook),
        ("waits for you", status.waiting or "nothing"),
        ("folder", f"{status.entries} entries in {count_nouns(status.files, 'file')}"),
        ("will read", count_nouns(status.sessions, "session") + (f" ({excluded})" if excluded else "")),
        ("will cost", _price(status)),
    ]
    if status.worktrees:
        rows.append(("worktrees", f"{count_nouns(len(status.worktrees), 'folder')} with sessions of worktrees"))
    if status.state.failures:
        rows.append(("trouble", f"{count_nouns(status.state.failures, 'failed dream')}: {status.state.trouble}"))
    console().print(table(("what", "state"), rows))
    for finding in status.findings:
        note(display_text(finding))


@app.command(epilog="Example: circadia dream watch ~/.claude/projects/app/memory --mode auto")
def watch(
    folder: Folder,
    transcripts: Transcripts = None,
    project: Project = None,
    programs: Programs = False,
    repository: Repository = False,
    mode: Annotated[DreamMode | None, typer.Option("--mode", help="`propose` or `auto`.")] = None,
    config: Config = None,
    yes: Yes = False,
) -> None:
    """Dream whenever there are five new sessions and a day has passed, until Ctrl-C or SIGTERM."""
    folder = _find_folder(folder, repository)
    _require_consent(folder, yes, False)
    clock = SystemClock()
    intake = _intake(folder, transcripts, project, programs)
    chosen, settings = mode or load_state(folder).mode, load_settings(config_file(config))
    watching = DreamWatch(folder, intake, chosen, settings, os.environ, clock, partial(_tell, folder))

    async def run() -> None:
        task = asyncio.ensure_future(watching.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await asyncio.wait([task])
        if not task.cancelled():
            await task

    note(f"watching {folder}")
    asyncio.run(run())


@app.command(epilog="Example: circadia dream accept ~/.claude/projects/app/memory --file database.md")
def accept(folder: Folder, files: Files = None, config: Config = None) -> Output:
    """Write what a dream proposes, all of it or what concerns some files."""
    folder = _find_folder(folder)
    return _report_output(folder, _run(folder, config, lambda opened: opened.accept(_paths(files)), "writing"))


@app.command(epilog="Example: circadia dream refuse ~/.claude/projects/app/memory")
def refuse(folder: Folder, files: Files = None, config: Config = None) -> Output:
    """Drop what a dream proposes, all of it or what concerns some files; no later dream proposes the same."""
    folder = _find_folder(folder)
    refused = _run(folder, config, lambda opened: opened.refuse(_paths(files)), "refusing")
    return Output({"refused": refused}, f"refused {count_nouns(refused, 'change')}")


@app.command(epilog="Example: circadia dream undo ~/.claude/projects/app/memory")
def undo(folder: Folder, key: DreamKey = None, config: Config = None) -> Output:
    """Restore what a dream has replaced, also after later dreams that changed other lines."""
    folder = _find_folder(folder)
    chosen = key or _newest(folder, published=True)
    result = _run(folder, config, lambda opened: opened.undo(chosen), "restoring")
    paths, problems = [str(path) for path in result.list_published()], list(result.problems)
    values = {"undone": chosen, "undo": result.id, "files": paths, "left_out": problems}
    for text in problems:
        note(display_text(text))
    return Output(values, f"undid {chosen}: {', '.join(paths) or 'no file'}", status=int(bool(problems)))


@app.command(epilog="Example: circadia dream diff ~/.claude/projects/app/memory")
def diff(folder: Folder, key: DreamKey = None) -> None:
    """Print what a dream changed or proposes, as a unified diff."""
    folder = _find_folder(folder)
    typer.echo(publication.show_diff(folder, key or _newest(folder, published=False)), nl=False)


@app.command(epilog="Example: circadia dream log ~/.claude/projects/app/memory")
def log(folder: Folder) -> Output:
    """List the dreams over a folder, newest first, and the diary."""
    folder = _find_folder(folder)
    entries, diary = publication.list_history(folder), list(read_diary(folder))
    document = {
        "dreams": [
            {
                "id": each.id, "at": each.created_at.isoformat(), "title": each.title, "undoes": each.undoes,
                "published": list(map(str, each.published)), "proposed": list(map(str, each.proposed)),
                "commit": each.commit,
            }
            for each in entries
        ],
        "diary": diary,
    }  # fmt: skip

    def show(_: object) -> None:
        rows = [
            (local_time(each.created_at), each.id, each.title, len(each.published), len(each.proposed))
            for each in entries
        ]
        console().print(table(("at", "dream", "title", "files", "proposed"), rows, numbers=("files", "proposed")))
        for line in diary:
            note(display_text(line))

    return Output(document, show)


def _run(folder: Path, config: Path | None, act: Callable[[Dream], Awaitable[T]], what: str) -> T:
    settings = load_settings(config_file(config))

    async def run() -> T:
        async with open_dream(folder, settings, os.environ, SystemClock()) as opened:
            return await act(opened)

    with Console(stderr=True).status(f"{what} …"):
        return asyncio.run(run())


def _require_consent(folder: Path, yes: bool, as_json: bool) -> None:
    """Switch dreams on for the folder, if a person agrees."""
    if not folder.is_dir():
        raise InvalidRequest(f"{str(folder)!r} is no folder; name the memory folder of your agent")
    state = load_state(folder)
    if state.enabled_at is not None:
        return
    text = CONSENT.format(root=folder)
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise InvalidRequest(f"{text} Add --yes to agree.")
        typer.echo(text, err=True)
        if not typer.confirm("Switch dreams on for this folder?", err=True):
            note("nothing was changed")
            raise typer.Exit(1)
    save_state(folder, state, enabled_at=SystemClock().now())


def _transcripts(folder: Path, given: Path | None) -> Path | None:
    last = load_state(folder).transcripts
    return given or (Path(last) if last else find_transcripts(folder))


def _intake(folder: Path, given: Path | None, project: str | None, programs: bool) -> SessionIntake:
    return SessionIntake(SystemClock(), _transcripts(folder, given), folder=folder, project=project, programs=programs)


def _paths(files: Sequence[str] | None) -> Sequence[PurePosixPath]:
    return [PurePosixPath(file) for file in files or ()]


def _newest(folder: Path, *, published: bool) -> str:
    for each in publication.list_history(folder):
        if each.undoes is None and (each.published or not published):
            return each.id
    raise InvalidRequest(f"no dream has changed {str(folder)!r}")


def _report_output(folder: Path, report: DreamReport) -> Output:
    failed = report.state is DreamOutcome.FAILED
    return Output(report.to_json(), lambda _: _tell(folder, report), status=int(failed))


def _tell(folder: Path, report: DreamReport) -> None:
    typer.echo(report.describe())
    if report.diff:
        typer.echo(report.diff, nl=False)
    for text in (*report.left_out, *report.findings):
        note(display_text(text))
    if report.state is DreamOutcome.PROPOSED:
        note(f"look at {report.view}, or run: circadia dream diff {folder}")
        note(f"then: circadia dream accept {folder}, or refuse")


def _time(value: Any) -> str:
    return "never" if value is None else local_time(value)


def _price(status: DreamStatus) -> str:
    if not status.model:
        return "nothing: no model is configured, so only the folder is checked"
    usd = "at an unknown price" if status.usd is None else f"about {dollars(status.usd)}"
    return f"{usd}, {status.tokens:,} tokens of {status.model}"
