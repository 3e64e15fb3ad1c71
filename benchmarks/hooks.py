"""Webhooks: how many deliveries a second a server takes, what a filtered one costs, and that it asks for no wake."""

import asyncio
import hashlib
import hmac
import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.holds import quantile
from benchmarks.postgres import NoPostgres, postgres
from benchmarks.processes import cpu_seconds
from benchmarks.report import Goal, Report, number
from benchmarks.server import Circadia, circadia

SECRET: Final = "secret-of-the-benchmark"
VARIABLE: Final = "BENCHMARK_HOOK_SECRET"
A_MINUTE: Final = 10_000
"""Deliveries a minute of a busy repository."""
ACCEPTED: Final = 100
"""One delivery of so many passes the filter."""
CORE_LIMIT: Final = 25
"""Per cent of a core that these deliveries may take."""
AT_ONCE: Final = 16
PADDING: Final = "x" * 4_000
"""A delivery of GitHub has some kilobytes."""
HOOK: Final[dict[str, Any]] = {
    "agent": "ann", "signature": "github", "secret_env": VARIABLE, "wake": "blocker",
    "filter": {"headers.x-github-event": "issues", "body.action": "opened"},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    deliveries: int = 10_000
    """Deliveries of a round; a multiple of 100."""
    rounds: int = 3


QUICK: Final = Size(deliveries=200, rounds=1)


@dataclass(kw_only=True, slots=True)
class HookResult:
    """What was measured on one database, a figure for each round."""

    database: str
    filtered_rate: list[float] = field(default_factory=list[float])
    """Filtered deliveries a second."""
    filtered_cpu_ms: list[float] = field(default_factory=list[float])
    """The server's processor time for one."""
    probe_cpu_ms: list[float] = field(default_factory=list[float])
    """The same for `GET /healthz`: what HTTP alone takes."""
    mixed_rate: list[float] = field(default_factory=list[float])
    """Deliveries a second of which one in a hundred becomes a message and a wake request."""
    mixed_cpu_ms: list[float] = field(default_factory=list[float])
    accepted_ms: list[float] = field(default_factory=list[float])
    """Milliseconds of each accepted delivery, one at a time."""
    wakes: list[int] = field(default_factory=list[int])
    """Wake requests of each round of mixed deliveries, less those that had to be."""

    @property
    def core_share(self) -> float:
        """Per cent of a core that 10,000 deliveries a minute take, of which 99 % are filtered."""
        return statistics.median(self.mixed_cpu_ms) * A_MINUTE / 60 / 10


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: list[str] = []
    found = [await _measure("SQLite", folder / "sqlite", None, size)]
    try:
        async with postgres() as url:
            found.append(await _measure("PostgreSQL", folder / "postgres", url, size))
    except NoPostgres as error:
        notes.append(f"PostgreSQL is left out: {error}")
    return _report(size, found, notes)


async def _measure(database: str, folder: Path, url: str | None, size: Size) -> HookResult:
    os.environ[VARIABLE] = SECRET
    settings: dict[str, Any] = {"hooks": {"github": HOOK}}
    if url is not None:
        settings["server"] = {"database_url": url}
    result, sent = HookResult(database=database), 0
    async with circadia(folder, settings) as server:
        await server.ask("POST", "sessions/default/agents", {"name": "ann", "sleep_events": ["agent_started"]})
        for _ in range(size.rounds):
            result.probe_cpu_ms.append((await _time(server, [None] * size.deliveries))[1])
            edited = [_build(sent + place, "edited") for place in range(size.deliveries)]
            rate, cpu_ms = await _time(server, edited)
            result.filtered_rate.append(rate)
            result.filtered_cpu_ms.append(cpu_ms)
            sent += size.deliveries
            before = await _count_wakes(server)
            mixed = [
                _build(sent + place, "edited" if place % ACCEPTED else "opened") for place in range(size.deliveries)
            ]
            rate, cpu_ms = await _time(server, mixed)
            result.mixed_rate.append(rate)
            result.mixed_cpu_ms.append(cpu_ms)
            sent += size.deliveries
            result.wakes.append(await _count_wakes(server) - before - size.deliveries // ACCEPTED)
            for place in range(size.deliveries // ACCEPTED):
                began = time.monotonic()
                await _send(server, _build(sent + place, "opened"))
                result.accepted_ms.append((time.monotonic() - began) * 1000)
            sent += size.deliveries
    return result


_Delivery = tuple[bytes, dict[str, str]]


def _build(place: int, action: str) -> _Delivery:
    """Return a delivery as GitHub signs it."""
    body = json.dumps({"action": action, "number": place, "text": PADDING}).encode()
    signed = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return body, {
        "X-Hub-Signature-256": f"sha256={signed}", "X-GitHub-Delivery": f"d{place}", "X-GitHub-Event": "issues",
        "Content-Type": "application/json",
    }  # fmt: skip


async def _time(server: Circadia, deliveries: Sequence[_Delivery | None]) -> tuple[float, float]:
    """Send all, some at once; return how many a second there were, and the server's milliseconds for one."""
    cpu, began = cpu_seconds(server.pid), time.monotonic()
    waiting = iter(deliveries)

    async def send_rest() -> None:
        for delivery in waiting:
            await _send(server, delivery)

    await asyncio.gather(*(send_rest() for _ in range(AT_ONCE)))
    seconds = time.monotonic() - began
    return len(deliveries) / seconds, (cpu_seconds(server.pid) - cpu) * 1000 / len(deliveries)


async def _send(server: Circadia, delivery: _Delivery | None) -> None:
    if delivery is None:
        async with server.http.get("healthz") as answer:
            await answer.read()
        return
    body, headers = delivery
    async with server.http.post("hooks/github", data=body, headers=headers) as answer:
        if answer.status not in (200, 202):
            raise RuntimeError(f"a delivery was answered {answer.status}: {await answer.text()}")
        await answer.read()


async def _count_wakes(server: Circadia) -> int:
    """Return how many wake requests there are, whatever was decided."""
    return sum(sum(pair["decisions"].values()) for pair in (await server.ask("GET", "wakes/matrix"))["pairs"])


def _report(size: Size, found: Sequence[HookResult], notes: Sequence[str]) -> Report:
    return Report(
        name="hooks",
        title=f"Deliveries of 4 kB to a hook, {AT_ONCE} at once",
        columns=[
            "database", "filtered a second", "CPU ms of one", "of GET /healthz", "1 % accepted: a second",
            "CPU ms of one", "accepted, p50 ms", "p95 ms",
        ],
        rows=[_row(each) for each in found],
        goals=[
            goal
            for each in found
            for goal in (
                Goal(
                    what=f"{each.database}: {A_MINUTE:,} deliveries a minute, 99 % filtered", limit=CORE_LIMIT,
                    unit="% of a core", found=each.core_share,
                ),
                Goal(
                    what=f"{each.database}: wake requests of filtered deliveries", limit=0, unit="wakes",
                    found=max(each.wakes),
                ),
            )
        ],
        notes=[
            "Each delivery is signed as GitHub signs, and read, verified, parsed and compared with a filter of two "
            "conditions. A filtered one reads and writes no row; `GET /healthz` is what HTTP alone takes.",
            "An accepted delivery is a message, a wake request with its decision, two events and the row of its id, in "
            "one transaction; its time is that of one at a time.",
            f"{size.rounds} rounds of {size.deliveries:,}; medians.",
            *notes,
        ],
        figures={each.database: asdict(each) for each in found},
    )  # fmt: skip


def _row(found: HookResult) -> list[str]:
    return [
        found.database,
        number(statistics.median(found.filtered_rate)),
        number(statistics.median(found.filtered_cpu_ms)),
        number(statistics.median(found.probe_cpu_ms)),
        number(statistics.median(found.mixed_rate)),
        number(statistics.median(found.mixed_cpu_ms)),
        number(statistics.median(found.accepted_ms)),
        number(quantile(found.accepted_ms, 0.95)),
    ]
