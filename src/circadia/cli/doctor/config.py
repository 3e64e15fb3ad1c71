"""`circadia config`: the configuration, and the source of each value."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from circadia.cli.doctor.command import check_named, show_checks
from circadia.cli.doctor.configuration import find_start_mistakes
from circadia.cli.doctor.machine import CheckState, ClockComparison
from circadia.cli.machine.serve import config_file, read_config
from circadia.cli.terminal.output import Listing, Output, display_text, format_setting, table
from circadia.clock import SystemClock
from circadia.errors import EXIT_STATUS, StartError
from circadia.settings import config_error, find_settings, load_settings
from circadia.settings.effective import list_settings

app = typer.Typer(no_args_is_help=True, help="Check and show the configuration.")

_COLOURS: Final = {"file": "green", "defaults": "cyan"}

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="Configuration; defaults to `circadia.yaml`.")]


@app.command(epilog="Example: circadia config check circadia.yaml --live")
def check(
    file: File = None,
    live: Annotated[
        bool, typer.Option("--live", help="Also check what it names: variables, programs, folders, addresses.")
    ] = False,
) -> Output:
    """Check the configuration as the server reads it, and report all mistakes with their paths.

    An unknown key is reported with the nearest key, or with the section where it belongs.
    """
    path = config_file(file)
    settings, mistakes = find_settings(path)
    if not mistakes:
        mistakes = list(find_start_mistakes(settings))
    error = config_error(mistakes)
    if error is not None and not live:
        raise error
    summary: dict[str, Any] = {
        "file": str(path) if path else None,
        "upstreams": list(settings.upstreams),
        "mcp_servers": list(settings.mcp_servers),
        "agents": list(settings.agents),
    }
    names = "; ".join(
        f"{key}: {display_text(summary[key]) or 'none'}" for key in ("upstreams", "mcp_servers", "agents")
    )
    where = path or "no file, the defaults"
    text = f"{where}: {'good' if error is None else 'not good'}. {names}"
    if not live:
        return Output(summary, f"{text}\nRun `circadia config check --live` to check what it names on this machine.")
    checks = asyncio.run(check_named(settings, os.environ, ClockComparison(SystemClock())))
    failed = any(each.state is CheckState.FAIL for each in checks)

    def show_all(_: object) -> None:
        typer.echo(text)
        show_checks(checks)

    document = {**summary, "checks": [asdict(each) for each in checks]}
    return Output(document, show_all, status=EXIT_STATUS[StartError] if failed else 0, error=error)


@app.command(epilog="Example: circadia config show circadia.yaml")
def show(file: File = None) -> Output:
    """Print each setting with its value and the source of the value."""
    path = config_file(file)
    values = list(list_settings(load_settings(path), read_config(path)))

    def show_values(_: object) -> Listing:
        typer.echo(f"file: {path or 'none'}")
        rows = [
            (row.key, format_setting(row.value), Text(row.source, _COLOURS.get(row.source, "dim"))) for row in values
        ]
        return table(("key", "value", "source"), rows)

    document = {"file": str(path) if path else None, "settings": [asdict(setting) for setting in values]}
    return Output(document, show_values)
