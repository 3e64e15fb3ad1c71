"""`circadia demo wakes`: a day of five agents on a fast clock, with each decision and its reason.

Inbox, guardrails, schedules and pulses are the server's own, on a temporary database; only the clock and the agents'
work are simulated. Four stories: a blocker that wakes a colleague, a ping-pong that stops at the limit of the pair, an
incident in which the agent on call wakes one colleague after the other until it meets its own limit, and an agent that
sleeps until its alarm, and reads what a webhook has brought meanwhile. In the incident an agent calls a tool that needs
a person's approval, and waits for it.
"""

import asyncio
import contextlib
import hmac
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from circadia.agents.approvals import ApprovalRequest, ApprovalService
from circadia.agents.registry import NewAgent
from circadia.cli.demo.result import missing_points
from circadia.cli.terminal.output import Listing, table
from circadia.clock import system_milliseconds
from circadia.ids import AgentId, ApprovalId, PulseId, RandomIds
from circadia.records.agent import Agent, SleepEvent
from circadia.records.approval import ApprovalRule
from circadia.records.event import Event, EventType
from circadia.records.hook import HookKeys
from circadia.records.message import DeliveryState
from circadia.records.principal import Principal
from circadia.records.schedule import ALARM_SENDER, Recurrence, RoutineSpec
from circadia.records.wake import Decision, WakeReason
from circadia.server.scratch_store import open_scratch_store
from circadia.server.wake_wiring import build_agent_services, build_wake_services
from circadia.settings import settings_from
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.testing.clock import ManualClock
from circadia.wake.hooks.deliveries import HookReceiver
from circadia.wake.hooks.service import HookService
from circadia.wake.inbox import OutgoingMessage
from circadia.wake.launchers.base import Launch, LaunchResult
from circadia.wake.own_routines import NewAlarm
from circadia.wake.pulse_attempts import WorkerContext
from circadia.wake.services import WakeServices
from circadia.wake.worker import WakeWorker

MORNING: Final = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
EVENING: Final = MORNING + timedelta(hours=16)
STEP_SECONDS: Final = 60.0
"""Story time between two steps; the real server steps each second, and at once when something ends."""
_COLOURS: Final = {
    Decision.ADMITTED.value: "green", Decision.COALESCED.value: "cyan", Decision.DEFERRED.value: "yellow",
    Decision.REFUSED.value: "red", Decision.EXPIRED.value: "magenta",
}  # fmt: skip
_SHOWN: Final = (
    EventType.WAKE, EventType.PULSE, EventType.ROUTINE, EventType.ALARM, EventType.APPROVAL, EventType.HOOK_DELIVERY,
)  # fmt: skip
_ASKED_AT: Final = MORNING.replace(hour=14, minute=6)
_APPROVED_AT: Final = MORNING.replace(hour=14, minute=9)
_BUILT_AT: Final = MORNING.replace(hour=15, minute=50)
_HOOK: Final = HookKeys.model_validate(
    {"agent": "grace", "signature": "hmac", "secret_env": "BUILD_SECRET", "template": "The build has {body.result}."}
)
_SECRET: Final = "secret of the builds"
ALARM: Final = NewAlarm(until=MORNING.replace(hour=16), reason="read the report of the build")
_LAUNCHER: Final = {"kind": "callable", "function": "circadia.cli.demo.wakes:play"}
_FLEET: Final[Mapping[str, Mapping[str, object]]] = {
    "yuki": {"wake_guardrails": {"cooldown_seconds": 60, "pair_mode": "undirected", "max_wakes_per_session": None}},
    "chieko": {"wake_guardrails": {"cooldown_seconds": 60, "pair_mode": "undirected", "max_wakes_per_session": None}},
    "finn": {"blackouts": [{"start": "18:00", "end": "08:00", "label": "evening"}]},
    "stas": {},
    "grace": {},
}


@dataclass(frozen=True, slots=True)
class StoryBeat:
    at: str
    """HH:MM."""
    sender: str
    """Agent, or `operator` for a person."""
    to: str
    text: str
    reason: WakeReason


def _story() -> list[StoryBeat]:
    beats = [
        StoryBeat(
            "09:10", "yuki", "finn", "the auth middleware refuses all tokens since the upgrade", WakeReason.BLOCKER
        )
    ]
    for turn in range(7):
        one, other = ("chieko", "yuki") if turn % 2 == 0 else ("yuki", "chieko")
        text = "the test fails again" if turn % 2 == 0 else "fixed, please test again"
        beats.append(StoryBeat(f"11:{4 * turn:02d}", one, other, text, WakeReason.BLOCKER))
    beats.append(StoryBeat("14:00", "operator", "stas", "the shop does not answer", WakeReason.USER_REQUEST))
    beats += [
        StoryBeat("14:01", "stas", colleague, "the shop is down: look at yours", WakeReason.CRITICAL_FINDING)
        for colleague in ("grace", "finn", "yuki", "chieko")
    ]
    beats.append(StoryBeat("14:04", "operator", "grace", "it is the database: yours", WakeReason.USER_REQUEST))
    beats.append(StoryBeat("18:30", "stas", "finn", "please look at the postmortem", WakeReason.USER_REQUEST))
    return beats


