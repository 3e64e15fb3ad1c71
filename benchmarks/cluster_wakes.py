"""A wake at one of two servers on one PostgreSQL admits the call that the other holds: by NOTIFY, and by Redis."""

import asyncio
import shutil
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.cluster import make_database
from benchmarks.cluster_servers import WakeResult, measure_wakes
from benchmarks.postgres import NoPostgres, postgres
from benchmarks.processes import stop
from benchmarks.report import Goal, Report, number

LIMIT_MS: Final = 10
_STOP_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    holds: Sequence[int] = (500, 2_000, 10_000)
    """Agents with a held call at each of two gateways."""
    wakes: int = 1_000
    """Of these agents, 100 a second."""

    def count_wakes(self, holds: int) -> int:
        return min(self.wakes, holds)


QUICK: Final = Size(holds=(100,), wakes=20)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    signals: str
    wakes: int
    found: WakeResult


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    try:
        async with postgres() as url, _redis_server() as redis:
            rows: list[_Row] = []
            for signals, address in (("NOTIFY", None), ("Redis", redis)):
                for holds in size.holds:
                    name = f"{signals}_{holds}".lower()
                    (folder / name).mkdir()
                    database, wakes = await make_database(url, name), size.count_wakes(holds)
                    found = await measure_wakes(folder / name, database, holds, wakes, redis=address)
                    rows.append(_Row(signals=signals, wakes=wakes, found=found))
    except NoPostgres as error:
        return _report([], [f"Nothing is measured: {error}"])
    return _report(rows, [])


@asynccontextmanager
async def _redis_server() -> AsyncGenerator[str]:
    """Run a Redis that stores nothing; yield its URL."""
    program = shutil.which("redis-server", path="/usr/bin:/usr/sbin:/usr/local/bin")
    if program is None:
        raise NoPostgres("there is no redis-server; `make services` installs it")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        await stop(process, _STOP_SECONDS)


def _report(rows: Sequence[_Row], notes: Sequence[str]) -> Report:
    return Report(
        name="cluster_wakes",
        title="A wake at one server, a call held at another",
        columns=[
            "signals", "held calls at each", "wakes/s", "p50 ms", "p99 ms", "p50 ms after the request", "p99",
            "CPU ms of the first", "of the other",
        ],
        rows=[
            [
                row.signals, f"{row.found.holds:,}", number(row.found.per_second),
                *(number(row.found.at(part)) for part in (0.5, 0.99)),
                *(number(row.found.at(part, of="from_call_ms")) for part in (0.5, 0.99)),
                *(number(each) for each in row.found.cpu_ms),
            ]
            for row in rows
        ],
        goals=[
            *(
                Goal(
                    what=f"p99 by {row.signals}, {row.found.holds:,} calls at each",
                    limit=LIMIT_MS, unit="ms", found=row.found.at(0.99),
                )
                for row in rows
            ),
            Goal(
                what="held calls without the right answer", limit=0, unit="calls",
                found=sum(row.found.bad for row in rows) if rows else None,
            ),
        ],
        notes=[
            "Two real servers each hold one call of every agent. One server wakes some of them by REST. The times run "
            "from the answer of the wake, or from its request, until the other call reaches its upstream.",
            "The two servers, PostgreSQL and the program with both ends of all calls share the cores. A server's "
            "processor time is that of a wake, with its own model call.",
            *notes,
        ],
        figures={"rows": [asdict(row) for row in rows]},
    )  # fmt: skip
