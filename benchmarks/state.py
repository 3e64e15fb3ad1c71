"""State changes a second through REST, durable, next to bare commits on the same disk in the same run."""

import asyncio
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from benchmarks.postgres import NoPostgres, connect, postgres
from benchmarks.processes import cpu_seconds
from benchmarks.report import Report, number
from benchmarks.server import ADMIN_TOKEN, Circadia, circadia

SESSION: Final = "writers"
WRITERS: Final = (1, 8, 32)
AGENT_BYTES: Final = 120
"""About what a change rewrites of the agent's row: state, generation, moment, cause, actor."""
EVENT_BYTES: Final = 260
"""About what its event takes."""
_TABLES: Final = (
    "CREATE TABLE agents (id INTEGER PRIMARY KEY, data TEXT)",
    "CREATE TABLE events (number INTEGER PRIMARY KEY, data TEXT)",
    "CREATE TABLE sessions (id INTEGER PRIMARY KEY, at TEXT)",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    seconds: float = 3.0
    """Length of a run."""
    rounds: int = 3
    """Runs of each; medians count."""


QUICK: Final = Size(seconds=0.2, rounds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class StateResult:
    """One kind of database with so many writers."""

    database: str
    writers: int
    changes: list[float]
    """State changes a second, of each run."""
    bare: list[float]
    """Bare commits a second, of the run just before."""
    p50: list[float]
    """Median time of a change, in milliseconds."""
    cpu: list[float]
    """Milliseconds of the server's processor time for a change."""

    @property
    def ratio(self) -> float:
        """State changes for one bare commit: the median over pairs of runs that stand next to each other."""
        return statistics.median(change / bare for change, bare in zip(self.changes, self.bare, strict=True))


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    found: list[StateResult] = []
    notes: list[str] = []
    async with circadia(folder / "sqlite", {}) as server:
        found += await _measured(server, "SQLite", size, lambda writers, seconds: _bare_sqlite(folder, seconds))
    try:
        async with postgres() as url, circadia(folder / "postgres", {"server": {"database_url": url}}) as server:
            found += await _measured(
                server, "PostgreSQL", size, lambda writers, seconds: _bare_pg(url, writers, seconds)
            )
    except NoPostgres as error:
        notes.append(f"PostgreSQL is left out: {error}")
    return _report(found, notes)


async def _measured(
    server: Circadia, database: str, size: Size, bare: Callable[[int, float], Awaitable[float]]
) -> list[StateResult]:
    names = [f"agent-{index}" for index in range(max(WRITERS))]
    await server.agents(SESSION, names)
    results = [StateResult(database=database, writers=n, changes=[], bare=[], p50=[], cpu=[]) for n in WRITERS]
    for number_of_round in range(size.rounds + 1):
        for found in results:
            raw = await bare(found.writers, size.seconds / 2)
            cpu = cpu_seconds(server.pid)
            times, seconds = await _changes(server, names[: found.writers], size.seconds)
            if number_of_round:
                found.bare.append(raw)
                found.changes.append(len(times) / seconds)
                found.p50.append(statistics.median(times) * 1000)
                found.cpu.append((cpu_seconds(server.pid) - cpu) * 1000 / len(times))
    return results


async def _changes(server: Circadia, names: Sequence[str], seconds: float) -> tuple[list[float], float]:
    """Let each writer move its agent to and fro; return the times of the changes and the length of the run."""
    loop = asyncio.get_running_loop()
    writers: list[_Writer] = []
    began = time.monotonic()
    for name in names:
        _, writer = await loop.create_connection(
            lambda name=name: _Writer(server.port, name, began + seconds), "127.0.0.1", server.port
        )
        writers.append(writer)
    await asyncio.gather(*(writer.done for writer in writers))
    return [each for writer in writers for each in writer.times], time.monotonic() - began


class _Writer(asyncio.Protocol):
    """Puts one agent to sleep and wakes it, over and over, on one raw connection, so that asking costs little."""

    def __init__(self, port: int, agent: str, until: float) -> None:
        path = f"/api/v1/sessions/{SESSION}/agents/{agent}/sleeping"
        self._requests = [_put(port, path, value) for value in (b"true", b"false")]
        self._until = until
        self._sent_at = 0.0
        self._answer = b""
        self._transport: asyncio.Transport | None = None
        self.times: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        """Take an answer; each must tell the state that was asked for."""
        self._answer += data
        wanted = b'"sleeping":true' if len(self.times) % 2 == 0 else b'"sleeping":false'
        if not self._answer.endswith(b"}"):
            return
        if not self._answer.startswith(b"HTTP/1.1 200") or wanted not in self._answer:
            self._fail(self._answer)
            return
        self.times.append(time.monotonic() - self._sent_at)
        if time.monotonic() < self._until or len(self.times) % 2:
            self._next()
        else:
            assert self._transport is not None
            self._transport.close()
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell a broken connection."""
        if not self.done.done():
            self._fail(b"the connection broke")

    def _next(self) -> None:
        assert self._transport is not None
        self._answer = b""
        self._sent_at = time.monotonic()
        self._transport.write(self._requests[len(self.times) % 2])

    def _fail(self, said: bytes) -> None:
        self.done.set_exception(RuntimeError(f"a state change failed: {said[:300]!r}"))


def _put(port: int, path: str, value: bytes) -> bytes:
    body = b'{"sleeping":%b}' % value
    return (
        f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def _bare_sqlite(folder: Path, seconds: float) -> float:
    """Return bare commits a second, one after the other: SQLite has one writer at a time."""
    return await asyncio.to_thread(_commit_sqlite, folder / "bare.db", seconds)


def _commit_sqlite(path: Path, seconds: float) -> float:
    for left in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        left.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        for statement in _TABLES:
            database.execute(statement)
        database.execute("INSERT INTO agents VALUES (1, '')")
        database.execute("INSERT INTO sessions VALUES (1, '')")
        commits = 0
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE agents SET data = ? WHERE id = 1", (str(commits).ljust(AGENT_BYTES),))
            database.execute("INSERT INTO events (data) VALUES (?)", ("x" * EVENT_BYTES,))
            database.execute("UPDATE sessions SET at = ? WHERE id = 1", (str(commits),))
            database.execute("COMMIT")
            commits += 1
        return commits / (time.monotonic() - began)


async def _bare_pg(url: str, writers: int, seconds: float) -> float:
    """Return bare commits a second over as many connections as there are writers, each with a row of its own."""
    connections: list[Any] = [await connect(url) for _ in range(writers)]
    try:
        await connections[0].execute("DROP SCHEMA IF EXISTS bare CASCADE; CREATE SCHEMA bare")
        await connections[0].execute("CREATE TABLE bare.agents (id INTEGER PRIMARY KEY, data TEXT)")
        await connections[0].execute("CREATE TABLE bare.events (number BIGSERIAL PRIMARY KEY, data TEXT)")
        await connections[0].executemany("INSERT INTO bare.agents VALUES ($1, '')", [(n,) for n in range(writers)])
        began = time.monotonic()
        until = began + seconds
        counts = await asyncio.gather(*(_commit_pg(each, number, until) for number, each in enumerate(connections)))
        return sum(counts) / (time.monotonic() - began)
    finally:
        for connection in connections:
            await connection.close()


async def _commit_pg(connection: Any, number: int, until: float) -> int:
    update = await connection.prepare("UPDATE bare.agents SET data = $2 WHERE id = $1")
    insert = await connection.prepare("INSERT INTO bare.events (data) VALUES ($1)")
    commits = 0
    while time.monotonic() < until:
        async with connection.transaction():
            await update.fetch(number, str(commits).ljust(AGENT_BYTES))
            await insert.fetch("x" * EVENT_BYTES)
        commits += 1
    return commits


def _report(found: Sequence[StateResult], notes: Sequence[str]) -> Report:
    return Report(
        name="state",
        title="State changes through REST (PUT sleeping), each durable with its event before it is answered",
        columns=["database, writers", "changes/s", "bare commits/s", "ratio", "p50 ms", "server CPU ms a change"],
        rows=[
            [
                f"{each.database}, {each.writers}",
                number(statistics.median(each.changes)),
                number(statistics.median(each.bare)),
                number(each.ratio),
                number(statistics.median(each.p50)),
                number(statistics.median(each.cpu)),
            ]
            for each in found
        ],
        goals=[],
        notes=[
            "A bare commit is the same work without Circadia: rows changed and one added, with the same settings of "
            "the database, on the same disk, just before. SQLite commits one at a time, PostgreSQL on as many "
            "connections as there are writers.",
            "A ratio above 1 is group commit: changes that wait together share one trip to the disk.",
            "Disks differ tenfold, so the ratio is the figure to compare; no bound was promised for it.",
            *notes,
        ],
        figures={
            f"{each.database}, {each.writers}": {"changes": each.changes, "bare": each.bare, "cpu_ms": each.cpu}
            for each in found
        },
    )  # fmt: skip