class DemoLauncher:
    """A launcher whose agents work for two minutes of story time."""

    kind = "demo"

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        await started()
        await self._clock.sleep(120)
        return LaunchResult(succeeded=True, detail=f"read a prompt of {len(launch.prompt)} characters")

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """Do nothing: no work outlives this process."""


@dataclass(kw_only=True)
class DemoFleet:
    store: Store
    clock: ManualClock
    wakes: WakeServices
    worker: WakeWorker
    approvals: ApprovalService
    hooks: HookService
    receiver: HookReceiver
    agents: dict[str, Agent] = field(default_factory=dict[str, Agent])

    async def request_wake(self, beat: StoryBeat) -> None:
        async with self.store.begin_write() as tx:
            session = await tx.sessions.get_by_name("default")
            assert session is not None
            sender, override = Principal(), "the shop is down"
            if beat.sender != "operator":
                sender, override = Principal(agent=await tx.agents.get(self.agents[beat.sender].id)), None
            message = OutgoingMessage(to=beat.to, content=beat.text, wake=beat.reason, override=override)
            await self.wakes.inbox.send(tx, sender, session, message)

    async def receive_delivery(self) -> None:
        """Take the report of the build, which its server has signed."""
        body = b'{"result": "passed"}'
        hook = self.hooks.get("builds")
        assert hook is not None
        signed = {"x-signature": hmac.digest(_SECRET.encode(), body, "sha256").hex()}
        delivery = self.receiver.verify(hook, signed, body)
        async with self.store.begin_write() as tx:
            await self.receiver.store(tx, delivery)

    async def request_approval(self) -> ApprovalId:
        """Let grace call a tool that needs a person's approval."""
        request = ApprovalRequest(
            agent=self.agents["grace"], door="mcp", target="shop", what="tools/call restart_database",
            rule=ApprovalRule.TOOL, digest=sha256(b"restart_database").hexdigest(), preview="{}",
        )  # fmt: skip
        async with self.store.begin_write() as tx:
            return (await self.approvals.request(tx, request)).id

    async def approve(self, approval: ApprovalId) -> None:
        async with self.store.begin_write() as tx:
            await self.approvals.decide(tx, approval, approves=True, by="operator", reason="the shop is down")

    async def run_due_work(self) -> None:
        for _ in range(4):
            await self.worker.step()
            for _ in range(50):  # a started pulse records its start, and each commit runs in a thread
                await asyncio.sleep(0.0005)
                if self.clock.sleepers >= self.worker.running_count:
                    break


@contextlib.asynccontextmanager
async def _open_fleet(folder: Path) -> AsyncGenerator[DemoFleet]:
    """Yield the agents, which are asleep and started by a launcher, with their services on a database in the folder."""
    clock, ids = ManualClock(MORNING), RandomIds(system_milliseconds)
    settings = settings_from({"launchers": {"demo": _LAUNCHER}})
    async with open_scratch_store(folder) as (store, signals):
        events = EventLog(clock, signals)
        wakes = build_wake_services(settings, clock, ids, events)
        registry, _, sessions = build_agent_services(settings, clock, ids, events, wakes)
        routine = RoutineSpec(
            name="stand-up", recurrence=Recurrence(cron="30 9,17 * * *"), instructions="Read your inbox."
        )
        agents: dict[str, Agent] = {}
        async with store.begin_write() as tx:
            session = await sessions.ensure_default(tx)
            for name, coordination in _FLEET.items():
                new = NewAgent(name=name, sleep_events=frozenset({SleepEvent.AGENT_STARTED}))
                agent, _ = await registry.add(tx, session, new, by="demo")
                stated = {**coordination, "launcher": "demo"}
                agents[name] = await wakes.coordinations.patch(tx, agent, stated, by="demo")
            for name in ("yuki", "chieko"):
                await wakes.routines.replace(tx, agents[name], [routine], by="demo")
            await wakes.own_routines.set_alarm(tx, agents["grace"], ALARM)
        context = WorkerContext(
            store=store,
            signals=signals,
            wakes=wakes,
            launchers={"demo": DemoLauncher(clock)},
            environment=lambda _, __, ___: {},  # the demo's agents are functions
        )
        worker = WakeWorker(clock, context, owner="demo", alone=True)
        hooks = HookService(clock, events, {"builds": _HOOK}, {"BUILD_SECRET": _SECRET})
        most = settings.limits.max_message_characters
        receiver = HookReceiver(clock, events, hooks, wakes.inbox, wakes.named_events, max_message_characters=most)
        yield DemoFleet(
            store=store,
            clock=clock,
            wakes=wakes,
            worker=worker,
            approvals=ApprovalService(clock, ids, events),
            hooks=hooks,
            receiver=receiver,
            agents=agents,
        )
        await worker.drain(0)


