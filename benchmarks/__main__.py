"""`python -m benchmarks`: run all benchmarks, or those that are named."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
import uvloop
from rich.console import Console

from benchmarks import (
    admission,
    answers_lookup,
    answers_pairs,
    answers_stale,
    beside,
    cluster,
    cluster_wakes,
    context,
    dashboard,
    doc,
    dream_cost,
    dream_losses,
    fleet_day,
    grounding,
    holds,
    hooks,
    hot_path,
    idle_fleet,
    inbox,
    pass_overhead,
    passages,
    proxy,
    pulses,
    recall,
    remember,
    remember_peers,
    resume,
    room,
    schedules,
    score,
    search,
    search_peers,
    startup,
    state,
    week,
    week_page,
    world,
)
from benchmarks.processes import kills_children
from benchmarks.report import Report, save, show

app = typer.Typer(add_completion=False)

Run = Callable[[Path], Coroutine[None, None, Report]]
"""Measures in a folder."""


def benchmarks(quick: bool, data: Path | None = None, *, chosen_on: bool = False) -> dict[str, Run]:
    """Return the benchmarks by name."""
    questions, talks = (data, None) if data is not None and data.suffix == ".jsonl" else (None, data)
    every = (
        proxy, resume, holds, state, admission, cluster, cluster_wakes, fleet_day, pulses, schedules, inbox, hooks,
        dashboard, idle_fleet, remember, remember_peers, search, search_peers, passages, context, recall, pass_overhead,
        dream_cost, hot_path, answers_lookup, answers_pairs, answers_stale, dream_losses, grounding, startup,
    )  # fmt: skip
    sized: dict[str, Run] = {
        each.__name__.removeprefix("benchmarks."): partial(_run_sized, each, quick) for each in every
    }
    given_data: dict[str, Run] = {
        "recall": lambda folder: recall.run(folder, recall.Size(data=talks, chosen_on=chosen_on)),
        "room": lambda folder: room.run(folder, room.Size(data=talks)),
        "score": lambda folder: score.run(folder, score.Size(data=talks)),
        "dream_cost": lambda folder: dream_cost.run(folder, dream_cost.QUICK if quick else dream_cost.Size(data=talks)),
        "answers_pairs": lambda folder: answers_pairs.run(folder, answers_pairs.Size(data=questions)),
        "grounding": grounding.run,
        "week": week.run,
    }
    return sized | given_data


def _run_sized(benchmark: ModuleType, quick: bool, folder: Path) -> Coroutine[None, None, Report]:
    return benchmark.run(folder, benchmark.QUICK if quick else benchmark.Size())


@app.command()
def main(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Which, by their names on the page; all if left out. `world DIR|postgresql://…` fills an empty one."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: shows that it runs, measures nothing.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Conversations in LoCoMo's format, for `recall`, `room`, `score` and `dream_cost`; or labelled pairs "
            "of questions, a `.jsonl` file, for `answers_pairs`.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    chosen_on: Annotated[
        bool, typer.Option("--chosen-on", help="The conversations are those on which settings were chosen: `recall`.")
    ] = False,
    write_doc: Annotated[bool, typer.Option("--doc", help="Write the tables of the last runs into the docs.")] = False,
) -> None:
    """Measure what Circadia costs; print tables and write JSON into benchmarks/results."""
    console = Console(width=None if sys.stdout.isatty() else 170)  # a log should keep the tables whole
    if write_doc:
        console.print(f"wrote {doc.write()}, {beside.write()} and {week_page.write()}")
        return
    if names and names[0] == "world":
        if len(names) != 2:
            raise typer.BadParameter("name one folder or URL: `world DIR` or `world postgresql://…`")
        world.main(names[1])
        return
    known = benchmarks(quick, data, chosen_on=chosen_on)
    for name in names or known:
        if name not in known:
            raise typer.BadParameter(f"no benchmark {name!r}; there are {', '.join(known)}")
    for name in names or known:
        with tempfile.TemporaryDirectory(prefix="circadia-bench-") as folder:
            report = _measured(known[name](Path(folder)))
        show(report, console)
        tiny = quick or (name in ("recall", "room", "score", "answers_pairs") and data is None)
        console.print("tiny sizes: nothing is written" if tiny else f"wrote {save(report)}")


def _measured(work: Coroutine[None, None, Report]) -> Report:
    """Run a benchmark; a SIGTERM ends it as Ctrl-C does, and nothing that it has started outlives it."""
    try:
        with kills_children():
            return uvloop.run(_stoppable(work))
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None


async def _stoppable(work: Coroutine[None, None, Report]) -> Report:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work


if __name__ == "__main__":
    app()
