"""`circadia banks export` and `import`: a bank to a file, and files of Circadia or other systems into a bank."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from circadia.cli.arguments import Bank, User
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.output import AsJson, Output, display_text, dollars, note
from circadia.client import Client
from circadia.errors import CircadiaError, Conflict, InvalidRequest
from circadia.memory.transfer import formats, transcripts
from circadia.memory.transfer import lines as line_format
from circadia.memory.transfer.import_format import CHROMA_FILE, ImportFormat

app = typer.Typer()

BATCH_LINES: Final = 200
"""Lines per call: few enough that other calls do not wait long, and that the progress bar moves."""
BATCH_BYTES: Final = 2**18
BUDGET_FACTOR: Final = 2
"""Budget of a pass over what was imported, in estimates."""
_COUNTS: Final[tuple[str, ...]] = ("episodes", "notes", "versions", "known")
_SKIPPED: Final = "skipped"
"""Number of lines in transcripts that are of no known kind."""
_DAMAGED: Final = "damaged"
"""Number of lines, entries or conversations that cannot be read."""


@app.command("export", epilog="Example: circadia banks export support-ann --out ann.jsonl")
def export_bank(
    server: RemoteServer,
    bank: Bank,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write to this new file instead of standard output.")
    ] = None,
    user: User = None,
) -> None:
    """Write a bank as JSON Lines: its episodes, notes and blocks with all versions."""
    file = None if out is None else out.expanduser()
    if file is not None and file.exists():
        raise Conflict(f"{str(file)!r} exists; name a new file")

    async def write(client: Client, opened: BinaryIO) -> int:
        lines = 0
        async for chunk in client.export_bank(bank, user=user):
            opened.write(chunk)
            lines += chunk.count(b"\n")
        return lines

    if file is None:
        server.ask(lambda client: write(client, sys.stdout.buffer))
        return
    part = file.with_name(f"{file.name}.part")  # an incomplete file must not look complete
    try:
        with part.open("wb") as opened:
            lines = server.ask(lambda client: write(client, opened))
        part.rename(file)
        note(f"exported {lines} lines of bank {display_text(bank)} to {str(file)!r}")
    except OSError as error:
        raise InvalidRequest(f"cannot write {str(file)!r}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


@app.command("import", epilog="Example: circadia banks import ~/.claude/projects --into me")
def import_files(
    server: RemoteServer,
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Files, or folders with transcripts or of Chroma.")
    ],
    bank: Annotated[
        str | None,
        typer.Option("--into", metavar="BANK", help="Target bank; an export defaults to the bank that it names."),
    ] = None,
    kind: Annotated[ImportFormat | None, typer.Option("--format", help="File format; detected if omitted.")] = None,
    person: Annotated[
        str, typer.Option("--person", metavar="NAME", help="Name of the person in the transcripts.")
    ] = "user",
    tools: Annotated[bool, typer.Option("--tools", help="Also import tool calls and results.")] = False,
    passes: Annotated[
        bool, typer.Option("--pass", help="Then read it in one pass with its own budget, twice the estimate.")
    ] = False,
    as_json: AsJson = False,
) -> Output:
    """Import episodes, notes and blocks into a bank. Creates the bank if needed and stores nothing twice.

    Secrets are removed, by pattern, from files of other systems. At a terminal, offers a pass with its price.
    """
    files = _files(paths, kind)
    total: dict[str, int] = dict.fromkeys((*_COUNTS, _SKIPPED, _DAMAGED), 0)
    banks, damaged = dict[str, None](), list[str]()

    async def send_files(client: Client) -> None:
        with _progress() as progress:
            task = progress.add_task("", total=sum(file.stat().st_size for file, _ in files))
            for file, format_ in files:
                progress.update(task, description=display_text(file.name))
                into = bank or _named_bank(file, format_)
                banks[into] = None
                facts = transcripts.TranscriptFacts.from_name(file)
                saw = partial(progress.advance, task)
                imported = formats.import_lines(file, format_, into, person=person, tools=tools, facts=facts, saw=saw)
                try:
                    await _send_batches(client, into, imported, total)
                except CircadiaError as error:
                    raise type(error)(f"{str(file)!r}: {error.message}; the lines before it are imported") from error
                total[_SKIPPED] += facts.unknown_lines
                total[_DAMAGED] += facts.broken_lines
                damaged.extend([f"{display_text(file.name)}: {facts.broken_places}"] if facts.broken_lines else [])

    server.ask(send_files)
    text = f"{', '.join(banks) or 'no bank'}: {_describe_import(total, damaged)}"
    requested, hints = _offer_passes(server, list(banks) if total["episodes"] else [], passes, as_json)
    document = {"banks": list(banks), "files": len(files), **total, "passes": requested}
    return Output(document, "\n".join((text, *hints)))


def _describe_import(total: Mapping[str, int], damaged: Sequence[str]) -> str:
    new = f"{total['episodes']} episodes, {total['notes']} notes, {total['versions']} versions of blocks"
    skipped = f"; {total[_SKIPPED]} lines of unknown kinds were skipped" if total[_SKIPPED] else ""
    broken = f"; damaged and skipped: {total[_DAMAGED]} ({'; '.join(damaged)})" if damaged else ""
    return f"{new} are new; {total['known']} lines were known{skipped}{broken}"


def _offer_passes(
    server: RemoteServer, banks: Sequence[str], agreed: bool, as_json: bool
) -> tuple[Sequence[str], Sequence[str]]:
    """Request a pass over each bank if a person agrees to its price; return their ids, and lines to print."""
    requested: list[str] = []
    lines: list[str] = []
    for bank in banks:
        estimate = server.ask(lambda client, bank=bank: client.estimate_pass(bank))
        if not estimate.tokens:
            continue
        budget = BUDGET_FACTOR * estimate.tokens
        price = "at an unknown price" if estimate.usd is None else f"{dollars(estimate.usd)} at list prices"
        offer = f"{bank}: a pass over {estimate.episodes} episodes takes about {estimate.tokens:,} tokens, {price}"
        asks = not agreed and not as_json and sys.stdin.isatty()
        if asks:
            note(f"{offer}; it stops at {budget:,}")
        if agreed or (asks and typer.confirm("Read them in one pass now?", err=True)):
            run = server.ask(lambda client, bank=bank, most=budget: client.run_pass(bank, budget_tokens=most))
            requested.append(run.id)
            lines.append(f"{offer}: pass {run.id} reads them")
        else:
            lines.append(f"{offer}: `circadia passes run {bank} --budget {budget}`")
    return requested, lines


async def _send_batches(client: Client, bank: str, lines: Iterator[bytes], total: dict[str, int]) -> None:
    """Send lines in batches. Raises InvalidRequest if the file begins as an export and does not end as one."""
    first = 1
    whole = _ExportCheck()
    for batch in _batches(lines):
        if first == 1 and not _begins_with_bank(batch):
            await client.import_lines(bank, line_format.head_line(bank))
        answer = await client.import_lines(bank, b"".join(batch), first_line=first)
        first += len(batch)
        for name in _COUNTS:
            total[name] += getattr(answer, name)
        whole.add_batch(batch)
    whole.require_complete()


def _batches(lines: Iterator[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield batches of lines; if a line cannot be read, yield the lines before it and then raise its error."""
    batch: list[bytes] = []
    size = 0
    failed: CircadiaError | None = None
    try:
        for line in lines:
            if batch and (len(batch) == BATCH_LINES or size + len(line) > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(line if line.endswith(b"\n") else line + b"\n")
            size += len(line)
    except CircadiaError as error:
        failed = error
    if batch:
        yield batch
    if failed is not None:
        raise failed


def _begins_with_bank(batch: Sequence[bytes]) -> bool:
    """Return whether the first line creates the bank, or cannot be read, which the server reports."""
    try:
        first: Any = json.loads(next((line for line in batch if line.strip()), b"null"))
    except ValueError:
        return True
    return not isinstance(first, dict) or cast("dict[str, object]", first).get("type") == "bank"


class _ExportCheck:
    """Checks that an export was read from its first to its last line."""

    def __init__(self) -> None:
        self._lines = 0
        self._exported = False
        self._last = b""

    def add_batch(self, batch: Sequence[bytes]) -> None:
        written = [line for line in batch if line.strip()]
        if written and not self._lines:
            self._exported = "exported_at" in json.loads(written[0])
        self._lines += len(written)
        self._last = written[-1] if written else self._last

    def require_complete(self) -> None:
        """Raise InvalidRequest if the export's last line or lines before it are missing."""
        if self._exported and json.loads(self._last) != {"type": "end", "lines": self._lines - 1}:
            raise InvalidRequest("the export is cut: its last line does not count the lines before it; export it again")


def _files(paths: Sequence[Path], kind: ImportFormat | None) -> list[tuple[Path, ImportFormat]]:
    """Return the files with their formats. Raises InvalidRequest: there is no file, or one has no known format."""
    files: list[tuple[Path, ImportFormat]] = []
    for path in (path.expanduser() for path in paths):
        if path.is_dir():
            files += _find_transcripts(path, kind)
        else:
            files.append((path, kind or formats.detect_format(path)))
    if not files:
        raise InvalidRequest(
            "no file to import; a folder must contain transcripts (*.jsonl, or YYYY-MM-DD.md) or a chroma.sqlite3"
        )
    missing = next((file for file, _ in files if not file.is_file()), None)
    if missing is not None:
        raise InvalidRequest(f"there is no file {str(missing)!r}")
    return files


def _find_transcripts(folder: Path, kind: ImportFormat | None) -> Iterator[tuple[Path, ImportFormat]]:
    for file in sorted(folder.rglob("*")):
        if file.name == CHROMA_FILE and kind in (None, ImportFormat.CHROMA):
            yield file, ImportFormat.CHROMA
        notes = kind in (None, ImportFormat.OPENCLAW) and formats.is_daily_note(file)
        if (file.suffix == ".jsonl" or notes) and file.is_file():
            file_kind = kind or formats.detect_transcript(file)
            if file_kind is not None:
                yield file, file_kind


def _named_bank(file: Path, kind: ImportFormat) -> str:
    """Return the bank that an export names. Raises InvalidRequest: the file is no export, or names no bank."""
    if kind is ImportFormat.JSONL:
        with formats.open_utf8(file) as opened:
            first = opened.readline(2**16)
        try:
            name = json.loads(first).get("name")
        except (ValueError, AttributeError):
            name = None
        if isinstance(name, str):
            return name
    raise InvalidRequest(f"{str(file)!r} names no bank; name the target with --into")


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