class EventPrinter:
    def __init__(self, console: Console, *, pause_seconds: float) -> None:
        self._console = console
        self._pause_seconds = pause_seconds
        self._read = 0

    async def print_new_events(self, fleet: DemoFleet) -> None:
        async with fleet.store.begin_read() as tx:
            events = await tx.events.find_after(self._read, types=_SHOWN)
        for event in events:
            self._read = event.number
            line = self._line(event)
            if line is not None:
                self._console.print(line, highlight=False)
                await asyncio.sleep(self._pause_seconds)

    def _line(self, event: Event) -> str | None:
        data, at = event.data, f"[dim]{event.at:%H:%M}[/dim]"
        if event.type is EventType.WAKE and data["source"] != "schedule":
            decision = str(data["decision"])
            colour = _COLOURS.get(decision, "white")
            who = f"{data['from']} → {event.agent}"
            why = f"  [dim]{data['detail']}[/dim]" if data["detail"] else ""
            return f"{at}  {who:<20} [{colour}]{decision:<10}[/{colour}] {data['reason']}{why}"
        if event.type is EventType.HOOK_DELIVERY:
            return f"{at}    [blue]{event.agent}[/blue] gets a message by the hook {data['hook']}"
        if event.type is EventType.ALARM:
            return f"{at}    [blue]{event.agent}[/blue] sets an {data['name']}"
        if event.type is EventType.WAKE and data["from"] == ALARM_SENDER:
            return f"{at}    [blue]{event.agent}[/blue] is woken by its alarm: {data['reason']}"
        if event.type is EventType.PULSE and data["status"] in ("running", "succeeded"):
            activity = "works" if data["status"] == "running" else f"is done ({data['detail']})"
            return f"{at}    [blue]{event.agent}[/blue] {activity}"
        if event.type is EventType.APPROVAL:
            why = f"  [dim]{data['reason']}[/dim]" if data["reason"] else ""
            status = f"[yellow]{data['status']}[/yellow] by {data['by']}{why}"
            return f"{at}    [blue]{event.agent}[/blue] {data['what']}: {status}"
        return None


async def play(folder: Path, console: Console, *, pause_seconds: float) -> dict[str, Any]:
    """Play the day, print each decision, and return the counts by agent."""
    beats = {beat: MORNING.replace(hour=int(beat.at[:2]), minute=int(beat.at[3:])) for beat in _story()}
    left: Sequence[StoryBeat] = sorted(beats, key=lambda beat: beats[beat])
    async with _open_fleet(folder) as fleet:
        printer, waiting = EventPrinter(console, pause_seconds=pause_seconds), None
        while fleet.clock.now() < EVENING:
            while left and beats[left[0]] <= fleet.clock.now():
                await fleet.request_wake(left[0])
                left = left[1:]
            if fleet.clock.now() == _ASKED_AT:
                waiting = await fleet.request_approval()
            elif waiting is not None and fleet.clock.now() == _APPROVED_AT:
                await fleet.approve(waiting)
            elif fleet.clock.now() == _BUILT_AT:
                await fleet.receive_delivery()
            await fleet.run_due_work()
            await printer.print_new_events(fleet)
            fleet.clock.advance(STEP_SECONDS)
        return await _summary(fleet)


async def _summary(fleet: DemoFleet) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    async with fleet.store.begin_read() as tx:
        for name, agent in fleet.agents.items():
            wakes = await tx.wakes.find_all(agent_id=AgentId(agent.id), limit=1000)
            counts = await tx.deliveries.count_by_state(AgentId(agent.id))
            refused: dict[str, int] = {}
            for wake in wakes:
                if wake.decision is Decision.REFUSED:
                    refused[wake.rule or ""] = refused.get(wake.rule or "", 0) + 1
            rows[name] = {
                "asked": len(wakes),
                **{decision.value: sum(wake.decision is decision for wake in wakes) for decision in Decision},
                "refused_by": refused,
                "alarms": sum(wake.sender == ALARM_SENDER for wake in wakes),
                "messages_handled": counts[DeliveryState.HANDLED],
                "messages_unread": counts[DeliveryState.UNREAD],
            }
    return rows


def counts_table(rows: Mapping[str, Any]) -> Listing:
    numbers = ("asked", "admitted", "deferred", "refused", "read", "unread")
    cells: list[Sequence[object]] = []
    for name, row in rows.items():
        by = ", ".join(f"{rule} {count}" for rule, count in row["refused_by"].items())
        cells.append((name, *(row[key] for key in numbers[:4]), row["messages_handled"], row["messages_unread"], by))
    return table(("agent", *numbers, "refused by"), cells, numbers=numbers)


def missing(rows: Mapping[str, Any]) -> Sequence[str]:
    refused = {rule for row in rows.values() for rule in row["refused_by"]}
    messages = sum(row["messages_handled"] + row["messages_unread"] for row in rows.values())
    return missing_points({
        "a blocker that wakes a colleague": rows["finn"]["admitted"] > 0,
        "a ping-pong that stops at the limit of the pair": "max_wakes_per_pair_per_day" in refused,
        "an agent on call that meets its own limit": "max_wakes_per_session" in refused,
        "a wake that waits for the end of a blackout": rows["finn"]["deferred"] > 0,
        "an agent that is woken by its alarm": rows["grace"]["alarms"] > 0,
        "a day on which no message is lost": messages == len(_story()) + 1,
    })  # fmt: skip
