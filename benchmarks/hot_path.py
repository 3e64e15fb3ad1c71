"""What callers wait for in a bank of 14,000 episodes: with maintenance in each call, in the background, and without."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.context import fill
from benchmarks.holds import quantile
from benchmarks.report import Goal, Report, number
from benchmarks.server import Circadia, circadia
from benchmarks.slow_models import slow_model
from benchmarks.turns import Turn, Turns
from circadia.stores.sqlite import open_sqlite

BANK: Final = "bench"
OTHER: Final = "other"
SESSION: Final = "hot"
NONE: Final = "none"
BACKGROUND: Final = "in the background"
INLINE: Final = "inline: each call waits for it"
CASES: Final = (NONE, BACKGROUND, INLINE)
LIMIT_PERCENT: Final = 5
"""SLEEP-72: how much slower the 95th centile may be with passes in the background."""
PASS_SECONDS: Final = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    episodes: int = 14_000
    """In the bank that is talked with, and in another one, over which a pass runs meanwhile."""
    new: int = 100
    """Episodes that wait in the other bank, each time."""
    calls: int = 100
    """Of a run; those inline are fewer, since each takes long."""
    inline_calls: int = 10
    rounds: int = 3
    every_seconds: float = 0.2
    """A call begins so often, whatever became of those before."""
    model_seconds: float = 0.3
    """What an answer takes: the agents' model's, and that of passes."""


QUICK: Final = Size(episodes=200, new=10, calls=12, inline_calls=2, rounds=1, every_seconds=0.05, model_seconds=0.05)


@dataclass(kw_only=True, slots=True)
class HotPathResult:
    """The calls of one case."""

    ms: list[float] = field(default_factory=list[float])
    """Of all rounds."""
    rounds: list[list[float]] = field(default_factory=list[list[float]])
    """The same by round."""
    passes: int = 0
    """That ran meanwhile."""
    asked: int = 0
    """Questions of passes to their model meanwhile."""


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    made = Turns(72)
    turns = list(made.make(size.episodes + (size.rounds + 1) * size.new))
    questions = [made.question(turns[at * 7919 % size.episodes]) for at in range(size.calls)]
    data = folder / "data"
    data.mkdir(parents=True)
    await _filled(data, turns[: size.episodes])
    found = {case: HotPathResult() for case in CASES}
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(_server(folder, size))
        caller = await stack.enter_async_context(_Caller.made(server, size))
        await caller.call(questions[0], 0)  # loads the index, and the embedder
        for round_number in range(size.rounds):
            new = turns[size.episodes + round_number * size.new :][: size.new]
            for case in CASES:
                await _one(server, caller, case, questions, new, size, found[case])
    return _report(size, found)


async def _filled(data: Path, turns: Sequence[Turn]) -> None:
    """Make the banks, all of it worked through."""
    store = await open_sqlite(data / "circadia.db")
    try:
        for name in (BANK, OTHER):
            bank = await fill(store, name, turns)
            async with store.begin_write() as tx:
                state = await tx.sleep_states.get(bank.id)
                last = (await tx.sleep_states.fetch_backlog(bank.id, 0)).last
                await tx.sleep_states.put(replace(state, cursor=last))
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def _server(folder: Path, size: Size) -> AsyncGenerator[Circadia]:
    """Run a server whose agents and passes have a model each, in processes of their own."""
    async with slow_model(size.model_seconds) as agents, slow_model(size.model_seconds) as passes:
        free: dict[str, Any] = {"per_pass": {}, "per_day": {}}
        settings: dict[str, Any] = {
            "upstreams": {
                "agents": {"base_url": f"http://127.0.0.1:{agents}"},
                "passes": {"base_url": f"http://127.0.0.1:{passes}"},
            },
            "sleeptime": {
                "model": {"upstream": "passes", "name": "scripted"}, "passes_per_hour": 100_000,
                "max_passes_per_hour": 100_000, "budget": free, "fleet_budget": {"per_day": {}},
            },
        }  # fmt: skip
        async with circadia(folder, settings) as server:
            yield server


class _Caller:
    """An agent's program: it asks through the gateway, over a few connections that stay open."""

    def __init__(self, server: Circadia, http: aiohttp.ClientSession, token: str) -> None:
        self._server = server
        self._http = http
        self._headers = {"Authorization": f"Bearer {token}"}

    @classmethod
    @contextlib.asynccontextmanager
    async def made(cls, server: Circadia, size: Size) -> AsyncGenerator["_Caller"]:
        agents = [{"name": "caller", "policy": {"bank": BANK}}]
        made = await server.ask("POST", "sessions", {"name": SESSION, "agents": agents})
        async with aiohttp.ClientSession() as http:
            yield cls(server, http, made["agents"][0]["token"])

    async def call(self, question: str, number_of_call: int) -> float:
        """Ask; return the milliseconds until the whole answer is there."""
        text = f"{question} ({number_of_call}, {time.monotonic_ns()})"  # nothing is a repetition
        body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]}
        url = f"http://127.0.0.1:{self._server.port}/llm/agents/v1/chat/completions"
        began = time.monotonic()
        async with self._http.post(url, json=body, headers=self._headers) as answer:
            said = await answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the call answered {answer.status}: {said[:300]!r}")
        return (time.monotonic() - began) * 1000


