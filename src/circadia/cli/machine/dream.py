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

from circadia.cli.machine.serve import Config, config_file
from circadia.cli.terminal.confirmation import Yes
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import (
    AsJson,
    console,
    display_text,
    dollars,
    local_time,
    note,
    print_json,
    print_result,
    table,
)
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.records.dream_job import DreamMode
from circadia.server.basis import read_secret
from circadia.server.dream_watch import DreamWatch
from circadia.server.dream_wiring import open_dream
from circadia.server.sleeptime_wiring import build_sleep_models
from circadia.settings import load_settings
from circadia.sleeptime.markdown import history
from circadia.sleeptime.markdown.dream import Dream
from circadia.sleeptime.markdown.dream_report import DreamOutcome, DreamReport, count_nouns, read_diary
from circadia.sleeptime.markdown.dream_state import load_state, save_state
from circadia.sleeptime.markdown.dream_status import DreamStatus, fetch_status
from circadia.sleeptime.markdown.sessions import SessionIntake, find_memory_folder, find_transcripts

T = TypeVar("T")

CONSENT: Final = (
    "Dreams over {root} read its entries and the sessions of your agent, send what was said there to the sleep-time "
    "model, and propose changes; they write nothing until you accept. Their own data is in {root}/.circadia."
)

app = typer.Typer(cls=NounGroup)


