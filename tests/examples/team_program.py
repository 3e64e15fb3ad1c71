"""Runs the program of an example team as a user would: as a process, against a server, with a mock provider."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from circadia.testing.upstream import MockUpstream
from tests.examples.team_model import CALLS, TASK, TEAM_FILE, TeamModel
from tests.fixtures.server_process import CircadiaProcess
from tests.house.tree import ROOT

APIS: Final = ("openai", "anthropic")
KEY: Final = "key-of-the-provider"
PROGRAM_SECONDS: Final = 150.0
"""Some frameworks take a minute to be imported on a busy machine."""


@dataclass(frozen=True, kw_only=True)
class TeamRun:
    """What a team's program has printed, and what its agents have used."""

    status: int
    output: str
    calls: Mapping[str, int]
    held_seconds: Mapping[str, float]
    failed_calls: int
    asleep: Set[str]
    """Who sleeps in the end."""
    problems: Sequence[str]


async def run_team(words: Sequence[str], folder: Path) -> TeamRun:
    """Start the program, see that all three agents are held and have spent nothing, wake the lead, and wait."""
    model = TeamModel()
    async with MockUpstream(key=KEY, reply=model.reply) as upstream:
        providers = {name: {"base_url": upstream.base_url, "api": name, "key_env": "KEY"} for name in APIS}
        async with CircadiaProcess(folder, {"upstreams": providers}, env={"KEY": KEY}) as server:
            created = await server.call("POST", "/sessions", json.loads(TEAM_FILE.read_text("utf-8")))
            tokens = folder / "tokens.json"
            tokens.write_text(json.dumps(created), "utf-8")
            async with _program([*words, str(tokens)], server.url, folder) as program:
                output = asyncio.create_task(_read(program))
                held = asyncio.create_task(server.held(len(CALLS), timeout_seconds=PROGRAM_SECONDS))
                await asyncio.wait({held, output}, return_when=asyncio.FIRST_COMPLETED)
                held.cancel()
                assert not output.done(), output.result()
                assert {hold["agent"] for hold in held.result()} == set(CALLS)
                assert upstream.requests == [], "a sleeping agent has called its model"
                assert (await server.call("GET", "/usage?group_by=agent"))["total"]["calls"] == 0
                upstream.gate.clear()
                await server.call("POST", "/messages", {"to": "team:lead", "content": TASK, "wake": "user_request"})
                await upstream.wait_for_requests(1)
                asleep = {hold["agent"] for hold in await server.holds()}
                assert asleep == {"writer", "reviewer"}, "only the lead was woken"
                upstream.gate.set()
                async with asyncio.timeout(PROGRAM_SECONDS):
                    text = await output
                    status = await program.wait()
            rows = (await server.call("GET", "/usage?group_by=agent"))["usage"]
            agents = (await server.call("GET", "/sessions/team/agents"))["agents"]
    return TeamRun(
        status=status,
        output=text,
        calls=model.calls,
        held_seconds={row["key"]: row["held_seconds"] for row in rows},
        failed_calls=sum(row["failed"] for row in rows),
        asleep={agent["name"] for agent in agents if agent["sleeping"]},
        problems=model.problems,
    )


@contextlib.asynccontextmanager
async def _program(words: Sequence[str], url: str, folder: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "CIRCADIA_URL": url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _read(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.read()).decode(errors="replace")