async def _one(
    server: Circadia,
    caller: _Caller,
    case: str,
    questions: Sequence[str],
    new: Sequence[Turn],
    size: Size,
    to: HotPathResult,
) -> None:
    """Run one case, and forget what it has added."""
    began = datetime.now(UTC)
    before = await _counted(server)
    # Inline the client asks for each pass, and none begins by itself.
    policy = {"enabled": case == BACKGROUND}
    await server.ask("PATCH", f"banks/{BANK}", {"policy": {"sleeptime": policy}})
    await _kept(server, caller, questions[0], -1)
    if case == BACKGROUND:
        for turn in new:
            body = {"text": turn.text, "speaker": turn.speaker, "conversation": turn.session}
            await server.ask("POST", f"banks/{OTHER}/episodes", body)
        await server.ask("POST", f"banks/{OTHER}/passes", {})
    if case == INLINE:
        ms = [await _inline(server, caller, each, at) for at, each in enumerate(questions[: size.inline_calls])]
    else:
        ms = await _paced(caller, questions, size.every_seconds)
    to.ms += ms
    to.rounds.append(ms)
    await server.ask("PATCH", f"banks/{BANK}", {"policy": {"sleeptime": {"enabled": False}}})
    await _idle(server)
    after = await _counted(server)
    to.passes += after["passes"] - before["passes"]
    to.asked += after["calls"] - before["calls"]
    for bank in (BANK, OTHER):
        await server.ask("POST", f"banks/{bank}/forget", {"since": began.isoformat()})


async def _paced(caller: _Caller, questions: Sequence[str], every_seconds: float) -> list[float]:
    """Begin a call so often."""
    calls: list[asyncio.Task[float]] = []
    began = time.monotonic()
    for at, question in enumerate(questions):
        await asyncio.sleep(max(0.0, began + at * every_seconds - time.monotonic()))
        calls.append(asyncio.create_task(caller.call(question, at)))
    return list(await asyncio.gather(*calls))


async def _inline(server: Circadia, caller: _Caller, question: str, at: int) -> float:
    """Ask, then wait until what was said is worked through; return the milliseconds of both."""
    ms = await _kept(server, caller, question, at)
    began = time.monotonic()
    run = await server.ask("POST", f"banks/{BANK}/passes", {"wait_seconds": PASS_SECONDS})
    if run["ended_at"] is None:
        raise RuntimeError(f"a pass did not end within {PASS_SECONDS} s: {run}")
    return ms + (time.monotonic() - began) * 1000


