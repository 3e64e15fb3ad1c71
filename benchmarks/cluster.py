"""Several servers on one PostgreSQL: what a decision with its pulse costs at a distance, and what more processes bring.

The distance is made by a proxy (`delay_proxy`) whose measured median is within 5 % of what is stated.
"""

import asyncio
import json
import statistics
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.admission_process import WRITERS
from benchmarks.cluster_claims import ClaimResult, measure_claims
from benchmarks.cluster_process import prepare
from benchmarks.cluster_servers import count_idle_trips
from benchmarks.delay_proxy import MOST_OFF, DelayProxy, NoDelay, delay_proxy
from benchmarks.postgres import NoPostgres, analyze, connect, postgres
from benchmarks.processes import cpu_seconds, stop
from benchmarks.report import Goal, Report, number

_NUMBERING_TRIPS: Final = 3
"""BEGIN with the lock, the statement, COMMIT."""
_SETTLE_SECONDS: Final = 0.3
_STOP_SECONDS: Final = 30.0
NAMES: Final = {"decisions": "decision with its pulse", "turns": "remembered turn"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    processes: Sequence[int] = (1, 2, 4)
    sessions: Sequence[int] = (1, 4)
    """In how many sessions the agents are."""
    round_trips: Sequence[float] = (0, 1, 5)
    """Milliseconds between the processes and PostgreSQL."""
    seconds: float = 5.0
    """Of each measurement."""
    warm_up: int = 30
    """Times that each writer works before: after 400 statements a connection prepares all of them again."""
    jobs: int = 4_000
    """Pulses that workers claim."""
    workers: Sequence[int] = (8, 50)
    rounds: int = 3
    """With and without NOTIFY by turns."""
    idle_after_seconds: float = 12.0
    """From the start until the first look for old rows is over."""
    idle_seconds: float = 20.0
    """For which a server has nothing to do."""


QUICK: Final = Size(
    processes=(1, 2), sessions=(1,), round_trips=(0, 20), seconds=0.2, warm_up=1, jobs=60, workers=(8,), rounds=1,
    idle_after_seconds=3, idle_seconds=2,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterResult:
    """What processes did together."""

    work: str
    sessions: int
    processes: int
    signals: str
    round_trip_ms: float
    measured_ms: float | None
    """Median of the round trip; none without the proxy."""
    kept_ms: float | None
    """Median time for which the proxy kept bytes meanwhile, both ways together."""
    rate: float
    p50_ms: float
    trips: float | None
    """Of one decision or turn; none without the proxy."""
    numbering_trips: float
    """More trips, to number events after their commit."""
    python_ms: float
    postgres_ms: float
    empty_claims: int

    @property
    def is_off(self) -> bool:
        """Whether the proxy kept bytes for longer than stated while the processes worked."""
        return self.kept_ms is not None and self.kept_ms > self.round_trip_ms * (1 + MOST_OFF)


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    try:
        async with postgres() as url, delay_proxy(url) as proxy:
            found: list[ClusterResult] = []
            for sessions in size.sessions:
                database = await _prepare_database(url, f"sessions_{sessions}", size, sessions)
                for processes in size.processes:
                    found += await _measure(database, proxy, "decisions", processes, sessions, size)
            database = await _prepare_database(url, "turns", size, 1)
            for processes in size.processes:
                found += await _measure(database, proxy, "turns", processes, 1, size)
            notified = await _compare_signals(await _prepare_database(url, "signals", size, 1), size)
            claims: list[ClaimResult] = []
            for workers in size.workers:
                database = await make_database(url, f"claims_{workers}")
                claims.append(await measure_claims(database, workers, size.jobs))
            await proxy.set_round_trip(0)
            idle_url = await make_database(url, "idle")
            idle = await count_idle_trips(
                folder, idle_url, proxy, after=size.idle_after_seconds, seconds=size.idle_seconds
            )  # fmt: skip
    except (NoPostgres, NoDelay) as error:
        return _report(size, (), (), (), None, [f"Nothing is measured: {error}"])
    return _report(size, found, notified, claims, idle, [])


async def make_database(url: str, name: str) -> str:
    """Make a database on the server at this URL; return its URL."""
    connection = await connect(url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return urlsplit(url)._replace(path=f"/{name}").geturl()


async def _prepare_database(url: str, name: str, size: Size, sessions: int) -> str:
    database = await make_database(url, name)
    await prepare(database, writers=max(*size.processes, 2) * WRITERS, sessions=sessions)
    await analyze(database)
    return database


async def _measure(
    url: str, proxy: DelayProxy, work: str, processes: int, sessions: int, size: Size
) -> list[ClusterResult]:
    """Let processes work at each distance, and once without one."""
    found: list[ClusterResult] = []
    if 0 in size.round_trips:
        async with _members(work, url, processes, sessions, size.warm_up) as members:
            found.append(await _work(members, url, None, 0, work, sessions, "local", size.seconds))
    await proxy.set_round_trip(0)
    async with _members(work, proxy.build_url(url), processes, sessions, size.warm_up) as members:
        found += [
            await _work(members, url, proxy, round_trip, work, sessions, "local", size.seconds)
            for round_trip in filter(None, size.round_trips)
        ]
        await proxy.set_round_trip(0)
    return found


async def _work(
    members: Sequence[asyncio.subprocess.Process], url: str, proxy: DelayProxy | None, round_trip: float, work: str,
    sessions: int, signals: str, seconds: float,
) -> ClusterResult:  # fmt: skip
    """Let the processes work for so long, and add up what they did and used."""
    await asyncio.sleep(_SETTLE_SECONDS)
    measured = None if proxy is None else await proxy.set_round_trip(round_trip)
    server = server_pid(url)
    if proxy is not None:
        await proxy.begin_count()
    cpu = cpu_seconds(server)
    for member in members:
        assert member.stdin is not None
        member.stdin.write(f"{seconds}\n".encode())
    done = [json.loads(line) for line in await asyncio.gather(*map(_read_line, members))]
    cpu = cpu_seconds(server) - cpu
    traffic = None if proxy is None else await proxy.count()
    count = sum(each["done"] for each in done)
    numbering = _NUMBERING_TRIPS * sum(each["numberings"] for each in done) / count
    return ClusterResult(
        work=work,
        sessions=sessions,
        processes=len(members),
        signals=signals,
        round_trip_ms=round_trip,
        measured_ms=measured,
        kept_ms=None if traffic is None else traffic.kept_ms,
        rate=count / max(each["seconds"] for each in done),
        p50_ms=statistics.median(each["p50_ms"] for each in done),
        trips=None if traffic is None else traffic.trips / count - numbering,
        numbering_trips=numbering,
        python_ms=sum(each["cpu_ms"] for each in done) / count,
        postgres_ms=cpu * 1000 / count,
        empty_claims=sum(each["empty_claims"] for each in done),
    )


@asynccontextmanager
async def _members(
    work: str, url: str, processes: int, sessions: int, warm_up: int, signals: str = "local"
) -> AsyncGenerator[Sequence[asyncio.subprocess.Process]]:
    """Run processes that are ready to work."""
    async with AsyncExitStack() as stack:
        members: list[asyncio.subprocess.Process] = []
        for each in range(processes):
            member = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "benchmarks.cluster_process", work, url),
                *map(str, (each, sessions, warm_up, signals)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            stack.push_async_callback(stop, member, _STOP_SECONDS)
            members.append(member)
        for member in members:
            assert await _read_line(member) == b"ready\n"
        yield members
        for member in members:
            assert member.stdin is not None
            member.stdin.close()


async def _read_line(member: asyncio.subprocess.Process) -> bytes:
    assert member.stdout is not None
    line = await member.stdout.readline()
    if not line:
        raise RuntimeError("a process of the benchmark ended; what it said stands above")
    return line


def server_pid(url: str) -> int:
    folder = Path(urlsplit(url).query.removeprefix("host="))
    return int((folder / "data" / "postmaster.pid").read_text().split()[0])


async def _compare_signals(url: str, size: Size) -> Sequence[ClusterResult]:
    """Let two processes work with and without NOTIFY by turns, without a distance; return the medians."""
    found: list[ClusterResult] = []
    for work in NAMES:
        rounds: dict[str, list[ClusterResult]] = {"local": [], "notify": []}
        for _ in range(size.rounds):
            for signals, results in rounds.items():
                async with _members(work, url, 2, 1, size.warm_up, signals) as members:
                    results.append(await _work(members, url, None, 0, work, 1, signals, size.seconds / 2))
        found += [sorted(results, key=lambda each: each.rate)[len(results) // 2] for results in rounds.values()]
    return found


def _report(
    size: Size, found: Sequence[ClusterResult], notified: Sequence[ClusterResult], claims: Sequence[ClaimResult],
    idle: float | None, notes: Sequence[str],
) -> Report:  # fmt: skip
    return Report(
        name="cluster",
        title=f"Processes on one PostgreSQL, {WRITERS} writers in each, with agents and banks of their own",
        columns=[
            "work", "processes", "round trip ms", "/s", "times one", "p50 ms", "trips", "to number events",
            "Python CPU ms", "PostgreSQL CPU ms",
        ],
        rows=[
            *(_row(_describe(each), each, _ratio(each, found)) for each in found),
            *(_row(f"{NAMES[each.work]}, {_SIGNALS[each.signals]}", each, None) for each in notified),
            *(
                [f"claim of up to 4 pulses, {each.workers} workers", "2", "direct", number(each.rate), *["–"] * 6]
                for each in claims
            ),
        ],
        goals=_goals(size, found, claims, idle),
        notes=[*(_notes(claims) if found else ()), *notes],
        figures={
            "work": [asdict(each) for each in found],
            "signals": [asdict(each) for each in notified],
            "claims": [asdict(each) for each in claims],
            "idle": idle,
        },
    )  # fmt: skip


_SIGNALS: Final = {"local": "nobody hears its signals", "notify": "NOTIFY carries its signals"}


def _describe(each: ClusterResult) -> str:
    if each.work == "turns":
        return NAMES[each.work]
    return f"{NAMES[each.work]}, {'one session' if each.sessions == 1 else f'{each.sessions} sessions'}"


def _row(name: str, each: ClusterResult, ratio: float | None) -> list[str]:
    distance = "direct" if each.measured_ms is None else f"{each.round_trip_ms:g} ({each.measured_ms:.2f})"
    return [
        name,
        str(each.processes),
        distance,
        "refused" if each.is_off else number(each.rate),
        "–" if ratio is None else number(ratio),
        number(each.p50_ms),
        "–" if each.trips is None else number(each.trips),
        number(each.numbering_trips),
        number(each.python_ms),
        number(each.postgres_ms),
    ]


def _ratio(each: ClusterResult, found: Sequence[ClusterResult]) -> float | None:
    """Return the rate in rates of one process."""
    one = _find(found, each.work, each.sessions, 1, each.round_trip_ms)
    return None if one is None or each.is_off else each.rate / one.rate


def _find(
    found: Sequence[ClusterResult], work: str, sessions: int, processes: int, round_trip: float
) -> ClusterResult | None:
    """Return a result that counts."""
    same = (work, sessions, processes, round_trip)
    return next(
        (
            each
            for each in found
            if (each.work, each.sessions, each.processes, each.round_trip_ms) == same and not each.is_off
        ),
        None,
    )


def _goals(size: Size, found: Sequence[ClusterResult], claims: Sequence[ClaimResult], idle: float | None) -> list[Goal]:
    goals: list[Goal] = []
    near, far, most = size.round_trips[1], size.round_trips[-1], size.processes[-1]
    alone = [each for sessions in size.sessions if (each := _find(found, "decisions", sessions, 1, near))]
    for sessions in size.sessions:
        where = "one session" if sessions == 1 else f"{sessions} sessions"
        one, many = (_find(found, "decisions", sessions, *at) for at in ((1, near), (most, far)))
        what = f"decisions with their pulses a second, {where}, one process, {near:g} ms"
        goals.append(Goal(what=what, limit=150, unit="a second", bound="at least", found=one and one.rate))
        what = f"{most} processes against one, {where}, {far:g} ms"
        goals.append(Goal(what=what, limit=3, unit="times", bound="at least", found=many and _ratio(many, found)))
    what = "round trips of a decision with its pulse"
    goals.append(Goal(what=what, limit=15, unit="trips", found=max((each.trips or 0 for each in alone), default=None)))
    for what, limit, values in (
        ("Python's processor time of it", 3, [each.python_ms for each in alone]),
        ("PostgreSQL's", 2, [each.postgres_ms for each in alone]),
    ):
        goals.append(Goal(what=f"{what}, {near:g} ms", limit=limit, unit="ms", found=max(values, default=None)))
    for each in claims:
        what = f"empty claims per pulse while pulses are pending, {each.workers} workers"
        goals.append(Goal(what=what, limit=2, unit="claims", found=each.empty / each.jobs))
        what = f"pulses claimed twice or never, {each.workers} workers"
        goals.append(Goal(what=what, limit=0, unit="pulses", found=each.wrong))
    goals.append(Goal(what="round trips of an idle server", limit=2, unit="a second", found=idle))
    return goals


def _notes(claims: Sequence[ClaimResult]) -> list[str]:
    return [
        "A decision with its pulse is `POST /wakes` by an agent, the claim of a pulse, its prompt, its start and its "
        "end, each in the blocks in which a server runs them; the pulse's agent does nothing. A turn has 25 words.",
        "A trip is what a process sends and awaits: it is counted by the proxy. Events get their numbers after their "
        "commit, for several blocks at once; these trips have a column of their own, and no decision waits for them.",
        "The round trip in brackets is the measured median before each run. A result is refused if it is off by more "
        "than 5 %, or if the proxy was late by more than that while the processes worked. The proxy takes a part of "
        "the same cores; `direct` is without it.",
        "PostgreSQL's processor time is that of all its processes.",
        *(
            f"{each.workers} workers in two processes claimed {each.jobs:,} pulses, four at most in a claim, in "
            f"{each.claims:,} claims: {each.empty:,} of them found none while some were pending."
            for each in claims
        ),
    ]  # fmt: skip
