"""Ten thousand agents with schedules in one process: what they cost while nothing is due, and how late they start."""

import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.disk import commit_milliseconds
from benchmarks.holds import quantile
from benchmarks.postgres import NoPostgres, postgres
from benchmarks.processes import cpu_seconds, memory_bytes
from benchmarks.pulse_agent import LAUNCHERS, NO_LIMITS, noted
from benchmarks.pulses import SETTLE_SECONDS, SETTLED_SECONDS, idle_percent, line
from benchmarks.report import Goal, Report
from benchmarks.server import Circadia, circadia
from circadia.clock import SystemClock, system_milliseconds
from circadia.ids import AgentId, RandomIds, SessionId, hash_token
from circadia.records.agent import Agent, Cause
from circadia.records.coordination import Setting, SettingSource
from circadia.records.schedule import Recurrence, RoutineSpec
from circadia.records.session import DEFAULT_SESSION, Session, SessionStatus
from circadia.server.wake_wiring import build_wake_services
from circadia.settings import Settings
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.wake.coordination import flatten_keys

T = TypeVar("T")

RATE: Final = 20.0
"""Pulses a second."""
RARE_SECONDS: Final = (0.5, 2.5)
"""Between two of the rare ones; drawn."""
EVERY_SECONDS: Final = 86_400
EARLIEST_SECONDS: Final = 3_600
"""From the start of the benchmark to what the idle agents do first."""
LEAD_SECONDS: Final = 3.0
LEAD_SECONDS_EACH: Final = 0.015
"""Time in which routines are set, until the first is due."""
ASKED_AT_ONCE: Final = 8
"""Requests to the server at a time."""
_CHANGES: Final = flatten_keys({"launcher": "quick", **NO_LIMITS})
"""How each agent may be woken."""
BURST_MS_EACH: Final = 6.0
"""What one of many that are due at the same instant may take: 500 start within 3 s."""
TOLD: Final = {
    "steady": f"{RATE:g} a second", "rare": "one now and then", "burst": "many at the same instant",
}  # fmt: skip
AT_ONCE: Final = 500
"""Agents that are made in one transaction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    agents: int = 10_000
    """Agents, each with a routine."""
    idle_seconds: float = 10.0
    """How long the server is watched while nothing is due."""
    rounds: int = 3
    """How often, with all agents; once without."""
    steady: int = 300
    """Pulses at the steady rate: 15 s of them."""
    rare: int = 10
    """Pulses that are due now and then."""
    burst: int = 500
    """Pulses that are due at the same instant."""


QUICK: Final = Size(agents=80, idle_seconds=0.5, rounds=1, steady=20, rare=2, burst=10)


@dataclass(kw_only=True, slots=True)
class DueRoutines:
    """What became of routines that came due."""

    late: list[float] = field(default_factory=list[float])
    """Milliseconds from the moment it was due to the start of the agent."""
    cpu_ms: float = 0.0
    """Milliseconds of the server's processor time for one."""
    lost: int = 0
    """Occurrences without exactly one pulse that succeeded."""


@dataclass(kw_only=True, slots=True)
class ScheduleResult:
    """What was measured on one database."""

    database: str
    """Its name."""
    empty_percent: list[float] = field(default_factory=list[float])
    """Part of a core that a server without agents takes, of each look."""
    idle_percent: list[float] = field(default_factory=list[float])
    """The same with all agents."""
    empty_bytes: int = 0
    """Resident memory without agents."""
    idle_bytes: int = 0
    """The same with all agents."""
    due: dict[str, DueRoutines] = field(default_factory=dict[str, DueRoutines])
    """Runs of routines, by how they came due."""


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    settings: dict[str, Any] = {"launchers": LAUNCHERS}
    notes: list[str] = []
    found = [await _measured("SQLite", folder / "sqlite", settings, size)]
    try:
        async with postgres() as url:
            settings = {**settings, "server": {"database_url": url}}
            found.append(await _measured("PostgreSQL", folder / "postgres", settings, size))
    except NoPostgres as error:
        notes.append(f"PostgreSQL is left out: {error}")
    disk = await commit_milliseconds(folder / "disk", 300)
    return _report(size, found, disk, notes)


