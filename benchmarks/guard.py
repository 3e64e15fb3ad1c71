"""The guard: what a call, a hold, a write, a search and an idle server cost, before and after a change (LARGE-09).

`make guard` runs it on a twentieth of the large world, `make guard DATABASE=postgres` on PostgreSQL. Each figure stands
beside its bound and beside its value at the last commit of `guard.json`. What can fail is a ratio within the run, a
count or a number of bytes; milliseconds are told with the machine.
"""

import asyncio
import contextlib
import json
import re
import sqlite3
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import uvloop
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from benchmarks.callers import Caller, call, good
from benchmarks.guard_servers import (
    PATH,
    SESSION,
    USER,
    GuardServer,
    Subject,
    fill_databases,
    open_fresh_server,
    open_server,
)
from benchmarks.machine import machine
from benchmarks.postgres import connect
from benchmarks.processes import cpu_seconds, kills_children, memory_bytes
from benchmarks.proxy import run_bare_relay
from benchmarks.report import number
from benchmarks.requests import TEXT, body, wire
from benchmarks.startup import IDLE_MEGABYTES, INSTALLED_MEGABYTES, MEGABYTE, installed_bytes, measure_starts
from benchmarks.tools import fast_upstream, load

COMMITTED: Final = Path(__file__).with_name("guard.json")
PLAIN, STREAMED = "a call, plain", "a call, SSE"
UNKNOWN, BANKED = "a call with an unknown history", "a call with a bank"
OF_RELAY: Final = {PLAIN: 3.0, STREAMED: 2.8}
"""Largest ratio to the bare relay of a server that is a gate alone (LARGE-03)."""
OF_NEW: Final = {PLAIN: 1.15, STREAMED: 1.15, UNKNOWN: 1.15, BANKED: 1.3}
"""Largest ratio in the world to a new database, both with memory in use (LARGE-03)."""
RELAY: Final = f"{PLAIN}, relay: processor time"
CONNECTIONS: Final = 32
ROUNDS: Final = 4
SECONDS: Final = 0.4
"""Length of a run."""
SETTLE_SECONDS: Final = 0.2
"""After a run, until what is written behind its answers is written."""
WARM_UP_SECONDS: Final = 1.0
HOLDS: Final = 600
REQUESTS: Final = 200
"""Writes, searches and the relay's calls of a round."""
RELAYED: Final = 4
"""How many times as many calls the relay gets then: Linux counts a process' time in steps of 10 ms."""
AFTER_START_SECONDS: Final = 9.0
"""With the start of the others, so long that the first look for old rows is over, and PostgreSQL has counted it."""
IDLE_SECONDS: Final = 6
MOST_IDLE: Final = {"commits seen": 0.2, "transactions": 5.0, "rows written": 2.0}
"""LARGE-06: two round trips a second, and on PostgreSQL those of leases, which are written."""
WORSE: Final = 1.5
"""A figure without a bound of its own may be so many times its committed value."""

_ARRIVED: Final = re.compile(rb'"system_fingerprint": ?"?(\d+)')
"""When the upstream got the call, on `time.monotonic_ns`."""

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    what: str
    found: float
    unit: str
    bound: float | None = None
    """None for what is only told, since it depends on the machine; 0 for one that its committed value bounds."""

    def limit(self, committed: float | None, room: float = 1.0) -> float | None:
        """Return the largest value that does not fail; a ratio has `room` on a slow machine."""
        if self.bound is None or (committed is None and not self.bound):
            return None
        return (self.bound or WORSE * (committed or 0.0)) * (room if self.unit == "×" else 1.0)


