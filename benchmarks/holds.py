"""Ten thousand held calls in one process: their memory, their release, and what they do to everybody else."""

import asyncio
import gc
import json
import resource
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.callers import Caller, call, good
from benchmarks.disk import commit_milliseconds
from benchmarks.processes import cpu_seconds, memory_bytes
from benchmarks.report import Goal, Report, number
from benchmarks.requests import body, wire
from benchmarks.server import Circadia, circadia
from benchmarks.tools import fast_upstream
from circadia.gateway.hold.places import FILES_RESERVE

SESSION: Final = "holders"
PROBE: Final = "probe"
PATH: Final = "/llm/fast/v1/chat/completions"
OPENED_AFTER_SECONDS: Final = 2.0
"""When a held call gets its 200 and its first sign of life; the default for streams, set for the others too."""
AT_ONCE: Final = 200
"""Connections that are being made at one time."""
RELEASE_LIMIT_SECONDS: Final = 120.0
_OTHERS: Final = 1_000
"""Open files for connections that hold nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    holds: int = 10_000
    """Held calls."""
    agents: int = 100
    """Agents that they are spread over."""
    wakes: int = 300
    """Wakes of one agent among them."""
    rounds: int = 3
    """Releases of all."""


QUICK: Final = Size(holds=40, agents=4, wakes=5, rounds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """How one release of all went."""

    admitted_seconds: float
    """From the wake call to the last call's leaving the gate for its upstream."""
    answered_seconds: float
    """From the wake call to the last answer at its caller."""
    accepted_seconds: float
    """From the wake call to its own answer: the state is durable and each call is on its way."""
    cpu_seconds: float
    """Processor time of the server."""
    slowest_control: float
    """Slowest answer of the control API during it, in milliseconds."""
    bad: int
    """Callers that did not get the right answer."""


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    size = replace(size, holds=min(size.holds, _raise_file_limit(size.holds)))
    async with fast_upstream() as upstream:
        settings: dict[str, Any] = {
            "upstreams": {"fast": {"base_url": f"http://127.0.0.1:{upstream}"}},
            "defaults": {"hold_silent_seconds": OPENED_AFTER_SECONDS},
        }
        async with circadia(folder, settings) as server:
            return await _measured(server, folder, size)


async def _measured(server: Circadia, folder: Path, size: Size) -> Report:
    names = [f"agent-{index}" for index in range(size.agents)]
    tokens = await server.agents(SESSION, [*names, PROBE])
    await _warm_up(server, tokens)
    before = memory_bytes(server.pid)
    memory: list[float] = []
    releases: list[Release] = []
    wakes: list[float] = []
    control: dict[str, list[float]] = {}
    for number_of_round in range(size.rounds):
        callers = await _held(server, tokens, names, size.holds)
        await asyncio.sleep(1.0)  # the server collects its garbage
        memory.append((memory_bytes(server.pid) - before) / size.holds / 1024)
        if number_of_round == 0:
            wakes = [await _wake(server, tokens[PROBE]) for _ in range(size.wakes)]
            control = await _control(server, size.wakes)
        releases.append(await _release(server, callers))
        await server.all_sleeping(SESSION, [PROBE], False)
    disk = [each for _ in range(3) for each in await commit_milliseconds(folder / "disk", max(size.wakes, 20))]
    return _report(size, memory, releases, wakes, control, disk)


async def _warm_up(server: Circadia, tokens: dict[str, str]) -> None:
    """Let each agent make a call, so that only what a hold adds is counted."""
    for streamed in (True, False):
        for token in tokens.values():
            caller = await call(server.port, _request(server, token, streamed=streamed))
            assert good(await caller.done)


def _request(server: Circadia, token: str, *, streamed: bool) -> bytes:
    return wire(server.port, PATH, body(streamed=streamed), {"Authorization": f"Bearer {token}"})


