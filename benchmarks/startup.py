"""What starts cost: processor time of commands and of `serve` until it is ready, its memory, and what is installed."""

import asyncio
import importlib.metadata
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import circadia as package
from benchmarks.report import Goal, Report, number
from benchmarks.server import ADMIN_TOKEN, ROOT, Circadia
from benchmarks.server import circadia as running_circadia

MEGABYTE: Final = 1_000_000
IMAGE: Final = ROOT / "build/image/circadia.tar"
COMMAND_SECONDS: Final = 0.35
READY_SECONDS: Final = 2.0
IDLE_MEGABYTES: Final = 130.0
"""SHIP-15."""
INSTALLED_MEGABYTES: Final = 300.0
"""Without the bytecode that pip adds, a quarter more."""
LARGEST: Final = 12
"""Packages with a line of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    runs: int = 5
    """Starts of the server, and runs of each command."""


QUICK: Final = Size(runs=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Starts:
    """What the runs cost, a figure for each."""

    help_seconds: Sequence[float]
    """Processor time of `circadia --help`."""
    holds_seconds: Sequence[float]
    """Processor time of `circadia holds`, which asks a running server."""
    ready_seconds: Sequence[float]
    """Processor time of `circadia serve` on a new folder until `/readyz` has answered."""
    resident_megabytes: Sequence[float]
    """Memory of a ready server whose database is there, with its share of files such as libraries."""
    private_megabytes: Sequence[float]
    """Memory of the ready server that no other process can share."""


async def run(folder: Path, size: Size) -> Report:
    """Measure starts and sizes."""
    starts = await measure_starts(folder, size.runs)
    packages = installed_bytes()
    total = sum(packages.values()) / MEGABYTE
    rows = [
        _line("`circadia --help`: processor time, s", starts.help_seconds),
        _line("`circadia holds`: processor time, s", starts.holds_seconds),
        _line("`circadia serve` until ready: processor time, s", starts.ready_seconds),
        _line("memory of the idle server, MB", starts.resident_megabytes),
        _line("of that, memory that is shared with no other process, MB", starts.private_megabytes),
        _line(f"installation without extras: {len(packages)} packages, MB", [total]),
    ]
    largest = sorted(packages.items(), key=lambda item: -item[1])[:LARGEST]
    rows += [_line(f"of that, {name}", [held / MEGABYTE]) for name, held in largest]
    if IMAGE.exists():
        rows.append(_line("container image, MB", [IMAGE.stat().st_size / MEGABYTE]))
    return Report(
        name="startup",
        title="Starts and sizes",
        columns=["", "median", "worst"],
        rows=rows,
        goals=[
            Goal(what=what, limit=limit, unit=unit, found=statistics.median(found))
            for what, limit, unit, found in (
                ("`circadia --help`: processor time", COMMAND_SECONDS, "s", starts.help_seconds),
                ("`circadia holds`: processor time", COMMAND_SECONDS, "s", starts.holds_seconds),
                ("`circadia serve` until ready: processor time", READY_SECONDS, "s", starts.ready_seconds),
                ("memory of the idle server", IDLE_MEGABYTES, "MB", starts.resident_megabytes),
            )
        ],
        notes=[
            "Processor time is user and system time of the whole process; the code was compiled before.",
            "The server is `circadia serve` on SQLite without upstreams, agents or banks. Its start makes the database;"
            " its memory is that of the next start, since the first one keeps what migrates.",
            "Sizes are those of the files that pip installs, without the compiled code that it adds.",
        ],
        figures={
            "help_seconds": starts.help_seconds,
            "holds_seconds": starts.holds_seconds,
            "ready_seconds": starts.ready_seconds,
            "resident_megabytes": starts.resident_megabytes,
            "private_megabytes": starts.private_megabytes,
            "package_bytes": packages,
        },
    )


async def measure_starts(folder: Path, runs: int) -> Starts:
    """Start the server `runs` times, and run each command once while it is up."""
    found: list[tuple[float, float, float, float, float]] = []
    for at in range(runs):
        async with running_circadia(folder / f"start-{at}", {}) as server:
            times = (await _ready_process(server)).cpu_times()
            ready = times.user + times.system
        async with running_circadia(folder / f"start-{at}", {}) as server:
            memory = (await _ready_process(server)).memory_full_info()
            url = f"http://127.0.0.1:{server.port}"
            found.append(
                (
                    await asyncio.to_thread(processor_seconds, "--help"),
                    await asyncio.to_thread(processor_seconds, "holds", "--url", url, "--token", ADMIN_TOKEN),
                    ready,
                    memory.rss / MEGABYTE,
                    memory.uss / MEGABYTE,
                )
            )
    helps, holds, readies, resident, private = zip(*found, strict=True)
    return Starts(
        help_seconds=helps, holds_seconds=holds, ready_seconds=readies, resident_megabytes=resident,
        private_megabytes=private,
    )  # fmt: skip


async def _ready_process(server: Circadia) -> psutil.Process:
    async with server.http.get("readyz") as answer:
        answer.raise_for_status()
    return psutil.Process(server.pid)


def processor_seconds(*words: str) -> float:
    """Run `circadia` with these words; return its user and system time. Raises RuntimeError: it failed."""
    process = subprocess.Popen([sys.executable, "-m", "circadia", *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"`circadia {words[0]}` ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def installed_bytes() -> dict[str, int]:
    """Return the size of each package that an installation of Circadia without extras has, by its name."""
    found: dict[str, int] = {}
    waiting = [("circadia", "")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        distribution = importlib.metadata.distribution(name)
        found[name] = _file_bytes(distribution)
        for requirement in map(Requirement, distribution.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(requirement.name), each) for each in ("", *requirement.extras)]
    return found


def _file_bytes(distribution: importlib.metadata.Distribution) -> int:
    files = [Path(str(each.locate())) for each in distribution.files or ()]
    if distribution.name == "circadia":  # the tests' environment only points to it
        files = list(Path(str(package.__file__)).parent.rglob("*"))
    return sum(path.stat().st_size for path in files if path.suffix != ".pyc" and path.is_file())


def _line(what: str, found: Sequence[float]) -> list[str]:
    return [what, number(statistics.median(found)), number(max(found)) if len(found) > 1 else "–"]
