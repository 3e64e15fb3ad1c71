"""`circadia demo`: one team and one hour on call, with and without sleep."""

import asyncio
import contextlib
import importlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from circadia.cli.demo import result, server, story
from circadia.cli.demo.live import LiveDisplay, report
from circadia.cli.demo.result import ModelListPrice, conclude, price_list
from circadia.cli.demo.run import DemoContext, play
from circadia.cli.machine.model import fetch_visibly
from circadia.cli.terminal.groups import NounGroup
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest, StartError
from circadia.llm import local, local_weights

DEFAULT_MODEL = "smollm2"
DEFAULT_PRICE = "gpt-5-mini"
MIN_RUN_SECONDS = 5.0
TERMINATED = 143
"""Exit status after SIGTERM: 128 plus its number."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    upstream: str | None
    model: str
    key_env: str | None
    limit_field: str
    prices: ModelListPrice
    scale: story.TimeScale
    quiet: bool
    stays: bool = False


app = typer.Typer(cls=NounGroup)


@app.callback(epilog="Example: circadia demo --seconds 30")
def demo(
    upstream: Annotated[
        str | None, typer.Option(help="Base URL of an OpenAI-compatible provider, instead of the local model.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model of that provider; without --upstream, a known small model or the path of a GGUF file."
        ),
    ] = None,
    key_env: Annotated[str | None, typer.Option(help="Environment variable that holds the provider's key.")] = None,
    price_as: Annotated[str | None, typer.Option(help="Model whose list price the table shows.")] = None,
    seconds: Annotated[
        float,
        typer.Option(min=MIN_RUN_SECONDS, help="Length of each run in seconds; the story's hour is scaled to it."),
    ] = 50.0,
    wait_seconds: Annotated[
        float,
        typer.Option(
            min=1, help="Longest wait in story seconds; a Python MCP client waits up to 300, a TypeScript client 60."
        ),
    ] = story.CLIENT_WAIT_SECONDS,
    limit_field: Annotated[
        str, typer.Option(help="Name of the output limit in requests; some providers accept only max_tokens.")
    ] = "max_completion_tokens",
    keep: Annotated[bool, typer.Option(help="Keep the server's data, configuration and logs.")] = False,
    stay: Annotated[bool, typer.Option("--stay", help="Keep the server running until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the details, as JSON.")] = False,
) -> None:
    """Run a team of five agents through one story hour, with and without sleep, and compare the cost."""
    scale = story.TimeScale(run_seconds=seconds, client_wait_seconds=wait_seconds)
    plan = DemoOptions(
        upstream=base_url_of(upstream),
        model=_model(upstream, model),
        key_env=key_of(key_env, upstream),
        limit_field=limit_field,
        prices=price_list(price_as or (model if upstream and model else DEFAULT_PRICE), required=price_as is not None),
        scale=scale,
        stays=stay,
        quiet=as_json,
    )
    folder = Path(tempfile.mkdtemp(prefix="circadia-demo-"))
    details = _play_to_end(plan, folder)
    if not details["not_shown"] and not keep:
        _clear(folder)
    typer.echo(json.dumps(details, indent=2) if as_json else f"\nDetails: {folder / 'result.json'}")
    conclude(details["not_shown"])


@app.command(epilog="Example: circadia demo wakes --pause-seconds 0")
def wakes(
    pause_seconds: Annotated[
        float, typer.Option("--pause-seconds", min=0, help="Seconds to pause after each line.")
    ] = 0.15,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the counts, as JSON.")] = False,
) -> None:
    """Play a day of five agents on a fast clock, with the decision and reason of each wake."""
    # Imported here because the server's libraries take a second to load.
    day: Any = importlib.import_module("circadia.cli.demo.wakes")
    console = Console(stderr=as_json, quiet=as_json)
    with tempfile.TemporaryDirectory(prefix="circadia-demo-") as folder:
        rows = asyncio.run(day.play(Path(folder), console, pause_seconds=0 if as_json else pause_seconds))
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    console.print("[bold]The day[/]")
    console.print(day.counts_table(rows))
    console.print("A refused wake leaves its message in the inbox, where a later pulse reads it.")
    conclude(day.missing(rows))


def _play_to_end(plan: DemoOptions, folder: Path) -> dict[str, Any]:
    try:
        return asyncio.run(run_until_stopped(_demo(plan, folder)))
    except asyncio.CancelledError:
        _report_logs(folder)
        raise typer.Exit(TERMINATED) from None
    except BaseException:
        _report_logs(folder)
        raise


async def run_until_stopped(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; SIGTERM cancels it, so that it ends its processes as after Ctrl-C."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


async def _demo(plan: DemoOptions, folder: Path) -> dict[str, Any]:
    clock = SystemClock()
    start = clock.monotonic()
    console = Console(stderr=plan.quiet)
    view = LiveDisplay(console, quiet=plan.quiet)
    runs: list[result.RunResult] = []
    async with model_server(plan, folder, console) as (local_model, base_url):
        upstream: dict[str, Any] = {"base_url": base_url, "api": "openai"}
        if plan.key_env:
            upstream["key_env"] = plan.key_env
        name = "local" if local_model else "provider"
        async with server.run_server(folder, {"upstreams": {name: upstream}}, clock) as running:
            stage = DemoContext(
                server=running,
                local_model=local_model,
                model=local_model.name if local_model else plan.model,
                limit_field=plan.limit_field,
                upstream=name,
                scale=plan.scale,
                folder=folder,
                view=view,
                clock=clock,
            )
            for number, session in enumerate(("baseline", "sleeping"), 1):
                view.say(f"[bold]Run {number} of 2: {_INTRODUCTION[session]}[/bold]")
                view.say(await _invite(running, session))
                runs.append(await play(stage, session, sleeping=session == "sleeping"))
            details = _conclude(plan, base_url, runs, folder, console, clock.monotonic() - start)
            if plan.stays:
                console.print(await _invite(running, "stay"), highlight=False, soft_wrap=True)
                await _wait_for_ctrl_c()
    return details


def _conclude(
    plan: DemoOptions, base_url: str, runs: list[result.RunResult], folder: Path, console: Console, seconds: float
) -> dict[str, Any]:
    """Write and report the results."""
    setting = result.DemoSetup(
        model=plan.model,
        upstream=base_url,
        run_seconds=plan.scale.run_seconds,
        factor=plan.scale.factor,
        client_wait_seconds=plan.scale.client_wait_seconds,
        wait_seconds=plan.scale.wait_seconds,
    )
    details = result.as_json(setting, runs, plan.prices, seconds)
    (folder / "result.json").write_text(json.dumps(details, indent=2), "utf-8")
    if not plan.quiet:
        report(console, setting, runs, plan.prices)
    return details


async def _wait_for_ctrl_c() -> None:
    loop, pressed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, pressed.set)
    try:
        await pressed.wait()
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _invite(running: server.DemoServer, moment: str) -> str:
    """Return the address of the dashboard, with what to look at; the link in it signs in once, within a minute."""
    link = await running.post("/me/links", {})
    return f"{_SIGHTS[moment]}: {running.url}{link['path']}"


_SIGHTS = {
    "baseline": "Watch the calls and their cost grow in the dashboard",
    "sleeping": "Watch who sleeps, and the calls that wait, in the dashboard",
    "stay": "The server stays until Ctrl-C. Compare both sessions in the dashboard",
}
_INTRODUCTION = {
    "baseline": "no agent ever sleeps; after each empty wait it asks its model what to do",
    "sleeping": "the same programs; Circadia lets agents sleep when they have nothing to do",
}


@contextlib.asynccontextmanager
async def model_server(
    plan: DemoOptions, folder: Path, console: Console
) -> AsyncGenerator[tuple[local.LocalModel | None, str]]:
    """Yield the model's address: the user's provider, or a local model that is downloaded and started."""
    if plan.upstream is not None:
        yield None, plan.upstream
        return
    cache = local_weights.models_folder(os.environ)
    weights = local_weights.find_gguf_file(plan.model, cache)
    if not local.is_installed():
        raise StartError(local.INSTALL_HINT)
    if weights is None:
        console.print(f"Downloading the weights of {plan.model}, as with `circadia model fetch {plan.model}`")
        weights = await fetch_visibly(local_weights.get_weights(plan.model), cache, console)
    name = plan.model if plan.model in local_weights.WEIGHTS_BY_NAME else weights.stem
    async with local.run_local_model(weights, name=name, log=folder / "model.log") as running:
        yield running, running.base_url


def base_url_of(upstream: str | None) -> str | None:
    if upstream is None:
        return None
    if not upstream.startswith(("http://", "https://")):
        raise InvalidRequest(f"--upstream must be a URL that begins with http:// or https://, got {upstream!r}")
    return upstream.rstrip("/").removesuffix("/v1")


def _model(upstream: str | None, model: str | None) -> str:
    if upstream is not None and model is None:
        raise InvalidRequest("--upstream needs --model, the name of the provider's model.")
    return model or DEFAULT_MODEL


def key_of(key_env: str | None, upstream: str | None) -> str | None:
    """Return the variable of the provider's key. Raises InvalidRequest if --upstream or the variable is missing."""
    if key_env is None:
        return None
    if upstream is None:
        raise InvalidRequest("--key-env goes with --upstream; the local model needs no key.")
    if not os.environ.get(key_env):
        raise InvalidRequest(f"the environment variable {key_env!r} of --key-env is not set.")
    return key_env


def _report_logs(folder: Path) -> None:
    """Report the folder with the logs of a failed run; delete it if the run had not started."""
    if any(folder.iterdir()):
        typer.echo(f"The output so far is in {folder}", err=True)
    else:
        folder.rmdir()


def _clear(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != "result.json":
            entry.unlink(missing_ok=True)
