"""`circadia serve`: the server on this machine."""

import asyncio
import importlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
import uvloop

from circadia.child_process import forbid_inspection
from circadia.cli.connection import DATA_VARIABLE, DEFAULT_URL, TOKEN_FILE, Data, data_folder
from circadia.cli.terminal.lazy_imports import quick_imports
from circadia.records.member import Role
from circadia.settings import ConfigFile, Settings, load_settings, parse_yaml

if TYPE_CHECKING:
    from circadia.server.app import OnReady

DEFAULT_CONFIG = Path("circadia.yaml")

app = typer.Typer()

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration; defaults to `circadia.yaml`, if there is one."),
]


def config_file(given: Path | None) -> Path | None:
    """Return the given configuration file, or the one in the working folder if it exists."""
    return given if given is not None else DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None


def read_config(path: Path | None) -> Mapping[str, Any]:
    """Return the configuration as the file states it."""
    raw = parse_yaml(path.read_text("utf-8")) if path else None
    return cast("Mapping[str, Any]", raw) if isinstance(raw, dict) else {}


def override_address(settings: Settings, host: str | None, port: int | None) -> Settings:
    changes = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    return settings.model_copy(update={"server": settings.server.model_copy(update=changes)}) if changes else settings


@app.command(epilog="Example: circadia serve --config circadia.yaml --port 4114")
def serve(
    config: Config = None,
    data: Data = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Address to bind; overrides `server.host`.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port to bind; overrides `server.port`. 0 picks a free port."),
    ] = None,
    role: Annotated[
        Role,
        typer.Option("--role", help="`gateway` serves calls, `worker` runs pulses and passes; both need PostgreSQL."),
    ] = Role.ALL,
    migrate: Annotated[
        bool,
        typer.Option("--migrate/--no-migrate", help="Migrate the database, or wait until `circadia migrate` has run."),
    ] = True,
) -> None:
    """Run the server until Ctrl-C or SIGTERM. The first start prints the operator's token once."""
    forbid_inspection()
    file = config_file(config)
    settings = load_settings(file)
    read = None if file is None else ConfigFile(path=file, startup_settings=settings)
    run = ServerRun(override_address(settings, host, port), data_folder(data, os.environ), read, role, migrate)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run.until_stopped())
    if run.interrupted:
        raise typer.Exit(130)


class ServerRun:
    """One run of the server, with its first output and the handling of signals.

    While the server listens, it handles signals itself, stops gracefully and re-raises them all afterwards. That
    only sets a flag here, so that the journal is written and the database closed. A signal before the server
    listens, or during its cleanup, cancels it.
    """

    def __init__(self, settings: Settings, data: Path, file: ConfigFile | None, role: Role, migrates: bool) -> None:
        self.interrupted = False
        self._settings = settings
        self._data = data
        self._file = file
        self._role = role
        self._migrates = migrates
        self._graceful = False

    async def until_stopped(self) -> None:
        """Serve until a signal.

        Raises:
            StartError: port, data folder, lock or database. ConfigError: an environment variable is missing.
        """
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        stopped = False

        def stop(number: int, _: FrameType | None) -> None:
            nonlocal stopped
            stopped = True
            self.interrupted = self.interrupted or number == signal.SIGINT
            if self._graceful:
                loop.call_soon_threadsafe(self._end_grace)
            else:
                loop.call_soon_threadsafe(task.cancel)

        for signal_number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, stop)
        # Imported here because the server's libraries take a second to load.
        with quick_imports():
            served = importlib.import_module("circadia.server.app").serve
        on_ready: OnReady = self._ready
        try:
            await served(
                self._settings,
                self._data,
                role=self._role,
                migrates=self._migrates,
                on_ready=on_ready,
                config=self._file,
            )
        except asyncio.CancelledError:
            if not stopped:
                raise

    def _end_grace(self) -> None:
        self._graceful = False

    def _ready(self, url: str, new_token: str | None) -> None:
        self._graceful = True
        typer.echo(f"Circadia listens on {url}")
        if self._role is not Role.WORKER:
            typer.echo(f"Dashboard: {url.rstrip('/')}/ui   (circadia ui opens it signed in)")
        typer.echo(f"Data: {self._data}   Configuration: {self._file.path if self._file else 'none (the defaults)'}")
        if new_token is not None:
            typer.echo(_first_words(url, new_token, self._data))


def _first_words(url: str, token: str, data: Path) -> str:
    """Return what a new operator needs: the token and the next step."""
    lines = [
        "",
        "The operator's token, shown only once. Commands on this machine read it from",
        f"{data / TOKEN_FILE}; on other machines:",
        f"  export CIRCADIA_ADMIN_TOKEN={token}",
    ]
    if url != DEFAULT_URL:
        lines.append(f"  export CIRCADIA_URL={url}")
    if data_folder(None, os.environ) != data and os.environ.get(DATA_VARIABLE) != str(data):
        lines.append(f"  export {DATA_VARIABLE}={data.absolute()}")
    return "\n".join((*lines, "", "Next: circadia agents add NAME"))