async def _kept(server: Circadia, caller: _Caller, question: str, at: int) -> float:
    """Ask, and wait until the turn is kept: one that is kept only later would make a pass yield to it."""
    before = await _backlog(server)
    ms = await caller.call(question, at)
    deadline = time.monotonic() + PASS_SECONDS
    while await _backlog(server) == before:
        if time.monotonic() > deadline:
            raise RuntimeError(f"a turn was not kept within {PASS_SECONDS} s")
        await asyncio.sleep(0.01)
    return ms


async def _backlog(server: Circadia) -> int:
    return int((await server.ask("GET", f"banks/{BANK}/sleeptime"))["backlog"]["episodes"])


async def _idle(server: Circadia) -> None:
    """Wait until no pass runs, and cancel what only waits for its next turn."""
    deadline = time.monotonic() + PASS_SECONDS
    while time.monotonic() < deadline:
        left = [run for bank in (BANK, OTHER) for run in await _passes(server, bank) if run["ended_at"] is None]
        for run in left:
            if run["bank"] == BANK:
                with contextlib.suppress(RuntimeError):  # it has ended by now
                    await server.ask("POST", f"passes/{run['id']}/cancel", {})
        if not left:
            return
        await asyncio.sleep(0.1)


async def _passes(server: Circadia, bank: str) -> Sequence[Mapping[str, Any]]:
    found: Mapping[str, Any] = await server.ask("GET", f"banks/{bank}/passes?limit=1000")
    return found["passes"]


async def _counted(server: Circadia) -> Mapping[str, int]:
    """Return how many passes there are, and how many questions they have asked."""
    every = [run for bank in (BANK, OTHER) for run in await _passes(server, bank)]
    return {"passes": len(every), "calls": sum(run["spent"]["calls"] for run in every)}


def _report(size: Size, found: Mapping[str, HotPathResult]) -> Report:
    none, model = found[NONE], size.model_seconds * 1000
    ratio = statistics.median(
        quantile(with_, 0.95) / quantile(without, 0.95)
        for with_, without in zip(found[BACKGROUND].rounds, none.rounds, strict=True)
    )
    return Report(
        name="hot_path",
        title=f"A model call of an agent with a bank of {size.episodes:,} episodes; the model takes {model:g} ms",
        columns=[
            "maintenance", "calls", "p50 ms", "p95 ms", "p99 ms", "times p95 of none", "p50 ms without the model",
            "p95 ms without it", "passes", "their questions",
        ],
        rows=[
            [
                case, f"{len(each.ms):,}", number(statistics.median(each.ms)), number(quantile(each.ms, 0.95)),
                number(quantile(each.ms, 0.99)), f"{quantile(each.ms, 0.95) / quantile(none.ms, 0.95):.2f}",
                number(statistics.median(each.ms) - model), number(quantile(each.ms, 0.95) - model),
                f"{each.passes}", f"{each.asked}",
            ]
            for case, each in found.items()
        ],
        goals=[
            Goal(
                what="p95 with passes in the background, over p95 without any (median of the rounds)",
                limit=LIMIT_PERCENT,
                unit="% more",
                found=100 * (ratio - 1),
            )
        ],
        notes=[
            f"Capture and injection are on, with passes in the same process. A call begins each "
            f"{size.every_seconds * 1000:g} ms, whatever became of those before. In the background a pass is due after "
            "each five turns and yields to the next one, and a pass over another bank of the same size, with "
            f"{size.new} new episodes, runs all the while; the model of passes takes as long as that of the agents.",
            "Inline a call counts as done when a pass over what it has said has ended, as where memory is maintained "
            "within the call: its model's answers are most of the time. Calls follow one another.",
            "What a run has added is forgotten after it; cases take turns in each round.",
        ],
        figures={case: {"ms": each.ms, "passes": each.passes, "asked": each.asked} for case, each in found.items()},
    )  # fmt: skip
