"""Real servers on one PostgreSQL: a wake at one opens the gate of the other, and an idle one keeps quiet.

A wake is timed from its answer at the first server to the arrival of the call that the other held.
"""

import asyncio
import re
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.callers import Caller, call, good
from benchmarks.delay_proxy import DelayProxy
from benchmarks.holds import quantile
from benchmarks.processes import cpu_seconds
from benchmarks.requests import body, wire
from benchmarks.server import Circadia, circadia
from benchmarks.tools import fast_upstream

PER_SECOND: Final = 100
_PATH: Final = "/llm/fast/v1/chat/completions"
_ARRIVED: Final = re.compile(rb'"system_fingerprint":"(\d+)"')
_GROUP: Final = 500
"""Agents of a session."""
_AT_ONCE: Final = 100
"""Calls that begin at one time at each server."""
_OTHER_FILES: Final = 500
_PATIENCE_SECONDS: Final = 120.0
_SETTLE_SECONDS: Final = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeResult:
    """When the calls at the other server reached their upstream."""

    holds: int
    per_second: float
    from_answer_ms: Sequence[float]
    """After the answer of the wake, which follows the commit."""
    from_call_ms: Sequence[float]
    cpu_ms: Sequence[float]
    """Processor time of each server for a wake."""
    bad: int

    def at(self, part: float, *, of: Literal["from_answer_ms", "from_call_ms"] = "from_answer_ms") -> float:
        return quantile(self.from_answer_ms if of == "from_answer_ms" else self.from_call_ms, part)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldAgent:
    session: str
    name: str
    calls: Sequence[Caller]
    """One at each server."""


async def measure_wakes(folder: Path, url: str, holds: int, wakes: int, *, redis: str | None) -> WakeResult:
    """Hold a call of each of so many agents at two servers, and wake some of them at the first.

    They are fewer where this process, which has both calls of each, may not open so many files.
    """
    holds = min(holds, (raise_file_limit() - _OTHER_FILES) // 2)
    async with fast_upstream() as upstream:
        settings: dict[str, Any] = {
            "upstreams": {"fast": {"base_url": f"http://127.0.0.1:{upstream}"}},
            "server": {"database_url": url},
            **({} if redis is None else {"signals": redis}),
        }
        async with circadia(folder / "one", settings) as first, circadia(folder / "two", settings) as second:
            agents = await _hold(first, second, holds)
            await asyncio.sleep(_SETTLE_SECONDS)
            return await _wake((first, second), agents, wakes)


async def count_idle_trips(folder: Path, url: str, proxy: DelayProxy, *, after: float, seconds: float) -> float:
    """Return the round trips a second of a server that has nothing to do, some seconds after its start."""
    async with circadia(folder / "idle", {"server": {"database_url": proxy.build_url(url)}}):
        await asyncio.sleep(after)
        await proxy.begin_count()
        await asyncio.sleep(seconds)
        return (await proxy.count()).trips / seconds


def raise_file_limit() -> int:
    """Let this process and those it starts open as many files as the system allows; return how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


async def _hold(first: Circadia, second: Circadia, holds: int) -> Sequence[HeldAgent]:
    """Make sleeping agents, and let each call at both servers."""
    agents: list[HeldAgent] = []
    for group in range(0, holds, _GROUP):
        session = f"group-{group}"
        tokens = await first.agents(session, [f"agent-{each}" for each in range(group, min(holds, group + _GROUP))])
        await first.all_sleeping(session, None, True)
        names = list(tokens)
        for some in (names[at : at + _AT_ONCE] for at in range(0, len(names), _AT_ONCE)):
            calls = [
                await asyncio.gather(*(call(server.port, _request(server, tokens[name])) for name in some))
                for server in (first, second)
            ]
            agents += [
                HeldAgent(session=session, name=name, calls=pair)
                for name, *pair in zip(some, *calls, strict=True)
            ]  # fmt: skip
            await _until_held(first, len(agents))
            await _until_held(second, len(agents))
    return agents


async def _until_held(server: Circadia, count: int) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while await server.metric("circadia_held_calls") != count:
            await asyncio.sleep(0.02)


def _request(server: Circadia, token: str) -> bytes:
    return wire(server.port, _PATH, body(streamed=False), {"Authorization": f"Bearer {token}"})


async def _wake(servers: Sequence[Circadia], agents: Sequence[HeldAgent], wakes: int) -> WakeResult:
    """Wake agents at the first server at an even pace, those of all sessions by turns."""
    chosen = [agents[at * len(agents) // wakes] for at in range(wakes)]
    times = [(0.0, 0.0)] * wakes
    cpu = [cpu_seconds(server.pid) for server in servers]
    began = time.monotonic()

    async def wake(agent: HeldAgent, at: int) -> None:
        await asyncio.sleep(began + at / PER_SECOND - time.monotonic())
        asked = time.monotonic()
        await servers[0].sleeping(agent.session, agent.name, False)
        times[at] = (asked, time.monotonic())

    async with asyncio.timeout(_PATIENCE_SECONDS):
        tasks = [asyncio.create_task(wake(agent, at)) for at, agent in enumerate(chosen)]
        await asyncio.gather(*tasks)
        seconds = time.monotonic() - began
        await asyncio.gather(*(each.done for agent in chosen for each in agent.calls))
    cpu = [cpu_seconds(server.pid) - before for server, before in zip(servers, cpu, strict=True)]
    answers = [[each.done.result() for each in agent.calls] for agent in chosen]
    arrived = [float(found[1]) / 1e9 if (found := _ARRIVED.search(there)) else None for _, there in answers]
    return WakeResult(
        holds=len(agents),
        per_second=wakes / seconds,
        from_answer_ms=[(at - answered) * 1000 for at, (_, answered) in zip(arrived, times, strict=True) if at],
        from_call_ms=[(at - asked) * 1000 for at, (asked, _) in zip(arrived, times, strict=True) if at],
        cpu_ms=[1000 * each / wakes for each in cpu],
        bad=sum(not good(answer) for pair in answers for answer in pair),
    )
