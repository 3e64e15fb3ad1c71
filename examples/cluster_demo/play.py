"""The story of the demo: two incidents; in the first, a worker and a gateway are killed."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
import psutil
from openai import AsyncOpenAI
from rich.console import Console

from circadia.cli.demo import story
from circadia.cli.demo.run import Team, TeamMember, run_team
from circadia.cli.demo.server import DemoServer
from circadia.clock import Clock
from circadia.errors import UpstreamFailed
from examples.cluster_demo.clients import EventFollower, NoteWriter
from examples.cluster_demo.cluster import DemoCluster, find_programs

SESSION: Final = "on-call"
BANK: Final = "on-call"
DEPLOY: Final = "deploy"
"""The agent that a worker starts when it is mentioned; the programs of the others always run."""
REPORTER: Final = "reporter"
"""An agent that asks its model while it sleeps, and is woken at the end."""
READERS: Final = ("the customers", "the team", "the managers", "the people on call tomorrow")
"""Those for whom it reports, with a model call for each."""
UPSTREAM: Final = "model"
DEPLOYER: Final = Path(__file__).with_name("deployer.py")
LIMIT_SECONDS: Final = 150.0
"""Longest wait for one step. The pulse of a leader that died is put back within 35 s, and starts again 5 s later; a
message that a dead gateway was sending to its reader is unread again after 60 s."""
LOOK_SECONDS: Final = 0.1
SPEAK_SECONDS: Final = 10.0
"""Longest silence of a wait."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class DemoStage:
    """What the story is played with."""

    cluster: DemoCluster
    model: str
    limit_field: str
    scale: story.TimeScale
    folder: Path
    console: Console
    clock: Clock
    http: aiohttp.ClientSession
    """Has the operator's token."""
    started: float

    def say(self, text: str) -> None:
        self.console.print(f"  [dim]{self.clock.monotonic() - self.started:5.1f} s[/dim]  {text}", highlight=False)

    async def wait_until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a condition, and say so. Raises UpstreamFailed if that takes longer than `LIMIT_SECONDS`."""
        begun = spoken = self.clock.monotonic()
        while not await condition():
            now = self.clock.monotonic()
            if now >= begun + LIMIT_SECONDS:
                raise UpstreamFailed(f"the demo waited {LIMIT_SECONDS:g} s in vain: {what}")
            if now >= spoken + SPEAK_SECONDS:
                self.say(f"waiting: {what}")
                spoken = now
            await self.clock.sleep(LOOK_SECONDS)


@dataclass(kw_only=True)
class DemoOutcome:
    """What the clients saw; the table compares it with what the servers say."""

    writer: NoteWriter
    follower: EventFollower
    solved: set[str] = field(default_factory=set[str])
    held: Counter[str] = field(default_factory=Counter[str])
    """Calls that the killed gateway held, by agent."""
    continued: Counter[str] = field(default_factory=Counter[str])
    """Calls that the other gateway held afterwards, without those that it had held before."""
    events: Sequence[int] = ()
    """Numbers of all events up to the end of the story; later ones tell of the calls of programs that have ended."""
    reports: Sequence[str] = ()
    """Answers to the model calls that were held from the start to the end."""


async def play(stage: DemoStage) -> DemoOutcome:
    tokens = await _create_team(stage)
    api = f"{stage.cluster.url}/api/v1"
    outcome = DemoOutcome(
        writer=NoteWriter(stage.http, f"{api}/banks/{BANK}/episodes", stage.clock),
        follower=EventFollower(stage.http, f"{api}/events/stream", stage.clock),
    )
    async with _run_aside(outcome.follower.run()):
        async with _run_team(stage, tokens, outcome), _run_aside(outcome.writer.run()):
            async with _run_aside(_write_reports(stage, tokens[REPORTER])) as reports:
                await _play_incidents(stage, outcome)
                await stage.cluster.live_gateway.post(
                    f"/sessions/{SESSION}/agents/{REPORTER}/sleeping", {"sleeping": False}
                )
                outcome.reports = await asyncio.wait_for(reports, LIMIT_SECONDS)
                stage.say(f"{REPORTER} is woken, and the calls that it began at the start are answered")
                await stage.wait_until(f"the pulse of {DEPLOY} has ended", lambda: _has_pulse_ended(stage))
        outcome.events = [event["number"] for event in await read_events(stage.cluster.live_gateway)]
        await asyncio.wait_for(outcome.follower.wait_for(outcome.events[-1]), LIMIT_SECONDS)
    return outcome


@contextlib.asynccontextmanager
async def _run_aside(work: Coroutine[Any, Any, T]) -> AsyncGenerator[asyncio.Task[T]]:
    """Run `work` within the block, at the end of which it is cancelled."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _create_team(stage: DemoStage) -> Mapping[str, str]:
    """Create the session of `circadia demo` and the reporter, and return the agents' tokens."""
    graph = story.graph(SESSION, sleeping=True)
    for agent in graph["agents"]:
        if agent["name"] == DEPLOY:
            agent["wake_events"] = ["mentioned"]
    graph["agents"].append({"name": REPORTER, "sleep_events": ["agent_started"]})
    gateway = stage.cluster.live_gateway
    session = await gateway.post("/sessions", graph)
    await gateway.post("/banks", {"name": BANK})
    coordination = {"launcher": DEPLOY, "heartbeat_minutes": None, "guard_thread_events": True}
    path = f"{gateway.url}/api/v1/agents/{SESSION}:{DEPLOY}/coordination"
    async with stage.http.patch(path, json=coordination) as answer:
        answer.raise_for_status()
    return {agent["name"]: agent["token"] for agent in session["agents"]}


