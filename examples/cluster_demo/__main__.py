"""Run the demo: `make demo-cluster`, or `python -m examples.cluster_demo`."""

import asyncio
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import typer
from rich.console import Console

from benchmarks.postgres import NoPostgres
from circadia.cli.demo import story
from circadia.cli.demo.command import (
    DEFAULT_MODEL,
    DEFAULT_PRICE,
    MIN_RUN_SECONDS,
    TERMINATED,
    DemoOptions,
    base_url_of,
    model_server,
    run_until_stopped,
)
from circadia.cli.demo.result import conclude, missing_points, price_list
from circadia.clock import SystemClock
from circadia.errors import CircadiaError
from examples.cluster_demo.cluster import run_cluster
from examples.cluster_demo.play import DEPLOY, DEPLOYER, UPSTREAM, DemoStage, play
from examples.cluster_demo.result import build_table, check_all


def demo(
    upstream: Annotated[
        str | None, typer.Option(help="Base URL of an OpenAI-compatible provider, instead of the local model.")
    ] = None,
    model: Annotated[str, typer.Option(help="Model of that provider, or a known small model.")] = DEFAULT_MODEL,
    seconds: Annotated[
        float, typer.Option(min=MIN_RUN_SECONDS, help="Length of the story's hour; a build takes a fifth of it.")
    ] = 60.0,
    server_module: Annotated[str, typer.Option(help="Python module that each server runs.")] = "circadia",
    as_json: Annotated[bool, typer.Option("--json", help="Print only the table, as JSON.")] = False,
) -> None:
    """Let a team work on two gateways and two workers, kill one of each, and count what is lost."""
    plan = DemoOptions(
        upstream=base_url_of(upstream), model=model, key_env=None, limit_field="max_completion_tokens",
        prices=price_list(DEFAULT_PRICE, required=False), quiet=as_json,
        # The agents' clients wait as long as they do by default, whatever the scale of the story is.
        scale=story.TimeScale(
            run_seconds=seconds, client_wait_seconds=story.CLIENT_WAIT_SECONDS * story.STORY_MINUTES * 60 / seconds
        ),
    )  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="circadia-demo-"))
    try:
        result = asyncio.run(run_until_stopped(_demo(plan, folder, server_module)))
    except asyncio.CancelledError:
        raise typer.Exit(TERMINATED) from None
    except (CircadiaError, NoPostgres) as error:
        typer.echo(f"error: {error}\nThe output so far is in {folder}", err=True)
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    if not result["not_shown"]:
        shutil.rmtree(folder, ignore_errors=True)
    conclude(result["not_shown"])


async def _demo(plan: DemoOptions, folder: Path, module: str) -> dict[str, Any]:
    clock = SystemClock()
    start = clock.monotonic()
    console = Console(stderr=plan.quiet, quiet=plan.quiet)
    part = folder / f"{DEPLOY}-part.json"
    part.write_text(json.dumps(story.part(DEPLOY, plan.scale, plan.model, plan.limit_field)), "utf-8")
    async with model_server(plan, folder, console) as (_, base_url):
        config = {
            "upstreams": {UPSTREAM: {"base_url": base_url, "api": "openai"}},
            "launchers": {DEPLOY: {"kind": "subprocess", "command": [sys.executable, str(DEPLOYER), str(part)]}},
        }
        console.print("Starting PostgreSQL, two gateways behind HAProxy, and two workers")
        async with (
            run_cluster(folder, config, clock, module) as cluster,
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {cluster.token}"}) as http,
        ):
            stage = DemoStage(
                cluster=cluster, model=plan.model, limit_field=plan.limit_field, scale=plan.scale, folder=folder,
                console=console, clock=clock, http=http, started=start,
            )  # fmt: skip
            checks = await check_all(stage, await play(stage))
    console.print(build_table(checks))
    return {
        "checks": [asdict(check) for check in checks],
        "total_seconds": round(clock.monotonic() - start, 1),
        "not_shown": missing_points({check.what.strip(): check.is_right for check in checks}),
    }


if __name__ == "__main__":
    typer.run(demo)