async def _measured(database: str, folder: Path, settings: dict[str, Any], size: Size) -> ScheduleResult:
    found = ScheduleResult(database=database)
    async with circadia(folder / "empty", settings) as server:
        found.empty_percent, found.empty_bytes = await _idle(server, size, rounds=1)
    await _filled(folder / "full" / "data", settings, size.agents)
    async with circadia(folder / "full", settings) as server:
        found.idle_percent, found.idle_bytes = await _idle(server, size, rounds=size.rounds)
        names = iter(range(size.agents))
        steady = [place / RATE for place in range(size.steady)]
        gaps = [random.uniform(*RARE_SECONDS) for _ in range(size.rare)]
        rare = [sum(gaps[:place]) for place in range(size.rare)]
        for how, moments in (("steady", steady), ("rare", rare), ("burst", [0.0] * size.burst)):
            agents = {_name(next(names)): moment for moment in moments}
            found.due[how] = await _come_due(server, agents, statistics.median(found.idle_percent))
    return found


async def _idle(server: Circadia, size: Size, *, rounds: int) -> tuple[list[float], int]:
    """Return what the server takes of a core, look by look, and its memory."""
    await asyncio.sleep(SETTLE_SECONDS)
    return [await idle_percent(server, size.idle_seconds) for _ in range(rounds)], memory_bytes(server.pid)


def _name(index: int) -> str:
    return f"agent-{index}"


async def _filled(data: Path, settings: dict[str, Any], agents: int) -> None:
    """Make the database of a server with so many agents, whose routines are due one after the other from later on."""
    data.mkdir(parents=True)
    clock, ids, signals = SystemClock(), RandomIds(system_milliseconds), LocalSignals()
    tier = build_wake_services(Settings.model_validate(settings), clock, ids, EventLog(clock, signals))
    step = timedelta(seconds=(EVERY_SECONDS - EARLIEST_SECONDS) / agents)
    now = clock.now()
    begin = now + timedelta(seconds=EARLIEST_SECONDS)
    home = Session(
        id=SessionId(ids.new("ses")), name=DEFAULT_SESSION, status=SessionStatus.OPEN, created_at=now, touched_at=now
    )  # fmt: skip
    url = settings.get("server", {}).get("database_url")
    store = await (open_postgres(url) if url else open_sqlite(data / "circadia.db"))
    try:
        async with store.begin_write() as tx:
            known = await tx.sessions.get_by_name(DEFAULT_SESSION)
            if known is None:
                await tx.sessions.add(home)
            home = known or home
        setting = {name: Setting(value=value, source=SettingSource.PATCH, at=now) for name, value in _CHANGES.items()}
        for first in range(0, agents, AT_ONCE):
            async with store.begin_write() as tx:
                for index in range(first, min(agents, first + AT_ONCE)):
                    agent = Agent(
                        id=AgentId(ids.new("agt")), session_id=home.id, session=home.name, name=_name(index),
                        token_hash=hash_token(_name(index)), asleep=True, since=now, cause=Cause.OPERATOR,
                        actor="operator", settings=setting, created_at=now,
                    )  # fmt: skip
                    await tx.agents.add(agent)
                    recurrence = Recurrence(every_seconds=EVERY_SECONDS, anchor=begin + index * step)
                    spec = RoutineSpec(name="tidy", instructions="Tidy up.", recurrence=recurrence)
                    await tier.routines.replace(tx, agent, [spec], by="operator")
    finally:
        await store.close()


async def _come_due(server: Circadia, moments: dict[str, float], idle_percent: float) -> DueRoutines:
    """Let each agent's routine come due at its moment, in seconds from a common begin; the last one comes last."""
    due = await _planned(server, moments)
    last = next(reversed(due))
    await asyncio.sleep(min(due.values()) - 1.0 - time.time())
    cpu, began = cpu_seconds(server.pid), time.monotonic()
    await asyncio.sleep(due[last] - time.time())
    await _ended(server, last)
    await asyncio.sleep(1.0)
    spent = cpu_seconds(server.pid) - cpu - idle_percent / 100 * (time.monotonic() - began)
    pulses = dict(zip(due, await _for_each(due, lambda name: _ended(server, name)), strict=True))
    wall = time.time() - time.monotonic()
    good = {
        name: found[0] for name, found in pulses.items() if [pulse["status"] for pulse in found] == ["succeeded"]
    }  # fmt: skip
    return DueRoutines(
        late=[(noted(pulse)[0] + wall - due[name]) * 1000 for name, pulse in good.items()],
        cpu_ms=spent * 1000 / len(due),
        lost=len(due) - len(good),
    )


