"""A day of an idle fleet on a simulated clock: what reaches the model, and what one message changes."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import aiohttp

from benchmarks.report import Goal, Report, number
from benchmarks.requests import body, wire
from benchmarks.server import ADMIN_TOKEN, Circadia
from circadia.gateway.hold.reply import RESOLUTION_SECONDS
from circadia.server import wiring
from circadia.server.app import Listener, bind_socket, reachable_address
from circadia.settings import Settings, settings_from
from circadia.testing.clock import ManualClock
from circadia.testing.upstream import MockUpstream
from circadia.wake.launchers.base import Launch

SATURDAY: Final = datetime(2026, 3, 7, tzinfo=UTC)
DAY_SECONDS: Final = 86_400.0
MODEL: Final = "/llm/fast/v1/chat/completions"
WAIT: Final[dict[str, Any]] = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait_for_message", "arguments": {}},
}  # fmt: skip
HELD: Final = ("streamed", "buffered", "waiting")
"""Kinds of agents that sleep in a call of their own: a streamed or a buffered model call, or a wait over MCP."""
LAUNCHED: Final[Mapping[str, Mapping[str, object]]] = {
    "blackout": {
        "routines": [{"name": "tidy", "instructions": "Tidy up.", "cron": "0 * * * *"}],
        "blackouts": [{"label": "weekend", "start_time": "00:00", "end_time": "24:00", "weekdays": ["sat", "sun"]}],
    },
    "no-mail": {"routines": [{"name": "inbox", "cron": "30 * * * *"}]},
    "not-due": {"routines": [{"name": "report", "instructions": "Report.", "cron": "0 9 * * mon"}]},
}
"""Kinds of agents that are launched for a pulse, and why nothing of theirs runs on a Saturday."""
LOOKS: Final = 4
"""What sleeps on the clock while all is at rest: the ticker, the sweeps, the worker and the alerts."""
REST_SECONDS: Final = 60.0
"""Longest that one step may take."""
POLL_SECONDS: Final = 60
"""How long an agent that polls waits before it asks its model what to do next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    agents: int = 10
    """Agents of each kind."""
    step_seconds: float = 15.0 + RESOLUTION_SECONDS
    """What the clock is moved by: an interval of signs of life, which are late by a slot of the ticker at most."""


