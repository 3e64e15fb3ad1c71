"""Starts the programs of the demo's agents, reads their output, and ends them."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from circadia.cli.demo.result import AgentTally
from circadia.errors import StartError

WORKER = Path(__file__).with_name("worker.py")
START_SECONDS = 60.0
STOP_SECONDS = 15.0
_LINE_BYTES = 1 << 20

LineListener = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class TeamMember:
    """The input of one agent's program; the token is valid for REST, models and MCP."""

    name: str
    token: str
    part: Mapping[str, Any]


class Team:
    def __init__(self, members: Sequence[TeamMember], on_line: LineListener) -> None:
        self.tallies = {member.name: AgentTally(agent=member.name) for member in members}
        self._on_line = on_line
        self._changed = asyncio.Condition()
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._readers: list[asyncio.Task[None]] = []

    async def start(self, member: TeamMember, urls: Mapping[str, str], folder: Path) -> None:
        """Start one program; its errors go to a file in `folder`."""
        part = folder / f"{member.name}.json"
        part.write_text(json.dumps(member.part), "utf-8")
        with (folder / f"{member.name}.log").open("wb") as sink:
            process = await asyncio.create_subprocess_exec(
                # -P: the program must not find Circadia's modules beside itself.
                *(sys.executable, "-P", str(WORKER), str(part)),
                env=environment(os.environ, urls, member.token),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=sink,
                limit=_LINE_BYTES,
            )
        self._processes[member.name] = process
        self._readers.append(asyncio.create_task(self._listen(member.name, process)))

    async def ready(self) -> None:
        """Wait until all programs have connected their clients. Raises StartError if one ends or is late."""
        try:
            async with asyncio.timeout(START_SECONDS), self._changed:
                await self._changed.wait_for(lambda: all(tally.ready or tally.ended for tally in self.tallies.values()))
        except TimeoutError:
            pass
        late = [tally for tally in self.tallies.values() if not tally.ready]
        if late:
            raise StartError(
                f"the agent {late[0].agent!r} could not connect: {'; '.join(late[0].errors) or 'no answer'}"
            )

    def ended_agents(self) -> list[str]:
        return [name for name, process in self._processes.items() if process.returncode is not None]

    async def stop(self) -> None:
        """End all programs by closing their standard input, and read the rest of their output."""
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.gather(*self._readers, return_exceptions=True), STOP_SECONDS)
        except TimeoutError:
            for process in self._processes.values():
                if process.returncode is None:
                    process.kill()
        for process in self._processes.values():
            await process.wait()

    async def _listen(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            with contextlib.suppress(json.JSONDecodeError):
                await self._handle_line(name, json.loads(line))
        if not self.tallies[name].ended:
            await self._handle_line(name, {"event": "error", "message": "the program ended unexpectedly"})
            await self._handle_line(name, {"event": "end"})

    async def _handle_line(self, name: str, line: Mapping[str, Any]) -> None:
        self.tallies[name].count_line(line)
        self._on_line(name, line)
        async with self._changed:
            self._changed.notify_all()


@contextlib.asynccontextmanager
async def run_team(
    members: Sequence[TeamMember], urls: Mapping[str, str], folder: Path, on_line: LineListener
) -> AsyncGenerator[Team]:
    team = Team(members, on_line)
    try:
        for member in members:
            await team.start(member, urls, folder)
        await team.ready()
        yield team
    finally:
        await team.stop()


def environment(base: Mapping[str, str], urls: Mapping[str, str], token: str) -> dict[str, str]:
    """Return the environment of an agent's program: two addresses, its token, and no other secret."""
    harmless = {
        name: value
        for name, value in base.items()
        if not name.upper().startswith(("CIRCADIA_", "OPENAI_", "ANTHROPIC_"))
        and not name.upper().endswith(("_KEY", "_TOKEN", "_SECRET", "_PASSWORD"))
    }
    local = ",".join(filter(None, (base.get("NO_PROXY") or base.get("no_proxy"), "127.0.0.1", "localhost")))
    own = {"OPENAI_API_KEY": token, "MCP_TOKEN": token, "NO_PROXY": local, "no_proxy": local}
    return {**harmless, **urls, **own, "PYTHONUNBUFFERED": "1"}