async def measure(folder: Path, *, is_postgres: bool, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures, in a folder of their own."""
    say("starts")
    starts = await measure_starts(folder / "starts", 1)
    async with contextlib.AsyncExitStack() as stack:
        say("filling the world")
        urls = await fill_databases(stack, folder, is_postgres=is_postgres)
        upstream = await stack.enter_async_context(fast_upstream())
        bare = await stack.enter_async_context(run_bare_relay(upstream))
        old = await open_server(stack, folder / "world", upstream, urls.world)
        new = await open_server(stack, folder / "new", upstream, urls.new)
        fresh = await open_fresh_server(stack, folder / "fresh", upstream, urls.fresh)
        say("an idle server")
        figures = await _idle(old, fresh, folder / "world" / "data" / "circadia.db", urls.statistics)
        relay = Subject(pid=bare.pid, port=bare.port, path=PATH, headers={})
        say("calls")
        figures += await _Calls(folder, {"relay": relay, "fresh": fresh}, {"new": new, "world": old}).measure()
        say("writes and searches")
        figures += await _requests(old, relay)
        say("holds")
        figures += await _holds(new, relay)
    return [
        *figures,
        Figure(what="an idle server without upstreams: memory", found=max(starts.resident_megabytes), unit="MB",
               bound=IDLE_MEGABYTES),
        Figure(what="a start until ready: processor time", found=max(starts.ready_seconds), unit="s", bound=0.0),
        Figure(what="an installation without extras and bytecode", found=sum(installed_bytes().values()) / MEGABYTE,
               unit="MB", bound=INSTALLED_MEGABYTES),
    ]  # fmt: skip


async def _idle(server: GuardServer, fresh: Subject, file: Path, statistics_url: str | None) -> list[Figure]:
    """Measure what the world's server does while nobody asks, beside one on a new database."""
    await asyncio.sleep(AFTER_START_SECONDS)
    pids = (server.circadia.pid, fresh.pid)
    async with contextlib.AsyncExitStack() as stack:
        read_counts = await _counts_of_writes(stack, file, statistics_url)
        before, counts = list(map(cpu_seconds, pids)), await read_counts()
        latest = counts
        for _ in range(IDLE_SECONDS):  # SQLite tells whether there were commits since the last look, not how many
            await asyncio.sleep(1)
            latest = await read_counts()
        used = [cpu_seconds(pid) - cpu for pid, cpu in zip(pids, before, strict=True)]
        counts = {name: (after - counts[name]) / IDLE_SECONDS for name, after in latest.items()}
    return [
        Figure(what="idle in the world: times a new database", found=used[0] / used[1], unit="×", bound=2.0),
        *(Figure(what=f"idle in the world: {what} a second", found=found, unit="", bound=MOST_IDLE[what])
          for what, found in counts.items()),
        Figure(what="idle in the world: share of a core", found=100 * used[0] / IDLE_SECONDS, unit="%"),
    ]  # fmt: skip


async def _counts_of_writes(
    stack: contextlib.AsyncExitStack, file: Path, statistics_url: str | None
) -> Callable[[], Awaitable[Mapping[str, int]]]:
    """Return what tells how much the world's database has done."""
    if statistics_url is None:
        sqlite = stack.enter_context(closing(sqlite3.connect(file)))

        async def of_sqlite() -> Mapping[str, int]:
            return {"commits seen": sqlite.execute("PRAGMA data_version").fetchone()[0]}

        return of_sqlite
    connection = await connect(statistics_url)
    stack.push_async_callback(connection.close)

    async def of_postgres() -> Mapping[str, int]:
        row = await connection.fetchrow(
            "SELECT xact_commit + xact_rollback, tup_inserted + tup_updated + tup_deleted FROM pg_stat_database"
            " WHERE datname = 'world'"
        )
        return {"transactions": row[0], "rows written": row[1]}

    return of_postgres


class _Calls:
    """Measures proxied calls. The subjects take turns in each round, so that a busy moment meets all of them."""

    def __init__(self, folder: Path, plain: Mapping[str, Subject], servers: Mapping[str, GuardServer]) -> None:
        """`plain` take calls without memory; in `servers` memory is in use."""
        self._folder = folder
        request = body(streamed=False)
        known: Mapping[str, Subject] = {**plain, **{name: _subject(each) for name, each in servers.items()}}
        banked = {name: _subject(each, has_bank=True) for name, each in servers.items()}
        self._cases: Mapping[str, tuple[bytes, str, Mapping[str, Subject]]] = {
            PLAIN: (request, '"usage"', known),
            STREAMED: (body(streamed=True), "data: [DONE]", known),
            UNKNOWN: (_with_history(request), '"usage"', {name: known[name] for name in servers}),
            BANKED: (request, '"usage"', banked),
        }
        self._costs: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        """Milliseconds of processor time for a call, by kind and subject, of each round."""

    async def measure(self) -> list[Figure]:
        """Return the figures."""
        await self._run_round(WARM_UP_SECONDS)
        self._costs.clear()
        figures: list[Figure] = []
        for _ in range(3):
            for _ in range(ROUNDS):
                await self._run_round(SECONDS)
            figures = list(self._list_ratios())
            if not any(figure.bound and figure.found > figure.bound for figure in figures):
                break  # else it may be noise: as many rounds again decide
        told = [
            Figure(what=f"{kind}, {name}: processor time", found=statistics.median(self._costs[kind, name]), unit="ms")
            for kind, name in ((PLAIN, "relay"), (PLAIN, "fresh"), (STREAMED, "relay"), (STREAMED, "fresh"))
        ]
        return [*figures, *told]

    async def _run_round(self, seconds: float) -> None:
        for kind, (request, mark, subjects) in self._cases.items():
            for name, subject in subjects.items():
                self._costs[kind, name].append(await _run(self._folder, subject, request, mark, seconds))

    def _list_ratios(self) -> Iterator[Figure]:
        for kind, bound in OF_RELAY.items():
            found = self._find_ratio((kind, "fresh"), (kind, "relay"))
            yield Figure(what=f"{kind}: times the bare relay", found=found, unit="×", bound=bound)
        for kind, bound in OF_NEW.items():
            found = self._find_ratio((kind, "new"), (PLAIN, "relay"))
            yield Figure(what=f"{kind}, where memory is in use: times the bare relay", found=found, unit="×", bound=0.0)
            found = self._find_ratio((kind, "world"), (kind, "new"))
            yield Figure(what=f"{kind}: in the world, times a new database", found=found, unit="×", bound=bound)

    def _find_ratio(self, ours: tuple[str, str], others: tuple[str, str]) -> float:
        return _median_ratio(self._costs[ours], self._costs[others])


def _median_ratio(ours: Sequence[float], others: Sequence[float]) -> float:
    """Return the median of the rounds' ratios: what slows a round slows both."""
    return statistics.median(a / b for a, b in zip(ours, others, strict=True))


def _subject(server: GuardServer, *, has_bank: bool = False) -> Subject:
    token = server.bound if has_bank else server.plain
    headers = {"Authorization": f"Bearer {token}", "X-Circadia-User": USER}
    return Subject(pid=server.circadia.pid, port=server.circadia.port, path=f"/llm/fast{PATH}", headers=headers)


def _with_history(request: bytes) -> bytes:
    """Return the request with an answer in its history that no server knows."""
    whole = json.loads(request)
    system, user = whole["messages"]
    whole["messages"] = [system, {**user, "content": "Begin."}, {"role": "assistant", "content": "Unknown."}, user]
    return json.dumps(whole).encode()


async def _run(folder: Path, subject: Subject, request: bytes, mark: str, seconds: float) -> float:
    """Return the milliseconds of processor time for each request."""
    file = folder / "request"
    file.write_bytes(wire(subject.port, subject.path, request, subject.headers))
    before = cpu_seconds(subject.pid)
    found = await load(subject.port, CONNECTIONS, seconds, file, mark)
    if found.errors:
        raise RuntimeError(f"{found.errors} of {found.requests} answers to {subject.path} are bad")
    await asyncio.sleep(SETTLE_SECONDS)
    return (cpu_seconds(subject.pid) - before) * 1000 / found.requests


async def _requests(server: GuardServer, relay: Subject) -> list[Figure]:
    """Measure a write and a search of 10,000 episodes over REST, in the world; in turns with calls of the bare relay.

    The three are sent in the same way, a few at a time: a process that is half idle takes longer for a request than one
    that is always asked, and how much longer changes from minute to minute. The cheapest round of each counts: other
    load only adds, and adds more to what needs more memory (a search: from 2.8 to 5.1 ms).
    """
    http = server.circadia.http
    states = [f"sessions/{SESSION}/agents/agent-{2 * at + 2}/sleeping" for at in range(REQUESTS)]
    words = TEXT.split()

    async def call_relay(_round_number: int, _at: int) -> None:
        url = f"http://127.0.0.1:{relay.port}{relay.path}"
        async with http.post(url, data=body(streamed=False), headers={"Content-Type": "application/json"}) as answer:
            answer.raise_for_status()
            await answer.read()

    asked: dict[str, tuple[int, Callable[[int, int], Awaitable[object]]]] = {
        "relay": (relay.pid, call_relay),
        "a write (PUT sleeping)": (server.circadia.pid, lambda round_number, at: server.circadia.ask(
            "PUT", states[at], {"sleeping": bool(round_number % 2)}
        )),
        "a search of 10,000 episodes": (server.circadia.pid, lambda round_number, at: server.circadia.ask(
            "GET", f"banks/team/search?q={words[at % len(words)]}%20{words[(at + round_number) % len(words)]}"
        )),
    }  # fmt: skip
    found: defaultdict[str, list[float]] = defaultdict(list)
    for round_number in range(ROUNDS + 2):
        for what, (pid, ask) in asked.items():
            times = RELAYED if what == "relay" else 1
            cpu = cpu_seconds(pid)
            for at in [*range(0, REQUESTS, 8)] * times:
                await asyncio.gather(*(ask(round_number, at + more) for more in range(8)))
            await asyncio.sleep(SETTLE_SECONDS)
            if round_number:  # the first one warms up
                found[what].append((cpu_seconds(pid) - cpu) * 1000 / REQUESTS / times)
    relayed = found.pop("relay")
    return [
        figure
        for what, costs in found.items()
        for figure in (
            Figure(what=f"{what}: times a bare relay's call", found=min(costs) / min(relayed), unit="×", bound=0.0),
            Figure(what=f"{what}: processor time", found=min(costs), unit="ms"),
        )
    ]


async def _holds(server: GuardServer, relay: Subject) -> list[Figure]:
    """Measure what held calls keep, and what their release takes; beside as many calls of the bare relay at once."""
    circadia_server = server.circadia
    token = {"Authorization": f"Bearer {server.plain}"}
    request = wire(circadia_server.port, f"/llm/fast{PATH}", body(streamed=False), token)
    relayed_request = wire(relay.port, relay.path, body(streamed=False), relay.headers)
    kept: list[float] = []
    releases: list[float] = []
    relayed: list[float] = []
    waits: list[float] = []
    for _ in range(3):
        await circadia_server.sleeping(SESSION, "agent-0", True)
        before = memory_bytes(circadia_server.pid)
        callers: list[Caller] = []
        while len(callers) < HOLDS:
            callers += await asyncio.gather(*(call(circadia_server.port, request) for _ in range(100)))
        await asyncio.gather(*(caller.opened for caller in callers))
        kept.append((memory_bytes(circadia_server.pid) - before) / HOLDS / 1024)
        cpu, began = cpu_seconds(circadia_server.pid), time.monotonic_ns()
        await circadia_server.sleeping(SESSION, "agent-0", False)
        answers = await asyncio.gather(*(caller.done for caller in callers))
        if not all(map(good, answers)):
            raise RuntimeError("a held call got a bad answer")
        waits.append((min(int(found[1]) for found in map(_ARRIVED.search, answers) if found) - began) / 1e6)
        await asyncio.sleep(SETTLE_SECONDS)
        releases.append((cpu_seconds(circadia_server.pid) - cpu) * 1000 / HOLDS)
        cpu = cpu_seconds(relay.pid)
        for _ in range(0, HOLDS, 100):
            callers = await asyncio.gather(*(call(relay.port, relayed_request) for _ in range(100)))
            await asyncio.gather(*(caller.done for caller in callers))
        relayed.append((cpu_seconds(relay.pid) - cpu) * 1000 / HOLDS)
    return [
        Figure(what="a hold: memory", found=max(kept), unit="KiB", bound=24.0),
        Figure(what="a release and its call: times a bare relay's call", found=min(releases) / min(relayed),
               unit="×", bound=0.0),
        Figure(what="from the wake to the first call upstream", found=statistics.median(waits), unit="ms"),
    ]  # fmt: skip


def load_committed(database: str) -> dict[str, float]:
    """Return the committed figures of a database by name."""
    kept: dict[str, Any] = json.loads(COMMITTED.read_text("utf-8")) if COMMITTED.exists() else {}
    return kept[database]["figures"] if database in kept else {}


def _commit(database: str, figures: Sequence[Figure]) -> None:
    kept: dict[str, Any] = json.loads(COMMITTED.read_text("utf-8")) if COMMITTED.exists() else {}
    kept[database] = {"machine": machine(), "figures": {each.what: round(each.found, 3) for each in figures}}
    COMMITTED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")


def _show(console: Console, figures: Sequence[Figure], committed: dict[str, float]) -> list[str]:
    """Print the table; return the figures that are past their bound."""
    failed: list[str] = []
    room = _room(figures, committed)
    table = Table(title="guard" if room == 1.0 else f"guard; ratios have {room:.1f} times the room: a slow machine")
    for column in ("figure", "found", "bound", "committed", ""):
        table.add_column(column, justify="left" if column in ("figure", "") else "right")
    for each in figures:
        before = committed.get(each.what)
        limit = each.limit(before, room)
        is_bad = limit is not None and each.found > limit
        failed += [each.what] if is_bad else []
        verdict = "told" if limit is None else "[red]PAST ITS BOUND[/]" if is_bad else "[green]kept[/]"
        table.add_row(
            each.what, f"{number(each.found)} {each.unit}", "–" if limit is None else f"≤ {number(limit)}",
            "–" if before is None else number(before), verdict,
        )  # fmt: skip
    console.print(table)
    return failed


def _room(figures: Sequence[Figure], committed: dict[str, float]) -> float:
    """Return how much longer the bare relay takes than at the commit: there what needs more memory takes still longer.

    One machine, on two days: the relay 0.18 and 0.33 ms, the same commit of Circadia 0.40 and 1.28 ms.
    """
    found = next((each.found for each in figures if each.what == RELAY), 0.0)
    return max(1.0, (found / committed[RELAY]) ** 2) if RELAY in committed else 1.0


def _say(progress: Progress, task: TaskID, what: str) -> None:
    progress.update(task, description=what)


@app.command()
def main(
    database: Annotated[str, typer.Option(help="`sqlite` or `postgres`.")] = "sqlite",
    commit: Annotated[bool, typer.Option("--commit", help="Write the figures into benchmarks/guard.json.")] = False,
) -> None:
    """Measure what must not get worse, on a twentieth of the large world."""
    if database not in ("sqlite", "postgres"):
        raise typer.BadParameter("`sqlite` or `postgres`")
    console, began = Console(width=None), time.monotonic()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        with kills_children(), tempfile.TemporaryDirectory(prefix="circadia-guard-") as folder:
            is_postgres = database == "postgres"
            say = partial(_say, progress, task)
            figures = uvloop.run(measure(Path(folder), is_postgres=is_postgres, say=say))
    failed = _show(console, figures, load_committed(database))
    console.print(f"{time.monotonic() - began:.0f} s; {machine()['processor']}; {machine()['load']}")
    if commit:
        _commit(database, figures)
    if failed:
        console.print(f"worse than allowed: {'; '.join(failed)}", style="red")
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
