"""`python -m benchmarks`: run all benchmarks, or those that are named."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
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
    hot_path,
    idle_fleet,
    inbox,
    pass_overhead,
    proxy,
    pulses,
    recall,
    remember,
    remember_peers,
    schedules,
    search,
    search_peers,
    startup,
    state,
    world,
)
from benchmarks.processes import kills_children
from benchmarks.report import Report, save, show

app = typer.Typer(add_completion=False)


def benchmarks(
    quick: bool, data: Path | None = None, *, chosen_on: bool = False
) -> dict[str, Callable[[Path], Coroutine[None, None, Report]]]:
    """Return the benchmarks by name."""
    questions, talks = (data, None) if data is not None and data.suffix == ".jsonl" else (None, data)
    return {
        "proxy": lambda folder: proxy.run(folder, proxy.QUICK if quick else proxy.Size()),
        "holds": lambda folder: holds.run(folder, holds.QUICK if quick else holds.Size()),
        "state": lambda folder: state.run(folder, state.QUICK if quick else state.Size()),
        "admission": lambda folder: admission.run(folder, admission.QUICK if quick else admission.Size()),
        "cluster": lambda folder: cluster.run(folder, cluster.QUICK if quick else cluster.Size()),
        "cluster_wakes": lambda folder: cluster_wakes.run(
            folder, cluster_wakes.QUICK if quick else cluster_wakes.Size()
        ),
        "fleet_day": lambda folder: fleet_day.run(folder, fleet_day.QUICK if quick else fleet_day.Size()),
        "pulses": lambda folder: pulses.run(folder, pulses.QUICK if quick else pulses.Size()),
        "schedules": lambda folder: schedules.run(folder, schedules.QUICK if quick else schedules.Size()),
        "inbox": lambda folder: inbox.run(folder, inbox.QUICK if quick else inbox.Size()),
        "dashboard": lambda folder: dashboard.run(folder, dashboard.QUICK if quick else dashboard.Size()),
        "idle_fleet": lambda folder: idle_fleet.run(folder, idle_fleet.QUICK if quick else idle_fleet.Size()),
        "remember": lambda folder: remember.run(folder, remember.QUICK if quick else remember.Size()),
        "remember_peers": lambda folder: remember_peers.run(
            folder, remember_peers.QUICK if quick else remember_peers.Size()
        ),
        "search": lambda folder: search.run(folder, search.QUICK if quick else search.Size()),
        "search_peers": lambda folder: search_peers.run(folder, search_peers.QUICK if quick else search_peers.Size()),
        "context": lambda folder: context.run(folder, context.QUICK if quick else context.Size()),
        "recall": lambda folder: recall.run(folder, recall.Size(data=talks, chosen_on=chosen_on)),
        "pass_overhead": lambda folder: pass_overhead.run(
            folder, pass_overhead.QUICK if quick else pass_overhead.Size()
        ),
        "dream_cost": lambda folder: dream_cost.run(folder, dream_cost.QUICK if quick else dream_cost.Size(data=talks)),
        "hot_path": lambda folder: hot_path.run(folder, hot_path.QUICK if quick else hot_path.Size()),
        "answers_lookup": lambda folder: answers_lookup.run(
            folder, answers_lookup.QUICK if quick else answers_lookup.Size()
        ),
        "answers_pairs": lambda folder: answers_pairs.run(folder, answers_pairs.Size(data=questions)),
        "answers_stale": lambda folder: answers_stale.run(
            folder, answers_stale.QUICK if quick else answers_stale.Size(data=talks)
        ),
        "dream_losses": lambda folder: dream_losses.run(folder, dream_losses.QUICK if quick else dream_losses.Size()),
        "grounding": grounding.run,
        "startup": lambda folder: startup.run(folder, startup.QUICK if quick else startup.Size()),
    }


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
            help="Conversations in LoCoMo's format, for `recall`, `dream_cost` and `answers_stale`; or labelled pairs "
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
        console.print(f"wrote {doc.write()} and {beside.write()}")
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
        tiny = quick or (name in ("recall", "answers_pairs", "answers_stale") and data is None)
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