async def _held(server: Circadia, tokens: dict[str, str], names: Sequence[str], count: int) -> list[Caller]:
    """Put all agents to sleep and let them call, every other call streamed; return when all were told 200."""
    await server.all_sleeping(SESSION, None, True)
    requests = [_request(server, tokens[name], streamed=streamed) for name in names for streamed in (True, False)]
    callers: list[Caller] = []
    while len(callers) < count:
        some = range(len(callers), min(count, len(callers) + AT_ONCE))
        callers += await asyncio.gather(*(call(server.port, requests[index % len(requests)]) for index in some))
    await asyncio.gather(*(caller.opened for caller in callers))
    held = await server.metric("circadia_held_calls")
    assert held == count, f"{held:g} of {count} calls are held"
    return callers


async def _wake(server: Circadia, token: str) -> float:
    """Let the probe call, wake it, and return the milliseconds from the wake to the call's arrival upstream."""
    caller = await call(server.port, _request(server, token, streamed=False))
    while await server.held(SESSION, PROBE) != 1:
        await asyncio.sleep(0.002)
    began = time.monotonic_ns()
    await server.sleeping(SESSION, PROBE, False)
    answer = await caller.done
    assert good(answer), answer
    arrived = int(json.loads(answer.split(b"\r\n\r\n", 1)[1])["system_fingerprint"])
    await server.sleeping(SESSION, PROBE, True)
    return (arrived - began) / 1e6


async def _control(server: Circadia, repeats: int) -> dict[str, list[float]]:
    """Return the milliseconds of answers of the control API, one request at a time."""
    state = f"sessions/{SESSION}/agents/{PROBE}/sleeping"
    asked: dict[str, tuple[str, str, object]] = {
        "read one state": ("GET", state, None),
        "set one state": ("PUT", state, {"sleeping": False}),
        "set it back": ("PUT", state, {"sleeping": True}),
        "list the agents": ("GET", f"sessions/{SESSION}/agents", None),
        "sum up the usage": ("GET", "usage?group_by=agent", None),
        "list all holds": ("GET", "holds", None),
    }
    found: dict[str, list[float]] = {name: [] for name in asked}
    for repeat in range(repeats):
        for name, (method, path, content) in asked.items():
            if name == "list all holds" and repeat % 20:
                continue
            found[name].append(await _timed(server, method, path, content))
    return found


async def _timed(server: Circadia, method: str, path: str, content: object = None) -> float:
    began = time.monotonic()
    await server.ask(method, path, content)
    return (time.monotonic() - began) * 1000


async def _release(server: Circadia, callers: Sequence[Caller]) -> Release:
    """Wake all agents in one call and wait for the last answer."""
    gc.disable()  # ours, not the server's: a pause of the measurer is none of the measured
    cpu = cpu_seconds(server.pid)
    slowest: list[float] = []
    asking = asyncio.create_task(_keep_asking(server, slowest))
    last_event = await _last_event(server)
    began, began_at = time.monotonic(), datetime.now(UTC)
    await server.all_sleeping(SESSION, None, False)
    accepted = time.monotonic()
    async with asyncio.timeout(RELEASE_LIMIT_SECONDS):
        answers = await asyncio.gather(*(caller.done for caller in callers), return_exceptions=True)
    ended = max(caller.ended_at for caller in callers)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    gc.enable()
    cpu = cpu_seconds(server.pid) - cpu
    return Release(
        admitted_seconds=(await _last_admitted(server, last_event, len(callers)) - began_at).total_seconds(),
        answered_seconds=ended - began,
        accepted_seconds=accepted - began,
        cpu_seconds=cpu,
        slowest_control=max(slowest, default=0.0),
        bad=sum(1 for answer in answers if isinstance(answer, BaseException) or not good(answer)),
    )


async def _last_event(server: Circadia) -> int:
    """Return the number of the newest event."""
    number_of_last = 0
    while True:
        page = await server.ask("GET", f"events?after={number_of_last}&limit=10000")
        if not page["events"]:
            return number_of_last
        number_of_last = page["after"]


