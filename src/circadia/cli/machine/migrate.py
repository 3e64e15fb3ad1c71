"""`circadia migrate`: brings the database to the schema of this version."""

import asyncio
import importlib
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer

from circadia.cli.machine.serve import Config, config_file
from circadia.cli.remote.folder import Data, data_folder
from circadia.cli.terminal.output import AsJson, note, print_list
from circadia.settings import load_settings

app = typer.Typer()


@app.command(epilog="Example: circadia migrate --config circadia.yaml --dry-run")
def migrate(
    config: Config = None,
    data: Data = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the migrations; change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Migrate the database to the schema of this version, and list the migrations that ran."""
    settings = load_settings(config_file(config))
    # Imported here because the database libraries take a while to load.
    wiring = importlib.import_module("circadia.server.cluster_wiring")
    with _show_log():
        work = wiring.migrate_database(settings.server, data_folder(data, os.environ), dry_run=dry_run)
        revisions = asyncio.run(work)
    print_list(
        {"migrations": [{"number": each.number, "name": each.name} for each in revisions], "dry_run": dry_run},
        revisions,
        ("schema", "change"),
        lambda each: (each.number, each.name),
        as_json=as_json,
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
