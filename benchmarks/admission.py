"""Decisions about wakes: how many a second, how long each takes, and that a storm admits exactly what budgets allow."""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.admission_process import TARGETS, WRITERS, charged, prepare_storm
from benchmarks.postgres import NoPostgres, postgres
from benchmarks.report import Goal, Report, number
from benchmarks.tools import slow_sync

SLOWER: Final = ", syncs {} ms slower"


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    decisions: int = 1_000
    """Decisions of a round."""
    rounds: int = 5
    """Rounds; medians count."""
    storm: int = 10_000
    """Wakes of a storm."""
    processes: int = 4
    """That ask for them."""
    daily: int = 25
    """Wakes a day that each agent of a storm may have."""
    slow_ms: Sequence[int] = (3, 10)
    """Slower disks that decisions are timed on too, by what a sync takes: a volume in a cloud or a plain SSD; a disk
    that turns, or is far away."""


QUICK: Final = Size(decisions=20, rounds=1, storm=400, processes=2, daily=5, slow_ms=())


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmissionResult:
    """What was measured on one database."""

    database: str
    rounds: Sequence[Mapping[str, Any]]

    def median(self, of: str, at: float | None = None) -> float:
        """Return the median over the rounds, of a figure or of a centile of its list."""
        return statistics.median(each[of] if at is None else _centile(each[of], at) for each in self.rounds)

    @property
    def ratio(self) -> float:
        """Decisions in the time of one bare commit: the median over the rounds."""
        return statistics.median(each["rate"] * statistics.mean(each["bare_ms"]) / 1000 for each in self.rounds)

    @property
    def slowest(self) -> float:
        """The last centile of a decision, in bare commits: the median over the rounds."""
        return statistics.median(
            _centile(each["ms"], 0.99) / statistics.median(each["bare_ms"]) for each in self.rounds
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Storm:
    """What became of a storm."""

    database: str
    size: Size
    """Who asked how often."""
    decided: Mapping[str, int]
    """How often there was each decision."""
    charged: Sequence[int]
    """How many wakes count against each target's day afterwards."""
    seconds: float


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: list[str] = []
    disks = [(SLOWER.format(ms), slow_sync(ms)) for ms in size.slow_ms]
    slower = [(name, environment) for name, environment in disks if environment is not None]
    if len(slower) < len(disks):
        notes.append("Slower disks are left out: there is no C compiler.")
    found = [AdmissionResult(database="SQLite", rounds=await _times(str(folder / "plain.db"), size))]
    storms = [await _storm("SQLite", str(folder / "storm.db"), size)]
    for at, (name, environment) in enumerate(slower):
        rounds = await _times(str(folder / f"slow{at}.db"), size, environment)
        found.append(AdmissionResult(database=f"SQLite{name}", rounds=rounds))
    try:
        async with postgres() as url:
            found.append(AdmissionResult(database="PostgreSQL", rounds=await _times(url, size)))
            storms.append(await _storm("PostgreSQL", url, size))
        for name, environment in slower:
            async with postgres(environment) as url:
                found.append(AdmissionResult(database=f"PostgreSQL{name}", rounds=await _times(url, size)))
    except NoPostgres as error:
        notes.append(f"PostgreSQL is left out: {error}")
    return _report(found, storms, notes)


async def _times(where: str, size: Size, environment: Mapping[str, str] | None = None) -> Sequence[Mapping[str, Any]]:
    process = await _started("times", where, size.decisions, size.rounds, environment)
    return await _said(process)


async def _storm(database: str, where: str, size: Size) -> Storm:
    await prepare_storm(where, size.daily)
    asks = size.storm // size.processes
    processes = [await _started("storm", where, each, asks) for each in range(size.processes)]
    for process in processes:
        assert process.stdout is not None
        await process.stdout.readline()
    began = time.monotonic()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
    found = await asyncio.gather(*(_said(process) for process in processes))
    seconds = time.monotonic() - began
    decided = {name: sum(each[name] for each in found) for name in found[0]}
    return Storm(database=database, size=size, decided=decided, charged=await charged(where), seconds=seconds)


async def _started(
    what: str, where: str, first: int, second: int, environment: Mapping[str, str] | None = None
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.admission_process", what, where, str(first), str(second)),
        env={**os.environ, **(environment or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def _said(process: asyncio.subprocess.Process) -> Any:
    assert process.stdout is not None
    said = await process.stdout.read()
    if await process.wait() != 0:
        raise RuntimeError(f"a process of the benchmark ended with {process.returncode}; what it said stands above")
    return json.loads(said)


def _report(found: Sequence[AdmissionResult], storms: Sequence[Storm], notes: Sequence[str]) -> Report:
    return Report(
        name="admission",
        title=f"Decisions about wakes, {WRITERS} writers at once, each durable with its message before it is answered",
        columns=["database", "decisions/s", "bare commits/s", "ratio", "p50 ms", "p99 ms", "p99 in commits", "CPU ms"],
        rows=[
            [
                each.database,
                number(each.median("rate")),
                number(1000 / each.median("bare_ms", 0.5)),
                number(each.ratio),
                number(each.median("ms", 0.5)),
                number(each.median("ms", 0.99)),
                number(each.slowest),
                number(each.median("cpu_ms")),
            ]
            for each in found
        ],
        goals=_goals(found, storms),
        notes=[*_notes(storms), *notes],
        figures={
            "times": {
                each.database: [{"rate": one["rate"], "cpu_ms": one["cpu_ms"]} for one in each.rounds] for each in found
            },
            "storms": {each.database: each.decided for each in storms},
        },
    )  # fmt: skip


def _goals(found: Sequence[AdmissionResult], storms: Sequence[Storm]) -> list[Goal]:
    goals: list[Goal] = []
    for each in found:
        what = f"{each.database}: decisions a second for one bare commit a second"
        goals.append(Goal(what=what, limit=1, unit="times", bound="at least", found=each.ratio))
        goals.append(Goal(what=f"{each.database}: p99 of a decision", limit=4, unit="bare commits", found=each.slowest))
    for storm in storms:
        what = f"{storm.database}: wakes that the storm got beyond its budgets, or too few"
        daily = storm.size.daily
        wrong = abs(storm.decided["admitted"] - TARGETS * daily) + sum(abs(count - daily) for count in storm.charged)
        goals.append(Goal(what=what, limit=0, unit="wakes", found=wrong))
    return goals


def _notes(storms: Sequence[Storm]) -> list[str]:
    return [
        "A decision stores the message, its delivery, the request with what each guardrail said, the pulse and three "
        "events, in one transaction. A bare commit stores a row of 400 bytes; the commits of a round follow each other "
        "on one connection, just before the decisions.",
        "A line with `syncs 3 ms slower` has a disk as clouds and plain SSDs have it, one with 10 ms a disk that turns "
        "or is far away: each sync of a file is delayed. PostgreSQL's log has its files at hand, as on a server that "
        "has run for a while. This machine's own disk answers at once, so that a bare "
        "commit costs hardly more than its statements, and the rate of decisions is one of processor time.",
        *(
            f"A storm on {each.database}: {sum(each.decided.values()):,} wakes by {each.size.processes} processes, "
            f"{WRITERS} at once in each, for {TARGETS} agents that may have {each.size.daily} a day: "
            + ", ".join(f"{count:,} {name}" for name, count in each.decided.items() if count)
            + f", in {each.seconds:.0f} s."
            for each in storms
        ),
    ]


def _centile(values: Sequence[float], at: float) -> float:
    return values[min(len(values) - 1, int(len(values) * at))]
