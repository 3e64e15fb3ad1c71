"""What it costs to keep streamed answers for callers whose connection breaks, and how fast the rest comes (WAKE-85)."""

import statistics
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.holds import quantile
from benchmarks.proxy import MANY, Case, ProxyResult, Subject, keep_run, measure_run
from benchmarks.report import Goal, Report, number
from benchmarks.requests import body
from benchmarks.server import Circadia, circadia
from benchmarks.tools import fast_upstream

SESSION: Final = "resumed"
OFF: Final = "off"
ON: Final = "on, resume_seconds: 5"
PATH: Final = "/llm/fast/v1/chat/completions"
CASES: Final = (Case(streamed=True, connections=1), Case(streamed=True, connections=MANY))


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    seconds: float = 4.0
    """Length of a run."""
    rounds: int = 5
    broken: int = 500
    """Connections that break after the first event of their answer."""


QUICK: Final = Size(seconds=0.2, rounds=1, broken=5)


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(fast_upstream())
        settings = {"upstreams": {"fast": {"base_url": f"http://127.0.0.1:{upstream}"}}}
        server = await stack.enter_async_context(circadia(folder, settings))
        agents = [
            {"name": "off"}, {"name": "on", "policy": {"resume_seconds": 5.0}},
            {"name": "broken", "policy": {"resume_seconds": 5.0}},
        ]  # fmt: skip
        made = await server.ask("POST", "sessions", {"name": SESSION, "agents": agents})
        tokens = {agent["name"]: agent["token"] for agent in made["agents"]}
        subjects = [
            Subject(
                name=name, pid=server.pid, port=server.port, path=PATH,
                headers={"Authorization": f"Bearer {tokens[agent]}"},
            )
            for name, agent in ((OFF, "off"), (ON, "on"))
        ]  # fmt: skip
        results = {(subject.name, case): ProxyResult() for subject in subjects for case in CASES}
        for number_of_round in range(size.rounds + 1):  # the first does not count
            for case in CASES:
                for subject in subjects:
                    found = await measure_run(folder, subject, case, size.seconds)
                    if number_of_round:
                        keep_run(results[subject.name, case], *found)
        waited = await _resume(server, tokens["broken"], size.broken)
        usage = await server.ask("GET", "usage?group_by=agent")
        calls = next(group["calls"] for group in usage["usage"] if group["key"] == f"{SESSION}:broken")
    return _report(results, waited, calls / size.broken)


async def _resume(server: Circadia, token: str, count: int) -> list[float]:
    """Break connections one after the other; return the milliseconds until each rest was there."""
    base, headers = f"http://127.0.0.1:{server.port}", {"Authorization": f"Bearer {token}"}
    waited: list[float] = []
    async with aiohttp.ClientSession(headers=headers) as http:
        for _ in range(count):
            async with http.post(f"{base}{PATH}", data=body(streamed=True)) as answer:
                call = answer.headers["x-circadia-call"]
                await answer.content.readuntil(b"\n\n")
                answer.close()
            began = time.monotonic()
            async with http.get(f"{base}/api/v1/calls/{call}/answer?after=1") as rest:
                if not (await rest.read()).endswith(b"data: [DONE]\n\n"):
                    raise RuntimeError("the rest of an answer lacks its end")
            waited.append((time.monotonic() - began) * 1000)
    return waited


def _report(results: dict[tuple[str, Case], ProxyResult], waited: list[float], calls: float) -> Report:
    rows = [
        [case.name, name, number(found.cpu_ms or 0.0), number(found.rate), number(found.p50), number(found.p99)]
        for (name, case), found in results.items()
    ]
    more = [(results[ON, case].cpu_ms or 0.0) - (results[OFF, case].cpu_ms or 0.0) for case in CASES]
    return Report(
        name="resume",
        title="A streamed call of 20 chunks whose answer is kept to be resumed, and one whose answer is not",
        columns=["case", "resume", "CPU ms a request", "requests/s", "p50 ms", "p99 ms"],
        rows=rows,
        goals=[
            Goal(what="CPU that keeping an answer adds (the worse case)", limit=0.3, unit="ms", found=max(more)),
            Goal(what="the rest of a broken answer is there, p95", limit=20, unit="ms", found=quantile(waited, 0.95)),
            Goal(what="calls of the model for a broken and resumed answer", limit=1, unit="calls", found=calls),
        ],
        notes=[
            "CPU is measured as in `proxy`, with the same upstream; cases and settings take turns in each round.",
            f"{len(waited)} connections broke after their first event, one after the other; the median rest took "
            f"{number(statistics.median(waited))} ms with its request.",
        ],
        figures={"resume_ms": waited, "cpu_more_ms": more},
    )
