"""What a proxied model call costs: direct, through Circadia, and through other proxies."""

import asyncio
import contextlib
import statistics
import sys
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.peers import PEERS, NotInstallable, Peer
from benchmarks.processes import cpu_seconds, memory_bytes
from benchmarks.report import Goal, Report, number
from benchmarks.requests import body, wire
from benchmarks.server import Circadia, circadia
from benchmarks.tools import Load, LoadFailed, fast_upstream, load

MANY: Final = 32
SETTLE_SECONDS: Final = 0.4
"""After a run, until what is written behind its answers is written: its processor time belongs to the run."""
AGENT: Final = "caller"
SESSION: Final = "proxied"
DIRECT: Final = "direct, no proxy"
BARE: Final = "bare relay (uvicorn + aiohttp)"
CIRCADIA: Final = "Circadia"


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    seconds: float = 4.0
    """Length of a run."""
    warm_up_seconds: float = 1.0
    """Length of the run before the first, which does not count."""
    rounds: int = 5
    """Runs of each case; medians count."""
    peers: bool = True
    """Whether other proxies are set up."""


QUICK: Final = Size(seconds=0.2, warm_up_seconds=0.1, rounds=1, peers=False)


@dataclass(frozen=True, order=True, slots=True)
class Case:
    """What is sent: plain or streamed, over so many connections."""

    streamed: bool
    connections: int

    @property
    def name(self) -> str:
        """In words."""
        return f"{'SSE' if self.streamed else 'plain'}, {self.connections}"