@contextlib.asynccontextmanager
async def _run_team(stage: DemoStage, tokens: Mapping[str, str], outcome: DemoOutcome) -> AsyncGenerator[Team]:
    """Run the programs of all agents but `deploy`, as `circadia demo` does, with HAProxy as their only address."""

    def show(agent: str, line: Mapping[str, Any]) -> None:
        match line.get("event"):
            case "incident" if line["state"] == "closed":
                outcome.solved.add(line["incident"])
                stage.say(f"{line['incident']} closed")
            case "done":
                stage.say(f"{agent} has answered for {line['incident']}")
            case "error":
                stage.say(f"[yellow]{agent} lost its connection, and calls again[/yellow]")
            case _:
                pass

    members = [
        TeamMember(name=name, token=tokens[name], part=story.part(name, stage.scale, stage.model, stage.limit_field))
        for name in (story.COORDINATOR, *story.SPECIALISTS)
        if name != DEPLOY
    ]
    url = stage.cluster.url
    urls = {"OPENAI_BASE_URL": f"{url}/llm/{UPSTREAM}/v1", "MCP_URL": f"{url}/mcp"}
    async with run_team(members, urls, stage.folder, show) as team:
        yield team


async def _write_reports(stage: DemoStage, token: str) -> Sequence[str]:
    """Make the reporter's model calls with the official SDK as it comes; the gateways hold them until it is woken."""
    async with AsyncOpenAI(base_url=f"{stage.cluster.url}/llm/{UPSTREAM}/v1", api_key=token) as model:

        async def write(reader: str) -> str:
            limit: Any = {stage.limit_field: story.MAX_TOKENS}
            messages: Any = [{"role": "user", "content": f"Both incidents are solved. Tell {reader} in one sentence."}]
            answer = await model.chat.completions.create(model=stage.model, messages=messages, stream=False, **limit)
            return answer.choices[0].message.content or ""

        return await asyncio.gather(*(write(reader) for reader in READERS))


async def _play_incidents(stage: DemoStage, outcome: DemoOutcome) -> None:
    first, second = story.INCIDENTS
    sleepers = Counter({REPORTER: len(READERS), **{job.agent: 1 for job in second.jobs}})
    await stage.wait_until("all calls of sleeping agents are held", lambda: _are_held(stage, sleepers))
    stage.say(f"{sleepers.total()} calls of sleeping agents are held, at both gateways together")
    await _page(stage, first)
    await _kill_worker(stage)
    await _kill_gateway(stage, outcome)
    stage.say("the pulse waits until the lease of the dead worker is over: 15 s, or 35 s if that worker led")
    await stage.wait_until("the other worker runs the pulse", lambda: _is_running_again(stage))
    stage.say("the other worker runs the pulse again")
    await stage.wait_until(f"{first.id} is closed", lambda: _is_solved(outcome, first))
    await _page(stage, second)
    await stage.wait_until(f"{second.id} is closed", lambda: _is_solved(outcome, second))


