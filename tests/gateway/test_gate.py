"""The gate under every order of events: what is admitted, when, how often, and that nothing is left behind."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.types import Message

from circadia.agents.approvals import ApprovalService
from circadia.agents.presence import Presence
from circadia.clock import SystemClock, system_milliseconds
from circadia.errors import LimitReached, StillAsleep, StorageUnavailable, TargetGone
from circadia.gateway.accounting.journal import LINES, Journal, Line
from circadia.gateway.accounting.write_behind import BacklogSpool
from circadia.gateway.hold.approvals import ApprovalDesk
from circadia.gateway.hold.bodies import BodiesInFlight, BodySpool, CallBody
from circadia.gateway.hold.places import LocalHoldPlaces
from circadia.gateway.hold.reply import Reply, Ticker
from circadia.gateway.mcp.messages import McpReplyFormat
from circadia.gateway.model_call.hold import Admission, Gate, GateCall
from circadia.ids import AgentId, RandomIds, SessionId
from circadia.records.agent import Agent
from circadia.records.event import Event, EventType
from circadia.settings import LimitsSettings
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals

CLOCK = SystemClock()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def agent_named(name: str) -> Agent:
    return Agent(
        id=AgentId(f"agt_{name}"), session_id=SessionId("ses_1"), session="default", name=name,
        token_hash=name, since=NOW, created_at=NOW,
    )  # fmt: skip


@dataclass
class Bench:
    """A gate with everything under it, and the sleep of agents set by the signals that the store would send."""

    gate: Gate
    presence: Presence
    parking: BodySpool
    signals: LocalSignals
    ticker: Ticker
    lines: list[object]
    journal: Journal
    asleep: dict[str, bool] = field(default_factory=dict[str, bool])
    generation: dict[str, int] = field(default_factory=dict[str, int])

    async def know(self, agent: Agent) -> None:
        """Have a cell for the agent without a row for it."""
        with pytest.raises(TargetGone):
            await self.presence.fetch_cell(agent.id)

    def set(self, agent: Agent, asleep: bool) -> None:
        if self.asleep.get(agent.id, False) == asleep:
            return
        self.asleep[agent.id] = asleep
        self.generation[agent.id] = self.generation.get(agent.id, 0) + 1
        state = {
            "asleep": asleep, "generation": self.generation[agent.id], "lasted_seconds": 1.0, "actor": "",
            "since": CLOCK.now(),
        }  # fmt: skip
        self.signals.publish("sleep", agent.id, state)

    async def hold(self, agent: Agent, body: bytes = b"x") -> tuple[bytes, Admission]:
        reply = Reply(swallow, McpReplyFormat(), 15.0)
        call_body = CallBody(BodiesInFlight(LimitsSettings.model_validate({})))
        call_body.content = body
        del body
        call = GateCall(
            agent=agent,
            reply=reply,
            body=call_body,
            door="mcp",
            to="",
            what="tools/call t",
            grace_seconds=2.0,
            retry_key="t",
        )
        sent: list[tuple[bytes, Admission]] = []

        async def send(admission: Admission) -> None:
            await self.gate.wait_for_turn(call)
            await self.gate.wait_to_send(call)
            self.gate.clear_to_send(call)
            sent.append((call_body.hand_over(), admission))

        await self.gate.pass_call(call, send)
        return sent[0]


async def swallow(message: Message) -> None:
    del message


@asynccontextmanager
async def bench(folder: Path, store: Store, agents: list[Agent], **limits: int) -> AsyncGenerator[Bench]:
    signals = LocalSignals()
    settings = LimitsSettings.model_validate(limits)
    lines: list[object] = []
    presence = Presence(store, signals)
    parking = BodySpool(folder / "held", settings)
    ticker = Ticker(CLOCK)
    ids = RandomIds(system_milliseconds)
    backlogs = BacklogSpool[Line](folder / "spool", ids, "journal", LINES)
    events = EventLog(CLOCK, signals)
    journal = Journal(CLOCK, store, backlogs, events, lines.append)
    desk = ApprovalDesk(CLOCK, store, ApprovalService(CLOCK, ids, events), signals)
    gate = Gate(CLOCK, ids, presence, journal, ticker, parking, LocalHoldPlaces(settings, 2**20), desk)
    made = Bench(gate, presence, parking, signals, ticker, lines, journal)
    for agent in agents:
        cell = presence.ensure_cell(agent.id)
        cell.generation = 0
    ticking = asyncio.create_task(ticker.run())
    try:
        yield made
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)


async def settled() -> None:
    """Let every task that can run, run."""
    for _ in range(10):
        await asyncio.sleep(0)


class Run:
    """One random interleaving of holds, cancels, sleeps, wakes and deletions."""

    def __init__(self, made: Bench, agents: list[Agent], seed: int) -> None:
        self.bench = made
        self.agents = agents
        self.random = random.Random(seed)
        self.calls: dict[asyncio.Task[None], Agent] = {}
        self.admitted: list[int] = []
        self.cancelled: set[asyncio.Task[None]] = set()
        self.ended: set[str] = set()

    async def call(self, agent: Agent, number: int) -> None:
        try:
            await self.bench.hold(agent)
        except TargetGone:
            assert agent.id in self.ended, "a call ended although its agent is there"
            return
        assert not self.bench.asleep.get(agent.id, False), "admitted while asleep"
        assert agent.id not in self.ended, "admitted after the end of its agent"
        self.admitted.append(number)

    def step(self, number: int) -> None:
        agent = self.random.choice(self.agents)
        act = self.random.choice(("hold", "hold", "hold", "sleep", "wake", "cancel", "flicker", "end"))
        if act == "hold" and agent.id not in self.ended:
            self.calls[asyncio.create_task(self.call(agent, number))] = agent
        elif act in ("sleep", "wake"):
            self.bench.set(agent, act == "sleep")
        elif act == "flicker":  # a wake that is taken back before anybody could run
            self.bench.set(agent, False)
            self.bench.set(agent, True)
        elif act == "cancel" and self.calls:
            task = self.random.choice(list(self.calls))
            if task.cancel():
                self.cancelled.add(task)
        elif act == "end" and self.random.random() < 0.05:
            self.ended.add(agent.id)
            self.bench.signals.publish("agent_ended", agent.id, {"reason": "deleted"})

    async def to_the_end(self) -> None:
        for number in range(40):
            self.step(number)
            if self.random.random() < 0.5:
                await asyncio.sleep(0)
        for agent in self.agents:
            if agent.id not in self.ended:
                self.bench.set(agent, False)
        await asyncio.gather(*self.calls, return_exceptions=True)
        for task, agent in self.calls.items():
            if not task.cancelled():
                assert task.exception() is None or agent.id in self.ended, task.exception()


@pytest.mark.spec("GATE-90", "GATE-42", "GATE-44", "GATE-93")
async def test_in_a_thousand_interleavings_calls_pass_once_and_only_while_their_agent_is_awake(
    tmp_path: Path, sqlite_store: Store
) -> None:
    retries = 0
    for seed in range(1000):
        agents = [agent_named(f"a{seed}-{n}") for n in range(3)]
        async with bench(tmp_path, sqlite_store, agents) as made:
            run = Run(made, agents, seed)
            async with asyncio.timeout(60):
                await run.to_the_end()
            assert len(run.admitted) == len(set(run.admitted))
            assert made.gate.total_held == 0
            assert all(made.gate.count_held(agent.id) == 0 for agent in agents)
            assert made.parking.in_memory == made.parking.on_disk == 0
            counts = {
                kind: sum(isinstance(line, Event) and line.type is kind for line in made.lines)
                for kind in (EventType.HELD, EventType.ADMITTED, EventType.DROPPED)
            }
            assert counts[EventType.HELD] == counts[EventType.ADMITTED] + counts[EventType.DROPPED]
            holds = [line.data for line in made.lines if isinstance(line, Event) and line.type is EventType.HELD]
            gone = [line.data for line in made.lines if isinstance(line, Event) and line.type is EventType.DROPPED]
            continued = [data["continues"] for data in holds if "continues" in data]
            assert len(continued) == len(set(continued)), "a hold is continued once"
            assert set(continued) <= {data["hold"] for data in gone}
            retries += len(continued)
    assert retries > 100


@pytest.mark.spec("GATE-42")
async def test_a_wake_admits_in_the_order_of_arrival(tmp_path: Path, sqlite_store: Store) -> None:
    agent = agent_named("ann")
    order: list[int] = []

    async def call(made: Bench, number: int) -> None:
        await made.hold(agent)
        order.append(number)

    async with bench(tmp_path, sqlite_store, [agent]) as made:
        made.set(agent, True)
        tasks: list[asyncio.Task[None]] = []
        for number in range(50):
            tasks.append(asyncio.create_task(call(made, number)))
            await settled()
        made.set(agent, False)
        made.set(agent, True)
        await settled()
        assert order == []
        made.set(agent, False)
        await asyncio.gather(*tasks)
    assert order == list(range(50))


@pytest.mark.spec("LARGE-03")
async def test_a_wake_of_thousands_leaves_turns_of_the_event_loop_to_others(
    tmp_path: Path, sqlite_store: Store
) -> None:
    agents = [agent_named(f"ann-{number}") for number in range(30)]
    through: list[Agent] = []

    async def wait(made: Bench, agent: Agent) -> None:
        await made.presence.wait_until_awake(made.presence.ensure_cell(agent.id), object())
        through.append(agent)

    async with bench(tmp_path, sqlite_store, agents) as made:
        for agent in agents:
            made.set(agent, True)
        tasks = [asyncio.create_task(wait(made, agent)) for agent in agents for _ in range(100)]
        await settled()
        for agent in agents:
            made.set(agent, False)
        while len(through) < len(tasks):
            before = len(through)
            await asyncio.sleep(0)
            assert len(through) - before <= 200
        await asyncio.gather(*tasks)
    assert through == [agent for agent in agents for _ in range(100)], "in order"


@pytest.mark.spec("GATE-46")
async def test_over_the_limit_of_an_agent_a_call_is_refused_and_the_others_stay_held(
    tmp_path: Path, sqlite_store: Store
) -> None:
    agent, other = agent_named("ann"), agent_named("bob")
    async with bench(tmp_path, sqlite_store, [agent, other], max_holds_per_agent=2, max_holds=3) as made:
        for each in (agent, other):
            made.set(each, True)
        tasks = [asyncio.create_task(made.hold(agent)) for _ in range(2)]
        await settled()
        with pytest.raises(LimitReached, match="'ann' has 2 held calls"):
            await made.hold(agent)
        tasks.append(asyncio.create_task(made.hold(other)))
        await settled()
        with pytest.raises(LimitReached, match="3 calls are held"):
            await made.hold(other)
        assert made.gate.total_held == 3
        for each in (agent, other):
            made.set(each, False)
        await asyncio.gather(*tasks)


@pytest.mark.spec("GATE-46", "GATE-47")
async def test_a_large_held_body_waits_on_the_disk_and_comes_back_whole(tmp_path: Path, sqlite_store: Store) -> None:
    agent = agent_named("ann")
    body = random.Random(1).randbytes(300_000)
    async with bench(tmp_path, sqlite_store, [agent], spill_bytes=1000, max_spilled_bytes=700_000) as made:
        made.set(agent, True)
        held = asyncio.create_task(made.hold(agent, body))
        gone = asyncio.create_task(made.hold(agent, body))
        await spilled(made, 2 * len(body))
        with pytest.raises(LimitReached, match="fill the space"):
            await made.hold(agent, body)
        assert len(list((tmp_path / "held").iterdir())) == 2
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert len(list((tmp_path / "held").iterdir())) == 1
        made.set(agent, False)
        assert (await held)[0] == body
        assert not list((tmp_path / "held").iterdir())
        assert made.parking.on_disk == made.parking.in_memory == 0


async def spilled(made: Bench, size: int) -> None:
    """Return once so many bytes are on the disk and their calls are held."""
    async with asyncio.timeout(60):
        while made.parking.on_disk < size or made.gate.total_held < 2:
            await asyncio.sleep(0)


@pytest.mark.spec("GATE-46")
async def test_a_disk_that_takes_no_body_refuses_the_call_with_a_clear_error(
    tmp_path: Path, sqlite_store: Store
) -> None:
    agent = agent_named("ann")
    (tmp_path / "held").write_text("a file where the folder should be")
    async with bench(tmp_path, sqlite_store, [agent], spill_bytes=10) as made:
        made.set(agent, True)
        with pytest.raises(StorageUnavailable, match="cannot keep the body on disk"):
            await made.hold(agent, b"x" * 100)
        assert made.gate.total_held == 0
        assert made.parking.on_disk == 0


@pytest.mark.spec("GATE-48")
async def test_a_hold_ends_at_the_longest_time_of_its_agents_policy(tmp_path: Path, sqlite_store: Store) -> None:
    agent = agent_named("ann")
    agent = replace(agent, policy=agent.policy.model_copy(update={"hold_max_seconds": 0.05}))
    async with bench(tmp_path, sqlite_store, [agent]) as made:
        made.set(agent, True)
        with pytest.raises(StillAsleep, match=r"its call was held for 0\.05 s"):
            await made.hold(agent)
        assert made.gate.total_held == 0


@pytest.mark.spec("GATE-49")
async def test_a_stopping_server_ends_held_calls_and_those_that_come(tmp_path: Path, sqlite_store: Store) -> None:
    agent = agent_named("ann")
    async with bench(tmp_path, sqlite_store, [agent]) as made:
        made.set(agent, True)
        tasks = [asyncio.create_task(made.hold(agent)) for _ in range(5)]
        await settled()
        made.presence.stop(TargetGone("the server is stopping"))
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, TargetGone)
        with pytest.raises(TargetGone, match="stopping"):
            await made.hold(agent)


@pytest.mark.spec("GATE-42", "GATE-80")
async def test_a_sleep_that_fails_to_be_stored_lets_calls_pass_again_and_loses_no_event(
    tmp_path: Path, sqlite_store: Store
) -> None:
    ann = agent_named("ann")
    async with bench(tmp_path, sqlite_store, [ann]) as made:
        made.set(ann, True)
        first = asyncio.create_task(made.hold(ann))
        await settled()
        made.set(ann, False)
        await first
        held: list[asyncio.Task[tuple[bytes, Admission]]] = []

        async def fall_asleep() -> None:
            async with sqlite_store.begin_write() as tx:
                await made.gate.close_for(tx, replace(ann, asleep=True, generation=9))
                held.append(asyncio.create_task(made.hold(ann)))
                await settled()
                assert not held[0].done(), "nothing passes while its agent falls asleep"
                raise ValueError("the disk is full")

        with pytest.raises(ValueError, match="the disk is full"):
            await fall_asleep()
        await asyncio.wait_for(held[0], 60)
        await made.journal.flush()
    async with sqlite_store.begin_read() as tx:
        kinds = [event.type for event in await tx.events.find_after(0)]
    assert kinds == [EventType.HELD, EventType.ADMITTED, EventType.HELD, EventType.ADMITTED]
