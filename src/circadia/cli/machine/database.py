"""`circadia backup`, `restore`, `export` and `import`: the whole database as one file."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from circadia.cli.machine.serve import Config, config_file
from circadia.cli.remote.folder import Data, data_folder
from circadia.cli.terminal.output import AsJson, note, print_result
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.server import database_files
from circadia.settings import load_settings
from circadia.stores.sqlite_snapshot import OnProgress

T = TypeVar("T")

app = typer.Typer()

NewFile = Annotated[Path, typer.Argument(metavar="FILE", help="New file; an existing one is not overwritten.")]
OldFile = Annotated[Path, typer.Argument(metavar="FILE", help="File of `backup` or `export`.")]
_MEGABYTE: Final = 1_000_000


@app.command(epilog="Example: circadia backup circadia-monday.db")
def backup(file: NewFile, config: Config = None, data: Data = None, as_json: AsJson = False) -> None:
    """Copy the SQLite database into a file, while the server may run and write."""
    if _read_database_url(config) is not None:
        raise InvalidRequest(
            "the configuration names PostgreSQL: use pg_dump for backups, or `circadia export` for a file that SQLite "
            "reads too"
        )
    folder = data_folder(data, os.environ)
    _show_progress(lambda on_progress: database_files.back_up_sqlite(folder, file, on_progress))
    _print_written(file, as_json)


@app.command(epilog="Example: circadia restore circadia-monday.db")
def restore(file: OldFile, config: Config = None, data: Data = None, as_json: AsJson = False) -> None:
    """Put a file in the place of the SQLite database of a stopped server, and keep the replaced database."""
    if _read_database_url(config) is not None:
        raise InvalidRequest("the configuration names PostgreSQL: use pg_restore, or `circadia import`")
    folder, now = data_folder(data, os.environ), SystemClock().now()
    aside = _wait_with_progress(lambda on_progress: database_files.restore_sqlite(folder, file, now, on_progress))
    if aside is not None:
        note(f"the replaced database is {str(aside)!r}; delete it when you no longer need it")
    text = f"restored {str(file)!r} into {str(folder)!r}"
    print_result({"restored": str(file), "replaced": aside and str(aside)}, text, as_json=as_json)


@app.command(epilog="Example: circadia export all.db --config circadia.yaml")
def export(file: NewFile, config: Config = None, data: Data = None, as_json: AsJson = False) -> None:
    """Write the whole database, SQLite or PostgreSQL, into a file for `circadia import` or `circadia restore`."""
    url = _read_database_url(config)
    if url is None:
        folder = data_folder(data, os.environ)
        _show_progress(lambda on_progress: database_files.back_up_sqlite(folder, file, on_progress))
    else:
        _wait_with_progress(lambda on_progress: database_files.export_postgres(url, file, on_progress))
    _print_written(file, as_json)


def import_file(file: Path, config: Path | None, *, as_json: bool) -> None:
    """Read a file into the empty PostgreSQL database that the configuration names."""
    url = _read_database_url(config)
    if url is None:
        raise InvalidRequest("the configuration has no server.database_url: set it, or use `circadia restore`")
    _wait_with_progress(lambda on_progress: database_files.import_to_postgres(url, file, on_progress))
    print_result({"imported": str(file)}, f"imported {str(file)!r} into the database", as_json=as_json)


def _read_database_url(config: Path | None) -> str | None:
    return load_settings(config_file(config)).server.database_url


def _print_written(file: Path, as_json: bool) -> None:
    size = file.stat().st_size
    note("it contains everything that was said: protect it like the database")
    print_result(
        {"written": str(file), "bytes": size}, f"wrote {str(file)!r}, {size / _MEGABYTE:.1f} MB", as_json=as_json
    )


def _wait_with_progress(work: Callable[[OnProgress], Coroutine[Any, Any, T]]) -> T:
    return _show_progress(lambda on_progress: asyncio.run(work(on_progress)))


def _show_progress(work: Callable[[OnProgress], T]) -> T:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("copying", total=None)
        return work(lambda done, total: bar.update(task, completed=done, total=total))