async def _page(stage: DemoStage, incident: story.Incident) -> None:
    stage.say(f"[bold]{incident.id}: {incident.page}[/bold]")
    gateway = stage.cluster.live_gateway
    participants = [story.PAGER, story.COORDINATOR]
    thread = await gateway.post(f"/sessions/{SESSION}/threads", {"name": incident.id, "participants": participants})
    await gateway.post(
        f"/sessions/{SESSION}/threads/{thread['id']}/messages",
        {"from": story.PAGER, "content": f"{incident.id}: {incident.page}", "mentions": [story.COORDINATOR]},
    )


async def _kill_worker(stage: DemoStage) -> None:
    """Kill the worker that runs the pulse of `deploy`, with the program, as if its machine failed."""
    running: list[tuple[str, list[psutil.Process]]] = []

    async def is_running() -> bool:
        running[:] = [
            (name, programs)
            for name, worker in stage.cluster.workers.items()
            if (programs := find_programs(worker, DEPLOYER))
        ]
        return bool(running) and (await read_pulse(stage.cluster.live_gateway))["status"] == "running"

    await stage.wait_until(f"a worker runs the pulse of {DEPLOY!r}", is_running)
    name, programs = running[0]
    stage.say(f"[red]{name} is killed, with the pulse of {DEPLOY} that it runs[/red]")
    await stage.cluster.workers[name].kill()
    for program in programs:
        with contextlib.suppress(psutil.NoSuchProcess):
            program.kill()


async def _kill_gateway(stage: DemoStage, outcome: DemoOutcome) -> None:
    """Kill the gateway that holds more calls, and wait until the other one holds all of them."""
    held = {name: await _read_holds(gateway) for name, gateway in stage.cluster.gateways.items()}
    name = max(held, key=lambda name: held[name].total())
    outcome.held = held.pop(name)
    (before,) = held.values()
    stage.say(f"[red]{name} is killed, with the {outcome.held.total()} calls that it holds[/red]")
    await stage.cluster.gateways[name].kill()

    async def are_continued() -> bool:
        outcome.continued = await _read_holds(stage.cluster.live_gateway) - before
        return outcome.continued >= outcome.held

    await stage.wait_until("the other gateway holds the calls of the killed one", are_continued)
    stage.say("the other gateway holds these calls")


async def _read_holds(gateway: DemoServer) -> Counter[str]:
    """Return the number of calls that the gateway holds, by agent."""
    return Counter(hold["agent"] for hold in (await gateway.get("/holds", session=SESSION))["holds"])


async def _are_held(stage: DemoStage, calls: Counter[str]) -> bool:
    held = Counter[str]()
    for gateway in stage.cluster.gateways.values():
        held.update(await _read_holds(gateway))
    return held >= calls


async def _is_solved(outcome: DemoOutcome, incident: story.Incident) -> bool:
    return incident.id in outcome.solved


async def _is_running_again(stage: DemoStage) -> bool:
    pulse = await read_pulse(stage.cluster.live_gateway)
    return pulse["attempt"] > 1 and pulse["status"] not in ("pending", "starting")


async def _has_pulse_ended(stage: DemoStage) -> bool:
    return (await read_pulse(stage.cluster.live_gateway))["ended_at"] is not None


async def read_pulse(gateway: DemoServer) -> dict[str, Any]:
    """Return the one pulse of `deploy`."""
    (pulse,) = (await gateway.get(f"/agents/{SESSION}:{DEPLOY}/pulses"))["pulses"]
    return pulse


async def read_events(gateway: DemoServer, **filters: str) -> list[dict[str, Any]]:
    return (await gateway.get("/events", limit="10000", **filters))["events"]