def _find_folder(path: Path) -> Path:
    return find_memory_folder(path, Path.home())


Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="Memory folder: an index `MEMORY.md` and topic files; or a project that Claude Code keeps one for.",
        callback=_find_folder,
    ),
]
Transcripts = Annotated[
    Path | None,
    typer.Option(
        "--transcripts",
        metavar="DIR",
        help="Folder of the agent's sessions; by default the last one, or the one around the memory folder.",
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
) -> None:
    """Consolidate a coding agent's Markdown memory from its sessions. The first dream of a folder proposes."""
    clock = SystemClock()
    _require_consent(folder, yes, as_json)
    state = load_state(folder)
    chosen = mode or state.mode
    intake = SessionIntake(clock, _transcripts(folder, transcripts), project=project)
    report = _run(folder, config, lambda opened: opened.run(chosen, intake, instructions=instructions), "dreaming")
    if mode in (DreamMode.PROPOSE, DreamMode.AUTO):
        save_state(folder, load_state(folder), mode=mode)
    _print_report(folder, report, as_json)


@app.command(epilog="Example: circadia dream status ~/.claude/projects/app/memory")
def status(
    folder: Folder, transcripts: Transcripts = None, project: Project = None, config: Config = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show when the last dream was, what the next one waits for, what it will read, and about what it will cost."""
    clock = SystemClock()
    intake = SessionIntake(clock, _transcripts(folder, transcripts), project=project)

    async def fetch() -> DreamStatus:
        async with AsyncExitStack() as stack:
            settings = load_settings(config_file(config))
            model, _ = build_sleep_models(settings, partial(read_secret, os.environ), clock, stack, os.environ)
            return await asyncio.to_thread(fetch_status, folder, intake, clock, model)

    found = asyncio.run(fetch())
    if as_json:
        state = found.state.model_dump(mode="json", exclude={"sessions", "read", "bank", "refused"})
        print_json({
            **state, "next": found.verdict.detail, "due": found.verdict.is_open, "waiting": found.waiting,
            "entries": found.entries, "files": found.files, "sessions": found.sessions,
            "excluded": dict(found.excluded), "tokens": found.tokens, "usd": found.usd, "model": found.model,
            "findings": list(found.findings),
        })  # fmt: skip
        return
    rows = [
        ("switched on", _time(found.state.enabled_at)),
        ("last dream", _time(found.state.dreamed_at)),
        ("next dream", "may begin now" if found.verdict.is_open else found.verdict.detail),
        ("waits for you", found.waiting or "nothing"),
        ("folder", f"{found.entries} entries in {count_nouns(found.files, 'file')}"),
        ("will read", f"{count_nouns(found.sessions, 'session')}{_excluded(found)}"),
        ("will cost", _price(found)),
    ]
    if found.state.failures:
        rows.append(("trouble", f"{count_nouns(found.state.failures, 'failed dream')}: {found.state.trouble}"))
    console().print(table(("what", "state"), rows))
    for finding in found.findings:
        note(display_text(finding))


@app.command(epilog="Example: circadia dream watch ~/.claude/projects/app/memory --mode auto")
def watch(
    folder: Folder,
    transcripts: Transcripts = None,
    project: Project = None,
    mode: Annotated[DreamMode | None, typer.Option("--mode", help="`propose` or `auto`.")] = None,
    config: Config = None,
    yes: Yes = False,
) -> None:
    """Dream whenever there are five new sessions and a day has passed, until Ctrl-C or SIGTERM."""
    _require_consent(folder, yes, False)
    clock = SystemClock()
    intake = SessionIntake(clock, _transcripts(folder, transcripts), project=project)
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
def accept(folder: Folder, files: Files = None, config: Config = None, as_json: AsJson = False) -> None:
    """Write what a dream proposes, all of it or what concerns some files."""
    report = _run(folder, config, lambda opened: opened.accept(_paths(files)), "writing")
    _print_report(folder, report, as_json)


@app.command(epilog="Example: circadia dream refuse ~/.claude/projects/app/memory")
def refuse(folder: Folder, files: Files = None, config: Config = None, as_json: AsJson = False) -> None:
    """Drop what a dream proposes, all of it or what concerns some files; no later dream proposes the same."""
    refused = _run(folder, config, lambda opened: opened.refuse(_paths(files)), "refusing")
    print_result({"refused": refused}, f"refused {count_nouns(refused, 'change')}", as_json=as_json)


@app.command(epilog="Example: circadia dream undo ~/.claude/projects/app/memory")
def undo(folder: Folder, key: DreamKey = None, config: Config = None, as_json: AsJson = False) -> None:
    """Restore what a dream has replaced, also after later dreams that changed other lines."""
    chosen = key or _newest(folder, published=True)
    result = _run(folder, config, lambda opened: opened.undo(chosen), "restoring")
    paths, problems = [str(path) for path in result.list_published()], list(result.problems)
    values = {"undone": chosen, "undo": result.id, "files": paths, "left_out": problems}
    print_result(values, f"undid {chosen}: {', '.join(paths) or 'no file'}", as_json=as_json)
    for text in problems:
        note(display_text(text))
    if problems:
        raise typer.Exit(1)


@app.command(epilog="Example: circadia dream diff ~/.claude/projects/app/memory")
def diff(folder: Folder, key: DreamKey = None) -> None:
    """Print what a dream changed or proposes, as a unified diff."""
    typer.echo(history.show_diff(folder, key or _newest(folder, published=False)), nl=False)


@app.command(epilog="Example: circadia dream log ~/.claude/projects/app/memory")
def log(folder: Folder, as_json: AsJson = False) -> None:
    """List the dreams over a folder, newest first, and the diary."""
    entries = history.list_history(folder)
    if as_json:
        print_json({
            "dreams": [
                {
                    "id": each.id, "at": each.created_at.isoformat(), "title": each.title, "undoes": each.undoes,
                    "published": list(map(str, each.published)), "proposed": list(map(str, each.proposed)),
                    "commit": each.commit,
                }
                for each in entries
            ],
            "diary": list(read_diary(folder)),
        })  # fmt: skip
        return
    rows = [
        (local_time(each.created_at), each.id, each.title, len(each.published), len(each.proposed)) for each in entries
    ]
    console().print(table(("at", "dream", "title", "files", "proposed"), rows, numbers=("files", "proposed")))
    for line in read_diary(folder):
        note(display_text(line))


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


def _paths(files: Sequence[str] | None) -> Sequence[PurePosixPath]:
    return [PurePosixPath(file) for file in files or ()]


def _newest(folder: Path, *, published: bool) -> str:
    for each in history.list_history(folder):
        if each.undoes is None and (each.published or not published):
            return each.id
    raise InvalidRequest(f"no dream has changed {str(folder)!r}")


def _print_report(folder: Path, report: DreamReport, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
    else:
        _tell(folder, report)
    if report.state is DreamOutcome.FAILED:
        raise typer.Exit(1)


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


def _excluded(found: DreamStatus) -> str:
    listed = "; ".join(f"{number} not: {reason}" for reason, number in found.excluded.items())
    return f" ({listed})" if listed else ""


def _price(found: DreamStatus) -> str:
    if not found.model:
        return "nothing: no model is configured, so only the folder is checked"
    usd = "at an unknown price" if found.usd is None else f"about {dollars(found.usd)}"
    return f"{usd}, {found.tokens:,} tokens of {found.model}"
