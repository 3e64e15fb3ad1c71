"""From `POST /wakes` to the start of its agent, and from the end of a pulse to the start of the one that waits."""

import asyncio
import random
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.disk import commit_milliseconds
from benchmarks.holds import quantile
from benchmarks.postgres import NoPostgres, postgres
from benchmarks.processes import cpu_seconds
from benchmarks.pulse_agent import LAUNCHERS, NO_LIMITS, PROGRAM, noted
from benchmarks.report import Goal, Report, number
from benchmarks.server import Circadia, circadia

SETTINGS: Final[dict[str, Any]] = {
    "launchers": LAUNCHERS,
    "agents": {
        name: {"sleep_events": ["agent_started"], "coordination": {"launcher": name, **NO_LIMITS}} for name in LAUNCHERS
    },
}
"""One agent for each launcher, of the same name."""
PAUSE_SECONDS: Final = (0.05, 0.25)
"""Between two wakes; drawn, so that they meet the server's looks at the clock at any moment."""
SETTLED_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 2.0
"""After the start, so that none of it counts as idle."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    wakes: int = 100
    """Wakes of a run."""
    rounds: int = 3
    """Runs of each launcher."""
    handovers: int = 40
    """Pulses that others wait for."""
    idle_seconds: float = 10.0
    """How long the server is watched while nothing happens."""


QUICK: Final = Size(wakes=2, rounds=1, handovers=1, idle_seconds=0.2)


@dataclass(kw_only=True, slots=True)
class PulseResult:
    """What was measured on one database."""

    database: str
    starts: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Milliseconds from the wake to the agent's start, by launcher."""
    cpu: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Milliseconds of the server's processor time for a wake and its pulse, of each run."""
    handovers: list[float] = field(default_factory=list[float])
    """Seconds from the end of an agent's pulse to the start of the one that was deferred."""
    idle_percent: float = 0.0
    """Part of a core that the idle server takes."""
    failed: int = 0
    """Pulses that did not succeed."""


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: list[str] = []
    async with circadia(folder / "sqlite", SETTINGS) as server:
        found = [await _measured(server, "SQLite", size)]
    try:
        async with postgres() as url:
            settings = {**SETTINGS, "server": {"database_url": url}}
            async with circadia(folder / "postgres", settings) as server:
                found.append(await _measured(server, "PostgreSQL", size))
    except NoPostgres as error:
        notes.append(f"PostgreSQL is left out: {error}")
    bare = [await asyncio.to_thread(_bare_start) for _ in range(size.wakes)]
    disk = await commit_milliseconds(folder / "disk", size.wakes)
    return _report(found, bare, disk, notes)


async def _measured(server: Circadia, database: str, size: Size) -> PulseResult:
    found = PulseResult(database=database)
    await asyncio.sleep(SETTLE_SECONDS)
    found.idle_percent = await idle_percent(server, size.idle_seconds)
    for agent in ("quick", "program"):
        found.starts[agent], found.cpu[agent] = [], []
        for number_of_round in range(size.rounds + 1):  # the first warms up
            times, cpu = await _starts(server, agent, size.wakes if number_of_round else min(size.wakes, 10), found)
            if number_of_round:
                found.starts[agent] += times
                found.cpu[agent].append(cpu)
    while len(found.handovers) < size.handovers:
        found.handovers += await _handover(server, found)
    return found