QUICK: Final = Size(agents=1, step_seconds=900.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Day:
    """What happened in 24 hours."""

    fleet: str
    """Which fleet, and what it was sent."""
    agents: int
    """Agents of the fleet."""
    model_calls: int
    """Requests that reached the upstream."""
    wakes: int
    """Wakes that anybody asked for, routines too."""
    not_run: int
    """Occurrences of routines that came due and woke nobody."""
    held: int
    """Calls that were held at the end."""
    lost: int
    """Held calls of agents that nobody woke that have ended."""
    received: int
    """Bytes that held callers received before anybody woke them."""
    seconds: float
    """Real time that the day took."""


async def think(launch: Launch) -> None:
    """Be an agent that is launched: ask the model once, through the gateway."""
    headers = {"Authorization": f"Bearer {launch.environment['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    url = f"{launch.environment['OPENAI_BASE_URL']}/chat/completions"
    async with (
        aiohttp.ClientSession(raise_for_status=True) as http,
        http.post(url, data=body(streamed=False), headers=headers) as answer,
    ):
        await answer.read()


class Sleeper:
    """An agent that sleeps in a call of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received = 0
        """Bytes, heads and framing and all."""
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader))

    @staticmethod
    async def call(port: int, request: bytes) -> "Sleeper":
        """Connect and send."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        return Sleeper(reader, writer)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while part := await reader.read(2**16):
            self.received += len(part)

    async def hang_up(self) -> None:
        """End the call."""
        self._reading.cancel()
        self._writer.close()
        await asyncio.gather(self._reading, return_exceptions=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """A server with its agents, and its clock."""

    server: Circadia
    clock: ManualClock
    upstream: MockUpstream
    sleepers: Mapping[str, Sleeper]
    """Those that sleep in a call of their own, by name."""

    @property
    def received(self) -> int:
        """Return how many bytes the held callers received."""
        return sum(each.received for each in self.sleepers.values())

    async def move(self, seconds: float) -> None:
        """Let time pass, and all who look at it come to rest again."""
        self.clock.advance(seconds)
        async with asyncio.timeout(REST_SECONDS):
            await self.clock.wait_for_sleepers(LOOKS)

    async def tell(self, to: str) -> None:
        """Wake an agent by a message, and give its call time to come through."""
        await self.server.ask("POST", "wakes", {"to": to, "reason": "blocker", "message": "The build is red."})
        before = len(self.upstream.answered)
        with contextlib.suppress(TimeoutError):  # then the figure tells
            async with asyncio.timeout(REST_SECONDS / 4):
                while len(self.upstream.answered) == before:
                    await self.move(1.0)
                    await asyncio.sleep(0.01)


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    days = [
        await _day(folder / "idle", "idle", None, size),
        await _day(folder / "launched", "one message to a launched agent at noon", "not-due-0", size),
        await _day(folder / "held", "one message to an agent in a held call at noon", "streamed-0", size),
    ]
    return _report(size, days)


async def _day(folder: Path, fleet: str, to: str | None, size: Size) -> Day:
    """Let a fleet live through 24 hours; at noon, wake one by a message, if one is named."""
    began = time.monotonic()
    async with MockUpstream() as upstream, _fleet(folder, upstream, size.agents) as made:
        clock, waiting = made.clock, to
        end = clock.monotonic() + DAY_SECONDS
        received: int | None = None
        while (left := end - clock.monotonic()) > 0:
            if waiting is not None and left <= DAY_SECONDS / 2:
                received = made.received
                await made.tell(waiting)
                waiting = None
            await made.move(min(left, size.step_seconds))
        wakes = (await made.server.ask("GET", "wakes?limit=1000"))["wakes"]
        routines = (await made.server.ask("GET", "events?type=routine&limit=10000"))["events"]
        held = {each["agent"] for each in (await made.server.ask("GET", "holds"))["holds"]}
        return Day(
            fleet=fleet, agents=size.agents * len((*HELD, *LAUNCHED)), model_calls=len(upstream.requests),
            wakes=len(wakes), held=len(held), lost=len(made.sleepers.keys() - held - {to}),
            not_run=sum(1 for each in routines if each["data"].get("verdict") == "skipped"),
            received=made.received if received is None else received, seconds=time.monotonic() - began,
        )  # fmt: skip


@contextlib.asynccontextmanager
async def _fleet(folder: Path, upstream: MockUpstream, agents: int) -> AsyncGenerator[Fleet]:
    """Run a server whose agents all sleep, some of them in calls that are held; stop it at the end."""
    folder.mkdir(parents=True)
    names = [f"{kind}-{number}" for kind in (*HELD, *LAUNCHED) for number in range(agents)]
    tokens = {f"TOKEN_{index}": f"token-of-{name}" for index, name in enumerate(names)}
    settings = _settings(upstream, dict(zip(names, tokens, strict=True)))
    clock = ManualClock(SATURDAY)
    async with _served(folder, settings, tokens, clock) as port:
        sleepers = {
            name: await Sleeper.call(port, _request(port, kind, f"token-of-{name}"))
            for name in names
            if (kind := _kind(name)) in HELD
        }
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}/", headers=headers) as http:
            server = Circadia(pid=os.getpid(), port=port, http=http)
            async with asyncio.timeout(REST_SECONDS):
                while (await server.ask("GET", "holds"))["total"] < len(sleepers):
                    await asyncio.sleep(0.01)
            yield Fleet(server=server, clock=clock, upstream=upstream, sleepers=sleepers)
        for sleeper in sleepers.values():
            await sleeper.hang_up()


def _kind(name: str) -> str:
    return name.rpartition("-")[0]


def _settings(upstream: MockUpstream, tokens: Mapping[str, str]) -> Settings:
    """Return those of the server; `tokens` tells in which variable each agent's token is."""
    return settings_from({
        "upstreams": {"fast": {"base_url": upstream.base_url}},
        "launchers": {"think": {"kind": "callable", "function": "benchmarks.idle_fleet:think"}},
        "defaults": {"stall_seconds": 7 * DAY_SECONDS},  # that all sleep is what is measured, and nothing to warn of
        "agents": {
            name: {
                "token_env": variable, "sleep_events": ["agent_started"], "max_consecutive_skips": 1000,
                "coordination": {"launcher": "think" if _kind(name) in LAUNCHED else "resident"},
                **LAUNCHED.get(_kind(name), {}),
            }
            for name, variable in tokens.items()
        },
    })  # fmt: skip


def _request(port: int, kind: str, token: str) -> bytes:
    headers = {"Authorization": f"Bearer {token}"}
    if kind == "waiting":
        accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        return wire(port, "/mcp", json.dumps(WAIT).encode(), {**headers, **accepted})
    return wire(port, MODEL, body(streamed=kind == "streamed"), headers)


@contextlib.asynccontextmanager
async def _served(
    folder: Path, settings: Settings, environment: Mapping[str, str], clock: ManualClock
) -> AsyncGenerator[int]:
    """Run a whole server in this process, on a clock that is moved by hand; yield its port."""
    with contextlib.ExitStack() as last:
        bound = last.enter_context(bind_socket("127.0.0.1", 0))
        last.enter_context(patch.object(wiring, "SystemClock", lambda: clock))  # all else is as operators start it
        async with wiring.build_server(
            settings, folder, environment, (ADMIN_TOKEN,), address=reachable_address(bound)
        ) as server:
            listener = Listener(server, bound, drain_seconds=1)
            serving = asyncio.create_task(listener.serve(sockets=[bound]))
            await listener.ready.wait()
            try:
                yield reachable_address(bound)[1]
            finally:
                last.callback(asyncio.create_task(_flow(clock)).cancel)
                listener.should_exit = True
                await serving


async def _flow(clock: ManualClock) -> None:
    """Let time pass by itself: what is still to be written waits for its moment."""
    while True:
        clock.advance(1.0)
        await asyncio.sleep(0.01)


def _report(size: Size, days: Sequence[Day]) -> Report:
    idle, *others = days
    polls = round(DAY_SECONDS) // POLL_SECONDS
    return Report(
        name="idle_fleet",
        title=f"24 simulated hours of {idle.agents} agents, {size.agents} of each kind",
        columns=[
            "fleet", "model calls", "wakes", "routines that came due and were skipped", "calls held at the end",
            "KiB to a held caller",
        ],
        rows=[
            *(_row(size, day) for day in days),
            [f"polling every {POLL_SECONDS} s (arithmetic)", f"{idle.agents * polls:,}", *["–"] * 4],
        ],
        goals=[
            Goal(what="idle: model calls", limit=0, unit="calls", found=idle.model_calls),
            Goal(what="idle: wakes", limit=0, unit="wakes", found=idle.wakes),
            *(
                Goal(what=f"{day.fleet}: calls off from one", limit=0, unit="calls", found=abs(day.model_calls - 1))
                for day in others
            ),
            Goal(what="held calls that nobody woke and that ended", limit=0, unit="calls",
                 found=sum(day.lost for day in days)),
        ],
        notes=[
            "The server is whole, with its doors over HTTP, its gate, its worker and its sweeps, on SQLite; only its "
            f"clock is simulated: it is moved by {size.step_seconds:g} s when all that look at it have come to rest. "
            "The model provider is a mock that counts.",
            "Half of the agents sleep in calls that the gate holds: a streamed model call, a buffered one, or a wait "
            "for a message over MCP. The other half would be launched, and a launched agent calls the model once: by "
            "an hourly routine in a blackout, an hourly one that finds nothing unread, or one that is due on Mondays "
            "(the day is a Saturday).",
            "The days with a message show that the count can be other than zero: each must be exactly one model call.",
            "What a held caller got is its answer's head and the signs of life, with the framing; on the days with a "
            "message, until noon. No model sees any of it.",
            f"A fleet that polls is not measured but computed: an agent that waits {POLL_SECONDS} s and then asks its "
            f"model what to do next, whose answer takes no time, makes {polls:,} calls a day.",
        ],
        figures={"days": [asdict(day) for day in days]},
    )  # fmt: skip


def _row(size: Size, day: Day) -> list[str]:
    each = day.received / 1024 / (len(HELD) * size.agents)
    return [day.fleet, *(f"{count:,}" for count in (day.model_calls, day.wakes, day.not_run, day.held)), number(each)]
