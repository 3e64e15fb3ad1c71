"""One run of the story against a running server: the session, the agents' programs and the outside world."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from circadia.cli.demo import story
from circadia.cli.demo.live import TITLES, LiveDisplay
from circadia.cli.demo.result import AgentTally, LedgerUsage, RunResult
from circadia.cli.demo.server import DemoServer
from circadia.clock import Clock
from circadia.errors import StartError, UpstreamFailed
from circadia.llm.local import LocalModel

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


POLL_SECONDS = 0.25
SETTLE_SECONDS = 5.0
HOPELESS_ERRORS = 5
LATE_FACTOR = 1.0
"""Overtime of a run, as a share of its length, after which it ends unsolved."""


@dataclass(frozen=True, kw_only=True)
class DemoContext:
    server: DemoServer
    local_model: LocalModel | None
    model: str
    limit_field: str
    upstream: str
    scale: story.TimeScale
    folder: Path
    view: LiveDisplay
    clock: Clock


@dataclass(kw_only=True)
class _Progress:
    """Times at which incidents were paged and closed, on the monotonic clock."""

    paged: dict[str, float] = field(default_factory=dict[str, float])
    closed: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def solved(self) -> bool:
        return len(self.closed) == len(story.INCIDENTS)

    def seconds_to_close(self) -> dict[str, float | None]:
        return {
            incident.id: self.closed[incident.id] - self.paged[incident.id] if incident.id in self.closed else None
            for incident in story.INCIDENTS
        }


async def play(stage: DemoContext, name: str, *, sleeping: bool) -> RunResult:
    """Play the story once in a session called `name`, with or without sleep.

    Raises:
        StartError: An agent could not start.
        UpstreamFailed: The server, the local model or an agent's program ended.
    """
    session = await stage.server.post("/sessions", story.graph(name, sleeping=sleeping))
    tokens = {agent["name"]: agent["token"] for agent in session["agents"]}
    folder = stage.folder / name
    folder.mkdir()
    members = [
        TeamMember(name=agent, token=tokens[agent], part=story.part(agent, stage.scale, stage.model, stage.limit_field))
        for agent in (story.COORDINATOR, *story.SPECIALISTS)
    ]
    urls = {"OPENAI_BASE_URL": f"{stage.server.url}/llm/{stage.upstream}/v1", "MCP_URL": f"{stage.server.url}/mcp"}
    progress = _Progress()

    def on_line(agent: str, line: Mapping[str, Any]) -> None:
        if line.get("event") == "incident" and line["state"] == "closed":
            progress.closed[line["incident"]] = stage.clock.monotonic()
            stage.view.say(f"  {line['incident']} closed")
        if line.get("event") == "done":
            stage.view.say(f"  {agent} has answered for {line['incident']}")

    async with run_team(members, urls, folder, on_line) as team:
        stage.view.begin(TITLES[name], team.tallies.values())
        try:
            wall_seconds = await _run_story(stage, name, team, progress)
        finally:
            stage.view.end()
    agents = list(team.tallies.values())
    return RunResult(
        name=name,
        wall_seconds=wall_seconds,
        incidents=progress.seconds_to_close(),
        agents=agents,
        ledger=await _ledger(stage, name, agents),
        warnings=session.get("warnings", []),
    )


async def _run_story(stage: DemoContext, session: str, team: Team, progress: _Progress) -> float:
    """Play the outside world until all incidents are closed or the overtime is used up; return the seconds."""
    start = last = stage.clock.monotonic()
    length = stage.scale.run_seconds
    pages = list(story.INCIDENTS)
    while True:
        now = stage.clock.monotonic()
        elapsed = now - start
        if elapsed >= length and (progress.solved or elapsed >= length * (1 + LATE_FACTOR)):
            return elapsed
        if pages and elapsed >= stage.scale.seconds(pages[0].minute):
            await _page(stage, session, pages.pop(0), progress)
        _check_alive(stage, team)
        await _poll_states(stage.server, session, team, now - last)
        last = now
        stage.view.tick(f"story minute {elapsed * stage.scale.factor / 60:.0f} of {story.STORY_MINUTES}")
        await stage.clock.sleep(POLL_SECONDS)


async def _page(stage: DemoContext, session: str, incident: story.Incident, progress: _Progress) -> None:
    stage.view.say(f"  {incident.id}: {incident.page}")
    progress.paged[incident.id] = stage.clock.monotonic()
    thread = await stage.server.post(
        f"/sessions/{session}/threads", {"name": incident.id, "participants": [story.PAGER, story.COORDINATOR]}
    )
    await stage.server.post(
        f"/sessions/{session}/threads/{thread['id']}/messages",
        {"from": story.PAGER, "content": f"{incident.id}: {incident.page}", "mentions": [story.COORDINATOR]},
    )


def _check_alive(stage: DemoContext, team: Team) -> None:
    """Raise UpstreamFailed if the server, the local model or an agent's program has ended."""
    if not stage.server.alive:
        raise UpstreamFailed(f"the demo's server ended; {stage.server.describe_log()}")
    if stage.local_model is not None and not stage.local_model.is_alive:
        raise UpstreamFailed(f"the local model ended; its output is in {str(stage.folder / 'model.log')!r}")
    if ended_agents := team.ended_agents():
        errors = "; ".join(team.tallies[ended_agents[0]].errors[-2:]) or "no message"
        raise UpstreamFailed(f"the program of agent {ended_agents[0]!r} ended: {errors}")
    errors = [error for tally in team.tallies.values() for error in tally.errors]
    if len(errors) >= HOPELESS_ERRORS and not any(tally.model_calls for tally in team.tallies.values()):
        raise UpstreamFailed(f"no model call was answered; the agents' last error: {errors[-1]}")


async def _poll_states(server: DemoServer, session: str, team: Team, seconds: float) -> None:
    for agent in (await server.get(f"/sessions/{session}/agents"))["agents"]:
        tally = team.tallies.get(agent["name"])
        if tally is not None:
            tally.record_state(sleeping=agent["sleeping"], held=agent["held"], seconds=seconds)


async def _ledger(stage: DemoContext, session: str, agents: Sequence[AgentTally]) -> dict[str, LedgerUsage]:
    """Return the server's usage of a session by agent, once it has all calls that the agents counted.

    The server writes the ledger shortly after an answer, so the last call may be late. After `SETTLE_SECONDS`, a
    remaining difference is returned as it is.
    """
    until = stage.clock.monotonic() + SETTLE_SECONDS
    while True:
        ledger: dict[str, LedgerUsage] = {}
        for line in (await stage.server.get("/usage", group_by="agent", session=session))["usage"]:
            ledger[str(line["key"]).rpartition(":")[2]] = LedgerUsage(
                calls=line["calls"] - line["failed"],
                input_tokens=line["input_tokens"],
                output_tokens=line["output_tokens"],
            )
        behind = [agent.agent for agent in agents if ledger.get(agent.agent, LedgerUsage()).calls < agent.model_calls]
        if not behind or stage.clock.monotonic() >= until:
            return ledger
        await stage.clock.sleep(POLL_SECONDS)