CASES: Final = [Case(streamed, connections) for streamed in (False, True) for connections in (1, MANY)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What is measured: something that takes chat completions."""

    name: str
    pid: int | None
    """Its process; none for the upstream itself."""
    port: int
    path: str
    headers: dict[str, str]


@dataclass(kw_only=True, slots=True)
class ProxyResult:
    """Runs of one subject in one case."""

    loads: list[Load] = field(default_factory=list[Load])
    cpu: list[float] = field(default_factory=list[float])
    """Milliseconds of processor time for a request."""

    @property
    def rate(self) -> float:
        """Requests a second."""
        return statistics.median(run.rate for run in self.loads)

    @property
    def p50(self) -> float:
        """Median time of an answer, in milliseconds."""
        return statistics.median(run.p50 for run in self.loads)

    @property
    def p99(self) -> float:
        """Last centile, in milliseconds."""
        return statistics.median(run.p99 for run in self.loads)

    @property
    def cpu_ms(self) -> float | None:
        """Milliseconds of processor time for a request; none for the upstream itself."""
        return statistics.median(self.cpu) if self.cpu else None

    @property
    def errors(self) -> int:
        """Bad answers."""
        return sum(run.errors for run in self.loads)


Results = dict[tuple[str, Case], ProxyResult]


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: list[str] = []
    results: Results = {}
    broken: set[tuple[str, Case]] = set()
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(fast_upstream())
        settings = {"upstreams": {"fast": {"base_url": f"http://127.0.0.1:{upstream}"}}}
        server = await stack.enter_async_context(circadia(folder / "circadia", settings))
        token = (await server.agents(SESSION, [AGENT]))[AGENT]
        bare = await stack.enter_async_context(run_bare_relay(upstream))
        path = "/v1/chat/completions"
        subjects = [
            Subject(name=DIRECT, pid=None, port=upstream, path=path, headers={}),
            Subject(name=BARE, pid=bare.pid, port=bare.port, path=bare.path, headers={}),
            Subject(
                name=CIRCADIA, pid=server.pid, port=server.port, path=f"/llm/fast{path}",
                headers={"Authorization": f"Bearer {token}"},
            ),
        ]  # fmt: skip
        peers = {each.name: each for each in await _peers(stack, folder, upstream, notes)} if size.peers else {}
        subjects += peers.values()
        for number_of_round in range(size.rounds + 1):
            seconds = size.seconds if number_of_round else size.warm_up_seconds
            for case in CASES:
                for subject in subjects:
                    if (subject.name, case) in broken:
                        continue
                    try:
                        found = await measure_run(folder, subject, case, seconds)
                    except LoadFailed as error:
                        if subject.name not in peers:
                            raise
                        broken.add((subject.name, case))
                        notes.append(f"{subject.name} does not serve the case {case.name!r} here: {error}")
                        continue
                    if number_of_round:
                        keep_run(results.setdefault((subject.name, case), ProxyResult()), *found)
        memory = {subject.name: memory_bytes(subject.pid) / 2**20 for subject in subjects if subject.pid}
        missing = await _missing(server, results, size)
    return _report(results, memory, missing, notes)


@contextlib.asynccontextmanager
async def run_bare_relay(upstream: int) -> AsyncGenerator[Peer]:
    """Run the bare relay."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.bare_relay", str(upstream), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield Peer(pid=process.pid, port=int(await process.stdout.readline()), path="/v1/chat/completions")
    finally:
        process.terminate()
        await process.wait()


async def _peers(stack: contextlib.AsyncExitStack, folder: Path, upstream: int, notes: list[str]) -> list[Subject]:
    """Start the other proxies; say which are left out and why."""
    started: list[Subject] = []
    for name, start in PEERS.items():
        place = folder / name.replace(" ", "-")
        place.mkdir()
        try:
            peer = await stack.enter_async_context(start(place, upstream))
        except NotInstallable as error:
            notes.append(f"{name} is left out: {error}")
            print(notes[-1], flush=True)
            continue
        started.append(Subject(name=name, pid=peer.pid, port=peer.port, path=peer.path, headers=dict(peer.headers)))
    return started


async def measure_run(folder: Path, subject: Subject, case: Case, seconds: float) -> tuple[Load, float | None]:
    """Return one run and the milliseconds of processor time for each of its requests."""
    file = folder / "request"
    file.write_bytes(wire(subject.port, subject.path, body(streamed=case.streamed), subject.headers))
    before = cpu_seconds(subject.pid) if subject.pid else 0.0
    mark = "data: [DONE]" if case.streamed else '"usage"'
    found = await load(subject.port, case.connections, seconds, file, mark)
    if subject.pid is None:
        return found, None
    await asyncio.sleep(SETTLE_SECONDS)
    return found, (cpu_seconds(subject.pid) - before) * 1000 / found.requests


def keep_run(found: ProxyResult, load_found: Load, cpu: float | None) -> None:
    found.loads.append(load_found)
    if cpu is not None:
        found.cpu.append(cpu)


async def _missing(server: Circadia, results: Results, size: Size) -> int:
    """Return how many answered calls the usage ledger lacks; the warm-up may have more than is counted here."""
    answered = sum(run.requests for (name, _), found in results.items() if name == CIRCADIA for run in found.loads)
    usage = await server.ask("GET", "usage?group_by=agent")
    written = sum(group["calls"] for group in usage["usage"])
    return max(0, answered - written)


def _report(results: Results, memory: dict[str, float], missing: int, notes: list[str]) -> Report:
    names = list(dict.fromkeys(name for name, _ in results))
    rows = [_row(name, case, results, memory) for case in CASES for name in names if (name, case) in results]
    litellm = next((name for name in names if name.startswith("LiteLLM")), None)
    ours = {case: results[CIRCADIA, case] for case in CASES}
    added = [ours[case].p50 - results[DIRECT, case].p50 for case in CASES if case.connections == 1]
    many = [case for case in CASES if case.connections == MANY]
    ratios = (
        [ours[case].rate / results[litellm, case].rate for case in many if (litellm, case) in results]
        if litellm
        else []
    )
    return Report(
        name="proxy",
        title="A model call with a body of 2 KB through a proxy; SSE is 20 chunks; gate, usage and events on",
        columns=["case", "through", "CPU ms a request", "requests/s", "p50 ms", "p99 ms", "added p50 ms", "MiB", "bad"],
        rows=rows,
        goals=[
            *(
                Goal(what=f"CPU of a call: {case.name}", limit=0.8 if case.streamed else 0.6, unit="ms",
                     found=ours[case].cpu_ms)
                for case in CASES
            ),
            Goal(what="added p50 at one connection (the worse kind)", limit=2, unit="ms", found=max(added)),
            Goal(
                what="times LiteLLM's rate, 32 connections (the worse kind)", limit=10, unit="times", bound="at least",
                found=min(ratios, default=None),
            ),
            Goal(what="answered calls that the ledger lacks", limit=0, unit="calls", found=missing),
        ],
        notes=[
            "CPU is user and system time of the proxy's processes alone, from before a run to 0.4 s after it, divided "
            "by its requests; upstream and load generator are compiled programs of their own.",
            "Medians of the runs; the subjects take turns in each round.",
            "The bare relay is the floor of the libraries that Circadia stands on: it checks and writes down nothing.",
            *notes,
        ],
        figures={
            "cases": [
                {"case": case.name, "through": name, "cpu_ms": found.cpu, "rate": [run.rate for run in found.loads]}
                for (name, case), found in results.items()
            ],
            "times_litellm": ratios,
        },
    )  # fmt: skip


def _row(name: str, case: Case, results: Results, memory: dict[str, float]) -> Sequence[str]:
    found = results[name, case]
    added = found.p50 - results[DIRECT, case].p50
    return [
        case.name,
        name,
        "–" if found.cpu_ms is None else number(found.cpu_ms),
        number(found.rate),
        number(found.p50),
        number(found.p99),
        "–" if name == DIRECT else number(added),
        number(memory[name]) if name in memory else "–",
        str(found.errors),
    ]