async def _planned(server: Circadia, moments: dict[str, float]) -> dict[str, float]:
    """Give each agent a routine that is due at its moment; return when that is, in seconds since 1970."""
    begin = time.time() + LEAD_SECONDS + LEAD_SECONDS_EACH * len(moments)
    due = {name: begin + moment for name, moment in moments.items()}

    async def plan(name: str) -> None:
        routine = {
            "name": "tidy", "instructions": "Tidy up.", "every_seconds": EVERY_SECONDS,
            "anchor": datetime.fromtimestamp(due[name], UTC).isoformat(),
        }  # fmt: skip
        await server.ask("PUT", f"agents/{name}/schedule", {"routines": [routine]})

    await _for_each(due, plan)
    assert time.time() < begin - 1.0, "the routines were still being set when the first came due"
    return due


async def _for_each(names: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> Sequence[T]:
    """Ask for each of the names, some at a time; return the answers in their order."""
    free = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one(name: str) -> T:
        async with free:
            return await ask(name)

    return await asyncio.gather(*map(one, names))


async def _ended(server: Circadia, agent: str) -> list[dict[str, Any]]:
    """Return the agent's pulses once there is one and none is open; none after a while in which none came."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLED_SECONDS):
            while True:
                pulses = (await server.ask("GET", f"agents/{agent}/pulses"))["pulses"]
                if pulses and all(pulse["ended_at"] for pulse in pulses):
                    return pulses
                await asyncio.sleep(0.2)
    return []


def _report(size: Size, found: Sequence[ScheduleResult], disk: Sequence[float], notes: Sequence[str]) -> Report:
    return Report(
        name="schedules",
        title=f"{size.agents:,} agents with schedules in one process",
        columns=["", "median", "p99", "worst", "times"],
        rows=[*(row for each in found for row in _rows(each, size)), line("a bare commit to this disk, ms", disk)],
        goals=[goal for each in found for goal in _goals(each, size)],
        notes=[
            "The memory is what the resident memory of the idle server is larger than that of one without agents: what "
            "is due stands in the database, and a process keeps nothing for an agent that does nothing.",
            "Of what is due, the agent is a function that ends at once; it notes when it is called, inside a pulse "
            "whose start is durable. The other agents idle meanwhile.",
            "The processor time of one holds its decision, its pulse, its launch and its end, and on SQLite the "
            "database; without what the idle server takes.",
            *notes,
        ],
        figures={**{each.database: asdict(each) for each in found}, "commit_ms": disk},
    )


def _memory(found: ScheduleResult, size: Size) -> float:
    """Return what an agent takes, in KiB."""
    return (found.idle_bytes - found.empty_bytes) / size.agents / 1024


def _rows(found: ScheduleResult, size: Size) -> list[list[str]]:
    name = found.database
    return [
        line(f"{name}: processor time, no agents, % of a core", found.empty_percent),
        line(f"{name}: processor time, all agents idle, % of a core", found.idle_percent),
        line(f"{name}: memory of an agent, KiB", [_memory(found, size)]),
        *(line(f"{name}: {TOLD[how]}: start after it was due, ms", each.late) for how, each in found.due.items()),
        *(line(f"{name}: {TOLD[how]}: processor time of one, ms", [each.cpu_ms]) for how, each in found.due.items()),
    ]


def _goals(found: ScheduleResult, size: Size) -> list[Goal]:
    name, steady, burst = found.database, found.due["steady"], found.due["burst"]
    idle = statistics.median(found.idle_percent)
    lost = sum(each.lost for each in found.due.values())
    return [
        Goal(what=f"{name}: processor time, all agents idle", limit=3, unit="% of a core", found=idle),
        Goal(what=f"{name}: memory of an agent", limit=3, unit="KiB", found=_memory(found, size)),
        Goal(what=f"{name}: start at {RATE:g} a second, p99", limit=500, unit="ms", found=quantile(steady.late, 0.99)),
        Goal(
            what=f"{name}: {size.burst} at the same instant, last start",
            limit=BURST_MS_EACH * size.burst,
            unit="ms",
            found=max(burst.late, default=0.0),
        ),
        Goal(what=f"{name}: occurrences without one good pulse", limit=0, unit="occurrences", found=lost),
    ]