async def _last_admitted(server: Circadia, after: int, count: int) -> datetime:
    """Return when the last of so many calls left the gate, as the record of events has it."""
    await asyncio.sleep(1.0)  # the record is written in batches
    page = await server.ask("GET", f"events?after={after}&limit=10000&type=admitted")
    assert len(page["events"]) == count, f"{len(page['events'])} of {count} calls were admitted"
    return max(datetime.fromisoformat(event["at"]) for event in page["events"])


async def _keep_asking(server: Circadia, found: list[float]) -> None:
    while True:
        found.append(await _timed(server, "GET", f"sessions/{SESSION}/agents/{PROBE}/sleeping"))
        await asyncio.sleep(0.01)


def _raise_file_limit(holds: int) -> int:
    """Let this process and those it starts open as many files as the holds need; return how many holds may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * holds + FILES_RESERVE + _OTHERS
    with suppress(ValueError):  # only root may raise the hard limit, and not everywhere
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), max(hard, needed)))
        return holds
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return (hard - FILES_RESERVE - _OTHERS) // 2


def _report(
    size: Size,
    memory: list[float],
    releases: list[Release],
    wakes: list[float],
    control: dict[str, list[float]],
    disk: list[float],
) -> Report:
    slowest = max(each.slowest_control for each in releases)
    single = [time for name, times in control.items() if name != "list all holds" for time in times]
    bad = sum(each.bad for each in releases)
    return Report(
        name="holds",
        title=f"{size.holds:,} held calls of {size.agents} agents in one process; bodies of 2 KB; half are streamed",
        columns=["", "median", "p99", "worst", "times"],
        rows=_rows(memory, releases, wakes, control, disk),
        goals=[
            Goal(what="memory of a hold", limit=16, unit="KiB", found=memory[0]),
            Goal(what="slowest control answer while all are released", limit=250, unit="ms", found=slowest),
            Goal(what="one wake to its upstream, p99", limit=10, unit="ms", found=quantile(wakes, 0.99)),
            Goal(what="control API meanwhile, p99", limit=50, unit="ms", found=quantile(single, 0.99)),
            Goal(what="callers without the right answer", limit=0, unit="callers", found=bad),
        ],
        notes=[
            "The memory is the growth of the server's resident memory divided by the holds, after each caller was told "
            "200 and the first sign of life. In later rounds that growth holds what earlier ones left behind, such as "
            "the conversations that the server remembers.",
            "The wake of one is timed from the REST call to the arrival at the upstream, and holds a durable commit.",
            "Released calls are sent in the order of their arrival, sixteen of them made ready at a time, so that "
            "others are answered meanwhile. Behind the gate a call costs what the table of the proxy says.",
            "Listing all holds is one answer of some megabytes; it does not count for the goal.",
        ],
        figures={
            "memory_kib": memory,
            "releases": [asdict(each) for each in releases],
            "wake_ms": wakes,
            "control_ms": control,
            "commit_ms": disk,
        },
    )


def _rows(
    memory: list[float], releases: list[Release], wakes: list[float], control: dict[str, list[float]], disk: list[float]
) -> list[list[str]]:
    return [
        _row("memory of a hold, KiB", memory[:1]),
        *([_row("the same after earlier releases, KiB", memory[1:])] if memory[1:] else []),
        _row("release of all: answer to the wake, s", [each.accepted_seconds for each in releases]),
        _row("release of all: the last is sent to its upstream, s", [each.admitted_seconds for each in releases]),
        _row("release of all: the last has its answer, s", [each.answered_seconds for each in releases]),
        _row("release of all: processor time, s", [each.cpu_seconds for each in releases]),
        _row("release of all: slowest control answer, ms", [each.slowest_control for each in releases]),
        _row("wake of one: to its upstream, ms", wakes),
        *(_row(f"control API: {name}, ms", times) for name, times in control.items()),
        _row("a bare commit to this disk, ms", disk),
    ]


def _row(name: str, found: Sequence[float]) -> list[str]:
    return [name, number(statistics.median(found)), number(quantile(found, 0.99)), number(max(found)), str(len(found))]


def quantile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that so large a part of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