async def idle_percent(server: Circadia, seconds: float) -> float:
    """Return the part of a core that the server takes in the coming seconds."""
    cpu, began = cpu_seconds(server.pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (cpu_seconds(server.pid) - cpu) * 100 / (time.monotonic() - began)


async def _starts(server: Circadia, agent: str, count: int, found: PulseResult) -> tuple[list[float], float]:
    """Wake the agent so often; return the milliseconds to its starts, and those of the processor for each."""
    asked: dict[str, float] = {}
    cpu, began = cpu_seconds(server.pid), time.monotonic()
    while len(asked) < count:
        at = time.monotonic()
        answer = await _wake(server, agent)
        if answer["decision"] == "admitted":  # else the machine is so busy that the last one runs still
            asked[answer["pulse"]] = at
        await asyncio.sleep(random.uniform(*PAUSE_SECONDS))
    spent = cpu_seconds(server.pid) - cpu - found.idle_percent / 100 * (time.monotonic() - began)
    pulses = {pulse["id"]: pulse for pulse in await _ended(server, agent)}
    good = [pulses[each] for each in asked if pulses[each]["status"] == "succeeded"]
    found.failed += len(asked) - len(good)
    return [(noted(each)[0] - asked[each["id"]]) * 1000 for each in good], spent * 1000 / count


async def _handover(server: Circadia, found: PulseResult) -> list[float]:
    """Wake an agent that is busy; return the seconds from the end of its pulse to the start of the next, if it was."""
    first = await _wake(server, "long")
    status = "pending"
    while status in ("pending", "starting"):
        status = (await server.ask("GET", f"pulses/{first['pulse']}"))["status"]
    second = await _wake(server, "long")
    pulses = {pulse["id"]: pulse for pulse in await _ended(server, "long")}
    if second["decision"] != "deferred":
        return []
    wake = await server.ask("GET", f"wakes/{second['wake']}")
    before, after = pulses[first["pulse"]], pulses.get(wake["pulse"], {"status": wake["decision"]})
    if (before["status"], after["status"]) != ("succeeded", "succeeded"):
        found.failed += 1
        return []
    return [noted(after)[0] - noted(before)[1]]


async def _wake(server: Circadia, agent: str) -> dict[str, Any]:
    return await server.ask("POST", "wakes", {"to": agent, "reason": "blocker", "message": "The build is red."})


async def _ended(server: Circadia, agent: str) -> list[dict[str, Any]]:
    """Return the agent's last pulses once none is open and no wake waits."""
    async with asyncio.timeout(SETTLED_SECONDS):
        while True:
            await asyncio.sleep(0.2)
            waiting = (await server.ask("GET", f"wakes?agent={agent}&decision=deferred"))["wakes"]
            pulses = (await server.ask("GET", f"agents/{agent}/pulses?limit=1000"))["pulses"]
            if not waiting and all(pulse["ended_at"] for pulse in pulses):
                return pulses


def _bare_start() -> float:
    """Return the milliseconds from the start of the program to what it writes, without Circadia."""
    began = time.monotonic()
    done = subprocess.run(PROGRAM, capture_output=True, check=True)
    return (float(done.stdout) - began) * 1000


def line(name: str, found: Sequence[float]) -> list[str]:
    """Return a line of a table: median, last centile, worst, and how many there were."""
    return [name, number(statistics.median(found)), number(quantile(found, 0.99)), number(max(found)), str(len(found))]


def _report(found: Sequence[PulseResult], bare: Sequence[float], disk: Sequence[float], notes: Sequence[str]) -> Report:
    goals: list[Goal] = []
    for each in found:
        starts = each.starts["quick"]
        goals += [
            Goal(
                what=f"{each.database}: wake to start, median", limit=40, unit="ms", found=statistics.median(starts)
            ),
            Goal(what=f"{each.database}: wake to start, p99", limit=150, unit="ms", found=quantile(starts, 0.99)),
            Goal(
                what=f"{each.database}: end of a pulse to start of the next", limit=1, unit="s",
                found=max(each.handovers),
            ),
        ]  # fmt: skip
    failed = sum(each.failed for each in found)
    return Report(
        name="pulses",
        title="From POST /wakes, and from the end of the pulse in the way, to the start of the agent",
        columns=["", "median", "p99", "worst", "times"],
        rows=[
            *(row for each in found for row in _rows(each)),
            line("a bare start of the same program, ms", bare),
            line("a bare commit to this disk, ms", disk),
        ],
        goals=[*goals, Goal(what="pulses that did not succeed", limit=0, unit="pulses", found=failed)],
        notes=[
            "The function notes when it is called, the program when its first line runs; both inside the pulse, after "
            "its start is durable. The clock begins before the request is sent.",
            "The server's processor time holds all that a wake costs it: the request, the message in the inbox, the "
            "decision, the pulse, its launch and its end, and on SQLite the database; without what the idle server "
            "takes, and without the program's own.",
            *notes,
        ],
        figures={each.database: asdict(each) for each in found} | {"bare_start_ms": bare, "commit_ms": disk},
    )


def _rows(found: PulseResult) -> list[list[str]]:
    what = {"quick": "a function", "program": "a program"}
    return [
        *(line(f"{found.database}: wake to start of {what[name]}, ms", times) for name, times in found.starts.items()),
        line(f"{found.database}: end of a pulse to start of the deferred one, ms", [s * 1000 for s in found.handovers]),
        *(
            line(f"{found.database}: processor time of a wake, its pulse and {what[name]}, ms", spent)
            for name, spent in found.cpu.items()
        ),
        line(f"{found.database}: processor time of the idle server, % of a core", [found.idle_percent]),
    ]
