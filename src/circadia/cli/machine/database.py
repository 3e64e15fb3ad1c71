"""`circadia backup`, `restore`, `export`, `import` and `migrate`: the whole database, as one file or in place."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from circadia.cli.connection import Data, data_folder
from circadia.cli.machine.serve import Config, config_file
from circadia.cli.terminal.output import Output, list_output, note
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.server import cluster_wiring, database_files
from circadia.settings import load_settings

T = TypeVar("T")
OnProgress = Callable[[int, int], None]

app = typer.Typer()

NewFile = Annotated[Path, typer.Argument(metavar="FILE", help="New file; an existing one is not overwritten.")]
OldFile = Annotated[Path, typer.Argument(metavar="FILE", help="File of `backup` or `export`.")]
_MEGABYTE: Final = 1_000_000


@app.command(epilog="Example: circadia backup circadia-monday.db")
def backup(file: NewFile, config: Config = None, data: Data = None) -> Output:
    """Copy the SQLite database into a file, while the server may run and write."""
    if _read_database_url(config) is not None:
        raise InvalidRequest(
            "the configuration names PostgreSQL: use pg_dump for backups, or `circadia export` for a file that SQLite "
            "reads too"
        )
    folder = data_folder(data, os.environ)
    _show_progress(lambda on_progress: database_files.back_up_sqlite(folder, file, on_progress))
    return _written_output(file)


@app.command(epilog="Example: circadia restore circadia-monday.db")
def restore(file: OldFile, config: Config = None, data: Data = None) -> Output:
    """Put a file in the place of the SQLite database of a stopped server, and keep the replaced database."""
    if _read_database_url(config) is not None:
        raise InvalidRequest("the configuration names PostgreSQL: use pg_restore, or `circadia import`")
    folder, now = data_folder(data, os.environ), SystemClock().now()
    aside = _wait_with_progress(lambda on_progress: database_files.restore_sqlite(folder, file, now, on_progress))
    if aside is not None:
        note(f"the replaced database is {str(aside)!r}; delete it when you no longer need it")
    text = f"restored {str(file)!r} into {str(folder)!r}"
    return Output({"restored": str(file), "replaced": aside and str(aside)}, text)


@app.command(epilog="Example: circadia export all.db --config circadia.yaml")
def export(file: NewFile, config: Config = None, data: Data = None) -> Output:
    """Write the whole database, SQLite or PostgreSQL, into a file for `circadia import` or `circadia restore`."""
    url = _read_database_url(config)
    if url is None:
        folder = data_folder(data, os.environ)
        _show_progress(lambda on_progress: database_files.back_up_sqlite(folder, file, on_progress))
    else:
        _wait_with_progress(lambda on_progress: database_files.export_postgres(url, file, on_progress))
    return _written_output(file)


@app.command(epilog="Example: circadia migrate --config circadia.yaml --dry-run")
def migrate(
    config: Config = None,
    data: Data = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the migrations; change nothing.")] = False,
) -> Output:
    """Migrate the database to the schema of this version, and list the migrations that ran."""
    settings = load_settings(config_file(config))
    with _show_log():
        work = cluster_wiring.migrate_database(settings.server, data_folder(data, os.environ), dry_run=dry_run)
        revisions = asyncio.run(work)
    return list_output(
        {"migrations": [{"number": each.number, "name": each.name} for each in revisions], "dry_run": dry_run},
        revisions,
        ("schema", "change"),
        lambda each: (each.number, each.name),
        nothing="The database has the newest schema that this version knows.",
    )


class _NoteHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


@contextmanager
def _show_log() -> Generator[None]:
    """Print what is logged meanwhile: which index is built and how far it is, or which transaction is in the way."""
    logger, handler = logging.getLogger("circadia"), _NoteHandler(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def import_file(file: Path, config: Path | None) -> Output:
    """Read a file into the empty PostgreSQL database that the configuration names."""
    url = _read_database_url(config)
    if url is None:
        raise InvalidRequest("the configuration has no server.database_url: set it, or use `circadia restore`")
    _wait_with_progress(lambda on_progress: database_files.import_to_postgres(url, file, on_progress))
    return Output({"imported": str(file)}, f"imported {str(file)!r} into the database")


def _read_database_url(config: Path | None) -> str | None:
    return load_settings(config_file(config)).server.database_url


def _written_output(file: Path) -> Output:
    size = file.stat().st_size
    note("it contains everything that was said: protect it like the database")
    return Output({"written": str(file), "bytes": size}, f"wrote {str(file)!r}, {size / _MEGABYTE:.1f} MB")


def _wait_with_progress(work: Callable[[OnProgress], Coroutine[Any, Any, T]]) -> T:
    return _show_progress(lambda on_progress: asyncio.run(work(on_progress)))


def _show_progress(work: Callable[[OnProgress], T]) -> T:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("copying", total=None)
        return work(lambda done, total: bar.update(task, completed=done, total=total))
